/* SPDX-License-Identifier: Apache-2.0 */
/* Who was lost comes back: in a new epoch, which all begin together, whatever the protocol.
 *
 *   REJOIN --the others know that it was gone--> KNOCK --a latency--> the epoch turns
 *   turning    every worker goes on to its next boundary between two iterations, in protocols that
 *              promise a staleness to the same one, and FINISHes: replicas become their exact mean
 *   rested     all machines have ended; newcomers (and who is behind) take the state of the first
 *              that is furthest, at the rate of its link
 *   EPOCH      START of fresh machines, at the iteration of the furthest: gaps and staleness are 0.
 *              Who was behind leaves out what lies between. Operations, messages and timers of the
 *              old epoch are gone, so nothing of a lost life reaches the new one
 *
 * A place in an epoch is a lease: who is silent for detect_ms is out for all, and may come back
 * only like this. Protocols that go on without a worker have the same world as before, and hear at
 * once who is not there; with `reform` all_reduce gets a world of those who are, as real processes
 * do (reform/reform.c). A job that is ending lets nobody in. */
#include "base/error.h"
#include "base/rng.h"
#include "driver/sim_parts.h"

#include <string.h>

enum { ROUNDS = 4 }; /* one-way times to agree on an epoch: knock, survey, answer, welcome */

static bool survives(const shoal_sim *sim)
{
    return (sim->protocol.traits & SHOALI_SYNC_SURVIVES) != 0;
}

/* ---------------------------------------------------------------- the old epoch ends */

/* It can be let in. */
static bool outside(const shoal_sim *sim, uint32_t endpoint)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    bool gone = node->end == SHOAL_SIM_DEAD || node->end == SHOAL_SIM_STOPPED;
    return endpoint < sim->workers && node->phase == SHOALI_SIM_ENDED && gone && !node->rests;
}

void shoali_sim_rejoin(shoal_sim *sim, uint32_t endpoint)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    if (!outside(sim, endpoint) || (!survives(sim) && !sim->asked.faults.reform))
        return;
    node->back = true;
    if (node->gone)
        shoali_sim_at(sim, sim->now_ns + sim->latency_ns, SHOALI_SIM_KNOCK, endpoint, 0, 0);
}

/* A worker is through with all its iterations: the job ends. */
static bool ending(const shoal_sim *sim)
{
    for (uint32_t i = 0; i < sim->workers; i++) {
        const shoali_sim_node *node = &sim->nodes[i];
        if (node->phase == SHOALI_SIM_FINISHING || node->end == SHOAL_SIM_DONE ||
            (node->phase == SHOALI_SIM_STOPPING && !node->leaves))
            return true;
    }
    return false;
}

/* The first iteration that nobody has begun: with a promise on staleness all have to get there. */
static uint64_t meeting_point(const shoal_sim *sim)
{
    bool aligned = sim->protocol.row->max_staleness(sim->protocol.params) !=
                   SHOALI_STALENESS_UNBOUNDED;
    uint64_t at = 0;
    for (uint32_t i = 0; i < sim->workers && aligned; i++)
        if (sim->nodes[i].phase < SHOALI_SIM_RESTING && sim->nodes[i].iteration >= at)
            at = sim->nodes[i].iteration + 1;
    return at;
}

void shoali_sim_knock(shoal_sim *sim, uint32_t endpoint)
{
    if (!outside(sim, endpoint) || sim->epoch.turning)
        return;
    sim->nodes[endpoint].back = !ending(sim);
    if (!sim->nodes[endpoint].back)
        return;
    sim->epoch.turning = true;
    sim->epoch.turn_at = meeting_point(sim);
}

/* A protocol that needs all ends its epoch in the middle of an iteration. */
void shoali_sim_lost(shoal_sim *sim)
{
    if (survives(sim) || !sim->asked.faults.reform)
        return;
    sim->epoch.turning = true;
    sim->epoch.turn_at = 0;
}

uint64_t shoali_sim_limit(const shoal_sim *sim)
{
    return sim->epoch.turning && sim->epoch.turn_at < sim->iterations ? sim->epoch.turn_at
                                                                      : sim->iterations;
}

bool shoali_sim_rests(shoal_sim *sim, uint32_t endpoint, shoal_status status)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    bool broken = status == SHOAL_EPEER && sim->asked.faults.reform && !survives(sim);
    bool updated = node->phase == SHOALI_SIM_UPDATING || node->phase == SHOALI_SIM_IN_AFTER;
    node->rests = sim->epoch.turning && !node->leaves && (status == SHOAL_OK || broken);
    if (node->rests && broken && updated)
        node->done = node->iteration + 1;
    return node->rests;
}

/* ---------------------------------------------------------------- between two epochs */

/* The first of those who rest that is furthest; the number of workers if nobody rests. */
static uint32_t furthest(const shoal_sim *sim)
{
    uint32_t first = sim->workers;
    for (uint32_t i = 0; i < sim->workers; i++)
        if (sim->nodes[i].rests &&
            (first == sim->workers || sim->nodes[i].done > sim->nodes[first].done))
            first = i;
    return first;
}

/* Replicas of an exact protocol that are a step behind, and newcomers. */
static bool wants_state(const shoal_sim *sim, uint32_t endpoint, uint32_t sponsor)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    bool exact = (sim->protocol.traits & SHOALI_SYNC_EXACT) != 0;
    return (node->back && outside(sim, endpoint)) ||
           (exact && node->rests && node->done < sim->nodes[sponsor].done);
}

static void take_state(shoal_sim *sim, uint32_t endpoint, uint32_t sponsor)
{
    shoali_sim_node *to = &sim->nodes[endpoint];
    const shoali_sim_node *from = &sim->nodes[sponsor];
    size_t bytes = sim->count * sizeof(float);
    if (!sim->numbers)
        return;
    memcpy(to->tensors.params, from->tensors.params, bytes);
    if (to->velocity != NULL)
        memcpy(to->velocity, from->velocity, bytes);
    if (to->residual != NULL)
        memset(to->residual, 0, bytes);
    shoali_sim_transforms_clear(to);
    if (sim->task.ctx != NULL)
        sim->task.adopt(sim->task.ctx, sponsor, endpoint);
}

/* One after the other over the sponsor's link, each as fast as its own lets it. */
static uint64_t moving_ns(const shoal_sim *sim, uint32_t sponsor)
{
    double bytes = (double)sim->count * sizeof(float) * sim->report.inflate, ns = 0;
    double up = shoali_sim_link_rate(sim, 2 * sim->world.hosts[sponsor]);
    for (uint32_t i = 0; i < sim->workers; i++) {
        double down = shoali_sim_link_rate(sim, 2 * sim->world.hosts[i] + 1);
        if (wants_state(sim, i, sponsor) && sim->world.hosts[i] != sim->world.hosts[sponsor])
            ns += bytes / (up < down ? up : down);
    }
    return (uint64_t)ns;
}

/* Nothing is left to do: those who rest are through. */
static void conclude(shoal_sim *sim, uint32_t sponsor)
{
    for (uint32_t i = 0; i < sim->size; i++) {
        shoali_sim_node *node = &sim->nodes[i];
        if (!node->rests)
            continue;
        if (i < sim->workers && wants_state(sim, i, sponsor))
            take_state(sim, i, sponsor);
        node->done = i < sim->workers ? sim->iterations : node->done;
        node->end = SHOAL_SIM_DONE;
        node->rests = false;
    }
}

bool shoali_sim_turn(shoal_sim *sim)
{
    uint32_t sponsor = furthest(sim);
    if (!sim->epoch.turning || sim->epoch.ended < sim->size || sponsor == sim->workers)
        return false;
    if (sim->nodes[sponsor].done >= sim->iterations) {
        conclude(sim, sponsor);
        return false;
    }
    for (uint32_t i = 0; i < sim->size; i++) {
        if (!sim->nodes[i].rests)
            continue;
        sim->nodes[i].phase = SHOALI_SIM_RESTING;
        sim->nodes[i].end = SHOAL_SIM_RUNNING;
        sim->epoch.ended--;
    }
    shoali_sim_at(sim, sim->now_ns + ROUNDS * sim->latency_ns + moving_ns(sim, sponsor),
                  SHOALI_SIM_EPOCH, sponsor, 0, 0);
    return true;
}

/* ---------------------------------------------------------------- the new epoch */

/* Only what the plan holds in store survives. */
static void drop_events(shoal_sim *sim)
{
    size_t kept = 0;
    shoali_sim_event *plan = shoali_alloc_array(sim->queue.count + 1, sizeof *plan);
    while (plan != NULL && shoali_sim_peek(&sim->queue) != NULL) {
        const shoali_sim_event event = shoali_sim_pop(&sim->queue);
        if (event.kind == SHOALI_SIM_FAULT || event.kind == SHOALI_SIM_CUT ||
            event.kind == SHOALI_SIM_RATE)
            plan[kept++] = event;
        else
            shoali_sim_message_free(&event);
    }
    for (size_t i = 0; i < kept; i++)
        shoali_sim_break(sim, shoali_sim_push(&sim->queue, &plan[i]));
    if (plan == NULL)
        shoali_sim_break(sim, SHOAL_ENOMEM);
    shoali_free(plan);
}

/* Who is there, for a protocol that needs all of its world. */
static shoal_status list_live(shoal_sim *sim, uint32_t *workers_out)
{
    if (sim->epoch.live_ids == NULL)
        sim->epoch.live_ids = shoali_alloc_array(sim->size, sizeof *sim->epoch.live_ids);
    if (sim->epoch.live_hosts == NULL)
        sim->epoch.live_hosts = shoali_alloc_array(sim->size, sizeof *sim->epoch.live_hosts);
    if (sim->epoch.live_ids == NULL || sim->epoch.live_hosts == NULL)
        return SHOAL_ENOMEM;
    *workers_out = 0;
    for (uint32_t i = 0; i < sim->workers; i++) {
        if (!sim->nodes[i].rests)
            continue;
        sim->epoch.live_ids[*workers_out] = i;
        sim->epoch.live_hosts[(*workers_out)++] = sim->world.hosts[i];
    }
    return SHOAL_OK;
}

/* A fresh machine in a fresh world; parameters, optimiser and account stay. */
static shoal_status renew(shoal_sim *sim, uint32_t endpoint, uint64_t iteration)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    shoali_tensors *t = &node->tensors;
    const shoali_sync_row *row = sim->protocol.row;
    uint32_t live = 0;
    node->world.epoch = sim->report.results.epochs;
    node->world.iteration = node->iteration = node->done = iteration;
    node->world.seed = shoali_mix(sim->seed, node->world.epoch);
    if (!survives(sim)) {
        SHOALI_TRY(list_live(sim, &live));
        node->world.workers = live;
        node->world.endpoints = sim->epoch.live_ids;
        node->world.hosts = sim->epoch.live_hosts;
    }
    shoali_free(node->state);
    node->state = shoali_alloc(row->state_size(&node->world));
    node->timer_count = 0;
    shoali_actions_clear(&node->actions);
    if (node->state == NULL)
        return SHOAL_ENOMEM;
    if (!sim->numbers)
        return SHOAL_OK;
    uint32_t slots = row->slots != NULL ? row->slots(&node->world) : 0;
    shoali_free(t->slots);
    shoali_refused *before = t->refused; /* is of the whole run */
    shoal_status status = shoali_tensors_init(t, t->params, t->grads, sim->count, slots);
    if (before != NULL && t->refused != NULL)
        *t->refused = *before;
    shoali_free(before);
    return status;
}

/* Those who came back are in, the others are out for this epoch. Returns its first iteration. */
static uint64_t settle(shoal_sim *sim)
{
    uint32_t sponsor = furthest(sim);
    uint64_t iteration = sponsor < sim->workers ? sim->nodes[sponsor].done : 0;
    for (uint32_t i = 0; sponsor < sim->workers && i < sim->workers; i++)
        if (wants_state(sim, i, sponsor)) {
            take_state(sim, i, sponsor);
            sim->nodes[i].rests = true;
        }
    sim->epoch.ended = sim->epoch.gone = 0;
    for (uint32_t i = 0; i < sim->size; i++) {
        shoali_sim_node *node = &sim->nodes[i];
        node->gone = !node->rests;
        sim->epoch.gone += node->gone;
        sim->epoch.ended += node->gone;
        node->back = node->leaves = false;
        if (node->rests)
            node->end = SHOAL_SIM_RUNNING;
    }
    return iteration;
}

void shoali_sim_begin_epoch(shoal_sim *sim)
{
    for (uint32_t i = 0; i < sim->size; i++) /* some may have been lost on the way */
        sim->nodes[i].rests &= sim->nodes[i].phase == SHOALI_SIM_RESTING;
    uint64_t iteration = settle(sim);
    drop_events(sim);
    shoali_sim_ops_clear(sim);
    sim->epoch.turning = false;
    sim->report.results.epochs++;
    sim->progress_ns = sim->now_ns;
    for (uint32_t i = 0; i < sim->size; i++)
        if (sim->nodes[i].rests)
            shoali_sim_break(sim, renew(sim, i, iteration));
    if (sim->told.keeper.members != NULL)
        sim->told.keeper.members(sim->told.keeper.ctx);
    for (uint32_t i = 0; i < sim->size; i++) {
        if (!sim->nodes[i].rests)
            continue;
        sim->nodes[i].rests = false;
        shoali_sim_begin_endpoint(sim, i);
    }
    for (uint32_t i = 0; i < sim->size && survives(sim); i++)
        for (uint32_t lost = 0; lost < sim->size; lost++)
            if (sim->nodes[lost].gone && lost != i)
                shoali_sim_tell_lost(sim, i, lost);
}
