/* SPDX-License-Identifier: Apache-2.0 */
#include "support/toy_sync.h"

#include <string.h>

enum { TIMER_AGAIN = 1, TIMER_NEVER = 2 };

static size_t state_size(const shoali_world *world)
{
    (void)world;
    return sizeof(toy_state);
}

static uint32_t slots(const shoali_world *world)
{
    (void)world;
    return 2;
}

static uint32_t max_staleness(const void *params)
{
    (void)params;
    return 0;
}

static uint64_t pair_op(const toy_state *t)
{
    return 2 * (t->iteration * t->world->workers + t->world->me / 2);
}

static uint64_t broadcast_op(const toy_state *t)
{
    return 2 * t->iteration + 1;
}

static void start(toy_state *t, const shoali_event *event, shoali_actions *actions)
{
    t->world = event->world;
    t->started_us = event->now_us;
    shoali_act_timer(actions, TIMER_AGAIN, event->now_us + 3000);
    shoali_act_timer(actions, TIMER_NEVER, event->now_us + 2000);
    shoali_act_timer(actions, TIMER_AGAIN, event->now_us + 1000);
    shoali_act_timer(actions, TIMER_NEVER, UINT64_MAX);
}

static void before(toy_state *t, shoali_actions *actions)
{
    const uint32_t me = t->world->me, pair[] = {me & ~1u, me | 1};
    if (pair[1] >= t->world->workers) {
        shoali_act_go(actions, &(shoal_verdict){.iteration = t->iteration});
        return;
    }
    t->open = true;
    shoali_act_op(actions, &(shoali_sync_op){.id = pair_op(t),
                                             .members = pair,
                                             .member_count = 2,
                                             .contributors = 2,
                                             .tensor = SHOALI_SLOT + 1,
                                             .count = t->world->count,
                                             .iteration = t->iteration});
}

static void after(toy_state *t, shoali_actions *actions)
{
    const shoali_mix_term param = {SHOALI_PARAM, 1};
    uint8_t message[TOY_MESSAGE_BYTES];
    if (t->world->me == 0) {
        shoali_act_apply(actions, SHOALI_GRAD, 0, t->world->count, t->iteration, 1);
        shoali_act_mix(actions, SHOALI_SLOT, 0, t->world->count, &param, 1);
    } else {
        memset(message, (int)t->world->me, sizeof message);
        shoali_act_send(actions, 0, message, sizeof message);
    }
    t->open = true;
    shoali_act_op(actions, &(shoali_sync_op){.id = broadcast_op(t),
                                             .kind = SHOALI_SYNC_BROADCAST,
                                             .tensor = SHOALI_SLOT,
                                             .count = t->world->count,
                                             .iteration = t->iteration});
}

static void op_done(toy_state *t, const shoali_event *event, shoali_actions *actions)
{
    const shoali_mix_term halves[] = {{SHOALI_SLOT, 0.5f}, {SHOALI_SLOT, 0.5f}};
    const shoal_verdict stop = {.stop = true};
    t->open = false;
    if (t->leaving || event->op.status == SHOAL_ECANCELLED) {
        shoali_act_go(actions, &stop);
    } else if (event->op.status != SHOAL_OK) {
        shoali_act_fail(actions, event->op.status, -1, "%s", event->op.text);
    } else if (event->op.id % 2 == 0) {
        shoali_act_go(actions, &(shoal_verdict){.iteration = t->iteration});
    } else {
        shoali_act_mix(actions, SHOALI_PARAM, 0, t->world->count, halves, 2);
        t->iteration++;
        shoali_act_go(actions, &(shoal_verdict){.iteration = t->iteration});
    }
}

static void message(toy_state *t, const shoali_event *event)
{
    t->messages++;
    t->broken += event->message.len_bytes != TOY_MESSAGE_BYTES || t->world->me != 0;
    for (size_t i = 0; i < event->message.len_bytes; i++)
        t->broken += event->message.bytes[i] != event->message.peer;
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    toy_state *t = state;
    if (event->kind == SHOALI_EV_START)
        start(t, event, actions);
    else if (event->kind == SHOALI_EV_BEFORE)
        before(t, actions);
    else if (event->kind == SHOALI_EV_AFTER)
        after(t, actions);
    else if (event->kind == SHOALI_EV_OP_DONE)
        op_done(t, event, actions);
    else if (event->kind == SHOALI_EV_MESSAGE)
        message(t, event);
    else if (event->kind == SHOALI_EV_PEER_DOWN)
        shoali_act_fail(actions, SHOAL_EPEER, (int32_t)event->down.peer, "%s", event->down.text);
    else if (event->kind == SHOALI_EV_TIMER) {
        t->timers++;
        t->broken += event->timer.id != TIMER_AGAIN;
        t->timer_us = event->now_us;
    } else if (event->kind == SHOALI_EV_FINISH) {
        shoali_act_go(actions, &(shoal_verdict){.iteration = t->iteration});
    } else if (event->kind == SHOALI_EV_STOP) {
        t->leaving = true;
        if (t->open)
            shoali_act_cancel(actions, t->iteration * 2 + 1);
        else
            shoali_act_go(actions, &(shoal_verdict){.stop = true});
    }
    return SHOAL_OK;
}

const shoali_sync_row toy_sync = {
    .name = "toy",
    .paper = "none",
    .traits = SHOALI_SYNC_EXACT | SHOALI_SYNC_OWNER,
    .state_size = state_size,
    .slots = slots,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
