/* SPDX-License-Identifier: Apache-2.0 */
/* A heartbeat says how many operations have ended on its sender and how long it had none open: what
 * it computed. Between two beats that is a mean per operation, without comparing clocks, whatever
 * the schedule. A window is a second or more, until every rank has ended two operations in it; ten
 * seconds at most, so that whoever does not come at all is noticed, too. Rates are the sender's:
 * each rank tells each other how fast it sends to it, and all its best ones. */
#include "comm/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/inner.h"

enum {
    WINDOW_US = 1000000,
    LONGEST_WINDOW_US = 10000000,
    WINDOW_OPS = 2,
    WINDOWS_LEAST = 4,
    UNRESPONSIVE_PARTS = 5 /* of the peer timeout: two of them */
};

static bool here(const shoal_comm *comm, uint32_t rank)
{
    return rank == comm->me ||
           (comm->peers[rank].up && atomic_load_explicit(&comm->peers[rank].state,
                                                         memory_order_relaxed) == SHOALI_PEER_HERE);
}

shoal_status shoali_watch_open(shoal_comm *comm, uint32_t number)
{
    shoali_watch *w = shoali_alloc(sizeof *w);
    if (w == NULL)
        return SHOAL_ENOMEM;
    comm->watch = w;
    w->listener = -1;
    w->number = number;
    shoali_watch_label(comm->job, program_invocation_short_name, comm->launch.rendezvous, w->label);
    w->slowest = SHOALI_NOBODY;
    for (int i = 0; i < SHOALI_WATCH_CLIENTS; i++)
        w->clients[i].fd = -1;
    comm->now_us = comm->doing_since_us = shoali_now_us();
    w->started_us = w->window_started_us = w->idle_since_us = comm->now_us;
    w->rank = shoali_alloc_array(comm->size, sizeof *w->rank);
    w->compute_us = shoali_alloc_array((size_t)SHOALI_WATCH_WINDOWS * comm->size,
                                       sizeof *w->compute_us);
    w->verdict = shoali_alloc_array(comm->size, sizeof *w->verdict);
    w->links = shoali_alloc_array(2 * (size_t)comm->size, sizeof *w->links);
    if (w->rank == NULL || w->compute_us == NULL || w->verdict == NULL || w->links == NULL)
        return SHOAL_ENOMEM;
    shoali_watch_serve_open(comm);
    return SHOAL_OK;
}

void shoali_watch_close_all(shoal_comm *comm)
{
    shoali_watch *w = comm->watch;
    if (w == NULL)
        return;
    shoali_watch_serve_close(comm, false);
    shoali_free(w->rank);
    shoali_free(w->compute_us);
    shoali_free(w->verdict);
    shoali_free(w->links);
    shoali_free(w);
    comm->watch = NULL;
}

/* ---------------------------------------------------------------- this rank */

void shoali_watch_busy(shoal_comm *comm)
{
    shoali_watch *w = comm->watch;
    if (w != NULL && w->idle_since_us != 0) {
        w->idle_us += shoali_since(comm, w->idle_since_us);
        w->idle_since_us = 0;
    }
}

void shoali_watch_idle(shoal_comm *comm)
{
    if (comm->watch != NULL)
        comm->watch->idle_since_us = comm->now_us;
}

static uint64_t idle_so_far(const shoal_comm *comm)
{
    const shoali_watch *w = comm->watch;
    return w->idle_us + (w->idle_since_us != 0 ? shoali_since(comm, w->idle_since_us) : 0);
}

/* The rate of this rank's connection to another, over what was sent since it was last taken; known
 * anew after enough of it. */
static void take_rate(shoal_comm *comm, uint32_t rank)
{
    shoali_watched *r = &comm->watch->rank[rank];
    shoal_peer_stats stats = {.size = sizeof stats};
    comm->control.row->peer_stats(comm->control.state, rank, &stats);
    if (stats.busy_us < r->busy_us || stats.acked_bytes < r->acked_bytes)
        r->busy_us = r->acked_bytes = 0; /* other connections than before */
    const double rate = shoali_slow_rate((double)(stats.acked_bytes - r->acked_bytes),
                                         (double)(stats.busy_us - r->busy_us),
                                         (double)stats.line_bytes_s);
    if (!(rate > 0))
        return;
    r->to_it_bytes_s = (uint64_t)rate;
    r->busy_us = stats.busy_us;
    r->acked_bytes = stats.acked_bytes;
}

void shoali_watch_say(shoal_comm *comm, shoali_heartbeat *beat)
{
    shoali_watch *w = comm->watch;
    shoali_watched *mine = &w->rank[comm->me];
    mine->sends_bytes_s = mine->receives_bytes_s = 0;
    for (uint32_t i = 0; i < comm->size; i++) {
        if (i == comm->me || !here(comm, i))
            continue;
        take_rate(comm, i);
        if (w->rank[i].to_it_bytes_s > mine->sends_bytes_s)
            mine->sends_bytes_s = w->rank[i].to_it_bytes_s;
        if (w->rank[i].to_me_bytes_s > mine->receives_bytes_s)
            mine->receives_bytes_s = w->rank[i].to_me_bytes_s;
    }
    beat->ended = w->ended;
    beat->idle_us = idle_so_far(comm);
    beat->sends_bytes_s = mine->sends_bytes_s;
    beat->receives_bytes_s = mine->receives_bytes_s;
}

uint64_t shoali_watch_rate_to(const shoal_comm *comm, uint32_t rank)
{
    return comm->watch->rank[rank].to_it_bytes_s;
}

/* ---------------------------------------------------------------- the others */

void shoali_watch_hear(shoal_comm *comm, uint32_t rank, const shoali_heartbeat *beat)
{
    shoali_watched *r = &comm->watch->rank[rank];
    r->to_me_bytes_s = beat->to_you_bytes_s;
    r->sends_bytes_s = beat->sends_bytes_s;
    r->receives_bytes_s = beat->receives_bytes_s;
}

static void counters(const shoal_comm *comm, uint32_t rank, uint64_t *ended_out,
                     uint64_t *idle_us_out)
{
    *ended_out = rank == comm->me ? comm->watch->ended : comm->peers[rank].doing.ended;
    *idle_us_out = rank == comm->me ? idle_so_far(comm) : comm->peers[rank].doing.idle_us;
}

/* Everyone's counters, as deltas of this window; false: not enough has happened yet. */
static bool window_over(const shoal_comm *comm, bool any)
{
    for (uint32_t i = 0; i < comm->ranks; i++) {
        uint64_t ended, idle_us;
        counters(comm, i, &ended, &idle_us);
        uint64_t more = ended - comm->watch->rank[i].window_ended;
        if (any ? more > 0 : here(comm, i) && more < WINDOW_OPS)
            return any;
    }
    return !any;
}

static void begin_window(shoal_comm *comm)
{
    shoali_watch *w = comm->watch;
    w->window_started_us = comm->now_us;
    for (uint32_t i = 0; i < comm->ranks; i++)
        counters(comm, i, &w->rank[i].window_ended, &w->rank[i].window_idle_us);
}

static float *new_window(shoal_comm *comm)
{
    shoali_watch *w = comm->watch;
    if (w->windows == SHOALI_WATCH_WINDOWS) {
        memmove(w->compute_us, w->compute_us + comm->ranks,
                (size_t)(SHOALI_WATCH_WINDOWS - 1) * comm->ranks * sizeof *w->compute_us);
        memmove(w->window_us, w->window_us + 1, sizeof w->window_us - sizeof w->window_us[0]);
        memmove(w->step_us, w->step_us + 1, sizeof w->step_us - sizeof w->step_us[0]);
        memmove(w->steps, w->steps + 1, sizeof w->steps - sizeof w->steps[0]);
        w->windows--;
    }
    w->window_us[w->windows] = w->window_started_us;
    return w->compute_us + (size_t)w->windows++ * comm->ranks;
}

/* compute_us of all, and the mean step's length and wait; how many there were. */
static double measure(shoal_comm *comm, float *compute_us, float *step_us_out, uint32_t *steps_out)
{
    shoali_watch *w = comm->watch;
    double length_us = (double)shoali_since(comm, w->window_started_us);
    double step_us = 0, wait_us = 0, steps = 0;
    uint32_t counted = 0;
    for (uint32_t i = 0; i < comm->ranks; i++) {
        uint64_t ended, idle_us;
        counters(comm, i, &ended, &idle_us);
        compute_us[i] = 0;
        if (!here(comm, i) || idle_us < w->rank[i].window_idle_us)
            continue;
        double ops = (double)(ended - w->rank[i].window_ended);
        double idle = (double)(idle_us - w->rank[i].window_idle_us);
        steps += ops;
        ops = ops > 0 ? ops : 1;
        w->rank[i].compute_us = (uint64_t)(idle / ops);
        compute_us[i] = (float)(idle / ops) + 1; /* above zero: it had a part in it */
        step_us += length_us / ops;
        wait_us += (length_us > idle ? length_us - idle : 0) / ops;
        counted++;
    }
    counted = counted > 0 ? counted : 1;
    *step_us_out = (float)(step_us / counted);
    *steps_out = (uint32_t)(steps / counted);
    return wait_us / counted;
}

/* The newest windows are judged, as many as a verdict needs: what was wrong a minute ago may be
 * mended. */
static uint32_t first_recent(const shoali_watch *w, uint32_t *steps_out)
{
    enum { RECENT = 8 };
    uint32_t first = w->windows, steps = 0;
    while (first > 0 && (w->windows - first < RECENT || steps < SHOAL_VERDICT_STEPS))
        steps += w->steps[--first];
    *steps_out = steps;
    return first;
}

static void judge(shoal_comm *comm, double wait_us)
{
    shoali_watch *w = comm->watch;
    for (uint32_t i = 0; i < comm->ranks; i++) {
        w->links[i] = here(comm, i) ? (double)w->rank[i].sends_bytes_s : 0;
        w->links[comm->ranks + i] = here(comm, i) ? (double)w->rank[i].receives_bytes_s : 0;
    }
    shoali_slow_input input = {.ranks = comm->ranks, .wait_us = wait_us};
    const uint32_t first = first_recent(w, &input.steps);
    input.windows = w->windows - first;
    if (input.windows < WINDOWS_LEAST) /* too few to know how much they vary by themselves */
        input.steps = 0;
    input.compute_us = w->compute_us + (size_t)first * comm->ranks;
    input.step_us = w->step_us + first;
    input.sends = w->links;
    input.receives = w->links + comm->ranks;
    shoali_slow_judge(&input, w->verdict);
    uint32_t worst = SHOALI_NOBODY;
    for (uint32_t i = 0; i < comm->ranks; i++) {
        const shoali_slow *v = &w->verdict[i];
        uint64_t began_us = v->cause == SHOALI_SLOW_COMPUTE && v->last_since < input.windows
                                ? w->window_us[first + v->last_since]
                                : w->window_us[w->windows - 1];
        if (v->cause == SHOALI_SLOW_NOT)
            w->rank[i].slow_since_us = 0;
        else if (w->rank[i].slow_since_us == 0)
            w->rank[i].slow_since_us = began_us;
        if (v->cause != SHOALI_SLOW_NOT &&
            (worst == SHOALI_NOBODY || v->caused_us > w->verdict[worst].caused_us))
            worst = i;
    }
    atomic_store(&w->slowest_cause, worst == SHOALI_NOBODY ? 0 : w->verdict[worst].cause);
    atomic_store(&w->slowest, worst);
}

void shoali_watch_judge(shoal_comm *comm)
{
    shoali_watch *w = comm->watch;
    uint64_t length_us = shoali_since(comm, w->window_started_us);
    if (length_us < WINDOW_US || (!window_over(comm, false) && length_us < LONGEST_WINDOW_US))
        return;
    if (comm->open != NULL || window_over(comm, true)) { /* else nothing happens at all */
        float *compute_us = new_window(comm);
        const uint32_t newest = w->windows - 1;
        judge(comm, measure(comm, compute_us, &w->step_us[newest], &w->steps[newest]));
    }
    begin_window(comm);
}

bool shoali_comm_slowest(const shoal_comm *comm, uint32_t *rank_out, const char **cause_out)
{
    if (comm->watch == NULL)
        return false;
    *rank_out = atomic_load(&comm->watch->slowest);
    *cause_out = shoali_slow_name(atomic_load(&comm->watch->slowest_cause));
    return *rank_out != SHOALI_NOBODY && (*cause_out)[0] != '\0';
}

/* ---------------------------------------------------------------- a row of the answer */

static uint32_t state_of(const shoal_comm *comm, uint32_t rank, uint64_t silent_us)
{
    const shoali_peer *peer = &comm->peers[rank];
    uint32_t state = atomic_load_explicit(&peer->state, memory_order_relaxed);
    if (state == SHOALI_PEER_LOST)
        return SHOALI_RANK_DEAD;
    if (state == SHOALI_PEER_LEFT)
        return SHOALI_RANK_LEFT;
    if (!peer->up)
        return SHOALI_RANK_MISSING;
    return silent_us >= 2 * (uint64_t)comm->peer_timeout_us / UNRESPONSIVE_PARTS
               ? SHOALI_RANK_UNRESPONSIVE
               : SHOALI_RANK_RUNNING;
}

static void say_doing(const shoal_comm *comm, uint32_t rank, shoali_status_row *row)
{
    const shoali_peer *peer = &comm->peers[rank];
    if (rank == comm->me) {
        row->busy = comm->open != NULL;
        row->for_us = comm->open != NULL ? shoali_since(comm, comm->open->started_us)
                                         : shoali_since(comm, comm->doing_since_us);
        snprintf(row->text, sizeof row->text, "%s",
                 comm->open != NULL ? comm->open->name : comm->last_name);
        row->ended = comm->watch->ended;
        return;
    }
    row->busy = peer->doing.busy;
    row->for_us = peer->doing.for_us + shoali_since(comm, peer->doing_us);
    snprintf(row->text, sizeof row->text, "%s", peer->doing.text);
    row->ended = peer->doing.ended;
}

void shoali_watch_row(const shoal_comm *comm, uint32_t rank, shoali_status_row *row_out)
{
    const shoali_watched *r = &comm->watch->rank[rank];
    const shoali_slow *v = &comm->watch->verdict[rank];
    uint64_t silent_us = rank == comm->me ? 0 : shoali_since(comm, comm->peers[rank].heard_us);
    *row_out = (shoali_status_row){
        .state = rank == comm->me ? SHOALI_RANK_RUNNING : state_of(comm, rank, silent_us),
        .cause = v->cause,
        .last_permille = (uint32_t)(v->last_share * 1000),
        .last_seen_us = silent_us,
        .compute_us = r->compute_us,
        .caused_us = (uint64_t)v->caused_us,
        .slow_for_us = r->slow_since_us != 0 ? shoali_since(comm, r->slow_since_us) : 0,
        .sends_bytes_s = r->sends_bytes_s,
        .receives_bytes_s = r->receives_bytes_s};
    snprintf(row_out->host, sizeof row_out->host, "%s", comm->peers[rank].host);
    say_doing(comm, rank, row_out);
}
