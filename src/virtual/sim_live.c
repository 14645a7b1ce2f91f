/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation that can be asked while it runs: a status socket for all of its workers, judged and
 * served by the code of real ranks (src/watch), with virtual time for their clock. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "driver/sim_parts.h"
#include "watch/watch.h"

enum {
    EVENTS = 16,      /* from one look at the clock to the next, where events are short */
    SERVE_US = 10000, /* real ones, from one look at the socket to the next */
    HEAR_US = 100000, /* and from one at all workers to the next */
    PEERS_LOOKED_AT = 32
};

typedef struct live {
    shoal_sim *sim;
    shoali_watch *watch;
    uint64_t now_us;     /* virtual */
    uint64_t callers_us; /* real, when it last looked */
    uint64_t heard_us;
    uint32_t events;
} live;

/* ------------------------------------------------------------------ what the watch asks */

static uint32_t state_of(const shoali_sim_node *node)
{
    if (node->phase < SHOALI_SIM_ENDED)
        return SHOALI_RANK_RUNNING;
    if (node->end == SHOAL_SIM_DONE || node->leaves)
        return SHOALI_RANK_LEFT;
    return node->gone || node->end == SHOAL_SIM_FAILED ? SHOALI_RANK_DEAD
                                                       : SHOALI_RANK_UNRESPONSIVE;
}

static bool here(void *ctx, uint32_t rank)
{
    const live *l = ctx;
    return state_of(&l->sim->nodes[rank]) == SHOALI_RANK_RUNNING;
}

static void carried(void *ctx, uint32_t rank, shoal_peer_stats *stats)
{
    (void)ctx, (void)rank, (void)stats;
}

static void row(void *ctx, uint32_t rank, shoali_status_row *out)
{
    const live *l = ctx;
    const shoali_sim_node *node = &l->sim->nodes[rank];
    const bool waits = node->phase != SHOALI_SIM_COMPUTING && node->phase != SHOALI_SIM_UPDATING;
    const uint64_t since_ns = waits ? node->asked_ns : node->began_ns;
    out->state = state_of(node);
    out->busy = waits && out->state == SHOALI_RANK_RUNNING;
    out->for_us = l->sim->now_ns > since_ns ? (l->sim->now_ns - since_ns) / 1000 : 0;
    out->ended = out->progress.step = node->done; /* as of now, not as of when all were heard */
    out->last_seen_us = out->state == SHOALI_RANK_RUNNING ? 0 : out->for_us;
    snprintf(out->host, sizeof out->host, "host %u", l->sim->world.hosts[rank]);
    if (waits || node->done > 0)
        snprintf(out->text, sizeof out->text, "iteration %llu",
                 (unsigned long long)(waits ? node->iteration : node->done - 1));
}

static size_t notes(void *ctx, char out[SHOALI_WATCH_NOTES_BYTES])
{
    const live *l = ctx;
    const shoal_sim *sim = l->sim;
    const double at_s = (double)sim->now_ns * 1e-9;
    const double part = sim->report.until_ns > 0
                            ? at_s / ((double)sim->report.until_ns * 1e-9)
                            : (double)sim->report.steps / ((double)sim->iterations * sim->workers);
    const int length = snprintf(out, SHOALI_WATCH_NOTES_BYTES,
                                "simulated, %.1f %% of the run: times are virtual, and it is at "
                                "second %.6g; operations are iterations\n",
                                100 * fmin(part, 1), at_s);
    return length > 0 ? (size_t)length : 0;
}

/* ------------------------------------------------------------------ what it is told */

/* Bytes per second of a worker's best connections to others, far and near ones: of many workers
 * some, spread over all. */
static void find_rates(const shoal_sim *sim, uint32_t worker, shoali_heartbeat *beat)
{
    const uint32_t stride = sim->workers / PEERS_LOOKED_AT + 1;
    uint32_t there[2], back[2];
    double sends = 0, receives = 0;
    for (uint32_t k = stride; k < sim->workers; k += stride) {
        const uint32_t peer = (worker + k) % sim->workers;
        if (!shoali_sim_links(sim, worker, peer, there) ||
            !shoali_sim_links(sim, peer, worker, back))
            continue;
        sends = fmax(
            sends, fmin(shoali_sim_link_rate(sim, there[0]), shoali_sim_link_rate(sim, there[1])));
        receives = fmax(
            receives, fmin(shoali_sim_link_rate(sim, back[0]), shoali_sim_link_rate(sim, back[1])));
    }
    beat->sends_bytes_s = (uint64_t)(1e9 * sends);
    beat->receives_bytes_s = (uint64_t)(1e9 * receives);
}

static double loss_of(const shoal_sim *sim, const shoali_sim_node *node)
{
    if (sim->task.made != NULL)
        return node->made.samples > 0 ? node->made.loss : (double)NAN;
    return sim->report.curve_count > 0 ? sim->report.curve[sim->report.curve_count - 1].loss
                                       : (double)NAN;
}

static void hear(const live *l, uint32_t worker)
{
    const shoal_sim *sim = l->sim;
    const shoali_sim_node *node = &sim->nodes[worker];
    const uint64_t each = sim->task.made != NULL          ? node->made.samples
                          : sim->asked.compute.from_model ? (uint64_t)sim->asked.compute.batch
                                                          : 0;
    shoali_heartbeat beat = {.ended = node->done, .idle_us = node->total_compute_ns / 1000};
    beat.fares[SHOALI_FARE_SAMPLES] = each * node->done;
    beat.progress = (shoali_progress){.step = node->done,
                                      .loss = (float)loss_of(sim, node),
                                      .accuracy = sim->numbers ? (float)node->accuracy : NAN};
    if (node->made.steps_per_epoch > 0 && node->done > 0)
        beat.progress.epoch = (uint32_t)((node->done - 1) / node->made.steps_per_epoch) + 1;
    find_rates(sim, worker, &beat);
    shoali_watch_hear(l->watch, worker, &beat);
}

static void look(void *ctx)
{
    live *l = ctx;
    if (l->sim->task.ctx == NULL && ++l->events % EVENTS != 0)
        return;
    const uint64_t now_us = shoali_now_us();
    if (now_us - l->callers_us < SERVE_US)
        return;
    l->callers_us = now_us;
    l->now_us = l->sim->now_ns / 1000;
    if (now_us - l->heard_us >= HEAR_US) {
        l->heard_us = now_us;
        for (uint32_t w = 0; w < l->sim->workers; w++)
            hear(l, w);
        shoali_watch_judge(l->watch);
    }
    shoali_watch_serve(l->watch);
}

/* ------------------------------------------------------------------ start and end */

static void close_all(void *ctx)
{
    live *l = ctx;
    shoali_watch_close(l->watch);
    shoali_free(l);
}

shoal_status shoal_sim_serve(shoal_sim *sim, const char *job)
{
    char name[SHOALI_WATCH_LABEL_BYTES];
    const char *known = job != NULL ? job : getenv("SHOAL_JOB");
    if (sim == NULL || sim->told.onlookers.ctx != NULL || sim->report.results.events > 0)
        return shoali_fail(SHOAL_EINVAL, "shoal_sim_serve: a simulation, once, before it runs");
    live *l = shoali_alloc(sizeof *l);
    if (l == NULL)
        return SHOAL_ENOMEM;
    *l = (live){.sim = sim};
    if (known != NULL && known[0] != '\0')
        snprintf(name, sizeof name, "%s", known);
    else
        snprintf(name, sizeof name, "sim-%d", (int)getpid());
    const shoali_watch_desc desc = {
        .ranks = sim->workers,
        .size = sim->workers,
        .number = (uint32_t)getpid(),
        .job = name,
        .rendezvous = "",
        .epoll_fd = -1,
        .now_us = &l->now_us,
        .callers_us = &l->callers_us,
        .host = {.ctx = l, .here = here, .carried = carried, .row = row, .notes = notes}};
    const shoal_status status = shoali_watch_open(&desc, &l->watch);
    if (status != SHOAL_OK) {
        shoali_free(l);
        return status;
    }
    sim->told.onlookers.ctx = l;
    sim->told.onlookers.look = look;
    sim->told.onlookers.close = close_all;
    return SHOAL_OK;
}
