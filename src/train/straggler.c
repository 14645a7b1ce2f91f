/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank measured of its steps and connections goes into one sum over all ranks, and every
 * rank judges the whole. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "comm/comm.h"
#include "driver/driver.h"
#include "train/train.h"
#include "watch/slow.h"

enum { RECENT_STEPS = 256 }; /* the last so many steps are looked at */

/* Columns of what is kept of each step; the first is of the step, the others are of the rank. */
enum { STEP_US, COMPUTE_US, DATA_US, DISK_US, PAUSED_US, SAMPLES, COLUMNS };
enum { MEANS = 6 }; /* of the run: compute, wait, data, disk, paused, samples */

static void tell(const shoal_train *train, const shoali_step_times *times, double disk_us)
{
    const bool told = times->samples > 0 && !times->untold;
    const shoali_stepped step = {.data_us = times->data_us,
                                 .disk_us = disk_us,
                                 .samples = times->samples,
                                 .progress = {.step = train->step,
                                              .epoch = times->epoch + 1,
                                              .loss = told ? (float)times->loss : NAN,
                                              .accuracy = (float)train->epoch.test_accuracy}};
    if (train->comm != NULL)
        shoali_comm_stepped(train->comm, &step);
}

void shoali_straggler_step(shoal_train *train, uint64_t step, const shoali_step_times *times)
{
    const double disk_us = train->slow.disk_us;
    train->slow.disk_us = 0;
    tell(train, times, disk_us);
    if (train->slow.recent == NULL)
        return;
    const uint64_t paused_us = shoali_comm_paused_us(train->comm);
    const double paused = paused_us > train->slow.paused_us
                              ? (double)(paused_us - train->slow.paused_us)
                              : 0;
    const double values[COLUMNS] = {times->step_us, times->compute_us, times->data_us, disk_us,
                                    paused,         times->samples};
    for (size_t i = 0; i < COLUMNS; i++)
        train->slow.recent[i * RECENT_STEPS + step % RECENT_STEPS] = (float)values[i];
    train->totals.disk_us += disk_us;
    train->totals.paused_us += paused;
    train->totals.own_samples += times->samples;
    train->slow.paused_us = paused_us;
}

/* All that is summed over the ranks, each of which fills in its own. */
typedef struct tables {
    float *column[COLUMNS]; /* [RECENT_STEPS][ranks]; of STEP_US [RECENT_STEPS] mean over ranks */
    float *sends;           /* [ranks][ranks] bytes per second; 0: not known */
    float *means;           /* [ranks][MEANS] of all steps */
    float *all;
    size_t count;
} tables;

static shoal_status make_tables(uint32_t ranks, tables *t)
{
    const size_t pairs = (size_t)ranks * ranks, each = (size_t)RECENT_STEPS * ranks;
    t->count = RECENT_STEPS + (COLUMNS - 1) * each + pairs + MEANS * (size_t)ranks;
    t->all = shoali_alloc_array(t->count, sizeof *t->all);
    if (t->all == NULL)
        return SHOAL_ENOMEM;
    t->column[STEP_US] = t->all;
    for (size_t i = 1; i < COLUMNS; i++)
        t->column[i] = t->all + RECENT_STEPS + (i - 1) * each;
    t->sends = t->column[COLUMNS - 1] + each;
    t->means = t->sends + pairs;
    return SHOAL_OK;
}

static void fill_steps(const shoal_train *train, const tables *t)
{
    const uint64_t from = train->step > RECENT_STEPS ? train->step - RECENT_STEPS : 0;
    for (uint64_t s = from; s < train->step; s++) {
        const float *recent = &train->slow.recent[s % RECENT_STEPS];
        t->column[STEP_US][s - from] = recent[0] / (float)train->members.count;
        for (size_t i = 1; i < COLUMNS; i++)
            t->column[i][(s - from) * train->workers + train->rank] = recent[i * RECENT_STEPS];
    }
}

static shoal_status fill(const shoal_train *train, const tables *t)
{
    const shoali_totals *sum = &train->totals;
    const double n = sum->steps > 0 ? (double)sum->steps : 1;
    const double means[MEANS] = {sum->compute_us, sum->wait_us,   sum->data_us,
                                 sum->disk_us,    sum->paused_us, sum->own_samples};
    const uint32_t ranks = train->workers, me = train->rank;
    fill_steps(train, t);
    for (uint32_t i = 0; i < ranks; i++) {
        shoal_peer_stats stats = {.size = sizeof stats};
        SHOALI_TRY(shoal_comm_peer_stats(train->comm, i, &stats));
        if (i != me)
            t->sends[(size_t)me * ranks + i] = (float)shoali_slow_rate(
                (double)stats.acked_bytes, (double)stats.busy_us, (double)stats.line_bytes_s);
    }
    for (size_t i = 0; i < MEANS; i++)
        t->means[MEANS * me + i] = (float)(means[i] / n);
    return SHOAL_OK;
}

static shoal_status name_hosts(shoal_train *train)
{
    for (uint32_t i = 0; i < train->workers; i++) {
        shoal_peer_stats stats = {.size = sizeof stats};
        SHOALI_TRY(shoal_comm_peer_stats(train->comm, i, &stats));
        snprintf(train->slow.ranks[i].host, sizeof train->slow.ranks[i].host, "%s", stats.host);
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
        links[i] = train->slow.ranks[i].sends_bytes_s;
        links[ranks + i] = train->slow.ranks[i].receives_bytes_s;
    }
    input->sends = links;
    input->receives = ok ? links + ranks : NULL;
    if (ok)
        shoali_slow_judge(input, slow);
    for (uint32_t i = 0; ok && i < ranks; i++) {
        shoal_train_rank *r = &train->slow.ranks[i];
        r->caused_ms = slow[i].caused_us * 1e-3;
        r->last_share = slow[i].last_share;
        r->since_step = first_step + slow[i].last_since;
        snprintf(r->cause, sizeof r->cause, "%s", shoali_slow_name(slow[i].cause));
    }
    shoali_free(links);
    shoali_free(slow);
    return ok ? SHOAL_OK : SHOAL_ENOMEM;
}

static void take_means(shoal_train *train, const float *means, shoali_slow_input *input)
{
    for (uint32_t i = 0; i < train->workers; i++) {
        const float *of = means + (size_t)MEANS * i;
        train->slow.ranks[i] = (shoal_train_rank){.size = sizeof *train->slow.ranks,
                                                  .compute_ms = (double)of[0] * 1e-3,
                                                  .wait_ms = (double)of[1] * 1e-3,
                                                  .data_ms = (double)of[2] * 1e-3,
                                                  .disk_ms = (double)of[3] * 1e-3,
                                                  .paused_ms = (double)of[4] * 1e-3,
                                                  .samples = (double)of[5]};
        input->wait_us += (double)of[1] / train->members.count;
    }
}

static shoal_status collect(shoal_train *train, const tables *t)
{
    uint32_t ranks = train->workers;
    uint32_t steps = train->step < RECENT_STEPS ? (uint32_t)train->step : RECENT_STEPS;
    shoali_slow_input input = {.ranks = ranks,
                               .windows = steps,
                               .step_us = t->column[STEP_US],
                               .compute_us = t->column[COMPUTE_US],
                               .data_us = t->column[DATA_US],
                               .disk_us = t->column[DISK_US],
                               .paused_us = t->column[PAUSED_US],
                               .samples = t->column[SAMPLES]};
    SHOALI_TRY(fill(train, t));
    SHOALI_TRY(shoali_train_reduce(train, t->all, t->count, SHOAL_SUM, "who waited for whom"));
    take_means(train, t->means, &input);
    for (uint32_t s = 0; s < steps; s++)
        input.steps += input.step_us[s] > 0; /* not of the run that this one goes on from */
    best_links(t->sends, ranks, train->slow.ranks);
    SHOALI_TRY(judge(train, &input, train->step - steps));
    return name_hosts(train);
}

shoal_status shoali_straggler_collect(shoal_train *train)
{
    tables t;
    if (train->slow.recent == NULL)
        return SHOAL_OK;
    SHOALI_TRY(make_tables(train->workers, &t));
    shoal_status status = collect(train, &t);
    shoali_free(t.all);
    train->slow.judged = status == SHOAL_OK;
    return status;
}

shoal_status shoali_straggler_open(shoal_train *train)
{
    if (train->comm == NULL || train->workers < 2 || train->server || train->desc.no_exchange ||
        train->hybrid != NULL)
        return SHOAL_OK;
    if (train->slow.recent == NULL)
        train->slow.recent = shoali_arena_array(train->arena, COLUMNS * RECENT_STEPS,
                                                sizeof *train->slow.recent);
    train->slow.ranks = shoali_arena_array(train->arena, train->workers, sizeof *train->slow.ranks);
    return train->slow.recent != NULL && train->slow.ranks != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

shoal_status shoal_train_rank_of(const shoal_train *train, uint32_t rank,
                                 shoal_train_rank *rank_out)
{
    if (!train->slow.judged || rank >= train->workers)
        return shoali_fail(SHOAL_EINVAL, "nothing is known of rank %u", rank);
    *rank_out = train->slow.ranks[rank];
    return SHOAL_OK;
}
