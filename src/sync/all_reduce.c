/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous data-parallel training: the gradients of all workers are summed, bucket by bucket and
 * while the rest of the backward pass still runs; then everybody takes the same optimiser step.
 * State table: lockstep.c. */
#include "sync/lockstep.h"

static size_t state_size(const shoali_world *world)
{
    return sizeof(shoali_lockstep) + shoali_lockstep_bucket_bytes(world);
}

static uint32_t max_staleness(const void *params)
{
    (void)params;
    return 0;
}

static void start(shoali_lockstep *step, const shoali_world *world, shoali_actions *actions)
{
    const shoali_sync_op op = {.tensor = SHOALI_GRAD,
                               .kind = SHOALI_SYNC_ALL_REDUCE,
                               .push_coded = true,
                               .pull_coded = true};
    step->over = world->servers > 0;
    if (step->over)
        shoali_act_fail(actions, SHOAL_EINVAL, -1, "all_reduce has no use for %u dedicated servers",
                        world->servers);
    else
        shoali_lockstep_start(step, world, &op, false, (shoali_bucket *)(step + 1), actions);
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    if (event->kind == SHOALI_EV_START)
        start(state, event->world, actions);
    else
        shoali_lockstep_event(state, event, actions);
    return SHOAL_OK;
}

const shoali_sync_row shoali_sync_all_reduce = {
    .name = "all_reduce",
    .paper = "bucketed and overlapped as in Li et al., PyTorch Distributed, VLDB 2020, section 3.2",
    .traits = SHOALI_SYNC_EXACT | SHOALI_SYNC_MEAN | SHOALI_SYNC_CODED | SHOALI_SYNC_COLLECTIVE |
              SHOALI_SYNC_GRADIENTS,
    .state_size = state_size,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
