/* SPDX-License-Identifier: Apache-2.0 */
/* In a synchronous step everyone starts together, so the one that computes longest arrives last: no
 * clock has to be compared. A step would be as much shorter as the last one computes longer than
 * the last but one; that is the wait that it causes.
 *
 * A slow link shows in the rates at which the kernel got bytes acknowledged while it had any to
 * send. In a ring, the neighbours of a slow host are slow on one side, the host itself on both: so
 * a rank's link is as fast as its best connection in either direction. */
#include "train/straggler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "driver/driver.h"
#include "train/trainer.h"

static const double LAST_SHARE = 0.5, CAUSED_SHARE = 0.05; /* of steps; of a step's time */
static const double SLOW_LINK = 0.6, WAIT_SHARE = 0.1;     /* of the median; of a step's time */
static const double SINCE_SHARE = 0.8;

/* The last rank of a step, and by how much. UINT32_MAX: fewer than two had a part in it. */
static uint32_t last_of(const float *compute_us, uint32_t ranks, double *excess_us_out)
{
    uint32_t last = UINT32_MAX, here = 0;
    double most = 0, second = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        double value = (double)compute_us[i];
        here += value > 0;
        if (value > most) {
            second = most;
            most = value;
            last = i;
        } else if (value > second) {
            second = value;
        }
    }
    *excess_us_out = most - second;
    return here < 2 ? UINT32_MAX : last;
}

/* From which step on rank was last nearly always. */
static uint64_t since(const shoali_straggler_input *in, uint32_t rank)
{
    uint64_t found = in->first_step + in->steps;
    uint32_t hits = 0, seen = 0;
    for (uint32_t s = in->steps; s-- > 0;) {
        double excess_us;
        uint32_t last = last_of(in->compute_us + (size_t)s * in->ranks, in->ranks, &excess_us);
        seen += last != UINT32_MAX;
        hits += last == rank;
        if (last == rank && (double)hits >= SINCE_SHARE * (double)seen)
            found = in->first_step + s;
    }
    return found;
}

static void judge_compute(const shoali_straggler_input *in, shoal_train_rank *ranks_out)
{
    uint32_t counted = 0;
    for (uint32_t s = 0; s < in->steps; s++) {
        double excess_us;
        uint32_t last = last_of(in->compute_us + (size_t)s * in->ranks, in->ranks, &excess_us);
        if (last == UINT32_MAX)
            continue;
        counted++;
        ranks_out[last].caused_ms += excess_us * 1e-3;
        ranks_out[last].last_share += 1;
    }
    for (uint32_t i = 0; i < in->ranks && counted > 0; i++) {
        shoal_train_rank *r = &ranks_out[i];
        r->caused_ms /= counted;
        r->last_share /= counted;
        r->since_step = since(in, i);
        if (r->last_share >= LAST_SHARE && r->caused_ms * 1e3 >= CAUSED_SHARE * in->step_us)
            snprintf(r->cause, sizeof r->cause, "compute");
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double link_of(const shoal_train_rank *r)
{
    return r->sends_bytes_s > r->receives_bytes_s ? r->sends_bytes_s : r->receives_bytes_s;
}

static double median_link(const shoal_train_rank *ranks, uint32_t count)
{
    double values[1024], middle = 0;
    uint32_t used = 0;
    for (uint32_t i = 0; i < count && used < 1024; i++)
        if (link_of(&ranks[i]) > 0)
            values[used++] = link_of(&ranks[i]);
    qsort(values, used, sizeof *values, by_size);
    if (used > 0)
        middle = values[used / 2];
    return middle;
}

static void judge_links(const shoali_straggler_input *in, shoal_train_rank *ranks_out)
{
    for (uint32_t i = 0; i < in->ranks; i++)
        for (uint32_t j = 0; j < in->ranks; j++) {
            double rate = (double)in->sends[(size_t)i * in->ranks + j];
            if (rate > ranks_out[i].sends_bytes_s)
                ranks_out[i].sends_bytes_s = rate;
            if (rate > ranks_out[j].receives_bytes_s)
                ranks_out[j].receives_bytes_s = rate;
        }
    double middle = median_link(ranks_out, in->ranks);
    if (in->wait_us < WAIT_SHARE * in->step_us || in->ranks < 3)
        return; /* nobody waits for the network; or nobody can say which end is slow */
    for (uint32_t i = 0; i < in->ranks; i++) {
        double link = link_of(&ranks_out[i]);
        if (link > 0 && link < SLOW_LINK * middle && ranks_out[i].cause[0] == '\0')
            snprintf(ranks_out[i].cause, sizeof ranks_out[i].cause, "network");
    }
}

void shoali_straggler_judge(const shoali_straggler_input *input, shoal_train_rank *ranks_out)
{
    judge_compute(input, ranks_out);
    judge_links(input, ranks_out);
}

/* ---------------------------------------------------------------- in a job */

void shoali_straggler_step(shoal_train *train, uint64_t step, double compute_us)
{
    if (train->recent_us != NULL)
        train->recent_us[step % SHOALI_STRAGGLER_STEPS] = (float)compute_us;
}

/* This rank's row of every table; zeroes elsewhere, so that a sum puts them together. */
static shoal_status fill(const shoal_train *train, float *compute_us, float *sends, float *own)
{
    uint64_t from = train->step > SHOALI_STRAGGLER_STEPS ? train->step - SHOALI_STRAGGLER_STEPS : 0;
    double n = train->totals.steps > 0 ? (double)train->totals.steps : 1;
    uint32_t ranks = train->workers, me = train->rank;
    for (uint64_t s = from; s < train->step; s++)
        compute_us[(s - from) * ranks + me] = train->recent_us[s % SHOALI_STRAGGLER_STEPS];
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

static shoal_status collect(shoal_train *train, float *table, size_t count)
{
    uint32_t ranks = train->workers;
    uint32_t steps = train->step < SHOALI_STRAGGLER_STEPS ? (uint32_t)train->step
                                                          : SHOALI_STRAGGLER_STEPS;
    float *sends = table + (size_t)SHOALI_STRAGGLER_STEPS * ranks,
          *own = sends + (size_t)ranks * ranks;
    shoali_straggler_input input = {.ranks = ranks,
                                    .steps = steps,
                                    .first_step = train->step - steps,
                                    .compute_us = table,
                                    .sends = sends};
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
    shoali_straggler_judge(&input, train->ranks);
    return name_hosts(train);
}

shoal_status shoali_straggler_collect(shoal_train *train)
{
    if (train->recent_us == NULL)
        return SHOAL_OK;
    size_t ranks = train->workers;
    size_t count = ranks * (SHOALI_STRAGGLER_STEPS + ranks + 3);
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
    train->recent_us = shoali_arena_array(train->arena, SHOALI_STRAGGLER_STEPS,
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
