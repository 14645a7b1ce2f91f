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
 * The other forms have legs of their own (served.c) and want dedicated servers: `async` answers
 * every gradient at once, `staleness=s` lets a worker be s iterations ahead of the slowest (SSP,
 * Ho et al., NIPS 2013), `backup=b` takes a step without the last b gradients (Chen et al., 2016),
 * `sequential` is lockstep that sends weights only when the last gradient is in.
 *
 * A chunk that is not finite is left out by its owner: with nonfinite = skip it keeps its weights
 * and its optimiser's state, the others move on, on every rank alike. */
#include <stdio.h>

#include "base/error.h"
#include "shoal/codec.h"
#include "sync/lockstep.h"
#include "sync/served.h"

typedef struct params {
    int64_t servers, staleness, backup;
    bool dedicated, async, sequential;
    int32_t pull;
} params;
enum { PULL_IDENTITY, PULL_CODEC, NO_BOUND = -1 };

static const shoali_key keys[] = {
    {"servers", SHOALI_KEY_INT, offsetof(params, servers), 1, 1024, NULL, "1",
     "endpoints that share the parameters and run the optimiser"},
    {"dedicated", SHOALI_KEY_FLAG, offsetof(params, dedicated), 0, 0, NULL, "off",
     "servers are endpoints of their own, not workers"},
    {"pull", SHOALI_KEY_CHOICE, offsetof(params, pull), 0, 0, "identity|codec", "identity",
     "how weights travel down: as they are, or through the job's codec"},
    {"async", SHOALI_KEY_FLAG, offsetof(params, async), 0, 0, NULL, "off",
     "every gradient is a step of its own, and nobody waits"},
    {"staleness", SHOALI_KEY_INT, offsetof(params, staleness), NO_BOUND, 1 << 20, NULL, "-1",
     "async, but at most so many iterations ahead of the slowest worker; -1: off"},
    {"backup", SHOALI_KEY_INT, offsetof(params, backup), 0, 1 << 14, NULL, "0",
     "a step does without the last so many gradients, which are dropped"},
    {"sequential", SHOALI_KEY_FLAG, offsetof(params, sequential), 0, 0, NULL, "off",
     "all gradients go up before weights come down"},
};

typedef struct machine {
    char collective[48];
    shoali_lockstep step;
    bool served; /* a shoali_served follows, else the buckets */
} machine;

/* With legs of their own: served.c. */
static bool is_served(const params *p)
{
    return p->async || p->staleness != NO_BOUND || p->backup > 0 || p->sequential;
}

static size_t state_size(const shoali_world *world)
{
    size_t rest = is_served(world->params) ? shoali_served_bytes(world)
                                           : shoali_lockstep_bucket_bytes(world);
    return sizeof(machine) + rest;
}

static uint32_t slots(const shoali_world *world)
{
    return is_served(world->params) ? shoali_served_slots(world) : 0;
}

static uint32_t max_staleness(const void *any)
{
    const params *p = any;
    if (p->staleness != NO_BOUND)
        return (uint32_t)p->staleness + 1;
    return p->async ? SHOALI_STALENESS_UNBOUNDED : (uint32_t)(p->backup > 0);
}

static uint32_t traits_with(const void *any)
{
    const params *p = any;
    uint32_t usual = SHOALI_SYNC_SERVERS | SHOALI_SYNC_OWNER | SHOALI_SYNC_CODED;
    bool alone = p->async || p->staleness != NO_BOUND;
    if (!is_served(p))
        return usual | SHOALI_SYNC_EXACT | SHOALI_SYNC_MEAN;
    return usual | SHOALI_SYNC_SURVIVES | (alone || p->backup == 0 ? SHOALI_SYNC_MEAN : 0) |
           (p->backup > 0 ? SHOALI_SYNC_LATER : 0);
}

static shoal_status check(const void *any)
{
    const params *p = any;
    bool alone = p->async || p->staleness != NO_BOUND;
    if (is_served(p) && !p->dedicated)
        return shoali_fail(SHOAL_EINVAL, "param_server: async, staleness, backup and sequential "
                                         "want dedicated servers");
    if (alone && (p->backup > 0 || p->sequential))
        return shoali_fail(SHOAL_EINVAL,
                           "param_server: backup and sequential are no forms of async");
    return SHOAL_OK;
}

static shoal_status fits(const void *any, uint32_t codec, uint32_t workers)
{
    const params *p = any;
    const uint32_t shared = SHOAL_CODEC_MEASURE | SHOAL_CODEC_SUMMABLE;
    const char *why = NULL;
    if ((codec & SHOAL_CODEC_SLOTS) != 0)
        why = "a server adds, and the sums of this codec have no code";
    else if ((codec & SHOAL_CODEC_TRANSFORM) != 0)
        why = "this codec sums in rounds of its own, without a server";
    else if (p->pull == PULL_CODEC && (codec & SHOAL_CODEC_MEASURE) != 0)
        why = "it measures gradients, so weights cannot come back in it: leave pull=codec out";
    else if (is_served(p) && (codec & shared) == shared)
        why = "the scale that all share would be of gradients that do not meet here";
    if (why != NULL)
        return shoali_fail(SHOAL_EINVAL, "%s", why);
    if (workers > 0 && !p->dedicated && p->servers > workers)
        return shoali_fail(SHOAL_EINVAL, "%u workers cannot hold %lld servers", workers,
                           (long long)p->servers);
    if (workers > 0 && p->backup >= workers)
        return shoali_fail(SHOAL_EINVAL, "of %u workers, %lld backups leave no gradient", workers,
                           (long long)p->backup);
    return SHOAL_OK;
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
    if (is_served(p)) {
        const shoali_served_options options = {.together = !p->async && p->staleness == NO_BOUND,
                                               .backup = (uint32_t)p->backup,
                                               .staleness = p->staleness != NO_BOUND
                                                                ? (uint32_t)p->staleness
                                                                : SHOALI_STALENESS_UNBOUNDED,
                                               .pull_coded = p->pull == PULL_CODEC};
        m->served = true;
        shoali_served_start((shoali_served *)(m + 1), world, &options);
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
    else if (m->served)
        shoali_served_event((shoali_served *)(m + 1), event, actions);
    else
        shoali_lockstep_event(&m->step, event, actions);
    return SHOAL_OK;
}

const shoali_sync_row shoali_sync_param_server = {
    .name = "param_server",
    .paper = "Li et al., OSDI 2014; SSP: Ho et al., NIPS 2013; backup workers: Chen et al., 2016",
    .traits = SHOALI_SYNC_EXACT | SHOALI_SYNC_MEAN | SHOALI_SYNC_SERVERS | SHOALI_SYNC_OWNER |
              SHOALI_SYNC_CODED,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .traits_with = traits_with,
    .fits = fits,
    .check = check,
    .servers = servers,
    .slots = slots,
    .state_size = state_size,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
