/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank measured of its steps and connections goes into one sum over all ranks, and every
 * rank judges the whole. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "comm/slow.h"
#include "driver/driver.h"
#include "train/trainer.h"

enum { RECENT_STEPS = 256 }; /* the last so many steps are looked at */

void shoali_straggler_step(shoal_train *train, uint64_t step, double compute_us)
{
    if (train->recent_us != NULL)
        train->recent_us[step % RECENT_STEPS] = (float)compute_us;
}

/* This rank's row of every table; zeroes elsewhere, so that a sum puts them together. */
static shoal_status fill(const shoal_train *train, float *compute_us, float *sends, float *own)
{
    uint64_t from = train->step > RECENT_STEPS ? train->step - RECENT_STEPS : 0;
    double n = train->totals.steps > 0 ? (double)train->totals.steps : 1;
    uint32_t ranks = train->workers, me = train->rank;
    for (uint64_t s = from; s < train->step; s++)
        compute_us[(s - from) * ranks + me] = train->recent_us[s % RECENT_STEPS];
    for (uint32_t i = 0; i < ranks; i++) {
        shoal_peer_stats stats = {.size = sizeof stats};
        SHOALI_TRY(shoal_comm_peer_stats(train->comm, i, &stats));
        if (stats.busy_us > 0 && i != me)
            sends[(size_t)me * ranks + i] = (float)((double)stats.acked_bytes * 1e6 /
                                                    (double)stats.busy_us);
    }
    own[3 * me] = (float)(train->totals.compute_us / n);
    own[3 * me + 1] = (float)(train->totals.wait_us / n);
    own[3 * me + 2] = (float)(train->totals.step_us / n);
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

static shoal_status collect(shoal_train *train, float *table, size_t count)
{
    uint32_t ranks = train->workers;
    uint32_t steps = train->step < RECENT_STEPS ? (uint32_t)train->step : RECENT_STEPS;
    float *sends = table + (size_t)RECENT_STEPS * ranks, *own = sends + (size_t)ranks * ranks;
    shoali_slow_input input = {.ranks = ranks, .windows = steps, .compute_us = table};
    SHOALI_TRY(fill(train, table, sends, own));
    SHOALI_TRY(shoali_train_reduce(train, table, count, SHOAL_SUM, "who waited for whom"));
    for (uint32_t i = 0; i < ranks; i++) {
        shoal_train_rank *r = &train->ranks[i];
        *r = (shoal_train_rank){.size = sizeof *r};
        r->compute_ms = (double)own[3 * i] * 1e-3;
        r->wait_ms = (double)own[3 * i + 1] * 1e-3;
        input.wait_us += (double)own[3 * i + 1] / train->member_count;
        input.step_us += (double)own[3 * i + 2] / train->member_count;
    }
    best_links(sends, ranks, train->ranks);
    SHOALI_TRY(judge(train, &input, train->step - steps));
    return name_hosts(train);
}

shoal_status shoali_straggler_collect(shoal_train *train)
{
    if (train->recent_us == NULL)
        return SHOAL_OK;
    size_t ranks = train->workers;
    size_t count = ranks * (RECENT_STEPS + ranks + 3);
    float *table = shoali_alloc_array(count, sizeof *table);
    if (table == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = collect(train, table, count);
    shoali_free(table);
    train->judged = status == SHOAL_OK;
    return status;
}

shoal_status shoali_straggler_open(shoal_train *train)
{
    if (train->comm == NULL || train->workers < 2 || train->server || train->desc.no_exchange ||
        train->hybrid != NULL)
        return SHOAL_OK;
    if (train->recent_us == NULL)
        train->recent_us = shoali_arena_array(train->arena, RECENT_STEPS, sizeof *train->recent_us);
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
