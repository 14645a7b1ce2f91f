/* SPDX-License-Identifier: Apache-2.0 */
/*             COMPUTE, ENDED              UPDATE      WANTS (own lock)     ASKED (has it)
 *   BEFORE    lock free: GO -> UPDATE     .           .                    .
 *   AFTER     .                           -> WANTS    .                    .
 *   LOCK j    lock free: GRANT, average   in line     in line              in line for ever?
 *   GRANT     .                           .           .                    average
 *   OP_DONE   the other's: lock free      .           the other's: free    own: GO -> COMPUTE
 *
 * WANTS becomes ASKED, and sends LOCK, as soon as the lock is free. */
#include "support/naive_pairs.h"

#include "base/rng.h"
#include "sync/graph.h"

enum { GRANT = 2, OVER = 3, MOST = 16, STREAM_PARTNER = 0x6164 };
typedef enum phase { COMPUTE, UPDATE, WANTS, ASKED, ENDED } phase;

typedef struct params {
    char graph[SHOALI_KEY_TEXT_BYTES];
    bool all;
} params;

static const shoali_key keys[] = {
    {"graph", SHOALI_KEY_TEXT, offsetof(params, graph), 0, 0, NULL, "ring", "as ad_psgd's"},
    {"all", SHOALI_KEY_FLAG, offsetof(params, all), 0, 0, NULL, "off", "every worker asks"},
};

typedef struct machine {
    const shoali_world *world;
    uint32_t neighbours[MOST], degree;
    uint64_t line[MOST]; /* number of the average that this worker waits for; 0: it does not */
    phase phase;
    bool before, locked;
    uint32_t target, over;
    uint64_t iteration, number, op;
} machine;

static size_t state_size(const shoali_world *world)
{
    (void)world;
    return sizeof(machine);
}

static uint32_t slots(const shoali_world *world)
{
    (void)world;
    return 1; /* what travels */
}

static uint32_t max_staleness(const void *any)
{
    (void)any;
    return SHOALI_STALENESS_UNBOUNDED;
}

static void say(uint32_t peer, uint8_t kind, uint64_t number, shoali_actions *actions)
{
    uint8_t bytes[NAIVE_MESSAGE_BYTES] = {kind};
    for (int i = 1; i < NAIVE_MESSAGE_BYTES; i++)
        bytes[i] = (uint8_t)(number >> (8 * (i - 1)));
    shoali_act_send(actions, peer, bytes, sizeof bytes);
}

static void average(machine *m, uint32_t initiator, uint32_t other, uint64_t number,
                    shoali_actions *actions)
{
    const uint32_t members[2] = {initiator, other};
    const shoali_mix_term param = {SHOALI_PARAM, 1};
    m->op = (uint64_t)initiator << 32 | number;
    shoali_act_mix(actions, SHOALI_SLOT, 0, m->world->count, &param, 1);
    shoali_act_op(actions, &(shoali_sync_op){.id = m->op,
                                             .members = members,
                                             .member_count = 2,
                                             .contributors = 2,
                                             .tensor = SHOALI_SLOT,
                                             .count = m->world->count,
                                             .patient = true,
                                             .iteration = m->iteration});
}

static void go_on(machine *m, shoali_actions *actions)
{
    m->phase = COMPUTE;
    m->iteration++;
    shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration});
}

static void ask(machine *m, shoali_actions *actions)
{
    const params *p = m->world->params;
    if (!p->all && m->world->me % 2 == 0) {
        go_on(m, actions);
        return;
    }
    m->number++;
    m->target = m->neighbours[shoali_rng_below(
        m->world->seed, shoali_mix(STREAM_PARTNER, m->world->me), m->number, m->degree)];
    m->phase = ASKED;
    m->locked = true;
    say(m->target, NAIVE_LOCK, m->number, actions);
}

/* The lock may be free: first one's own business, then the others'. */
static void proceed(machine *m, shoali_actions *actions)
{
    if (m->locked)
        return;
    if (m->phase == WANTS)
        ask(m, actions);
    if (m->before) {
        m->before = false;
        m->phase = UPDATE;
        shoali_act_go(actions,
                      &(shoal_verdict){.apply = true, .grad_scale = 1, .iteration = m->iteration});
    }
    for (uint32_t j = 0; j < m->world->workers; j++)
        if (!m->locked && m->line[j] > 0 && m->phase != UPDATE) {
            m->locked = true;
            say(j, GRANT, m->line[j], actions);
            average(m, j, m->world->me, m->line[j], actions);
            m->line[j] = 0;
        }
    if (m->phase == ENDED && !m->locked && m->over == m->world->workers) {
        m->over++;
        shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration});
    }
}

static void on_message(machine *m, const shoali_event *event, shoali_actions *actions)
{
    const uint8_t *bytes = event->message.bytes;
    uint64_t number = 0;
    for (int i = 1; i < NAIVE_MESSAGE_BYTES; i++)
        number |= (uint64_t)bytes[i] << (8 * (i - 1));
    if (bytes[0] == NAIVE_LOCK)
        m->line[event->message.peer] = number;
    else if (bytes[0] == GRANT)
        average(m, m->world->me, m->target, number, actions);
    else
        m->over++;
}

static void op_done(machine *m, const shoali_event *event, shoali_actions *actions)
{
    const shoali_mix_term half = {SHOALI_SLOT, 0.5f};
    if (event->op.status != SHOAL_OK) {
        shoali_act_fail(actions, event->op.status, -1, "%s", event->op.text);
        return;
    }
    shoali_act_mix(actions, SHOALI_PARAM, 0, m->world->count, &half, 1);
    m->locked = false;
    if (m->op >> 32 == m->world->me && m->phase == ASKED)
        go_on(m, actions);
}

static void finish(machine *m, shoali_actions *actions)
{
    m->phase = ENDED;
    m->over++;
    for (uint32_t j = 0; j < m->world->workers; j++)
        if (j != m->world->me)
            say(j, OVER, 0, actions);
}

static shoal_status start(machine *m, const shoali_world *world)
{
    const params *p = world->params;
    m->world = world;
    if (world->workers > MOST)
        return SHOAL_EINVAL;
    return shoali_graph_neighbours(p->graph, world->workers, world->me, m->neighbours, &m->degree);
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    machine *m = state;
    if (event->kind == SHOALI_EV_START)
        return start(m, event->world);
    if (event->kind == SHOALI_EV_BEFORE)
        m->before = true;
    else if (event->kind == SHOALI_EV_AFTER)
        m->phase = WANTS;
    else if (event->kind == SHOALI_EV_MESSAGE)
        on_message(m, event, actions);
    else if (event->kind == SHOALI_EV_OP_DONE)
        op_done(m, event, actions);
    else if (event->kind == SHOALI_EV_FINISH)
        finish(m, actions);
    else if (event->kind == SHOALI_EV_STOP)
        shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration, .stop = true});
    proceed(m, actions);
    return SHOAL_OK;
}

uint32_t naive_pairs_waits_for(const void *state)
{
    const machine *m = state;
    return m->phase == ASKED ? m->target : UINT32_MAX;
}

const shoali_sync_row naive_pairs = {
    .name = "naive_pairs",
    .paper = "none: what Lian et al., ICML 2018, warn of",
    .traits = SHOALI_SYNC_MEAN,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .state_size = state_size,
    .slots = slots,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
