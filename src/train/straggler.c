/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank measured of its steps and connections goes into one sum over all ranks, and every
 * rank judges the whole. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "driver/driver.h"
#include "train/trainer.h"
#include "watch/slow.h"

enum { RECENT_STEPS = 256 }; /* the last so many steps are looked at */

void shoali_straggler_step(shoal_train *train, uint64_t step, double compute_us, double step_us)
{
    if (train->recent_us == NULL)
        return;
    train->recent_us[step % RECENT_STEPS] = (float)compute_us;
    train->recent_us[RECENT_STEPS + step % RECENT_STEPS] = (float)step_us;
}

/* All that is summed over the ranks, each of which fills in its own. */
typedef struct tables {
    float *compute_us; /* [RECENT_STEPS][ranks] */
    float *sends;      /* [ranks][ranks] bytes per second; 0: not known */
    float *means;      /* [ranks][2] of all steps: compute_us, wait_us */
    float *step_us;    /* [RECENT_STEPS] mean over ranks */
    size_t count;
} tables;

static shoal_status make_tables(uint32_t ranks, tables *t)
{
    const size_t pairs = (size_t)ranks * ranks, recent = (size_t)RECENT_STEPS * ranks;
    t->count = recent + pairs + 2 * (size_t)ranks + RECENT_STEPS;
    t->compute_us = shoali_alloc_array(t->count, sizeof *t->compute_us);
    if (t->compute_us == NULL)
        return SHOAL_ENOMEM;
    t->sends = t->compute_us + recent;
    t->means = t->sends + pairs;
    t->step_us = t->means + 2 * (size_t)ranks;
    return SHOAL_OK;
}

static shoal_status fill(const shoal_train *train, const tables *t)
{
    uint64_t from = train->step > RECENT_STEPS ? train->step - RECENT_STEPS : 0;
    double n = train->totals.steps > 0 ? (double)train->totals.steps : 1;
    uint32_t ranks = train->workers, me = train->rank;
    for (uint64_t s = from; s < train->step; s++) {
        const float *recent = &train->recent_us[s % RECENT_STEPS];
        t->compute_us[(s - from) * ranks + me] = recent[0];
        t->step_us[s - from] = recent[RECENT_STEPS] / (float)train->member_count;
    }
    for (uint32_t i = 0; i < ranks; i++) {
        shoal_peer_stats stats = {.size = sizeof stats};
        SHOALI_TRY(shoal_comm_peer_stats(train->comm, i, &stats));
        if (i != me)
            t->sends[(size_t)me * ranks + i] = (float)shoali_slow_rate(
                (double)stats.acked_bytes, (double)stats.busy_us, (double)stats.line_bytes_s);
    }
    t->means[2 * me] = (float)(train->totals.compute_us / n);
    t->means[2 * me + 1] = (float)(train->totals.wait_us / n);
    return SHOAL_OK;
}

static shoal_status name_hosts(shoal_train *train)
{
    for (uint32_t i = 0; i < train->workers; i++) {
        shoal_peer_stats stats = {.size = sizeof stats};
        SHOALI_TRY(shoal_comm_peer_stats(train->comm, i, &stats));
        snprintf(train->ranks[i].host, sizeof train->ranks[i].host, "%s", stats.host);
    }
    return SHOAL_OK;
}

/* A rank's best connection each way. */
static void best_links(const float *sends, uint32_t ranks, shoal_train_rank *out)
{
    for (uint32_t i = 0; i < ranks; i++)
        for (uint32_t j = 0; j < ranks; j++) {
            double rate = (double)sends[(size_t)i * ranks + j];
            if (rate > out[i].sends_bytes_s)
                out[i].sends_bytes_s = rate;
            if (rate > out[j].receives_bytes_s)
                out[j].receives_bytes_s = rate;
        }
}

static shoal_status judge(shoal_train *train, shoali_slow_input *input, uint64_t first_step)
{
    uint32_t ranks = input->ranks;
    double *links = shoali_alloc_array(2 * (size_t)ranks, sizeof *links);
    shoali_slow *slow = shoali_alloc_array(ranks, sizeof *slow);
    bool ok = links != NULL && slow != NULL;
    for (uint32_t i = 0; ok && i < ranks; i++) {
        links[i] = train->ranks[i].sends_bytes_s;
        links[ranks + i] = train->ranks[i].receives_bytes_s;
    }
    input->sends = links;
    input->receives = ok ? links + ranks : NULL;
    if (ok)
        shoali_slow_judge(input, slow);
    for (uint32_t i = 0; ok && i < ranks; i++) {
        shoal_train_rank *r = &train->ranks[i];
        r->caused_ms = slow[i].caused_us * 1e-3;
        r->last_share = slow[i].last_share;
        r->since_step = first_step + slow[i].last_since;
        snprintf(r->cause, sizeof r->cause, "%s", shoali_slow_name(slow[i].cause));
    }
    shoali_free(links);
    shoali_free(slow);
    return ok ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status collect(shoal_train *train, const tables *t)
{
    uint32_t ranks = train->workers;
    uint32_t steps = train->step < RECENT_STEPS ? (uint32_t)train->step : RECENT_STEPS;
    shoali_slow_input input = {
        .ranks = ranks, .windows = steps, .compute_us = t->compute_us, .step_us = t->step_us};
    SHOALI_TRY(fill(train, t));
    SHOALI_TRY(
        shoali_train_reduce(train, t->compute_us, t->count, SHOAL_SUM, "who waited for whom"));
    for (uint32_t i = 0; i < ranks; i++) {
        shoal_train_rank *r = &train->ranks[i];
        *r = (shoal_train_rank){.size = sizeof *r};
        r->compute_ms = (double)t->means[2 * i] * 1e-3;
        r->wait_ms = (double)t->means[2 * i + 1] * 1e-3;
        input.wait_us += (double)t->means[2 * i + 1] / train->member_count;
    }
    for (uint32_t s = 0; s < steps; s++)
        input.steps += t->step_us[s] > 0; /* not of the run that this one goes on from */
    best_links(t->sends, ranks, train->ranks);
    SHOALI_TRY(judge(train, &input, train->step - steps));
    return name_hosts(train);
}

shoal_status shoali_straggler_collect(shoal_train *train)
{
    tables t;
    if (train->recent_us == NULL)
        return SHOAL_OK;
    SHOALI_TRY(make_tables(train->workers, &t));
    shoal_status status = collect(train, &t);
    shoali_free(t.compute_us);
    train->judged = status == SHOAL_OK;
    return status;
}

shoal_status shoali_straggler_open(shoal_train *train)
{
    if (train->comm == NULL || train->workers < 2 || train->server || train->desc.no_exchange ||
        train->hybrid != NULL)
        return SHOAL_OK;
    if (train->recent_us == NULL)
        train->recent_us = shoali_arena_array(train->arena, 2 * RECENT_STEPS,
                                              sizeof *train->recent_us);
    train->ranks = shoali_arena_array(train->arena, train->workers, sizeof *train->ranks);
    return train->recent_us != NULL && train->ranks != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

shoal_status shoal_train_rank_of(const shoal_train *train, uint32_t rank,
                                 shoal_train_rank *rank_out)
{
    if (!train->judged || rank >= train->workers)
        return shoali_fail(SHOAL_EINVAL, "nothing is known of rank %u", rank);
    *rank_out = train->ranks[rank];
    return SHOAL_OK;
}
