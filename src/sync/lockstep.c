/* SPDX-License-Identifier: Apache-2.0 */
/* States of a worker, and what each event does there ("." changes nothing; OVER ignores all):
 *
 *                COMPUTE               WAIT (asked)        UPDATE (updating)     LEAVING
 *   READY        OP per full bucket    .                   .                     .
 *   BEFORE       -> WAIT               .                   .                     .
 *   OP_DONE      count it              all: GO or FAIL     .                     all: GO(stop)
 *   AFTER        .                     .                   next, GO, -> COMPUTE  .
 *   FINISH       GO
 *   STOP         in every state: tell the peers, CANCEL, -> LEAVING
 *   peer's STOP  in every state: lowers stop_at; at stop_at CANCEL, and GO(stop) once asked
 *   PEER_DOWN    FAIL with the name. Once somebody has said STOP only a failing operation counts
 *
 * A server is always in WAIT: all its buckets are READY at once, and instead of a GO comes the
 * next iteration.
 *
 * Every member learns of a NaN by the same bucket's ENOTFINITE, and each decides when all buckets
 * of the iteration are done: the same buckets, so the same verdict and the same text everywhere,
 * without a round of its own. ECANCELLED means that a peer ended the job early: GO(stop). Any
 * other failure is FAIL, unless the job is ending anyway. */
#include "sync/lockstep.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGE_STOP = 1, MESSAGE_BYTES = 9 };

/* ---------------------------------------------------------------- buckets */

size_t shoali_lockstep_bucket_bytes(const shoali_world *world)
{
    return world->tensor_count * sizeof(shoali_bucket);
}

/* Whether a tensor is to travel alone. */
static bool apart(const shoali_world *world, uint32_t i)
{
    return world->rows_apart && (world->tensors[i].flags & SHOAL_TENSOR_ROWS) != 0;
}

/* Whole tensors, back to front, until a bucket has bucket_elems or more. */
static void cut(shoali_lockstep *step)
{
    const shoali_world *world = step->world;
    size_t end = world->count;
    for (uint32_t i = world->tensor_count; i-- > 0;) {
        size_t offset = world->tensors[i].offset;
        if (end - offset < world->bucket_elems && i > 0 && !apart(world, i) && !apart(world, i - 1))
            continue;
        step->buckets[step->bucket_count++] = (shoali_bucket){.offset = offset,
                                                              .count = end - offset};
        end = offset;
    }
}

static uint64_t op_id(const shoali_lockstep *step, uint32_t bucket)
{
    return step->iteration * step->bucket_count + bucket;
}

static bool ended(const shoali_lockstep *step)
{
    return step->leaving || step->iteration >= step->stop_at;
}

static bool all_closed(const shoali_lockstep *step)
{
    return step->done == step->started;
}

static void start_ready_buckets(shoali_lockstep *step, shoali_actions *actions)
{
    while (!ended(step) && step->started < step->bucket_count &&
           step->buckets[step->started].offset >= step->low) {
        shoali_sync_op op = step->op;
        op.id = op_id(step, step->started);
        op.offset = step->buckets[step->started].offset;
        op.count = step->buckets[step->started].count;
        op.iteration = step->iteration;
        step->buckets[step->started].open = true;
        step->started++;
        shoali_act_op(actions, &op);
    }
}

static void cancel_open(shoali_lockstep *step, shoali_actions *actions)
{
    for (uint32_t i = 0; i < step->started; i++)
        if (step->buckets[i].open)
            shoali_act_cancel(actions, op_id(step, i));
}

/* A peer will not exchange iteration stop_at: what is open of it cannot complete any more. */
static void learn_stop(shoali_lockstep *step, uint64_t stop_at, shoali_actions *actions)
{
    bool before = ended(step);
    step->stop_at = stop_at < step->stop_at ? stop_at : step->stop_at;
    if (!before && ended(step))
        cancel_open(step, actions);
}

/* ---------------------------------------------------------------- verdicts */

static void fail(shoali_lockstep *step, shoal_status status, int32_t peer, const char *text,
                 shoali_actions *actions)
{
    step->over = true;
    shoali_act_fail(actions, status, peer, "%s", text);
}

static void go_stop(shoali_lockstep *step, shoali_actions *actions)
{
    shoal_verdict verdict = {.stop = true, .iteration = step->iteration};
    step->over = true;
    shoali_act_go(actions, &verdict);
}

static void begin_iteration(shoali_lockstep *step)
{
    step->low = step->world->count;
    step->started = step->done = step->bad = 0;
    step->worst = step->bucket_count;
}

/* All buckets of the iteration are done and the caller waits: commit, and say what to do. */
static void conclude(shoali_lockstep *step, shoali_actions *actions)
{
    const shoali_mix_term weights = {.tensor = SHOALI_GRAD, .weight = 1};
    bool skipped = step->bad > 0;
    if (skipped && step->world->nonfinite == SHOAL_NONFINITE_STOP) {
        fail(step, SHOAL_ENOTFINITE, -1, step->why, actions);
        return;
    }
    if (step->commit) /* weights came; those that were there where a sum was not finite */
        shoali_act_mix(actions, SHOALI_PARAM, 0, step->world->count, &weights, 1);
    if (step->serving) {
        step->iteration++;
        begin_iteration(step);
        step->low = 0;
        start_ready_buckets(step, actions);
        if (ended(step))
            go_stop(step, actions);
        return;
    }
    shoal_verdict verdict = {.apply = !step->commit && !skipped,
                             .skipped = skipped,
                             .grad_scale = 1.0f / (float)step->world->workers,
                             .iteration = step->iteration};
    step->asked = false;
    step->updating = true;
    shoali_act_go(actions, &verdict);
}

/* Something changed: is a verdict due? */
static void settle(shoali_lockstep *step, shoali_actions *actions)
{
    if (step->leaving || (ended(step) && (step->asked || step->serving))) {
        if (all_closed(step))
            go_stop(step, actions);
        return;
    }
    bool complete = step->started == step->bucket_count && all_closed(step);
    if (complete && (step->asked || step->serving))
        conclude(step, actions);
}

/* ---------------------------------------------------------------- events */

static void on_op_done(shoali_lockstep *step, const shoali_event *event, shoali_actions *actions)
{
    uint32_t bucket = (uint32_t)(event->op.id - op_id(step, 0));
    if (event->op.id < op_id(step, 0) || bucket >= step->started || !step->buckets[bucket].open)
        return;
    step->buckets[bucket].open = false;
    step->done++;
    if (event->op.status == SHOAL_ENOTFINITE) {
        step->bad++;
        if (bucket < step->worst) {
            step->worst = bucket;
            snprintf(step->why, sizeof step->why, "%s", event->op.text);
        }
    } else if (event->op.status == SHOAL_ECANCELLED) {
        learn_stop(step, step->iteration, actions);
    } else if (event->op.status != SHOAL_OK && !ended(step)) {
        fail(step, event->op.status, -1, event->op.text, actions);
        return;
    }
    settle(step, actions);
}

static void on_after(shoali_lockstep *step, shoali_actions *actions)
{
    shoal_verdict verdict = {.grad_scale = 1.0f / (float)step->world->workers};
    step->updating = false;
    step->iteration++;
    begin_iteration(step);
    verdict.iteration = step->iteration;
    if (ended(step))
        go_stop(step, actions);
    else
        shoali_act_go(actions, &verdict);
}

/* The iteration that this rank will not exchange any more. */
static void tell_peers(const shoali_lockstep *step, shoali_actions *actions)
{
    bool exchanged = step->started == step->bucket_count && all_closed(step);
    uint64_t stop_at = step->iteration + (exchanged ? 1 : 0);
    uint8_t message[MESSAGE_BYTES] = {MESSAGE_STOP};
    for (int i = 0; i < 8; i++)
        message[1 + i] = (uint8_t)(stop_at >> (8 * i));
    shoali_act_send(actions, SHOALI_EVERYBODY, message, sizeof message);
}

static void on_stop(shoali_lockstep *step, shoali_actions *actions)
{
    tell_peers(step, actions);
    step->leaving = true;
    cancel_open(step, actions);
    settle(step, actions);
}

static void on_message(shoali_lockstep *step, const shoali_event *event, shoali_actions *actions)
{
    const uint8_t *bytes = event->message.bytes;
    uint64_t stop_at = 0;
    if (event->message.len_bytes != MESSAGE_BYTES || bytes[0] != MESSAGE_STOP) {
        char text[96];
        snprintf(text, sizeof text, "endpoint %u sent a message of %zu bytes that is no STOP",
                 event->message.peer, event->message.len_bytes);
        fail(step, SHOAL_ECORRUPT, (int32_t)event->message.peer, text, actions);
        return;
    }
    for (int i = 0; i < 8; i++)
        stop_at |= (uint64_t)bytes[1 + i] << (8 * i);
    learn_stop(step, stop_at, actions);
    settle(step, actions);
}

static void miss(shoali_lockstep *step, shoali_actions *actions)
{
    fail(step, SHOAL_EPEER, step->lost_peer, step->why, actions);
}

/* Whoever is lost while the caller updates is missed in the next iteration: this one is complete,
 * and must not look as if it were to be made again. */
static void on_peer_down(shoali_lockstep *step, const shoali_event *event, shoali_actions *actions)
{
    if (step->leaving || step->lost || step->stop_at != UINT64_MAX)
        return;
    bool worker = step->world->servers == 0 || event->down.peer < step->world->workers;
    snprintf(step->why, sizeof step->why, "%s %u was lost: %s", worker ? "worker" : "server",
             event->down.peer, event->down.text);
    step->lost = true;
    step->lost_peer = (int32_t)event->down.peer;
    if (!step->updating)
        miss(step, actions);
}

void shoali_lockstep_start(shoali_lockstep *step, const shoali_world *world,
                           const shoali_sync_op *op, bool commit_grads, shoali_bucket *buckets,
                           shoali_actions *actions)
{
    step->world = world;
    step->op = *op;
    step->commit = commit_grads;
    step->serving = world->role == SHOALI_SERVER;
    step->iteration = world->iteration;
    step->stop_at = UINT64_MAX;
    step->buckets = buckets;
    cut(step);
    begin_iteration(step);
    if (step->serving) {
        step->low = 0;
        start_ready_buckets(step, actions);
    }
}

void shoali_lockstep_event(shoali_lockstep *step, const shoali_event *event,
                           shoali_actions *actions)
{
    if (step->over)
        return;
    if (step->lost && !step->updating && event->kind != SHOALI_EV_STOP) {
        miss(step, actions);
        return;
    }
    switch (event->kind) {
    case SHOALI_EV_READY:
        step->low = event->range.offset;
        start_ready_buckets(step, actions);
        break;
    case SHOALI_EV_BEFORE:
        step->asked = true;
        settle(step, actions);
        break;
    case SHOALI_EV_AFTER:
        on_after(step, actions);
        break;
    case SHOALI_EV_MESSAGE:
        on_message(step, event, actions);
        break;
    case SHOALI_EV_OP_DONE:
        on_op_done(step, event, actions);
        break;
    case SHOALI_EV_PEER_DOWN:
        on_peer_down(step, event, actions);
        break;
    case SHOALI_EV_FINISH: /* replicas are equal */
        shoali_act_go(actions, &(shoal_verdict){.iteration = step->iteration});
        break;
    case SHOALI_EV_STOP:
        on_stop(step, actions);
        break;
    default:
        break;
    }
}
