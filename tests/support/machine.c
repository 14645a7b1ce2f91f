/* SPDX-License-Identifier: Apache-2.0 */
#include "support/machine.h"

#include "base/arena.h"
#include "support/check.h"

static void open_world(machine *m, uint32_t workers, uint32_t servers, uint32_t me,
                       uint32_t tensor_count)
{
    assert_true(workers + servers <= MACHINE_MAX && tensor_count <= MACHINE_MAX);
    for (uint32_t i = 0; i < MACHINE_MAX; i++) {
        m->endpoints[i] = i;
        m->hosts[i] = i;
        m->tensors[i] = (shoal_tensor){
            .key = i + 1, .offset = i * MACHINE_TENSOR, .count = MACHINE_TENSOR, .lr_scale = 1};
    }
    m->world = (shoali_world){.params = m->protocol.params,
                              .me = me,
                              .role = me < workers ? SHOALI_WORKER : SHOALI_SERVER,
                              .workers = workers,
                              .servers = servers,
                              .endpoints = m->endpoints,
                              .hosts = m->hosts,
                              .tensors = m->tensors,
                              .tensor_count = tensor_count,
                              .count = tensor_count * (size_t)MACHINE_TENSOR,
                              .bucket_elems = 2 * (size_t)MACHINE_TENSOR,
                              .seed = 1};
    m->state = shoali_alloc(m->protocol.row->state_size(&m->world));
    assert_non_null(m->state);
}

void machine_open(machine *m, const char *spec, uint32_t workers, uint32_t servers, uint32_t me,
                  uint32_t tensor_count)
{
    memset(m, 0, sizeof *m);
    assert_ok(shoali_sync_open(spec, &m->protocol));
    open_world(m, workers, servers, me, tensor_count);
}

void machine_open_row(machine *m, const shoali_sync_row *row, const char *spec, uint32_t workers,
                      uint32_t servers, uint32_t me, uint32_t tensor_count)
{
    memset(m, 0, sizeof *m);
    assert_ok(shoali_sync_open_row(row, spec, &m->protocol));
    open_world(m, workers, servers, me, tensor_count);
}

void machine_close(machine *m)
{
    shoali_actions_fini(&m->actions);
    shoali_free(m->state);
    shoali_sync_close(&m->protocol);
}

/* ---------------------------------------------------------------- actions as text */

static void append(machine *m, const char *format, ...) SHOAL_PRINTF(2, 3);

static void append(machine *m, const char *format, ...)
{
    size_t used = strlen(m->text);
    va_list args;
    va_start(args, format);
    int wrote = vsnprintf(m->text + used, sizeof m->text - used, format, args);
    va_end(args);
    assert_true(wrote >= 0 && (size_t)wrote < sizeof m->text - used);
}

static void append_tensor(machine *m, uint32_t tensor)
{
    static const char *const names[] = {"GRAD", "PARAM", "STATE"};
    if (tensor < SHOALI_SLOT)
        append(m, "%s", names[tensor]);
    else
        append(m, "SLOT%u", tensor - SHOALI_SLOT);
}

static void append_op(machine *m, const shoali_sync_op *op)
{
    append(m, "op %llu [%zu,%zu) ", (unsigned long long)op->id, op->offset, op->offset + op->count);
    append_tensor(m, op->tensor);
    for (uint32_t i = 0; op->members != NULL && i < op->member_count; i++)
        append(m, "%s%u", i == 0 ? " of " : ",", op->members[i]);
    append(m, "%s%s%s%s", op->push_coded ? " push" : "", op->pull_coded ? " pull" : "",
           op->owner_job ? " owner" : "", op->patient ? " patient" : "");
    if (op->collective != NULL)
        append(m, " %s", op->collective);
    if (op->within_us > 0)
        append(m, " within %llu", (unsigned long long)op->within_us);
}

static void append_mix(machine *m, const shoali_action *action)
{
    append(m, action->mix.judged ? "trust " : "mix ");
    append_tensor(m, action->mix.dst);
    append(m, " [%zu,%zu)", action->mix.offset, action->mix.offset + action->mix.count);
    for (uint32_t i = 0; i < action->mix.term_count; i++) {
        append(m, " %c %g*", i == 0 ? '=' : '+', (double)action->mix.terms[i].weight);
        append_tensor(m, action->mix.terms[i].tensor);
    }
}

static void append_go(machine *m, const shoal_verdict *go)
{
    const char *what = go->stop ? "stop" : go->skipped ? "skip" : go->apply ? "apply" : "hold";
    append(m, "go %s @%llu", what, (unsigned long long)go->iteration);
    if (go->grad_scale > 0)
        append(m, " /%g", 1 / (double)go->grad_scale);
}

static void append_action(machine *m, const shoali_action *action)
{
    switch (action->kind) {
    case SHOALI_ACT_SEND:
        if (action->send.peer == SHOALI_EVERYBODY)
            append(m, "send all ");
        else
            append(m, "send %u ", action->send.peer);
        for (size_t i = 0; i < action->send.len_bytes; i++)
            append(m, "%02x", action->send.bytes[i]);
        break;
    case SHOALI_ACT_OP:
        append_op(m, &action->op);
        break;
    case SHOALI_ACT_CANCEL:
        append(m, "cancel %llu", (unsigned long long)action->cancel.id);
        break;
    case SHOALI_ACT_HURRY:
        append(m, "hurry %llu", (unsigned long long)action->hurry.id);
        break;
    case SHOALI_ACT_MIX:
        append_mix(m, action);
        break;
    case SHOALI_ACT_APPLY:
        append(m, "apply ");
        append_tensor(m, action->apply.tensor);
        append(m, " [%zu,%zu) *%g", action->apply.offset,
               action->apply.offset + action->apply.count, (double)action->apply.scale);
        break;
    case SHOALI_ACT_GO:
        append_go(m, &action->go);
        break;
    case SHOALI_ACT_TIMER:
        append(m, "timer %llu @%llu", (unsigned long long)action->timer.id,
               (unsigned long long)action->timer.at_us);
        break;
    case SHOALI_ACT_FAIL:
        append(m, "fail %s r%d %s", shoal_status_name(action->fail.status), action->fail.peer,
               action->fail.text);
        break;
    }
}

const char *machine_feed(machine *m, const shoali_event *event)
{
    const shoali_action *action;
    assert_ok(m->protocol.row->on_event(m->state, event, &m->actions));
    assert_int_equal(m->actions.status, SHOAL_OK);
    m->text[0] = '\0';
    while ((action = shoali_actions_front(&m->actions)) != NULL) {
        append_action(m, action);
        shoali_actions_pop(&m->actions);
        if (shoali_actions_front(&m->actions) != NULL)
            append(m, "; ");
    }
    return m->text;
}

/* ---------------------------------------------------------------- events */

const char *machine_start(machine *m)
{
    return machine_feed(m, &(shoali_event){.kind = SHOALI_EV_START, .world = &m->world});
}

const char *machine_ready(machine *m, size_t offset, size_t count)
{
    return machine_feed(m, &(shoali_event){.kind = SHOALI_EV_READY, .range = {offset, count}});
}

const char *machine_event(machine *m, shoali_event_kind kind)
{
    return machine_feed(m, &(shoali_event){.kind = kind});
}

const char *machine_done(machine *m, uint64_t id, shoal_status status, const char *text)
{
    return machine_feed(m, &(shoali_event){.kind = SHOALI_EV_OP_DONE, .op = {id, status, text}});
}

const char *machine_message(machine *m, uint32_t peer, const void *bytes, size_t len_bytes)
{
    return machine_feed(
        m, &(shoali_event){.kind = SHOALI_EV_MESSAGE, .message = {peer, bytes, len_bytes}});
}

const char *machine_down(machine *m, uint32_t peer, const char *text)
{
    return machine_feed(
        m, &(shoali_event){.kind = SHOALI_EV_PEER_DOWN, .down = {peer, text, SHOALI_DOWN_LEFT}});
}

const char *machine_timer(machine *m, uint64_t id, uint64_t now_us)
{
    return machine_feed(m,
                        &(shoali_event){.kind = SHOALI_EV_TIMER, .now_us = now_us, .timer = {id}});
}
