/* SPDX-License-Identifier: Apache-2.0 */
/* The machine on the progress thread: events of the comm and notes of the caller go in, actions go
 * out. MIX and APPLY run on the work thread if they are long, and hold the queue up meanwhile;
 * small ones are done at once. A message carries the protocol's instance in front, so that a late
 * one of an earlier protocol on this comm is told apart. */
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "driver/real.h"

enum {
    INLINE_ELEMS = 1 << 17, /* of a MIX: well below a millisecond */
    HEAD_BYTES = 8          /* of a message: the instance */
};

static void pump(shoal_sync *sync);

/* ---------------------------------------------------------------- the end */

/* With the lock. */
static void signal_caller(shoal_sync *sync)
{
    sync->idle = sync->ops.open == NULL && !sync->machine.held;
    pthread_cond_broadcast(&sync->changed);
}

void shoali_real_signal(shoal_sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    signal_caller(sync);
    pthread_mutex_unlock(&sync->lock);
}

static bool is_over(shoal_sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    bool over = sync->over;
    pthread_mutex_unlock(&sync->lock);
    return over;
}

/* The machine ends; error NULL: by GO(stop). */
static void end(shoal_sync *sync, const shoal_error *error, const shoal_verdict *verdict)
{
    shoali_actions_clear(&sync->machine.actions);
    shoali_real_ops_cancel(sync);
    pthread_mutex_lock(&sync->lock);
    if (!sync->over) {
        sync->over = true;
        if (error != NULL)
            sync->error = *error;
        else
            sync->verdict = *verdict;
    }
    signal_caller(sync);
    pthread_mutex_unlock(&sync->lock);
}

void shoali_real_break(shoal_sync *sync)
{
    shoal_error error;
    shoali_error_get(&error);
    end(sync, &error, NULL);
}

/* Machines pass an operation's sentence on, but not whom it is about: found again by the sentence,
 * as far as it was passed. */
static void fail(shoal_sync *sync, const shoali_action *action)
{
    const shoal_error *known = &sync->ops.culprit;
    bool same = action->fail.peer < 0 && known->status == action->fail.status &&
                strncmp(action->fail.text, known->text, strlen(action->fail.text)) == 0;
    if (action->fail.status == SHOAL_EEPOCH)
        shoali_comm_expel(sync->comm);
    (void)shoali_fail(action->fail.status, "%s", action->fail.text);
    shoali_error_about(same ? known->rank : action->fail.peer, same ? known->host : NULL,
                       sync->protocol.row->name, same ? known->waited_us : -1);
    shoali_real_break(sync);
}

/* ---------------------------------------------------------------- MIX and APPLY */

static shoal_status run_job(void *arg)
{
    shoal_sync *sync = arg;
    const shoali_action *job = &sync->machine.job;
    if (job->kind == SHOALI_ACT_MIX)
        return shoali_tensors_mix(&sync->tensors, job);
    size_t offset = job->apply.offset, count = job->apply.count;
    float *grads = shoali_tensor_memory(&sync->tensors, job->apply.tensor, offset, count);
    float *params = shoali_tensor_memory(&sync->tensors, SHOALI_PARAM, offset, count);
    if (grads == NULL || params == NULL)
        return SHOAL_EINTERNAL;
    SHOALI_TRY(sync->owner(sync->owner_user, grads, offset, count, job->apply.iteration,
                           job->apply.scale));
    memcpy(params, grads, count * sizeof *params);
    return SHOAL_OK;
}

static void job_done(void *arg, shoal_status status)
{
    shoal_sync *sync = arg;
    sync->machine.held = false;
    if (status != SHOAL_OK)
        shoali_real_break(sync);
    else if (!is_over(sync))
        pump(sync);
    shoali_real_signal(sync);
}

/* The queue may move while the job runs: it works on a copy. */
static shoal_status copy_job(shoal_sync *sync, const shoali_action *action)
{
    uint32_t terms = action->kind == SHOALI_ACT_MIX ? action->mix.term_count : 0;
    sync->machine.job = *action;
    if (terms > sync->machine.job_terms_capacity) {
        shoali_free(sync->machine.job_terms);
        sync->machine.job_terms_capacity = 0;
        sync->machine.job_terms = shoali_alloc_array(terms, sizeof *sync->machine.job_terms);
        if (sync->machine.job_terms == NULL)
            return SHOAL_ENOMEM;
        sync->machine.job_terms_capacity = terms;
    }
    if (terms > 0) {
        memcpy(sync->machine.job_terms, action->mix.terms, terms * sizeof *sync->machine.job_terms);
        sync->machine.job.mix.terms = sync->machine.job_terms;
    }
    return SHOAL_OK;
}

static void act_job(shoal_sync *sync, const shoali_action *action)
{
    bool mix = action->kind == SHOALI_ACT_MIX;
    shoal_status status = SHOAL_OK;
    if (mix && action->mix.count <= INLINE_ELEMS / (action->mix.term_count + 1)) {
        status = shoali_tensors_mix(&sync->tensors, action);
    } else if (!mix && sync->owner == NULL) {
        status = shoali_fail(SHOAL_EINVAL,
                             "%s runs the optimiser itself, and nobody gave it one: "
                             "shoal_sync_set_sgd does",
                             sync->protocol.spec);
    } else {
        status = copy_job(sync, action);
        sync->machine.held = status == SHOAL_OK;
        if (sync->machine.held)
            status = shoali_comm_work(sync->comm, run_job, job_done, sync);
        sync->machine.held = status == SHOAL_OK;
    }
    if (status != SHOAL_OK)
        shoali_real_break(sync);
}

/* ---------------------------------------------------------------- the other actions */

static shoal_status send_one(shoal_sync *sync, uint32_t peer, size_t bytes)
{
    if (peer == sync->world.me)
        return SHOAL_OK;
    return shoali_comm_send(sync->comm, peer, sync->machine.message, bytes);
}

/* A message that cannot go out is no failure of ours: its receiver is lost, and that is told apart.
 */
static void act_send(shoal_sync *sync, const shoali_action *action)
{
    const shoali_world *world = &sync->world;
    size_t bytes = HEAD_BYTES + action->send.len_bytes;
    shoal_status status = SHOAL_OK;
    if (bytes > sync->machine.message_capacity) {
        shoali_free(sync->machine.message);
        sync->machine.message_capacity = 0;
        sync->machine.message = shoali_alloc(bytes);
        if (sync->machine.message == NULL) {
            shoali_real_break(sync);
            return;
        }
        sync->machine.message_capacity = bytes;
    }
    for (int i = 0; i < HEAD_BYTES; i++)
        sync->machine.message[i] = (uint8_t)(sync->instance >> (8 * i));
    if (action->send.len_bytes > 0)
        memcpy(sync->machine.message + HEAD_BYTES, action->send.bytes, action->send.len_bytes);
    if (action->send.peer != SHOALI_EVERYBODY)
        status = send_one(sync, action->send.peer, bytes);
    for (uint32_t i = 0;
         action->send.peer == SHOALI_EVERYBODY && i < world->workers + world->servers; i++)
        status = send_one(sync, world->endpoints[i], bytes);
    if (status != SHOAL_OK)
        shoali_log(DEBUG, "%s: a message is lost: %s", sync->protocol.spec,
                   shoal_last_error()->text);
}

static void act_timer(shoal_sync *sync, uint64_t id, uint64_t at_us)
{
    uint32_t i = 0;
    while (i < sync->machine.timer_count && sync->machine.timers[i].id != id)
        i++;
    if (i == sync->machine.timer_count && at_us == UINT64_MAX)
        return;
    if (i == sync->machine.timer_capacity) {
        uint32_t capacity = i > 0 ? 2 * i : 4;
        shoali_real_timer *grown = shoali_realloc(sync->machine.timers, i * sizeof *grown,
                                                  capacity * sizeof *grown);
        if (grown == NULL) {
            shoali_real_break(sync);
            return;
        }
        sync->machine.timers = grown;
        sync->machine.timer_capacity = capacity;
    }
    if (i == sync->machine.timer_count)
        sync->machine.timer_count++;
    sync->machine.timers[i] = (shoali_real_timer){id, at_us};
    if (at_us == UINT64_MAX)
        sync->machine.timers[i] = sync->machine.timers[--sync->machine.timer_count];
}

static void act_go(shoal_sync *sync, const shoal_verdict *verdict)
{
    if (verdict->stop) {
        end(sync, NULL, verdict);
        return;
    }
    pthread_mutex_lock(&sync->lock);
    sync->verdict = *verdict;
    sync->answered = true;
    pthread_cond_broadcast(&sync->changed);
    pthread_mutex_unlock(&sync->lock);
}

static void act(shoal_sync *sync, const shoali_action *action)
{
    switch (action->kind) {
    case SHOALI_ACT_SEND:
        act_send(sync, action);
        break;
    case SHOALI_ACT_OP:
        shoali_real_op_start(sync, &action->op);
        break;
    case SHOALI_ACT_CANCEL:
        shoali_real_op_cancel(sync, action->cancel.id);
        break;
    case SHOALI_ACT_HURRY:
        shoali_real_op_hurry(sync, action->hurry.id);
        break;
    case SHOALI_ACT_MIX:
    case SHOALI_ACT_APPLY:
        act_job(sync, action);
        break;
    case SHOALI_ACT_GO:
        act_go(sync, &action->go);
        break;
    case SHOALI_ACT_TIMER:
        act_timer(sync, action->timer.id, action->timer.at_us);
        break;
    case SHOALI_ACT_FAIL:
        fail(sync, action);
        break;
    }
}

/* ---------------------------------------------------------------- events */

/* Carry out what is queued, until a job holds it up; then tell of operations that did not start. */
static void pump(shoal_sync *sync)
{
    const shoali_action *action;
    while (!sync->machine.held && (action = shoali_actions_front(&sync->machine.actions)) != NULL) {
        shoali_action copy = *action; /* its payload stays where it is until the pop */
        act(sync, &copy);
        shoali_actions_pop(&sync->machine.actions);
    }
    shoali_real_ops_unstarted(sync);
}

void shoali_real_feed(shoal_sync *sync, shoali_event *event)
{
    if (is_over(sync))
        return;
    event->now_us = shoali_now_us();
    shoal_status status = sync->protocol.row->on_event(sync->machine.state, event,
                                                       &sync->machine.actions);
    if (status != SHOAL_OK || sync->machine.actions.status != SHOAL_OK) {
        shoali_real_break(sync);
        return;
    }
    pump(sync);
}

/* ---------------------------------------------------------------- ears */

static void feed_message(shoal_sync *sync, uint32_t endpoint, const uint8_t *bytes,
                         size_t len_bytes)
{
    uint64_t instance = 0;
    if (len_bytes < HEAD_BYTES)
        return;
    for (int i = 0; i < HEAD_BYTES; i++)
        instance |= (uint64_t)bytes[i] << (8 * i);
    if (instance != sync->instance)
        return;
    shoali_event event = {.kind = SHOALI_EV_MESSAGE,
                          .message = {endpoint, bytes + HEAD_BYTES, len_bytes - HEAD_BYTES}};
    shoali_real_feed(sync, &event);
}

static void feed_down(shoal_sync *sync, uint32_t endpoint, shoali_down how, const char *text)
{
    shoali_event event = {.kind = SHOALI_EV_PEER_DOWN, .down = {endpoint, text, how}};
    shoali_real_feed(sync, &event);
}

/* The others may have started earlier: what they say is kept for our START. */
static shoali_real_early *keep(shoal_sync *sync, uint32_t endpoint, bool down, const void *bytes,
                               size_t len_bytes)
{
    shoali_real_early *early = shoali_alloc(sizeof *early + len_bytes);
    if (early == NULL) {
        shoali_real_break(sync);
        return NULL;
    }
    early->endpoint = endpoint;
    early->down = down;
    early->len_bytes = len_bytes;
    memcpy(early->bytes, bytes, len_bytes);
    *sync->machine.early_last = early;
    sync->machine.early_last = &early->next;
    return early;
}

static shoali_real_early *take_early(shoal_sync *sync)
{
    shoali_real_early *early = sync->machine.early;
    if (early != NULL)
        sync->machine.early = early->next;
    return early;
}

static void start(shoal_sync *sync)
{
    shoali_event event = {.kind = SHOALI_EV_START, .world = &sync->world};
    shoali_real_early *early;
    sync->machine.started = true;
    shoali_real_feed(sync, &event);
    while ((early = take_early(sync)) != NULL) {
        if (early->down)
            feed_down(sync, early->endpoint, early->how, (const char *)early->bytes);
        else
            feed_message(sync, early->endpoint, early->bytes, early->len_bytes);
        shoali_free(early);
    }
}

static void on_message(void *ctx, uint32_t endpoint, const void *bytes, size_t len_bytes)
{
    shoal_sync *sync = ctx;
    if (sync->machine.started)
        feed_message(sync, endpoint, bytes, len_bytes);
    else
        (void)keep(sync, endpoint, false, bytes, len_bytes);
}

static shoali_down how_it_went(const shoal_sync *sync, uint32_t endpoint, shoal_status why)
{
    shoali_lost_peer lost;
    if (why == SHOAL_OK)
        return SHOALI_DOWN_LEFT;
    return shoali_comm_lost_peer(sync->comm, endpoint, &lost) && lost.dead ? SHOALI_DOWN_DEAD
                                                                           : SHOALI_DOWN_AWAY;
}

/* Where all are needed a goodbye (OK) is no loss: only an operation that needs the peer fails, and
 * tells. */
static void on_peer_down(void *ctx, uint32_t endpoint, shoal_status why, const char *text)
{
    shoal_sync *sync = ctx;
    if (why == SHOAL_OK && (sync->protocol.traits & SHOALI_SYNC_SURVIVES) == 0)
        return;
    if (why == SHOAL_EEPOCH) { /* it is this process that is lost */
        (void)shoali_fail(why, "%s", text);
        shoali_error_about((int32_t)sync->world.me, NULL, sync->protocol.row->name, -1);
        shoali_real_break(sync);
        return;
    }
    if (why != SHOAL_OK && (sync->protocol.traits & SHOALI_SYNC_SURVIVES) != 0)
        shoali_comm_want_reform(sync->comm);
    const shoali_down how = how_it_went(sync, endpoint, why);
    if (sync->machine.started) {
        feed_down(sync, endpoint, how, text);
        return;
    }
    shoali_real_early *early = keep(sync, endpoint, true, text, strlen(text) + 1);
    if (early != NULL)
        early->how = how;
}

static void on_timer(void *ctx, uint64_t now_us)
{
    shoal_sync *sync = ctx;
    for (uint32_t i = 0; i < sync->machine.timer_count;) {
        if (sync->machine.timers[i].at_us > now_us) {
            i++;
            continue;
        }
        shoali_event event = {.kind = SHOALI_EV_TIMER, .timer = {sync->machine.timers[i].id}};
        sync->machine.timers[i] = sync->machine.timers[--sync->machine.timer_count];
        shoali_real_feed(sync, &event);
        i = 0; /* the machine may have set others */
    }
}

static uint64_t next_wake_us(void *ctx)
{
    const shoal_sync *sync = ctx;
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < sync->machine.timer_count; i++)
        next = sync->machine.timers[i].at_us < next ? sync->machine.timers[i].at_us : next;
    return next;
}

/* ---------------------------------------------------------------- the caller's notes */

static bool take_note(shoal_sync *sync, shoali_real_note *note_out)
{
    pthread_mutex_lock(&sync->lock);
    bool some = sync->notes.count > 0;
    if (some) {
        *note_out = sync->notes.ring[sync->notes.first];
        sync->notes.first = (sync->notes.first + 1) % sync->notes.capacity;
        sync->notes.count--;
    }
    sync->notes.posted = some;
    if (!some)
        pthread_cond_broadcast(&sync->changed);
    pthread_mutex_unlock(&sync->lock);
    return some;
}

void shoali_real_drain(void *arg)
{
    shoal_sync *sync = arg;
    shoali_real_note note;
    while (take_note(sync, &note)) {
        shoali_event event = {.kind = note.kind};
        if (note.kind == SHOALI_EV_START) {
            start(sync);
            continue;
        }
        if (note.kind == SHOALI_EV_READY) {
            event.range.offset = note.offset;
            event.range.count = note.count;
            shoali_real_keep_rows(sync, &note);
        } else if (note.kind == SHOALI_EV_AFTER) {
            sync->ops.first_start_us = 0;
            event.step.samples = (uint32_t)note.offset;
            event.step.batch = (uint32_t)note.count;
        }
        shoali_real_feed(sync, &event);
    }
}

shoali_comm_listener shoali_real_listener(shoal_sync *sync)
{
    return (shoali_comm_listener){.ctx = sync,
                                  .on_message = on_message,
                                  .on_peer_down = on_peer_down,
                                  .on_timer = on_timer,
                                  .next_wake_us = next_wake_us,
                                  .goes_on = (sync->protocol.traits & SHOALI_SYNC_SURVIVES) != 0};
}

void shoali_real_host_init(shoali_real_machine *machine)
{
    machine->early_last = &machine->early;
}

void shoali_real_host_fini(shoal_sync *sync)
{
    shoali_real_ops_fini(sync);
    for (shoali_real_early *early = take_early(sync); early != NULL; early = take_early(sync))
        shoali_free(early);
    shoali_free(sync->machine.state);
    shoali_actions_fini(&sync->machine.actions);
    shoali_free(sync->machine.job_terms);
    shoali_free(sync->machine.message);
    shoali_free(sync->machine.timers);
}
