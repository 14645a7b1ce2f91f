/* SPDX-License-Identifier: Apache-2.0 */
#include "shoal/explore.h"

#include <math.h>

#include "base/error.h"

/* Blocks twice as large are worth a look as long as they save this part of the work. E-RNN stops at
 * 32 or 64 by eye; with matrices of its size this does, too. */
static const double WORTH = 0.2;

typedef struct search {
    shoal_explore_desc desc;
    shoal_explore_result *r;
} search;

/* ---------------------------------------------------------------- bounds */

/* Real multiplications and additions of all matrices: products per bin, transforms of inputs and
 * outputs. */
static double work(const shoal_explore_desc *d, uint32_t k)
{
    double sum = 0, each = k > 1 ? 4.0 * k - 4 : 2, transform = 2.5 * k * log2(k);
    for (uint32_t i = 0; i < d->matrix_count; i++) {
        double p = ceil((double)d->matrices[i].rows / k), q = ceil((double)d->matrices[i].cols / k);
        sum += p * q * each + (p + q) * transform;
    }
    return sum;
}

static shoal_status find_bounds(search *s)
{
    const shoal_explore_desc *d = &s->desc;
    uint64_t weights = 0;
    uint32_t k = 2;
    for (; k <= d->k_most; k *= 2) {
        const shoal_explore_choice choice = {.k = k, .kx = k, .ky = 1};
        SHOALI_TRY(d->weights(d->ctx, &choice, &weights));
        if (d->memory_bits == 0 || (double)weights * d->weight_bits <= d->share * d->memory_bits)
            break;
    }
    if (k > d->k_most)
        return shoali_fail(
            SHOAL_EINVAL,
            "%llu weights of %u bits, with the largest blocks of %u, do not fit into "
            "%.0f %% of %.0f bits",
            (unsigned long long)weights, d->weight_bits, d->k_most, 100 * d->share, d->memory_bits);
    s->r->k_low = k;
    while (2 * k <= d->k_most && work(d, 2 * k) <= (1 - WORTH) * work(d, k))
        k *= 2;
    s->r->k_high = k;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- trials */

static uint32_t trials_left(const search *s)
{
    return s->desc.trials - s->r->trial_count;
}

/* Train; true in *holds_out: within the limit. */
static shoal_status try_one(search *s, shoal_explore_step step, shoal_explore_choice choice,
                            bool *holds_out)
{
    const shoal_explore_desc *d = &s->desc;
    shoal_explore_trial *t = &s->r->trials[s->r->trial_count];
    *t = (shoal_explore_trial){.step = step, .choice = choice};
    SHOALI_TRY(d->weights(d->ctx, &choice, &t->weights));
    SHOALI_TRY(d->train(d->ctx, &choice, &t->error));
    s->r->trial_count++;
    if (step == SHOAL_EXPLORE_BASELINE)
        s->r->baseline = t->error;
    t->added = t->error - s->r->baseline;
    t->holds = t->added <= d->limit; /* not if it is NaN */
    *holds_out = t->holds;
    return SHOAL_OK;
}

/* The latest trial is the best so far. */
static void keep(search *s)
{
    shoal_explore_trial *t = &s->r->trials[s->r->trial_count - 1];
    t->kept = true;
    s->r->found = true;
    s->r->chosen = t->choice;
    s->r->weights = t->weights;
    s->r->error = t->error;
}

static shoal_status find_blocks(search *s)
{
    uint32_t low = 0, high = 0; /* exponents above k_low: the best that holds, the largest left */
    while (s->r->k_low << (high + 1) <= s->r->k_high)
        high++;
    while (low < high && trials_left(s) > 2) { /* the GRU's and the input matrices' */
        uint32_t middle = (low + high + 1) / 2, k = s->r->k_low << middle;
        bool holds;
        SHOALI_TRY(try_one(s, SHOAL_EXPLORE_BLOCKS,
                           (shoal_explore_choice){.k = k, .kx = k, .ky = 1}, &holds));
        if (holds) {
            keep(s);
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    s->r->blocks_cut = low < high;
    return SHOAL_OK;
}

static shoal_status find_cell(search *s)
{
    shoal_explore_choice gru = s->r->chosen;
    uint64_t weights = 0;
    bool holds;
    gru.gru = true;
    SHOALI_TRY(s->desc.weights(s->desc.ctx, &gru, &weights));
    if (weights >= s->r->weights || trials_left(s) == 0)
        return SHOAL_OK;
    SHOALI_TRY(try_one(s, SHOAL_EXPLORE_GRU, gru, &holds));
    if (holds)
        keep(s);
    return SHOAL_OK;
}

static shoal_status tune(search *s, shoal_explore_step step, bool *left_out)
{
    shoal_explore_choice choice = s->r->chosen;
    uint32_t *block = step == SHOAL_EXPLORE_INPUT ? &choice.kx : &choice.ky;
    uint64_t weights = 0;
    bool holds;
    *block = 2 * choice.k;
    SHOALI_TRY(s->desc.weights(s->desc.ctx, &choice, &weights));
    if (weights >= s->r->weights) /* padding may eat what blocks save */
        return SHOAL_OK;
    *left_out = trials_left(s) == 0;
    if (*left_out)
        return SHOAL_OK;
    SHOALI_TRY(try_one(s, step, choice, &holds));
    if (holds)
        keep(s);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- the search */

static shoal_status check(shoal_explore_desc *d)
{
    d->share = d->share != 0 ? d->share : 0.8;
    d->weight_bits = d->weight_bits != 0 ? d->weight_bits : 12;
    d->k_most = d->k_most != 0 ? d->k_most : 64;
    d->trials = d->trials != 0 ? d->trials : 5;
    if (d->weights == NULL || d->train == NULL || d->matrices == NULL || d->matrix_count == 0)
        return shoali_fail(SHOAL_EINVAL, "explore needs matrices and both callbacks");
    if (!(d->limit >= 0) || !(d->memory_bits >= 0) || !(d->share > 0 && d->share <= 1) ||
        d->weight_bits > 64 || d->k_most < 2 || d->k_most > 1024)
        return shoali_fail(
            SHOAL_EINVAL,
            "limit %g, memory %g bits, share %g, %u bits per weight or blocks of %u: "
            "out of range",
            d->limit, d->memory_bits, d->share, d->weight_bits, d->k_most);
    uint32_t least = isnan(d->baseline) ? 2 : 1;
    if (d->trials < least || d->trials > SHOAL_EXPLORE_TRIALS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%u trials: it takes %u to %d", d->trials, least,
                           SHOAL_EXPLORE_TRIALS_MAX);
    return SHOAL_OK;
}

static shoal_status run(search *s)
{
    bool holds;
    SHOALI_TRY(find_bounds(s));
    if (isnan(s->r->baseline))
        SHOALI_TRY(try_one(s, SHOAL_EXPLORE_BASELINE,
                           (shoal_explore_choice){.k = 1, .kx = 1, .ky = 1}, &holds));
    uint32_t k = s->r->k_low;
    SHOALI_TRY(
        try_one(s, SHOAL_EXPLORE_SANITY, (shoal_explore_choice){.k = k, .kx = k, .ky = 1}, &holds));
    if (!holds)
        return SHOAL_OK;
    keep(s);
    SHOALI_TRY(find_blocks(s));
    SHOALI_TRY(find_cell(s));
    SHOALI_TRY(tune(s, SHOAL_EXPLORE_INPUT, &s->r->input_left_out));
    return tune(s, SHOAL_EXPLORE_OUTPUT, &s->r->output_left_out);
}

shoal_status shoal_explore(const shoal_explore_desc *desc, shoal_explore_result *result_out)
{
    if (desc == NULL || desc->size != sizeof *desc || result_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_explore_desc: size is not sizeof; start from "
                                         "SHOAL_EXPLORE_DESC_INIT");
    shoal_explore_result result = {.size = sizeof result, .baseline = desc->baseline};
    search s = {.desc = *desc, .r = &result};
    SHOALI_TRY(check(&s.desc));
    SHOALI_TRY(run(&s));
    *result_out = result;
    return SHOAL_OK;
}
