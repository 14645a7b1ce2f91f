/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous parameter server: gradients go up, the server that owns a range sums them and runs
 * the optimiser as owner job, weights come down and every worker commits them at BEFORE (GO says
 * apply = false).
 *
 * servers=S shares the ranges among S servers: workers 0..S-1 (co-located), or S endpoints of their
 * own behind the workers (dedicated), which run this machine, too, and leave when a worker says
 * STOP. Of several dedicated servers each knows the parameters of its own ranges only. State table:
 * lockstep.c.
 *
 * A range that is not finite is left out by its owner: with nonfinite = skip that bucket keeps its
 * weights, the others move on, on every rank alike. */
#include <stdio.h>

#include "sync/lockstep.h"

typedef struct params {
    int64_t servers;
    bool dedicated;
    int32_t pull;
} params;
enum { PULL_IDENTITY, PULL_CODEC };

static const shoali_key keys[] = {
    {"servers", SHOALI_KEY_INT, offsetof(params, servers), 1, 1024, NULL, "1",
     "endpoints that share the parameters and run the optimiser"},
    {"dedicated", SHOALI_KEY_FLAG, offsetof(params, dedicated), 0, 0, NULL, "off",
     "servers are endpoints of their own, not workers"},
    {"pull", SHOALI_KEY_CHOICE, offsetof(params, pull), 0, 0, "identity|codec", "identity",
     "how weights travel down: as they are, or through the job's codec"},
};

typedef struct machine {
    char collective[48];
    shoali_lockstep step;
} machine;

static size_t state_size(const shoali_world *world)
{
    return sizeof(machine) + shoali_lockstep_bucket_bytes(world);
}

static uint32_t max_staleness(const void *any)
{
    (void)any;
    return 0;
}

static uint32_t servers(const void *any)
{
    const params *p = any;
    return p->dedicated ? (uint32_t)p->servers : 0;
}

static void start(machine *m, const shoali_world *world, shoali_actions *actions)
{
    const params *p = world->params;
    uint32_t wanted = servers(p);
    m->step.over = true; /* until we know better */
    if (world->servers != wanted) {
        shoali_act_fail(actions, SHOAL_EINVAL, -1,
                        "param_server wants %u dedicated servers, the job has %u", wanted,
                        world->servers);
        return;
    }
    if (!p->dedicated && p->servers > world->workers) {
        shoali_act_fail(actions, SHOAL_EINVAL, -1, "%u workers cannot hold %lld servers",
                        world->workers, (long long)p->servers);
        return;
    }
    m->step.over = false;
    snprintf(m->collective, sizeof m->collective, "worker_aggregator:servers=%lld%s",
             (long long)p->servers, p->dedicated ? ",dedicated" : "");
    shoali_sync_op op = {.tensor = SHOALI_GRAD,
                         .kind = SHOALI_SYNC_ALL_REDUCE,
                         .collective = m->collective,
                         .push_coded = true,
                         .pull_coded = p->pull == PULL_CODEC,
                         .owner_job = true,
                         .patient = world->role == SHOALI_SERVER};
    shoali_lockstep_start(&m->step, world, &op, true, (shoali_bucket *)(m + 1), actions);
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    machine *m = state;
    if (event->kind == SHOALI_EV_START)
        start(m, event->world, actions);
    else
        shoali_lockstep_event(&m->step, event, actions);
    return SHOAL_OK;
}

const shoali_sync_row shoali_sync_param_server = {
    .name = "param_server",
    .paper = "Li et al., OSDI 2014; synchronous, sharded, optimiser at the server",
    .traits = SHOALI_SYNC_EXACT | SHOALI_SYNC_MEAN | SHOALI_SYNC_SERVERS | SHOALI_SYNC_OWNER,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .servers = servers,
    .state_size = state_size,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
