/* SPDX-License-Identifier: Apache-2.0 */
/* Local SGD: every worker steps on its own gradients, and every few iterations all average their
 * parameters. The example of docs/add-sync.md.
 *
 *             COMPUTE                         AVERAGING (op open)              LEAVING (op open)
 *   BEFORE    GO(apply, own gradient)         .                                .
 *   AFTER     due: copy, OP -> AVERAGING      .                                .
 *             else GO(next)
 *   OP_DONE   .                               PARAM = sum / N, GO -> COMPUTE   GO(stop)
 *   FINISH    GO                              .                                .
 *   STOP      GO(stop)                        CANCEL -> LEAVING                .
 */
#include "support/example_sync.h"

typedef struct params {
    int64_t every;
} params;

static const shoali_key keys[] = {
    {"every", SHOALI_KEY_INT, offsetof(params, every), 1, 1 << 20, NULL, "4",
     "iterations from one averaging to the next"},
};

typedef struct machine {
    const shoali_world *world;
    uint64_t iteration;
    bool open, leaving;
} machine;

static size_t state_size(const shoali_world *world)
{
    (void)world;
    return sizeof(machine);
}

static uint32_t slots(const shoali_world *world)
{
    (void)world;
    return 1; /* what travels: PARAM itself may not change while the operation runs */
}

static uint32_t max_staleness(const void *any)
{
    return (uint32_t)(((const params *)any)->every - 1);
}

static void after(machine *m, shoali_actions *actions)
{
    const params *p = m->world->params;
    const shoali_mix_term param = {SHOALI_PARAM, 1};
    m->iteration++;
    if (m->iteration % (uint64_t)p->every != 0) {
        shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration});
        return;
    }
    shoali_act_mix(actions, SHOALI_SLOT, 0, m->world->count, &param, 1);
    shoali_act_op(actions, &(shoali_sync_op){.id = m->iteration,
                                             .tensor = SHOALI_SLOT,
                                             .count = m->world->count,
                                             .iteration = m->iteration - 1});
    m->open = true;
}

static void op_done(machine *m, const shoali_event *event, shoali_actions *actions)
{
    const shoali_mix_term mean = {SHOALI_SLOT, 1.0f / (float)m->world->workers};
    bool stop = m->leaving || event->op.status == SHOAL_ECANCELLED;
    m->open = false;
    if (!stop && event->op.status != SHOAL_OK) {
        shoali_act_fail(actions, event->op.status, -1, "%s", event->op.text);
        return;
    }
    if (!stop)
        shoali_act_mix(actions, SHOALI_PARAM, 0, m->world->count, &mean, 1);
    shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration, .stop = stop});
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    machine *m = state;
    switch (event->kind) {
    case SHOALI_EV_START:
        m->world = event->world;
        m->iteration = event->world->iteration;
        break;
    case SHOALI_EV_BEFORE:
        shoali_act_go(actions,
                      &(shoal_verdict){.apply = true, .grad_scale = 1, .iteration = m->iteration});
        break;
    case SHOALI_EV_AFTER:
        after(m, actions);
        break;
    case SHOALI_EV_OP_DONE:
        op_done(m, event, actions);
        break;
    case SHOALI_EV_PEER_DOWN:
        shoali_act_fail(actions, SHOAL_EPEER, (int32_t)event->down.peer, "worker %u was lost: %s",
                        event->down.peer, event->down.text);
        break;
    case SHOALI_EV_FINISH:
        shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration});
        break;
    case SHOALI_EV_STOP:
        m->leaving = true;
        if (m->open)
            shoali_act_cancel(actions, m->iteration);
        else
            shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration, .stop = true});
        break;
    default: /* READY: nothing travels before the averaging; no messages, no timers */
        break;
    }
    return SHOAL_OK;
}

const shoali_sync_row example_sync_averaging = {
    .name = "averaging",
    .paper = "McMahan et al., AISTATS 2017, without sampling of clients",
    .traits = SHOALI_SYNC_MEAN,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .state_size = state_size,
    .slots = slots,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
