/* SPDX-License-Identifier: Apache-2.0 */
/* Per split a shortest way through three states per layer, minimising the sum over layers of the
 * slower side's computation and exchange, for each of a grid of shares, narrowed three times. With
 * a and b the sides' shares, X the elements between two layers, side a reads
 *
 *     from \ to   1         2         3
 *     1           0         2 a b X   b X
 *     2           b X       b X       0
 *     3           2 a b X   0         b X
 *
 * and, inside a layer, what both sides must sum: W, B F out or B F in. One share for all layers of
 * a split; the paper has one per layer. */
#include "shoal/accpar.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/partition.h"

enum { TYPES = 3, GRID = 16 };

/* What is left of a layer in a group: shares of samples, input and output channels. */
typedef struct part {
    double samples, in, out;
} part;

struct shoal_accpar {
    shoal_partition *chain;
    shoal_accpar_desc desc;
    shoal_accpar_split *splits;
    double seconds;
};

/* One split under examination. */
typedef struct cut {
    const shoal_accpar *plan;
    const part *parts;
    double speed[2], share[2];
} cut;

static double between(const cut *c, uint32_t l)
{
    const shoali_part_layer *layer = &c->plan->chain->layers[l];
    return 4.0 * c->plan->chain->batch * (double)layer->outputs;
}

/* Bytes that a side of share a reads between layer l - 1 of type `from` and l of type `to`. */
static double entering(const cut *c, uint32_t l, int from, int to, double a)
{
    double b = 1 - a, x = between(c, l - 1) * c->parts[l].samples * c->parts[l].in;
    const double table[TYPES][TYPES] = {
        {0, 2 * a * b * x, b * x}, {b * x, b * x, 0}, {2 * a * b * x, 0, b * x}};
    return table[from][to];
}

static double summing(const cut *c, uint32_t l, int type)
{
    const part *p = &c->parts[l];
    if (type == 0)
        return 4.0 * (double)c->plan->chain->layers[l].weights * p->in * p->out;
    if (type == 1)
        return between(c, l) * p->samples * p->out;
    return l > 0 ? between(c, l - 1) * p->samples * p->in : 0;
}

static double work(const cut *c, uint32_t l)
{
    const part *p = &c->parts[l];
    return 3 * c->plan->chain->layers[l].flops * c->plan->chain->batch * p->samples * p->in *
           p->out;
}

/* Seconds of the slower side; `exchange` alone where asked. */
static double layer_seconds(const cut *c, uint32_t l, int from, int to, bool exchange_only)
{
    double slower = 0;
    for (int side = 0; side < 2; side++) {
        double bytes = summing(c, l, to);
        if (l > 0)
            bytes += entering(c, l, from, to, c->share[side]);
        double seconds = bytes / c->plan->desc.bytes_per_s;
        if (!exchange_only)
            seconds += work(c, l) * c->share[side] / c->speed[side];
        slower = fmax(slower, seconds);
    }
    return slower;
}

/* The best types for these shares, as digits; returns the sum that they minimise. */
static double choose(const cut *c, uint8_t (*from)[TYPES], char *types_out)
{
    uint32_t layers = c->plan->chain->layer_count;
    int allowed = (int)c->plan->desc.types, last = 0;
    double best[TYPES] = {0}, next[TYPES];
    for (uint32_t l = 0; l < layers; l++) {
        for (int to = 0; to < allowed; to++) {
            next[to] = HUGE_VAL;
            for (int k = 0; k < (l > 0 ? allowed : 1); k++) {
                double sum = best[k] + layer_seconds(c, l, k, to, false);
                if (sum < next[to]) {
                    next[to] = sum;
                    from[l][to] = (uint8_t)k;
                }
            }
        }
        memcpy(best, next, sizeof best);
    }
    for (int k = 1; k < allowed; k++)
        last = best[k] < best[last] ? k : last;
    double least = best[last];
    for (uint32_t l = layers; l-- > 0; last = from[l][last])
        types_out[l] = (char)('1' + last);
    return least;
}

static void set_share(cut *c, double share)
{
    c->share[0] = share;
    c->share[1] = 1 - share;
}

/* A grid around the middle, then finer ones around the best. */
static void find_share(cut *c, uint8_t (*from)[TYPES], char *types)
{
    double middle = c->speed[0] / (c->speed[0] + c->speed[1]), width = 0.5, best = middle;
    set_share(c, middle);
    double least = choose(c, from, types);
    for (int round = 0; round < 4; round++) {
        middle = best;
        for (int i = -GRID; i <= GRID; i++) {
            double share = middle + width * i / GRID;
            if (share <= 0 || share >= 1)
                continue;
            set_share(c, share);
            double sum = choose(c, from, types);
            if (sum < least) {
                least = sum;
                best = share;
            }
        }
        width /= GRID / 2;
    }
    set_share(c, best);
}

static void shrink(const cut *c, const char *types, int side, part *parts_out)
{
    for (uint32_t l = 0; l < c->plan->chain->layer_count; l++) {
        parts_out[l] = c->parts[l];
        double *divided = types[l] == '1'   ? &parts_out[l].samples
                          : types[l] == '2' ? &parts_out[l].in
                                            : &parts_out[l].out;
        *divided *= c->share[side];
    }
}

static double speed_of(const shoal_accpar *plan, uint32_t first, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += plan->desc.flops_per_s[first + i];
    return sum;
}

static shoal_status split(shoal_accpar *plan, uint32_t index, uint32_t first, uint32_t count,
                          const part *parts, double *seconds_out)
{
    uint32_t layers = plan->chain->layer_count, half = count / 2;
    cut c = {.plan = plan, .parts = parts};
    *seconds_out = 0;
    if (count == 1) {
        for (uint32_t l = 0; l < layers; l++)
            *seconds_out += work(&c, l) / plan->desc.flops_per_s[first];
        return SHOAL_OK;
    }
    shoal_arena *arena = plan->chain->arena;
    uint8_t(*from)[TYPES] = shoali_arena_array(arena, layers, sizeof *from);
    char *types = shoali_arena_alloc(arena, (size_t)layers + 1);
    part *inner = shoali_arena_array(arena, layers, sizeof *inner);
    if (from == NULL || types == NULL || inner == NULL)
        return SHOAL_ENOMEM;
    c.speed[0] = speed_of(plan, first, half);
    c.speed[1] = speed_of(plan, first + half, half);
    set_share(&c, 0.5);
    if (plan->desc.equal_shares == 0)
        find_share(&c, from, types);
    (void)choose(&c, from, types);
    plan->splits[index] = (shoal_accpar_split){first, count, c.share[0], types};
    double sides[2] = {0, 0};
    for (uint32_t side = 0; side < 2; side++) {
        shrink(&c, types, (int)side, inner);
        SHOALI_TRY(
            split(plan, 2 * index + 1 + side, first + side * half, half, inner, &sides[side]));
    }
    for (uint32_t l = 0; l < layers; l++)
        *seconds_out += layer_seconds(&c, l, l > 0 ? types[l - 1] - '1' : 0, types[l] - '1', true);
    *seconds_out += fmax(sides[0], sides[1]);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- users' functions */

static shoal_status check(const shoal_accpar_desc *d)
{
    bool ok = d != NULL && d->size == sizeof *d && d->model != NULL && d->flops_per_s != NULL &&
              d->count >= 1 && d->count <= SHOAL_ACCPAR_MAX && (d->count & (d->count - 1)) == 0 &&
              d->batch >= 1 && d->types >= 1 && d->types <= TYPES && d->bytes_per_s > 0;
    for (uint32_t i = 0; ok && i < d->count; i++)
        ok = d->flops_per_s[i] > 0 && d->flops_per_s[i] < 1e30;
    return ok ? SHOAL_OK
              : shoali_fail(SHOAL_EINVAL,
                            "shoal_accpar_create needs a model, a batch, 1 to 3 types, a rate and "
                            "the speeds of 1, 2, 4 .. %d accelerators",
                            SHOAL_ACCPAR_MAX);
}

static shoal_status make(shoal_accpar *plan, const shoal_model *model)
{
    shoal_partition_desc desc = SHOAL_PARTITION_DESC_INIT;
    desc.model = plan->desc.model;
    desc.batch = plan->desc.batch;
    SHOALI_TRY(shoali_partition_chain(&desc, model, &plan->chain));
    uint32_t layers = plan->chain->layer_count;
    part *parts = shoali_arena_array(plan->chain->arena, layers, sizeof *parts);
    plan->splits = shoali_arena_array(plan->chain->arena, plan->desc.count, sizeof *plan->splits);
    if (parts == NULL || plan->splits == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t l = 0; l < layers; l++)
        parts[l] = (part){1, 1, 1};
    return split(plan, 0, 0, plan->desc.count, parts, &plan->seconds);
}

shoal_status shoal_accpar_create(const shoal_accpar_desc *desc, shoal_accpar **accpar_out)
{
    shoal_model *model;
    SHOALI_TRY(check(desc));
    SHOALI_TRY(shoal_model_open(desc->model, &model));
    shoal_accpar *plan = shoali_alloc(sizeof *plan);
    shoal_status status = SHOAL_ENOMEM;
    if (plan != NULL) {
        plan->desc = *desc;
        status = make(plan, model);
    }
    shoal_model_close(model);
    if (status != SHOAL_OK)
        shoal_accpar_destroy(plan);
    else
        *accpar_out = plan;
    return status;
}

void shoal_accpar_destroy(shoal_accpar *accpar)
{
    if (accpar == NULL)
        return;
    shoal_partition_destroy(accpar->chain);
    shoali_free(accpar);
}

double shoal_accpar_seconds(const shoal_accpar *accpar)
{
    return accpar->seconds;
}

shoal_status shoal_accpar_split_at(const shoal_accpar *accpar, uint32_t i,
                                   shoal_accpar_split *split_out)
{
    if (accpar == NULL || i + 1 >= accpar->desc.count)
        return shoali_fail(SHOAL_EINVAL, "split %u of %u", i,
                           accpar != NULL ? accpar->desc.count - 1 : 0);
    *split_out = accpar->splits[i];
    return SHOAL_OK;
}
