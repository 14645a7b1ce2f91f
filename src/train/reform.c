/* SPDX-License-Identifier: Apache-2.0 */
/* Going on with other workers. State moves from the first worker of those that are furthest to all
 * that are behind it, newcomers among them:
 *
 *     head    step, epoch, samples of it that are taken    to all: the rest of the epoch is divided
 *                                                          anew from there
 *     who     is behind                                    all tell all
 *     body    weights, optimiser, batch norm               to those who are
 *
 * Where replicas differ their mean takes the place of the body, and the samples of who is behind
 * are left out and counted.
 *
 * Residuals of error feedback stay where they are; a newcomer's are zero. A worker that took over
 * half a body says so in the next attempt (torn), and takes it from another. */
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "driver/driver.h"
#include "folder/apart.h"
#include "folder/events.h"
#include "reform/reform.h"
#include "trace/trace.h"
#include "train/train.h"

enum { STEP, EPOCH, TAKEN, UNCONCLUDED, HEAD, PIECES = 4, PIECE_BITS = 16 };

/* ------------------------------------------------------------------ small numbers */

/* Exact in floats: whatever the transport checks of them, they are finite. */
static void split(const uint64_t *values, float *pieces)
{
    for (int i = 0; i < HEAD * PIECES; i++)
        pieces[i] = (float)(values[i / PIECES] >> (i % PIECES * PIECE_BITS) & UINT16_MAX);
}

static void join(const float *pieces, uint64_t *values)
{
    memset(values, 0, HEAD * sizeof *values);
    for (int i = 0; i < HEAD * PIECES; i++)
        values[i / PIECES] |= (uint64_t)pieces[i] << (i % PIECES * PIECE_BITS);
}

static shoal_status take_head(shoal_train *train, uint32_t source, uint64_t head[HEAD])
{
    float pieces[HEAD * PIECES];
    uint64_t epoch, in_epoch;
    shoali_train_place(train, train->step, &epoch, &in_epoch);
    head[STEP] = train->step;
    head[EPOCH] = epoch;
    head[TAKEN] = shoali_sampler_taken(train->data.sampler, epoch, in_epoch);
    head[UNCONCLUDED] = train->state.unconcluded;
    split(head, pieces);
    SHOALI_TRY(shoal_broadcast(train->comm, pieces, HEAD * PIECES, source));
    join(pieces, head);
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ the body */

static shoal_status copy_to(shoal_train *train, float *values, size_t count, const uint32_t *who,
                            uint32_t who_count, const char *label)
{
    shoal_op *op = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    if (count == 0)
        return SHOAL_OK;
    desc.kind = SHOAL_BROADCAST;
    desc.buf = values;
    desc.count = count;
    desc.members = who;
    desc.member_count = who_count;
    desc.label = label;
    SHOALI_TRY(shoal_op_start(train->comm, &desc, &op));
    return shoal_op_wait(&op, -1, NULL);
}

static shoal_status take_body(shoal_train *train, const uint32_t *who, uint32_t who_count)
{
    uint32_t slots = 0;
    size_t state_count = 0;
    float *slot = shoali_optim_state(train->update.optim, &slots);
    float *state = shoali_net_state(train->net, &state_count);
    SHOALI_TRY(copy_to(train, train->params, train->param_count, who, who_count, "weights"));
    SHOALI_TRY(copy_to(train, slot, slots * train->param_count, who, who_count, "optimiser"));
    SHOALI_TRY(copy_to(train, state, state_count, who, who_count, "batch norm"));
    uint64_t bytes = sizeof(float) * (train->param_count * (1 + slots) + state_count);
    train->state.bytes = bytes;
    return SHOAL_OK;
}

/* The source first, then who is behind; none: only the source. */
static shoal_status who_is_behind(shoal_train *train, uint32_t source, bool behind, uint32_t *who,
                                  uint32_t *who_count_out)
{
    float *flags = shoali_alloc_array(train->workers, sizeof *flags);
    if (flags == NULL)
        return SHOAL_ENOMEM;
    flags[train->rank] = behind ? 1 : 0;
    shoal_status status = shoali_train_reduce(train, flags, train->workers, SHOAL_SUM,
                                              "who is behind");
    who[0] = source;
    *who_count_out = 1;
    for (uint32_t i = 0; i < train->workers; i++)
        if (flags[i] > 0 && i != source)
            who[(*who_count_out)++] = i;
    shoali_free(flags);
    return status;
}

static shoal_status take_over(shoal_train *train, uint32_t source, bool behind)
{
    uint32_t count;
    uint32_t *who = shoali_alloc_array(train->workers, sizeof *who);
    if (who == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = who_is_behind(train, source, behind, who, &count);
    if (status == SHOAL_OK && count > 1 && (behind || train->rank == source)) {
        train->state.torn = behind;
        status = take_body(train, who, count);
    }
    shoali_free(who);
    return status;
}

/* ------------------------------------------------------------------ replicas that differ */

static shoal_status make_room_to_carry(shoal_train *train)
{
    if (train->state.carries && train->state.carried == NULL)
        train->state.carried = shoali_arena_array(train->arena, train->param_count, sizeof(float));
    return train->state.carries && train->state.carried == NULL ? SHOAL_ENOMEM : SHOAL_OK;
}

/* Of those who have some (share: one of so many, else 0); in values of its own until it is there,
 * as a replica that somebody's death spoils half-way would be lost. */
static shoal_status take_mean_of(shoal_train *train, float *values, size_t count, float share,
                                 const char *label)
{
    if (count == 0)
        return SHOAL_OK;
    float *sum = shoali_alloc_array(count, sizeof *sum);
    if (sum == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; share > 0 && i < count; i++)
        sum[i] = share * values[i];
    shoal_status status = shoali_train_reduce(train, sum, count, SHOAL_SUM, label);
    if (status == SHOAL_OK)
        memcpy(values, sum, count * sizeof *sum);
    shoali_free(sum);
    train->state.bytes += count * sizeof *sum;
    return status;
}

/* What the worker of that old rank should have taken up to the step at which all go on. */
static double behind_by(shoal_train *train, uint32_t was, uint64_t step)
{
    double samples = 0;
    for (uint64_t i = train->step; i < step; i++) {
        uint64_t epoch, in_epoch;
        shoali_train_place(train, i, &epoch, &in_epoch);
        samples += shoali_sampler_share(train->data.sampler, epoch, in_epoch, was).count;
    }
    return samples;
}

/* Weights, optimiser, batch norm and what the protocol carries on become the mean of those who have
 * them. All go on from the step of the furthest: samples before it are left out. */
static shoal_status take_mean(shoal_train *train, uint32_t was, uint64_t step)
{
    enum { HAVE, LEFT_OUT, SUMS };
    uint32_t slots = 0;
    size_t state_count = 0;
    float *slot = shoali_optim_state(train->update.optim, &slots);
    float *state = shoali_net_state(train->net, &state_count);
    double sums[SUMS] = {train->state.torn ? 0 : 1,
                         train->state.torn ? 0 : behind_by(train, was, step)};
    SHOALI_TRY(make_room_to_carry(train));
    SHOALI_TRY(shoali_train_sum(train, sums, SUMS, "who has a replica"));
    const float share = train->state.torn ? 0 : 1 / (float)sums[HAVE];
    SHOALI_TRY(take_mean_of(train, train->params, train->param_count, share, "mean of weights"));
    SHOALI_TRY(take_mean_of(train, slot, slots * train->param_count, share, "mean of optimisers"));
    SHOALI_TRY(take_mean_of(train, state, state_count, share, "mean of batch norms"));
    if (train->state.carries)
        SHOALI_TRY(take_mean_of(train, train->state.carried, train->param_count, share,
                                "mean of outer momenta"));
    train->state.left_out += (uint64_t)sums[LEFT_OUT];
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ both */

/* All members are here, in a new epoch. was: this one's rank in the last one, if it was there. */
static shoal_status take_state(shoal_train *train, const shoal_view *view, bool behind,
                               uint32_t was)
{
    uint64_t head[HEAD], began_us = shoali_now_us();
    train->state.bytes = 0;
    SHOALI_TRY(take_head(train, view->done_rank, head));
    SHOALI_TRY(train->loose ? take_mean(train, was, head[STEP])
                            : take_over(train, view->done_rank, behind));
    train->state.torn = false;
    train->state.unconcluded = head[UNCONCLUDED] != 0;
    train->step = train->from.step = head[STEP];
    train->from.epoch = head[EPOCH];
    train->from.sample = (uint32_t)head[TAKEN];
    SHOALI_TRY(shoali_sampler_reshard(train->data.sampler, train->workers, head[EPOCH],
                                      train->from.sample));
    shoali_train_plan_steps(train);
    train->state.us = shoali_now_us() - began_us;
    shoali_log(INFO, "epoch %" PRIu64 ": %u workers go on behind step %" PRIu64 "%s", view->epoch,
               train->workers, train->step,
               train->loose ? ", with the mean of their replicas"
               : behind     ? ", with another's state"
                            : "");
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ other workers */

static shoal_status adopt(shoal_train *train, const shoal_view *view)
{
    train->rank = view->rank;
    train->workers = train->members.count = view->workers;
    train->members.place = view->rank;
    train->members.epoch = view->epoch;
    shoali_apart_forget(train);
    train->members.ranks = shoali_arena_array(train->arena, view->workers,
                                              sizeof *train->members.ranks);
    train->epoch.worker_accuracy = shoali_arena_array(train->arena, view->workers,
                                                      sizeof *train->epoch.worker_accuracy);
    if (train->members.ranks == NULL || train->epoch.worker_accuracy == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < view->workers; i++) {
        train->members.ranks[i] = i;
        train->epoch.worker_accuracy[i] = 0;
    }
    if (train->rank == 0)
        SHOALI_TRY(shoali_folder_sign(train));
    return shoali_straggler_open(train);
}

/* How far this worker is: what follows a step counts half of one. 0: it has nothing. */
static uint64_t done(const shoal_train *train)
{
    return train->state.torn ? 0 : 2 * train->step + (train->state.unconcluded ? 1 : 2);
}

static shoal_status somebody_has_it(const shoal_view *view)
{
    if (view->done_max > 0)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EPEER, "all workers with the run's state are lost: resume from a "
                                    "checkpoint");
}

shoal_status shoali_train_take_state(shoal_train *train)
{
    shoal_view view = {.size = sizeof view};
    SHOALI_TRY(shoal_comm_view(train->comm, &view));
    SHOALI_TRY(somebody_has_it(&view));
    train->members.epoch = view.epoch;
    train->state.torn = true;
    return take_state(train, &view, true, 0);
}

/* The protocol of the last epoch. */
static shoal_status leave_sync(shoal_train *train)
{
    bool exact;
    SHOALI_TRY(shoali_sync_asks(train->desc.sync, &exact, &train->state.carries));
    SHOALI_TRY(make_room_to_carry(train));
    if (train->loose)
        shoali_comm_goes(train->comm);
    shoali_sync_end(train->sync, train->state.carries ? train->state.carried : NULL);
    train->sync = NULL;
    return SHOAL_OK;
}

shoal_status shoal_train_reform(shoal_train *train, shoal_comm **comm, int64_t timeout_us)
{
    shoal_view view = {.size = sizeof view};
    uint64_t began_us = shoali_now_us();
    if (comm == NULL || *comm != train->comm || !train->desc.reform)
        return shoali_fail(SHOAL_EINVAL, "this run's workers are fixed: start it with reform");
    SHOALI_TRY(leave_sync(train));
    const uint64_t mine = done(train);
    const uint32_t was = train->rank;
    shoal_status status = shoali_comm_reform(comm, mine, timeout_us, &view, shoali_losses_told,
                                             train);
    train->comm = *comm;
    if (status != SHOAL_OK)
        return status;
    SHOALI_TRY(somebody_has_it(&view));
    SHOALI_TRY(adopt(train, &view));
    SHOALI_TRY(take_state(train, &view, mine < view.done_max, was));
    SHOALI_TRY(shoali_train_start_sync(train));
    shoali_stop_begin(train);
    const uint64_t took_us = shoali_now_us() - began_us;
    shoali_trace_note(train, SHOALI_TRACE_REFORM, began_us);
    if (train->members.place == 0 &&
        shoali_events_add(train, "members",
                          json_pack("{s:I, s:i, s:f, s:I}", "step", (json_int_t)train->step,
                                    "workers", (int)train->workers, "seconds",
                                    (double)took_us * 1e-6, "left_out",
                                    (json_int_t)train->state.left_out)) != SHOAL_OK)
        shoali_log(WARN, "%s; the training goes on", shoal_last_error()->text);
    return shoali_metrics_reform(train, took_us);
}
