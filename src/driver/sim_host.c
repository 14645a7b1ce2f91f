/* SPDX-License-Identifier: Apache-2.0 */
/* One machine per endpoint and the loop that a trainer would run around it:
 *
 *   COMPUTING --READY per tensor, BEFORE--> IN_BEFORE --GO--> UPDATING --AFTER--> IN_AFTER
 *       ^                                                                            |
 *       +-------------------------- GO, iterations are left -------------------------+
 *                                                                                    v none
 *                                                            STOPPING <-- GO -- FINISHING
 *   a dedicated server: SERVING ---- GO(stop) --> ENDED <-- GO(stop) --+
 *                                                   | all have ended: RESTING (sim_epoch.c)
 *
 * From everywhere GO(stop), FAIL and death lead to ENDED. Nothing is called back from inside a
 * machine: actions that have consequences put events into the queue, those at the same time in
 * order of their making. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "driver/sim_parts.h"

enum { INLINE_BYTES = 8 };
static const char member_ended[] = "a member has ended its job";

void shoali_sim_break(shoal_sim *sim, shoal_status status)
{
    if (sim->status != SHOAL_OK || status == SHOAL_OK)
        return;
    sim->status = status;
    shoali_error_get(&sim->error);
}

void shoali_sim_at(shoal_sim *sim, uint64_t at_ns, uint32_t kind, uint32_t endpoint, uint64_t a,
                   uint64_t b)
{
    const shoali_sim_event event = {
        .at_ns = at_ns, .kind = kind, .endpoint = endpoint, .a = a, .b = b};
    shoali_sim_break(sim, shoali_sim_push(&sim->queue, &event));
}

/* ---------------------------------------------------------------- the end of an endpoint */

static void end_node(shoal_sim *sim, uint32_t endpoint, shoal_sim_end how)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    node->phase = SHOALI_SIM_ENDED;
    node->end = how;
    shoali_actions_clear(&node->actions);
    sim->epoch.ended++;
    if (endpoint < sim->workers)
        sim->report.results.duration_ns = sim->now_ns;
}

static void leave(shoal_sim *sim, uint32_t endpoint, const char *why)
{
    const bool early = sim->nodes[endpoint].end != SHOAL_SIM_DONE;
    sim->nodes[endpoint].gone = true;
    sim->epoch.gone++;
    if (sim->told.keeper.lost != NULL && early && !sim->nodes[endpoint].rests)
        sim->told.keeper.lost(sim->told.keeper.ctx, endpoint, why);
    shoali_sim_ops_fail(sim, endpoint, why);
    if (sim->nodes[endpoint].back)
        shoali_sim_rejoin(sim, endpoint);
}

/* The end of a connection comes behind everything that was said on it. */
static void leave_politely(shoal_sim *sim, uint32_t endpoint, const char *why)
{
    bool told = (sim->protocol.traits & SHOALI_SYNC_SURVIVES) != 0;
    if (shoali_sim_wire_plain(sim) && !told)
        leave(sim, endpoint, why);
    else
        shoali_sim_at(sim, shoali_sim_last_word_ns(sim, endpoint), SHOALI_SIM_GOODBYE, endpoint, 0,
                      0);
}

static void fail_node(shoal_sim *sim, uint32_t endpoint, shoal_status status, const char *text)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    char why[160];
    bool rests = shoali_sim_rests(sim, endpoint, status);
    node->status = rests ? SHOAL_OK : status;
    snprintf(node->text, sizeof node->text, "%s", text);
    snprintf(why, sizeof why, "endpoint %u gave up: %.120s", endpoint, node->text);
    end_node(sim, endpoint, rests ? SHOAL_SIM_STOPPED : SHOAL_SIM_FAILED);
    shoali_sim_ops_abandon(sim, endpoint, why);
    leave_politely(sim, endpoint, why);
}

/* ---------------------------------------------------------------- the worker's loop */

/* When tensor i becomes ready: backward runs back to front, in proportion to the elements. */
static uint64_t ready_ns(const shoal_sim *sim, const shoali_sim_node *node, uint32_t tensor)
{
    double done = (double)(sim->count - sim->tensors[tensor].offset) / (double)sim->count;
    double part = 1 - sim->asked.compute.backward * (1 - done);
    return node->began_ns + (uint64_t)((double)node->compute_ns * part);
}

static void begin_iteration(shoal_sim *sim, uint32_t endpoint, uint64_t iteration)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    uint32_t last = sim->tensor_count - 1;
    node->phase = SHOALI_SIM_COMPUTING;
    node->iteration = iteration;
    node->began_ns = sim->now_ns;
    node->compute_ns = shoali_sim_iteration_ns(sim, endpoint, iteration, sim->now_ns);
    shoali_sim_at(sim, ready_ns(sim, node, last), SHOALI_SIM_READY, endpoint, last, 0);
}

static void record_gap(shoal_sim *sim)
{
    uint64_t most = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < sim->workers; i++) {
        const shoali_sim_node *node = &sim->nodes[i];
        if (node->phase == SHOALI_SIM_ENDED)
            continue;
        most = node->iteration > most ? node->iteration : most;
        least = node->iteration < least ? node->iteration : least;
    }
    if (least != UINT64_MAX && most - least > sim->report.results.gap_max)
        sim->report.results.gap_max = most - least;
}

static void update(shoal_sim *sim, uint32_t endpoint, const shoal_verdict *verdict)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    node->phase = SHOALI_SIM_UPDATING;
    node->updated_ns = sim->now_ns;
    node->skipped = verdict->skipped > 0;
    sim->report.results.skipped += verdict->skipped;
    if (verdict->apply)
        shoali_sim_optimise(sim, endpoint, node->iteration, 0, sim->count, node->tensors.grads,
                            verdict->grad_scale, node->tensors.params);
    uint64_t update_ns = (uint64_t)(sim->asked.compute.update_ms * 1e6);
    node->gradients++;
    node->total_compute_ns += node->compute_ns + update_ns;
    shoali_sim_at(sim, sim->now_ns + update_ns, SHOALI_SIM_AFTER, endpoint, 0, 0);
}

static void tell_iteration(const shoal_sim *sim, uint32_t endpoint, const shoal_verdict *verdict)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    const shoali_sim_iteration it = {.began_ns = node->began_ns,
                                     .computed_ns = node->began_ns + node->compute_ns,
                                     .updates_ns = node->updated_ns,
                                     .updated_ns = node->asked_ns,
                                     .ended_ns = sim->now_ns,
                                     .next = verdict->stop ? node->iteration + 1
                                                           : verdict->iteration,
                                     .skipped = node->skipped};
    if (sim->told.keeper.iteration != NULL && endpoint < sim->workers)
        sim->told.keeper.iteration(sim->told.keeper.ctx, endpoint, &it);
}

static void next_iteration(shoal_sim *sim, uint32_t endpoint, const shoal_verdict *verdict)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    node->done = verdict->iteration; /* a machine may have left some out */
    shoali_sim_report_step(sim, false);
    if (node->done < shoali_sim_limit(sim)) {
        begin_iteration(sim, endpoint, verdict->iteration);
        record_gap(sim);
        return;
    }
    node->iteration = node->done;
    node->phase = SHOALI_SIM_FINISHING;
    shoali_sim_at(sim, sim->now_ns, SHOALI_SIM_FINISH, endpoint, 0, 0);
}

static void finished(shoal_sim *sim, uint32_t endpoint)
{
    sim->nodes[endpoint].phase = SHOALI_SIM_STOPPING;
    shoali_sim_at(sim, sim->now_ns, SHOALI_SIM_STOP, endpoint, 0, 0);
}

static void go(shoal_sim *sim, uint32_t endpoint, const shoal_verdict *verdict)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    bool waits = node->phase == SHOALI_SIM_IN_BEFORE || node->phase == SHOALI_SIM_IN_AFTER;
    if (waits) {
        node->idle_ns += sim->now_ns - node->asked_ns;
        if (endpoint < sim->workers)
            shoali_sim_report_wait(sim, endpoint);
    }
    sim->progress_ns = sim->now_ns;
    if (node->phase == SHOALI_SIM_IN_AFTER)
        tell_iteration(sim, endpoint, verdict);
    if (verdict->stop) {
        node->done += node->phase == SHOALI_SIM_IN_AFTER && node->done < sim->iterations;
        bool through = node->done >= sim->iterations || endpoint >= sim->workers;
        (void)shoali_sim_rests(sim, endpoint, SHOAL_OK);
        end_node(sim, endpoint, through ? SHOAL_SIM_DONE : SHOAL_SIM_STOPPED);
        leave_politely(sim, endpoint, member_ended);
    } else if (node->phase == SHOALI_SIM_IN_BEFORE) {
        update(sim, endpoint, verdict);
    } else if (node->phase == SHOALI_SIM_IN_AFTER) {
        next_iteration(sim, endpoint, verdict);
    } else if (node->phase == SHOALI_SIM_FINISHING) {
        finished(sim, endpoint);
    } else if (node->phase != SHOALI_SIM_STOPPING) { /* a late answer to one who wants to leave */
        shoali_sim_break(sim, shoali_fail(SHOAL_EINTERNAL,
                                          "the protocol said GO to endpoint %u, "
                                          "which waits for nothing",
                                          endpoint));
    }
}

/* ---------------------------------------------------------------- actions */

/* Long messages travel in memory of their own; a: the bytes or that memory, b: length, sender. */
static void send_one(shoal_sim *sim, uint32_t endpoint, uint32_t to, uint64_t at_ns,
                     const shoali_action *action)
{
    uint64_t a = 0, len = action->send.len_bytes;
    if (len <= INLINE_BYTES) {
        memcpy(&a, action->send.bytes, len);
    } else {
        uint8_t *copy = shoali_alloc(len);
        if (copy == NULL) {
            shoali_sim_break(sim, SHOAL_ENOMEM);
            return;
        }
        memcpy(copy, action->send.bytes, len);
        a = (uint64_t)(uintptr_t)copy;
    }
    shoali_sim_at(sim, at_ns, SHOALI_SIM_MESSAGE, to, a, len << 32 | endpoint);
}

static void send(shoal_sim *sim, uint32_t endpoint, const shoali_action *action)
{
    uint32_t to = action->send.peer;
    if (action->send.len_bytes > UINT32_MAX / 2) {
        shoali_sim_break(
            sim, shoali_fail(SHOAL_EINTERNAL, "a message of %zu bytes", action->send.len_bytes));
        return;
    }
    if (to != SHOALI_EVERYBODY && to >= sim->size)
        return;
    if (sim->test.on_send != NULL)
        sim->test.on_send(sim->test.ctx, endpoint, to);
    if (shoali_sim_wire_plain(sim)) {
        send_one(sim, endpoint, to, sim->now_ns + sim->latency_ns, action);
        return;
    }
    uint32_t first = to == SHOALI_EVERYBODY ? 0 : to;
    uint32_t end = to == SHOALI_EVERYBODY ? sim->size : to + 1;
    for (uint32_t i = first; i < end; i++)
        if (i != endpoint || to == endpoint)
            send_one(sim, endpoint, i, shoali_sim_arrival_ns(sim, endpoint, i), action);
}

/* A timer is one event; setting it again makes the earlier one stale. */
static void set_timer(shoal_sim *sim, uint32_t endpoint, uint64_t id, uint64_t at_us)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    uint32_t i = 0;
    while (i < node->timer_count && node->timers[i].id != id)
        i++;
    if (i == node->timer_capacity) {
        uint32_t capacity = i > 0 ? 2 * i : 4;
        shoali_sim_timer *grown = shoali_realloc(node->timers, i * sizeof *grown,
                                                 capacity * sizeof *grown);
        if (grown == NULL) {
            shoali_sim_break(sim, SHOAL_ENOMEM);
            return;
        }
        node->timers = grown;
        node->timer_capacity = capacity;
    }
    if (i == node->timer_count)
        node->timers[node->timer_count++].id = id;
    node->timers[i].generation++;
    if (at_us == UINT64_MAX)
        return;
    uint64_t at_ns = at_us > UINT64_MAX / 1000 ? UINT64_MAX - 1 : at_us * 1000;
    shoali_sim_at(sim, at_ns > sim->now_ns ? at_ns : sim->now_ns, SHOALI_SIM_TIMER, endpoint, i,
                  node->timers[i].generation);
}

static void apply(shoal_sim *sim, uint32_t endpoint, const shoali_action *action)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    size_t offset = action->apply.offset, count = action->apply.count;
    if (!sim->numbers)
        return;
    float *grads = shoali_tensor_memory(&node->tensors, action->apply.tensor, offset, count);
    if (grads == NULL) {
        shoali_sim_break(sim, SHOAL_EINTERNAL);
        return;
    }
    shoali_sim_optimise(sim, endpoint, action->apply.iteration, offset, count, grads,
                        action->apply.scale, grads);
    memcpy(node->tensors.params + offset, grads, count * sizeof *grads);
}

static void act(shoal_sim *sim, uint32_t endpoint, const shoali_action *action)
{
    switch (action->kind) {
    case SHOALI_ACT_SEND:
        send(sim, endpoint, action);
        break;
    case SHOALI_ACT_OP:
        shoali_sim_op_enter(sim, endpoint, &action->op);
        break;
    case SHOALI_ACT_CANCEL:
        shoali_sim_op_cancel(sim, endpoint, action->cancel.id);
        break;
    case SHOALI_ACT_HURRY:
        shoali_sim_op_hurry(sim, action->hurry.id);
        break;
    case SHOALI_ACT_MIX:
        if (sim->numbers)
            shoali_sim_break(sim, shoali_tensors_mix(&sim->nodes[endpoint].tensors, action));
        break;
    case SHOALI_ACT_APPLY:
        apply(sim, endpoint, action);
        break;
    case SHOALI_ACT_GO:
        go(sim, endpoint, &action->go);
        break;
    case SHOALI_ACT_TIMER:
        set_timer(sim, endpoint, action->timer.id, action->timer.at_us);
        break;
    case SHOALI_ACT_FAIL:
        fail_node(sim, endpoint, action->fail.status, action->fail.text);
        break;
    }
}

/* ---------------------------------------------------------------- events */

static void fault(shoal_sim *sim, uint32_t endpoint, uint32_t what);

static void log_event(shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    uint64_t words[4] = {sim->now_ns, (uint64_t)event->kind << 32 | endpoint, 0, 0};
    if (event->kind == SHOALI_EV_OP_DONE) {
        words[2] = event->op.id;
        words[3] = (uint64_t)event->op.status;
    } else if (event->kind == SHOALI_EV_READY) {
        words[2] = event->range.offset;
        words[3] = event->range.count;
    } else if (event->kind == SHOALI_EV_MESSAGE) {
        words[2] = event->message.peer;
        words[3] = shoali_hash(event->message.bytes, event->message.len_bytes, 0);
    }
    for (int i = 0; i < 4; i++)
        sim->report.results.log_hash = shoali_mix(sim->report.results.log_hash, words[i]);
}

/* Feed a machine, then carry out everything it asks for. */
static void feed(shoal_sim *sim, uint32_t endpoint, shoali_event *event)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    const shoali_action *action;
    if (node->phase >= SHOALI_SIM_RESTING || sim->status != SHOAL_OK)
        return;
    if (sim->report.results.events == sim->test.inject_at) {
        sim->test.inject_at = UINT64_MAX;
        fault(sim, sim->test.inject_endpoint, sim->test.inject_fault);
        if (node->phase == SHOALI_SIM_ENDED)
            return;
    }
    event->now_us = sim->now_ns / 1000;
    sim->report.results.events++;
    log_event(sim, endpoint, event);
    shoali_sim_report_event(sim, endpoint, event);
    if (sim->test.on_event != NULL)
        sim->test.on_event(sim->test.ctx, sim, endpoint, event);
    shoali_sim_break(sim, sim->protocol.row->on_event(node->state, event, &node->actions));
    if (node->actions.status != SHOAL_OK)
        shoali_sim_break(sim, node->actions.status);
    while (sim->status == SHOAL_OK && (action = shoali_actions_front(&node->actions)) != NULL) {
        shoali_action copy = *action; /* the payload stays where it is until the pop */
        act(sim, endpoint, &copy);
        shoali_actions_pop(&node->actions);
    }
}

void shoali_sim_op_done(shoal_sim *sim, uint32_t endpoint, uint64_t id, shoal_status status,
                        const char *text)
{
    feed(sim, endpoint, &(shoali_event){.kind = SHOALI_EV_OP_DONE, .op = {id, status, text}});
}

static void on_ready(shoal_sim *sim, uint32_t endpoint, uint32_t tensor)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    const shoal_tensor *t = &sim->tensors[tensor];
    if (node->phase != SHOALI_SIM_COMPUTING)
        return;
    shoali_sim_gradient(sim, endpoint, tensor);
    feed(sim, endpoint, &(shoali_event){.kind = SHOALI_EV_READY, .range = {t->offset, t->count}});
    if (node->phase != SHOALI_SIM_COMPUTING)
        return;
    if (tensor > 0)
        shoali_sim_at(sim, ready_ns(sim, node, tensor - 1), SHOALI_SIM_READY, endpoint, tensor - 1,
                      0);
    else
        shoali_sim_at(sim, node->began_ns + node->compute_ns, SHOALI_SIM_BEFORE, endpoint, 0, 0);
}

static void ask(shoal_sim *sim, uint32_t endpoint, shoali_sim_phase from, shoali_sim_phase to,
                shoali_event_kind kind)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    if (node->phase != from)
        return;
    node->phase = to;
    node->asked_ns = sim->now_ns;
    feed(sim, endpoint, &(shoali_event){.kind = kind});
}

static void on_message(shoal_sim *sim, const shoali_sim_event *event)
{
    uint32_t from = (uint32_t)event->b;
    size_t len = (size_t)(event->b >> 32);
    uint8_t *own = len > INLINE_BYTES ? (uint8_t *)(uintptr_t)event->a : NULL;
    shoali_event message = {.kind = SHOALI_EV_MESSAGE,
                            .message = {from, own != NULL ? own : (const uint8_t *)&event->a, len}};
    sim->report.cause = from;
    sim->report.cause_ns = sim->now_ns;
    if (event->endpoint != SHOALI_EVERYBODY && event->endpoint < sim->size)
        feed(sim, event->endpoint, &message);
    for (uint32_t i = 0; event->endpoint == SHOALI_EVERYBODY && i < sim->size; i++)
        if (i != from)
            feed(sim, i, &message);
    sim->report.cause = SHOALI_SIM_NO_CAUSE;
    shoali_free(own);
}

/* Everybody's connection to an endpoint ends, by itself or by the watchdog. */
static void notice(shoal_sim *sim, uint32_t endpoint)
{
    const char *why = "its connections ended without a goodbye";
    shoali_event event = {.kind = SHOALI_EV_PEER_DOWN, .down = {endpoint, why, SHOALI_DOWN_DEAD}};
    shoali_sim_lost(sim);
    for (uint32_t i = 0; i < sim->size; i++)
        if (i != endpoint)
            feed(sim, i, &event);
    leave(sim, endpoint, why);
}

/* Protocols that go on without a worker hear of its goodbye, too, as on real processes. */
static void goodbye(shoal_sim *sim, uint32_t endpoint)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    const char *why = node->end == SHOAL_SIM_FAILED ? node->text : member_ended;
    shoali_event event = {.kind = SHOALI_EV_PEER_DOWN, .down = {endpoint, why, SHOALI_DOWN_LEFT}};
    for (uint32_t i = 0; (sim->protocol.traits & SHOALI_SYNC_SURVIVES) != 0 && i < sim->size; i++)
        if (i != endpoint)
            feed(sim, i, &event);
    leave(sim, endpoint, why);
}

static void fault(shoal_sim *sim, uint32_t endpoint, uint32_t what)
{
    if (endpoint < sim->size && what == SHOALI_SIM_REJOIN)
        shoali_sim_rejoin(sim, endpoint);
    if (endpoint >= sim->size || sim->nodes[endpoint].phase == SHOALI_SIM_ENDED ||
        what == SHOALI_SIM_REJOIN)
        return;
    if (sim->nodes[endpoint].phase == SHOALI_SIM_RESTING) {
        end_node(sim, endpoint, what == SHOALI_SIM_LEAVE ? SHOAL_SIM_STOPPED : SHOAL_SIM_DEAD);
        return;
    }
    if (what == SHOALI_SIM_LEAVE) {
        sim->nodes[endpoint].leaves = true;
        sim->nodes[endpoint].phase = SHOALI_SIM_STOPPING;
        shoali_sim_at(sim, sim->now_ns, SHOALI_SIM_STOP, endpoint, 0, 0);
        return;
    }
    uint64_t silence_ns = sim->now_ns + (uint64_t)(sim->asked.faults.detect_ms * 1e6);
    uint64_t word_ns = shoali_sim_last_word_ns(sim, endpoint);
    end_node(sim, endpoint, SHOAL_SIM_DEAD);
    shoali_sim_ops_hang(sim, endpoint);
    shoali_sim_at(sim, what == SHOALI_SIM_DIE || word_ns > silence_ns ? word_ns : silence_ns,
                  SHOALI_SIM_NOTICE, endpoint, 0, 0);
}

/* What no machine is told as it happens. */
static void handle_world(shoal_sim *sim, const shoali_sim_event *event)
{
    if (event->kind == SHOALI_SIM_CUT)
        shoali_sim_ops_recut(sim);
    else if (event->kind == SHOALI_SIM_RATE)
        shoali_sim_rates_change(sim, (uint32_t)event->a);
    else if (event->kind == SHOALI_SIM_KNOCK)
        shoali_sim_knock(sim, event->endpoint);
    else if (event->kind == SHOALI_SIM_EPOCH)
        shoali_sim_begin_epoch(sim);
    else if (event->kind == SHOALI_SIM_MOVE)
        shoali_sim_op_move(sim, (uint32_t)event->a, (uint32_t)event->b);
    else if (event->kind == SHOALI_SIM_MOVED)
        shoali_sim_op_arrived(sim, (uint32_t)event->a, (uint32_t)event->b);
    else if (event->kind == SHOALI_SIM_GOODBYE)
        goodbye(sim, event->endpoint);
}

void shoali_sim_handle(shoal_sim *sim, const shoali_sim_event *event)
{
    uint32_t endpoint = event->endpoint;
    switch (event->kind) {
    case SHOALI_SIM_READY:
        on_ready(sim, endpoint, (uint32_t)event->a);
        break;
    case SHOALI_SIM_BEFORE:
        shoali_sim_report_compute(sim, endpoint);
        ask(sim, endpoint, SHOALI_SIM_COMPUTING, SHOALI_SIM_IN_BEFORE, SHOALI_EV_BEFORE);
        break;
    case SHOALI_SIM_AFTER:
        ask(sim, endpoint, SHOALI_SIM_UPDATING, SHOALI_SIM_IN_AFTER, SHOALI_EV_AFTER);
        break;
    case SHOALI_SIM_FINISH:
        if (sim->nodes[endpoint].phase != SHOALI_SIM_FINISHING)
            break;
        if (!sim->epoch.turning)
            shoali_sim_test_worker(sim, endpoint);
        feed(sim, endpoint, &(shoali_event){.kind = SHOALI_EV_FINISH});
        break;
    case SHOALI_SIM_STOP:
        feed(sim, endpoint, &(shoali_event){.kind = SHOALI_EV_STOP});
        break;
    case SHOALI_SIM_MESSAGE:
        on_message(sim, event);
        break;
    case SHOALI_SIM_TIMER:
        if (sim->nodes[endpoint].timers[event->a].generation == event->b)
            feed(sim, endpoint,
                 &(shoali_event){.kind = SHOALI_EV_TIMER,
                                 .timer = {sim->nodes[endpoint].timers[event->a].id}});
        break;
    case SHOALI_SIM_TELL:
        shoali_sim_op_tell(sim, endpoint, (uint32_t)event->a, (uint32_t)event->b);
        break;
    case SHOALI_SIM_FAULT:
        fault(sim, endpoint, (uint32_t)event->a);
        break;
    case SHOALI_SIM_NOTICE:
        notice(sim, endpoint);
        break;
    default:
        handle_world(sim, event);
        break;
    }
}

void shoali_sim_message_free(const shoali_sim_event *event)
{
    if (event->kind == SHOALI_SIM_MESSAGE && event->b >> 32 > INLINE_BYTES)
        shoali_free((void *)(uintptr_t)event->a);
}

void shoali_sim_messages_fini(shoal_sim *sim)
{
    while (shoali_sim_peek(&sim->queue) != NULL) {
        const shoali_sim_event event = shoali_sim_pop(&sim->queue);
        shoali_sim_message_free(&event);
    }
}

/* ---------------------------------------------------------------- the start */

static void plan_faults(shoal_sim *sim, const shoali_sim_list *list, uint32_t what)
{
    for (uint32_t i = 0; i < list->count; i++)
        shoali_sim_at(sim, (uint64_t)(list->items[i].value * 1e9), SHOALI_SIM_FAULT,
                      list->items[i].index, what, 0);
}

void shoali_sim_begin_endpoint(shoal_sim *sim, uint32_t endpoint)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    node->phase = endpoint < sim->workers ? SHOALI_SIM_COMPUTING : SHOALI_SIM_SERVING;
    feed(sim, endpoint, &(shoali_event){.kind = SHOALI_EV_START, .world = &node->world});
    if (node->phase == SHOALI_SIM_COMPUTING)
        begin_iteration(sim, endpoint, node->world.iteration);
}

void shoali_sim_tell_lost(shoal_sim *sim, uint32_t endpoint, uint32_t lost)
{
    feed(sim, endpoint,
         &(shoali_event){.kind = SHOALI_EV_PEER_DOWN,
                         .down = {lost, "it is not there", SHOALI_DOWN_DEAD}});
}

shoal_status shoali_sim_start(shoal_sim *sim)
{
    shoali_sim_report_step(sim, true);
    plan_faults(sim, &sim->asked.faults.die, SHOALI_SIM_DIE);
    plan_faults(sim, &sim->asked.faults.stop, SHOALI_SIM_FREEZE);
    plan_faults(sim, &sim->asked.faults.leave, SHOALI_SIM_LEAVE);
    plan_faults(sim, &sim->asked.faults.rejoin, SHOALI_SIM_REJOIN);
    shoali_sim_plan_cuts(sim);
    shoali_sim_rates_plan(sim);
    for (uint32_t i = 0; i < sim->size && sim->status == SHOAL_OK; i++)
        shoali_sim_begin_endpoint(sim, i);
    return sim->status;
}
