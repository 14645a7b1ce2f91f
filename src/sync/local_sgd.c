/* SPDX-License-Identifier: Apache-2.0 */
/* Local SGD: every worker steps on its own gradients, and after every H iterations all take the
 * mean of their parameters. States: outer.c, with a plain mean as outer step. A worker that is lost
 * or finishes early is missing from the next mean, and nobody waits for it. Momentum stays
 * local. */
#include "sync/outer.h"

typedef struct params {
    int64_t every;
} params;

static const shoali_key keys[] = {
    {"every", SHOALI_KEY_INT, offsetof(params, every), 1, 1 << 20, NULL, "8",
     "iterations from one mean to the next"},
};

static uint32_t max_staleness(const void *any)
{
    return (uint32_t)((const params *)any)->every;
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    shoali_outer_options options = {.name = "local_sgd", .fragments = 1, .lr = 1, .coded = true};
    if (event->kind == SHOALI_EV_START)
        options.every = (uint64_t)((const params *)event->world->params)->every;
    shoali_outer_event(state, &options, event, actions);
    return SHOAL_OK;
}

const shoali_sync_row shoali_sync_local_sgd = {
    .name = "local_sgd",
    .paper = "Stich, \"Local SGD Converges Fast and Communicates Little\", ICLR 2019",
    .traits = SHOALI_SYNC_MEAN | SHOALI_SYNC_SURVIVES | SHOALI_SYNC_CODED | SHOALI_SYNC_COLLECTIVE,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .state_size = shoali_outer_bytes,
    .slots = shoali_outer_slots,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
