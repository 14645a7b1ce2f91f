/* SPDX-License-Identifier: Apache-2.0 */
/* A heartbeat says how many operations have ended on its sender and how long it had none open: what
 * it computed. Between two beats that is a mean per operation, without comparing clocks, whatever
 * the schedule. A window is a second or more, until every rank has ended two operations in it; ten
 * seconds at most, so that whoever does not come at all is noticed, too. Rates are the sender's:
 * each rank tells each other how fast it sends to it, and all its best ones. */
#include "watch/watch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

enum { WINDOW_US = 1000000, LONGEST_WINDOW_US = 10000000, WINDOW_OPS = 2, WINDOWS_LEAST = 4 };

static bool here(const shoali_watch *w, uint32_t rank)
{
    return rank == w->desc.me || w->desc.host.here(w->desc.host.ctx, rank);
}

shoal_status shoali_watch_open(const shoali_watch_desc *desc, shoali_watch **watch_out)
{
    shoali_watch *w = shoali_alloc(sizeof *w);
    if (w == NULL)
        return SHOAL_ENOMEM;
    w->desc = *desc;
    w->desc.job = w->desc.rendezvous = NULL;
    w->listener = -1;
    shoali_watch_label(desc->job, program_invocation_short_name, desc->rendezvous, w->label);
    w->slowest = SHOALI_NOBODY;
    for (int i = 0; i < SHOALI_WATCH_CLIENTS; i++)
        w->clients[i].fd = -1;
    w->started_us = w->window_started_us = w->idle_since_us = *desc->now_us;
    w->rank = shoali_alloc_array(desc->size, sizeof *w->rank);
    w->compute_us = shoali_alloc_array((size_t)SHOALI_WATCH_WINDOWS * desc->size,
                                       sizeof *w->compute_us);
    bool tables = true;
    for (int i = 0; i < SHOALI_FARES; i++) {
        w->fares[i] = shoali_alloc_array((size_t)SHOALI_WATCH_WINDOWS * desc->size,
                                         sizeof *w->fares[i]);
        tables = tables && w->fares[i] != NULL;
    }
    w->verdict = shoali_alloc_array(desc->size, sizeof *w->verdict);
    w->links = shoali_alloc_array(2 * (size_t)desc->size, sizeof *w->links);
    if (w->rank == NULL || w->compute_us == NULL || !tables || w->verdict == NULL ||
        w->links == NULL) {
        shoali_watch_close(w);
        return SHOAL_ENOMEM;
    }
    for (uint32_t i = 0; i < desc->size; i++)
        w->rank[i].progress.loss = w->rank[i].progress.accuracy = NAN;
    shoali_watch_serve_open(w);
    *watch_out = w;
    return SHOAL_OK;
}

void shoali_watch_close(shoali_watch *watch)
{
    if (watch == NULL)
        return;
    shoali_watch_serve_close(watch);
    shoali_free(watch->rank);
    shoali_free(watch->compute_us);
    for (int i = 0; i < SHOALI_FARES; i++)
        shoali_free(watch->fares[i]);
    shoali_free(watch->verdict);
    shoali_free(watch->links);
    shoali_free(watch);
}

/* ---------------------------------------------------------------- this rank */

void shoali_watch_busy(shoali_watch *watch)
{
    if (watch == NULL || watch->idle_since_us == 0)
        return;
    watch->rank[watch->desc.me].idle_us += shoali_watch_since(watch, watch->idle_since_us);
    watch->idle_since_us = 0;
}

void shoali_watch_ended(shoali_watch *watch)
{
    if (watch != NULL)
        watch->rank[watch->desc.me].ended++;
}

void shoali_watch_idle(shoali_watch *watch)
{
    if (watch != NULL)
        watch->idle_since_us = *watch->desc.now_us;
}

static uint64_t idle_so_far(const shoali_watch *w)
{
    const uint64_t now = w->idle_since_us != 0 ? shoali_watch_since(w, w->idle_since_us) : 0;
    return w->rank[w->desc.me].idle_us + now;
}

/* The rate of this rank's connection to another, over what was sent since it was last taken; known
 * anew after enough of it. */
static void take_rate(shoali_watch *w, uint32_t rank)
{
    shoali_watched *r = &w->rank[rank];
    shoal_peer_stats stats = {.size = sizeof stats};
    w->desc.host.carried(w->desc.host.ctx, rank, &stats);
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

void shoali_watch_say(shoali_watch *w, shoali_heartbeat *beat)
{
    shoali_watched *mine = &w->rank[w->desc.me];
    mine->sends_bytes_s = mine->receives_bytes_s = 0;
    for (uint32_t i = 0; i < w->desc.size; i++) {
        if (i == w->desc.me || !here(w, i))
            continue;
        take_rate(w, i);
        if (w->rank[i].to_it_bytes_s > mine->sends_bytes_s)
            mine->sends_bytes_s = w->rank[i].to_it_bytes_s;
        if (w->rank[i].to_me_bytes_s > mine->receives_bytes_s)
            mine->receives_bytes_s = w->rank[i].to_me_bytes_s;
    }
    memcpy(mine->fares, beat->fares, sizeof mine->fares);
    mine->progress = beat->progress;
    beat->ended = mine->ended;
    beat->idle_us = idle_so_far(w);
    beat->sends_bytes_s = mine->sends_bytes_s;
    beat->receives_bytes_s = mine->receives_bytes_s;
}

uint64_t shoali_watch_rate_to(const shoali_watch *watch, uint32_t rank)
{
    return watch->rank[rank].to_it_bytes_s;
}

/* ---------------------------------------------------------------- the others */

void shoali_watch_hear(shoali_watch *watch, uint32_t rank, const shoali_heartbeat *beat)
{
    if (watch == NULL)
        return;
    shoali_watched *r = &watch->rank[rank];
    r->ended = beat->ended;
    r->idle_us = beat->idle_us;
    r->to_me_bytes_s = beat->to_you_bytes_s;
    r->sends_bytes_s = beat->sends_bytes_s;
    r->receives_bytes_s = beat->receives_bytes_s;
    memcpy(r->fares, beat->fares, sizeof r->fares);
    r->progress = beat->progress;
}

static void counters(const shoali_watch *w, uint32_t rank, uint64_t *ended_out,
                     uint64_t *idle_us_out)
{
    *ended_out = w->rank[rank].ended;
    *idle_us_out = rank == w->desc.me ? idle_so_far(w) : w->rank[rank].idle_us;
}

/* Everyone's counters, as deltas of this window; false: not enough has happened yet. */
static bool window_over(const shoali_watch *w, bool any)
{
    for (uint32_t i = 0; i < w->desc.ranks; i++) {
        uint64_t ended, idle_us;
        counters(w, i, &ended, &idle_us);
        uint64_t more = ended - w->rank[i].window_ended;
        if (any ? more > 0 : here(w, i) && more < WINDOW_OPS)
            return any;
    }
    return !any;
}

static void begin_window(shoali_watch *w)
{
    w->window_started_us = *w->desc.now_us;
    for (uint32_t i = 0; i < w->desc.ranks; i++) {
        shoali_watched *r = &w->rank[i];
        counters(w, i, &r->window_ended, &r->window_idle_us);
        memcpy(r->window_fares, r->fares, sizeof r->window_fares);
    }
}

static void drop_oldest(const shoali_watch *w, float *table)
{
    memmove(table, table + w->desc.ranks,
            (size_t)(SHOALI_WATCH_WINDOWS - 1) * w->desc.ranks * sizeof *table);
}

/* The first of its places in each table. */
static size_t new_window(shoali_watch *w)
{
    if (w->windows == SHOALI_WATCH_WINDOWS) {
        drop_oldest(w, w->compute_us);
        for (int i = 0; i < SHOALI_FARES; i++)
            drop_oldest(w, w->fares[i]);
        memmove(w->window_us, w->window_us + 1, sizeof w->window_us - sizeof w->window_us[0]);
        memmove(w->step_us, w->step_us + 1, sizeof w->step_us - sizeof w->step_us[0]);
        memmove(w->steps, w->steps + 1, sizeof w->steps - sizeof w->steps[0]);
        w->windows--;
    }
    w->window_us[w->windows] = w->window_started_us;
    return (size_t)w->windows++ * w->desc.ranks;
}

/* What a rank told of itself in this window, per operation; from is of the tables. @return the time
 * in which it wrote checkpoints: no operation is open then, but it does not compute. */
static double take_fares(const shoali_watch *w, uint32_t rank, double ops, size_t from)
{
    const shoali_watched *r = &w->rank[rank];
    double disk_us = 0;
    for (int i = 0; i < SHOALI_FARES; i++) {
        const uint64_t before = r->window_fares[i];
        const double more = r->fares[i] > before ? (double)(r->fares[i] - before) : 0;
        w->fares[i][from + rank] = (float)(more / ops);
        if (i == SHOALI_FARE_DISK_US)
            disk_us = more;
    }
    return disk_us;
}

/* compute_us of all, and the mean step's length and wait; how many there were. */
static double measure(shoali_watch *w, size_t from, float *step_us_out, uint32_t *steps_out)
{
    float *compute_us = w->compute_us + from;
    double length_us = (double)shoali_watch_since(w, w->window_started_us);
    double step_us = 0, wait_us = 0, steps = 0;
    uint32_t counted = 0;
    for (uint32_t i = 0; i < w->desc.ranks; i++) {
        uint64_t ended, idle_us;
        counters(w, i, &ended, &idle_us);
        compute_us[i] = 0;
        for (int k = 0; k < SHOALI_FARES; k++)
            w->fares[k][from + i] = 0;
        if (!here(w, i) || idle_us < w->rank[i].window_idle_us)
            continue;
        double ops = (double)(ended - w->rank[i].window_ended);
        double idle = (double)(idle_us - w->rank[i].window_idle_us);
        steps += ops;
        ops = ops > 0 ? ops : 1;
        const double disk = take_fares(w, i, ops, from);
        const double computed = idle > disk ? idle - disk : 0;
        w->rank[i].compute_us = (uint64_t)(computed / ops);
        compute_us[i] = (float)(computed / ops) + 1; /* above zero: it had a part in it */
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

static const float *fares_from(const shoali_watch *w, int which, uint32_t window)
{
    return w->fares[which] + (size_t)window * w->desc.ranks;
}

/* Over the windows that were judged. */
static double mean_fare(const shoali_watch *w, int which, uint32_t rank)
{
    double sum = 0;
    for (uint32_t i = w->windows - w->judged; i < w->windows; i++)
        sum += (double)fares_from(w, which, i)[rank];
    return w->judged > 0 ? sum / w->judged : 0;
}

static void judge(shoali_watch *w, double wait_us)
{
    for (uint32_t i = 0; i < w->desc.ranks; i++) {
        w->links[i] = here(w, i) ? (double)w->rank[i].sends_bytes_s : 0;
        w->links[w->desc.ranks + i] = here(w, i) ? (double)w->rank[i].receives_bytes_s : 0;
    }
    shoali_slow_input input = {.ranks = w->desc.ranks, .wait_us = wait_us, .disk_in_step = true};
    const uint32_t first = first_recent(w, &input.steps);
    input.windows = w->judged = w->windows - first;
    if (input.windows < WINDOWS_LEAST) /* too few to know how much they vary by themselves */
        input.steps = 0;
    input.compute_us = w->compute_us + (size_t)first * w->desc.ranks;
    input.data_us = fares_from(w, SHOALI_FARE_DATA_US, first);
    input.disk_us = fares_from(w, SHOALI_FARE_DISK_US, first);
    input.paused_us = fares_from(w, SHOALI_FARE_PAUSED_US, first);
    input.pauses = fares_from(w, SHOALI_FARE_PAUSES, first);
    input.samples = fares_from(w, SHOALI_FARE_SAMPLES, first);
    input.step_us = w->step_us + first;
    input.sends = w->links;
    input.receives = w->links + w->desc.ranks;
    shoali_slow_judge(&input, w->verdict);
    uint32_t worst = SHOALI_NOBODY;
    for (uint32_t i = 0; i < w->desc.ranks; i++) {
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

void shoali_watch_judge(shoali_watch *w)
{
    uint64_t length_us = shoali_watch_since(w, w->window_started_us);
    if (length_us < WINDOW_US || (!window_over(w, false) && length_us < LONGEST_WINDOW_US))
        return;
    if (w->idle_since_us == 0 || window_over(w, true)) { /* else nothing happens at all */
        const size_t from = new_window(w);
        const uint32_t newest = w->windows - 1;
        judge(w, measure(w, from, &w->step_us[newest], &w->steps[newest]));
    }
    begin_window(w);
}

bool shoali_watch_slowest(const shoali_watch *watch, uint32_t *rank_out, const char **cause_out)
{
    if (watch == NULL)
        return false;
    *rank_out = atomic_load(&watch->slowest);
    *cause_out = shoali_slow_name(atomic_load(&watch->slowest_cause));
    return *rank_out != SHOALI_NOBODY && (*cause_out)[0] != '\0';
}

void shoali_watch_row(const shoali_watch *watch, uint32_t rank, shoali_status_row *row_out)
{
    const shoali_watched *r = &watch->rank[rank];
    const shoali_slow *v = &watch->verdict[rank];
    *row_out = (shoali_status_row){
        .cause = v->cause,
        .last_permille = (uint32_t)(v->last_share * 1000),
        .ended = r->ended,
        .compute_us = r->compute_us,
        .caused_us = (uint64_t)v->caused_us,
        .slow_for_us = r->slow_since_us != 0 ? shoali_watch_since(watch, r->slow_since_us) : 0,
        .sends_bytes_s = r->sends_bytes_s,
        .receives_bytes_s = r->receives_bytes_s,
        .data_us = (uint64_t)mean_fare(watch, SHOALI_FARE_DATA_US, rank),
        .disk_us = (uint64_t)mean_fare(watch, SHOALI_FARE_DISK_US, rank),
        .paused_us = (uint64_t)mean_fare(watch, SHOALI_FARE_PAUSED_US, rank),
        .samples_milli = (uint64_t)(1000 * mean_fare(watch, SHOALI_FARE_SAMPLES, rank)),
        .progress = r->progress};
    watch->desc.host.row(watch->desc.host.ctx, rank, row_out);
}
