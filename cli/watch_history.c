/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEAN_OF = 5, COUNTS = 10 };

struct watch_ranks {
    uint64_t ended;
    char state[16];
    float rate[WATCH_SAMPLES]; /* the newest last; of those from `samples` before the end on */
};

void watch_history_free(watch_history *h)
{
    free(h->rank);
    *h = (watch_history){0};
}

/* ------------------------------------------------------------------ what changed */

static void add_change(watch_history *h, const char *text)
{
    const time_t now = time(NULL);
    struct tm local;
    char clock[16] = "";
    if (localtime_r(&now, &local) != NULL)
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    if (h->changes == WATCH_CHANGES)
        memmove(h->change[0], h->change[1], sizeof h->change - sizeof h->change[0]);
    else
        h->changes++;
    snprintf(h->change[h->changes - 1], WATCH_CHANGE_BYTES, "%s %s", clock, text);
}

static void compare_state(watch_history *h, uint32_t i, const shoal_watch_rank_state *r)
{
    char text[WATCH_CHANGE_BYTES - 16];
    if (strcmp(h->rank[i].state, r->state) == 0)
        return;
    snprintf(text, sizeof text, "rank %u (%.63s) %s%s, was %s", i, r->host,
             strcmp(r->state, "left") == 0 ? "" : "is ", r->state, h->rank[i].state);
    add_change(h, text);
}

/* ------------------------------------------------------------------ samples */

static bool begin(watch_history *h, const shoal_watch *watch, const char *job)
{
    char text[64];
    const uint32_t ranks = shoal_watch_ranks(watch), before = h->ranks;
    const bool same = h->seen_ms != 0 && strcmp(h->job, job) == 0;
    free(h->rank);
    h->rank = calloc(ranks > 0 ? ranks : 1, sizeof *h->rank);
    h->ranks = h->rank != NULL ? ranks : 0;
    h->samples = 0;
    h->seen_ms = 0;
    if (!same)
        h->changes = 0;
    snprintf(h->job, sizeof h->job, "%s", job);
    snprintf(text, sizeof text, "the ranks have met anew: %u, before %u", ranks, before);
    if (same)
        add_change(h, text);
    return h->rank != NULL;
}

/* Of a rank that is not heard of nothing is known but that nothing ended. */
static void add_sample(watch_history *h, uint32_t i, const shoal_watch_rank_state *r, double dt_s)
{
    watch_ranks *to = &h->rank[i];
    const uint64_t more = r->ended > to->ended ? r->ended - to->ended : 0;
    memmove(to->rate, to->rate + 1, sizeof to->rate - sizeof to->rate[0]);
    to->rate[WATCH_SAMPLES - 1] = (float)((double)more / dt_s);
}

/* Ages say nothing of whether ranks met anew: each counts from its own start, and they answer in
 * turn. What has ended begins at 0. */
static uint64_t most_ended(const shoal_watch *watch)
{
    shoal_watch_rank_state r = {.size = sizeof r};
    uint64_t most = 0;
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK && r.ended > most)
            most = r.ended;
    return most;
}

bool watch_history_add(watch_history *h, const shoal_watch *watch, int64_t now_ms)
{
    const char *job;
    uint32_t by;
    double age_s;
    shoal_watch_rank_state r = {.size = sizeof r};
    shoal_watch_job(watch, &job, &by, &age_s);
    const uint64_t most = most_ended(watch);
    const bool anew = h->seen_ms == 0 || strcmp(h->job, job) != 0 ||
                      h->ranks != shoal_watch_ranks(watch) ||
                      (h->most >= COUNTS && most < h->most / 2);
    if (anew && !begin(h, watch, job))
        return false;
    const double dt_s = (double)(now_ms - h->seen_ms) * 1e-3;
    for (uint32_t i = 0; i < h->ranks; i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK)
            break;
        if (!anew) {
            compare_state(h, i, &r);
            add_sample(h, i, &r, dt_s > 1e-3 ? dt_s : 1e-3);
        }
        h->rank[i].ended = anew || r.ended > h->rank[i].ended ? r.ended : h->rank[i].ended;
        snprintf(h->rank[i].state, sizeof h->rank[i].state, "%s", r.state);
    }
    h->samples += !anew && h->samples < WATCH_SAMPLES;
    h->most = most;
    h->seen_ms = now_ms;
    return true;
}

/* ------------------------------------------------------------------ what it shows */

double watch_history_rate(const watch_history *h, uint32_t rank)
{
    const uint32_t count = h->samples < MEAN_OF ? h->samples : MEAN_OF;
    double sum = 0;
    if (rank >= h->ranks || count == 0)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)h->rank[rank].rate[WATCH_SAMPLES - 1 - i];
    return sum / count;
}

static int by_value(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

double watch_history_pace(const watch_history *h, const shoal_watch *watch)
{
    shoal_watch_rank_state r = {.size = sizeof r};
    double *rates = calloc(h->ranks > 0 ? h->ranks : 1, sizeof *rates), pace = -1;
    size_t count = 0;
    for (uint32_t i = 0; rates != NULL && i < h->ranks; i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK && strcmp(r.state, "running") == 0 &&
            watch_history_rate(h, i) >= 0)
            rates[count++] = watch_history_rate(h, i);
    if (count > 0) {
        qsort(rates, count, sizeof *rates, by_value);
        pace = rates[count / 2];
    }
    free(rates);
    return pace;
}

static float highest(const watch_history *h, uint32_t count)
{
    float most = 0;
    for (uint32_t i = 0; i < h->ranks; i++)
        for (uint32_t k = WATCH_SAMPLES - count; k < WATCH_SAMPLES; k++)
            most = h->rank[i].rate[k] > most ? h->rank[i].rate[k] : most;
    return most;
}

void watch_history_bars(const watch_history *h, uint32_t rank, unsigned width, bool unicode,
                        char *out, size_t bytes)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    const uint32_t shown = h->samples < width ? h->samples : width;
    const float most = highest(h, shown);
    size_t used = (size_t)snprintf(out, bytes, "%*s", (int)(width - shown), "");
    for (uint32_t k = 0; k < shown && rank < h->ranks && used + 4 < bytes; k++) {
        const float rate = h->rank[rank].rate[WATCH_SAMPLES - shown + k];
        int level = most > 0 ? (int)(rate / most * 7 + 0.5f) : 0;
        level = level == 0 && rate > 0 ? 1 : level; /* the lowest is none at all */
        used += (size_t)snprintf(out + used, bytes - used, "%s",
                                 unicode ? blocks[level] : plain[level]);
    }
}
