/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of a job that is running: what its ranks on this host tell of their rings. They share a
 * clock, so nothing has to be compared. */
#include "trace/trace.h"

#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "watch/told.h"

enum { LONGEST_S = 86400 };

static uint64_t newest_of(const shoali_told *told, uint32_t count)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < count; i++)
        newest = told[i].now_us > newest ? told[i].now_us : newest;
    return newest;
}

/* All answers are cut to the same time, as they came one after the other. Kinds are a file's. */
static void keep_since(const shoali_told *told, uint64_t since_us, shoali_trace_rank *rank)
{
    *rank = (shoali_trace_rank){
        .rank = told->head.rank, .overwritten = told->overwritten, .events = told->events};
    for (uint64_t i = 0; i < told->count; i++) {
        const shoali_trace_event *e = &told->events[i];
        if (e->kind < SHOALI_TRACE_KINDS && e->start_us + e->took_us >= since_us)
            rank->events[rank->count++] = *e;
    }
    shoali_trace_sort(rank);
}

static shoal_status refuse_without(const shoali_told *told, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (told[i].keeps)
            return SHOAL_OK;
    (void)shoali_fail(SHOAL_EINVAL, "job %.64s keeps no events, or has not begun",
                      told[0].head.job);
    shoali_error_advice(
        "shoal train keeps them, but for --plan, --simulate and --no-exchange; shoal "
        "sim with --trace FILE; a program with keep_events of shoal_train_desc.");
    return SHOAL_EINVAL;
}

static shoal_status write_told(const shoali_told *told, uint32_t count, double last_s,
                               const char *path, shoal_train_traced *traced)
{
    const uint64_t newest_us = newest_of(told, count), last_us = (uint64_t)(last_s * 1e6);
    const uint64_t since_us = newest_us > last_us ? newest_us - last_us : 0;
    shoali_trace_about about = {.path = path,
                                .made_by = "shoal trace",
                                .model = told[0].model,
                                .whole = count == told[0].head.ranks};
    shoali_trace_rank *ranks = shoali_alloc_array(count, sizeof *ranks);
    if (ranks == NULL)
        return SHOAL_ENOMEM;
    about.exact = about.whole;
    for (uint32_t i = 0; i < count; i++) {
        keep_since(&told[i], since_us, &ranks[i]);
        about.exact = about.exact && told[i].together;
        about.whole = about.whole && told[i].keeps;
        traced->events += ranks[i].count;
        for (uint64_t k = 0; k < ranks[i].count; k++) {
            const shoali_trace_event *e = &ranks[i].events[k];
            about.steps = e->step + 1 > about.steps ? e->step + 1 : about.steps;
            traced->seconds = fmax(traced->seconds, (double)(newest_us - e->start_us) * 1e-6);
        }
    }
    traced->told = count;
    traced->ranks = told[0].head.ranks;
    const shoal_status status = shoali_trace_write(&about, ranks, count);
    shoali_free(ranks);
    return status;
}

shoal_status shoal_train_trace_job(const char *place, double last_s, int64_t timeout_us,
                                   const char *path, shoal_train_traced *traced_out)
{
    shoali_told *told = NULL;
    uint32_t count = 0;
    if (path == NULL || traced_out == NULL || !(last_s > 0 && last_s <= LONGEST_S))
        return shoali_fail(SHOAL_EINVAL, "a trace of a job wants a file, and 0 to %d seconds",
                           LONGEST_S);
    SHOALI_TRY(shoali_told_ask(place, (uint32_t)(last_s * 1e3 + 1), timeout_us, &told, &count));
    shoal_train_traced traced = {.size = sizeof traced};
    shoal_status status = refuse_without(told, count);
    if (status == SHOAL_OK)
        status = write_told(told, count, last_s, path, &traced);
    shoali_told_free(told, count);
    if (status == SHOAL_OK)
        *traced_out = traced;
    return status;
}
