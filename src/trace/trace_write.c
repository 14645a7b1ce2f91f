/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks' events as one file in the Trace Event Format's JSON form, which ui.perfetto.dev reads:
 * a process per rank, its training a thread, its buckets threads below that. */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/new_file.h"
#include "trace/trace.h"

enum { LANES = 16, SLOWEST = 5 };

static const char *const names[SHOALI_TRACE_KINDS] = {
    "step",   "data",     "compute", "forward",  "backward",   "wait",
    "update", "exchange", "check",   "evaluate", "checkpoint", "reform"};

/* Ranks beside each other at one step, or at one bucket of it. */
typedef struct beside {
    uint64_t step, offset;
    double start_us, end_us; /* on the first rank's clock */
    uint32_t rank, lane;
} beside;

typedef struct writer {
    FILE *file;
    uint64_t count; /* of events written */
    double zero_us; /* the earliest event's start */
    beside *computed, *buckets;
    size_t computed_count, bucket_count;
    bool failed;
} writer;

/* Takes the object over. */
static void put(writer *w, json_t *object)
{
    if (object == NULL || fputs(w->count++ > 0 ? ",\n" : "", w->file) < 0 ||
        json_dumpf(object, w->file, JSON_COMPACT | JSON_REAL_PRECISION(15)) != 0)
        w->failed = true;
    json_decref(object);
}

static double start_of(const shoali_trace_rank *rank, const shoali_trace_event *event)
{
    return (double)event->start_us - rank->offset_us;
}

/* ------------------------------------------------------------------ beside each other */

static int by_place(const void *a, const void *b)
{
    const beside *x = a, *y = b;
    if (x->step != y->step)
        return x->step > y->step ? 1 : -1;
    if (x->offset != y->offset)
        return x->offset > y->offset ? 1 : -1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The first of a group, and how many are in it. */
static size_t group_of(const beside *all, size_t count, size_t from)
{
    size_t n = 1;
    while (from + n < count && all[from + n].step == all[from].step &&
           all[from + n].offset == all[from].offset)
        n++;
    return n;
}

/* Each rank is there, and once: it was neither made again nor does it go two ways. */
static bool all_once(const beside *group, size_t n, uint32_t ranks)
{
    for (size_t i = 1; i < n; i++)
        if (group[i].rank == group[i - 1].rank)
            return false;
    return n == ranks;
}

/* Buckets overlap: each takes the first lane that is free. */
static uint32_t take_lane(double ends[LANES], double start_us, double end_us)
{
    uint32_t lane = 0;
    while (lane + 1 < LANES && ends[lane] > start_us)
        lane++;
    ends[lane] = end_us;
    return lane;
}

static void lay_out(writer *w, const shoali_trace_rank *rank)
{
    double ends[LANES] = {0};
    for (uint64_t i = 0; i < rank->count; i++) {
        const shoali_trace_event *e = &rank->events[i];
        const double start = start_of(rank, e), end = start + e->took_us;
        beside it = {.step = e->step, .start_us = start, .end_us = end, .rank = rank->rank};
        if (start < w->zero_us)
            w->zero_us = start;
        if (e->kind == SHOALI_TRACE_COMPUTE)
            w->computed[w->computed_count++] = it;
        if (e->kind != SHOALI_TRACE_EXCHANGE)
            continue;
        it.offset = e->offset;
        it.lane = take_lane(ends, start, end);
        w->buckets[w->bucket_count++] = it;
    }
}

/* Who had computed last in a step; NULL: not all are in the trace. */
static const beside *last_of(const writer *w, uint64_t step, uint32_t ranks)
{
    size_t low = 0, high = w->computed_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->computed[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == w->computed_count || w->computed[low].step != step ||
        !all_once(&w->computed[low], group_of(w->computed, w->computed_count, low), ranks))
        return NULL;
    const beside *last = &w->computed[low];
    for (uint32_t i = 1; i < ranks; i++)
        if (w->computed[low + i].end_us > last->end_us)
            last = &w->computed[low + i];
    return last;
}

/* ------------------------------------------------------------------ events */

static void put_name(writer *w, const char *what, uint32_t rank, int thread, const char *name)
{
    put(w, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid", (int)rank,
                     "tid", thread, "args", "name", name));
}

static void put_names(writer *w, uint32_t rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank %u", rank);
    put_name(w, "process_name", rank, 0, name);
    put_name(w, "thread_name", rank, 0, "training");
    put_name(w, "thread_name", rank, 1, "buckets");
}

static void put_span(writer *w, uint32_t rank, int thread, const shoali_trace_event *e,
                     double start_us, json_t *args)
{
    put(w, json_pack("{s:s, s:s, s:i, s:i, s:f, s:I, s:o}", "ph", "X", "name", names[e->kind],
                     "pid", (int)rank, "tid", thread, "ts", start_us - w->zero_us, "dur",
                     (json_int_t)e->took_us, "args", args));
}

/* compared: of how many ranks; 0: they are not compared. */
static void put_event(writer *w, const shoali_trace_rank *rank, const shoali_trace_event *e,
                      double ends[LANES], uint32_t compared)
{
    const double start = start_of(rank, e);
    json_t *args = json_pack("{s:I}", "step", (json_int_t)e->step);
    int thread = 0;
    if (e->kind == SHOALI_TRACE_EXCHANGE) {
        thread = 1 + (int)take_lane(ends, start, start + e->took_us);
        json_object_set_new(args, "offset", json_integer((json_int_t)e->offset));
        json_object_set_new(args, "sent_bytes", json_integer(e->sent_bytes));
        json_object_set_new(args, "encode_us", json_integer(e->encode_us));
        json_object_set_new(args, "decode_us", json_integer(e->decode_us));
    }
    const beside *last = e->kind == SHOALI_TRACE_WAIT && compared > 1
                             ? last_of(w, e->step, compared)
                             : NULL;
    if (last != NULL && last->rank != rank->rank && last->end_us > start &&
        start + e->took_us > last->end_us - rank->error_us) {
        json_object_set_new(args, "for", json_integer(last->rank));
        json_object_set_new(args, "for_us", json_real(last->end_us - start));
    }
    put_span(w, rank->rank, thread, e, start, args);
}

static void put_rank(writer *w, const shoali_trace_rank *rank, uint32_t compared)
{
    double ends[LANES] = {0};
    put_names(w, rank->rank);
    for (uint64_t i = 0; i < rank->count && !w->failed; i++)
        put_event(w, rank, &rank->events[i], ends, compared);
}

static void put_arrow(writer *w, const char *end, const beside *at, double when_us, uint64_t id)
{
    put(w, json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:I}", "ph", end, "bp", "e", "cat",
                     "bucket", "name", "all wait for this", "pid", (int)at->rank, "tid",
                     1 + (int)at->lane, "ts", when_us - w->zero_us, "id", (json_int_t)id));
}

/* A bucket's sum is nowhere before its last rank has sent: an arrow from there to all others. */
static void put_arrows(writer *w, uint32_t ranks)
{
    uint64_t id = 0;
    for (size_t i = 0, n; i < w->bucket_count && !w->failed; i += n) {
        n = group_of(w->buckets, w->bucket_count, i);
        if (!all_once(&w->buckets[i], n, ranks))
            continue;
        const beside *last = &w->buckets[i];
        for (size_t j = i; j < i + n; j++)
            if (w->buckets[j].start_us > last->start_us)
                last = &w->buckets[j];
        for (size_t j = i; j < i + n; j++) {
            if (w->buckets[j].rank == last->rank)
                continue;
            put_arrow(w, "s", last, last->start_us, ++id);
            put_arrow(w, "f", &w->buckets[j], w->buckets[j].end_us, id);
        }
    }
}

/* ------------------------------------------------------------------ slowest steps */

typedef struct slow_step {
    const shoali_trace_rank *rank;
    const shoali_trace_event *event;
} slow_step;

/* A step counts once, by its slowest rank. */
static void offer(slow_step list[SLOWEST], slow_step it)
{
    int at = SLOWEST;
    for (int i = 0; i < SLOWEST; i++)
        if (list[i].event != NULL && list[i].event->step == it.event->step) {
            if (list[i].event->took_us >= it.event->took_us)
                return;
            memmove(&list[i], &list[i + 1], (size_t)(SLOWEST - 1 - i) * sizeof *list);
            list[SLOWEST - 1] = (slow_step){0};
        }
    while (at > 0 &&
           (list[at - 1].event == NULL || list[at - 1].event->took_us < it.event->took_us))
        at--;
    if (at == SLOWEST)
        return;
    memmove(&list[at + 1], &list[at], (size_t)(SLOWEST - 1 - at) * sizeof *list);
    list[at] = it;
}

static void put_slowest(writer *w, const shoali_trace_rank *ranks, uint32_t count)
{
    slow_step list[SLOWEST] = {{0}};
    char name[32];
    for (uint32_t r = 0; r < count; r++)
        for (uint64_t i = 0; i < ranks[r].count; i++)
            if (ranks[r].events[i].kind == SHOALI_TRACE_STEP)
                offer(list, (slow_step){&ranks[r], &ranks[r].events[i]});
    for (int i = 0; i < SLOWEST && list[i].event != NULL; i++) {
        const shoali_trace_event *e = list[i].event;
        snprintf(name, sizeof name, "slow step, place %d", i + 1);
        put(w, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:{s:I, s:I}}", "ph", "i", "s", "g",
                         "name", name, "pid", (int)list[i].rank->rank, "tid", 0, "ts",
                         start_of(list[i].rank, e) - w->zero_us, "args", "step",
                         (json_int_t)e->step, "took_us", (json_int_t)e->took_us));
    }
}

/* ------------------------------------------------------------------ the file */

static json_t *other_data(const shoali_trace_about *about, const shoali_trace_rank *ranks,
                          uint32_t count)
{
    json_t *list = json_array(), *lost = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:f, s:f, s:I, s:I}", "rank", (int)ranks[i].rank,
                                        "clock_offset_us", ranks[i].offset_us, "clock_error_us",
                                        ranks[i].error_us, "events", (json_int_t)ranks[i].count,
                                        "overwritten", (json_int_t)ranks[i].overwritten));
    shoal_train_loss loss = {.size = sizeof loss};
    for (uint32_t i = 0; about->train != NULL && shoal_train_loss_of(about->train, i, &loss); i++)
        json_array_append_new(lost,
                              json_pack("{s:i, s:I, s:f, s:s%}", "rank", (int)loss.rank, "step",
                                        (json_int_t)loss.step, "after_s", loss.after_s, "why",
                                        loss.why, strnlen(loss.why, sizeof loss.why)));
    return json_pack("{s:s, s:b, s:s, s:I, s:o, s:o}", "made_by", about->made_by, "whole",
                     about->whole, "model", about->model, "steps", (json_int_t)about->steps,
                     "ranks", list, "lost", lost);
}

static void put_all(writer *w, const shoali_trace_about *about, const shoali_trace_rank *ranks,
                    uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        lay_out(w, &ranks[i]);
    qsort(w->computed, w->computed_count, sizeof *w->computed, by_place);
    qsort(w->buckets, w->bucket_count, sizeof *w->buckets, by_place);
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", w->file);
    for (uint32_t i = 0; i < count; i++)
        put_rank(w, &ranks[i], about->exact ? count : 0);
    if (about->exact)
        put_arrows(w, count);
    put_slowest(w, ranks, count);
    fputs("\n],\"otherData\":", w->file);
    json_t *other = other_data(about, ranks, count);
    if (other == NULL || json_dumpf(other, w->file, JSON_COMPACT | JSON_REAL_PRECISION(15)) != 0)
        w->failed = true;
    json_decref(other);
    fputs("}\n", w->file);
}

/* The system's reason, with what it is about. */
static shoal_status of_the_trace(const char *path, shoal_status status)
{
    const int os_error = shoal_last_error()->os_error;
    return status == SHOAL_EIO && os_error > 0
               ? shoali_fail_os(status, os_error, "cannot write the trace to %s", path)
               : status;
}

shoal_status shoali_trace_may(const char *path)
{
    return of_the_trace(path, shoali_new_file_may(path));
}

shoal_status shoali_trace_write(const shoali_trace_about *about, shoali_trace_rank *ranks,
                                uint32_t count)
{
    const char *path = about->path;
    size_t events = 0;
    for (uint32_t i = 0; i < count; i++)
        events += ranks[i].count;
    writer w = {.zero_us = (double)UINT64_MAX};
    w.computed = shoali_alloc_array(events + 1, sizeof *w.computed);
    w.buckets = shoali_alloc_array(events + 1, sizeof *w.buckets);
    shoali_new_file file = {0};
    shoal_status status = w.computed != NULL && w.buckets != NULL
                              ? of_the_trace(path, shoali_new_file_open_named(path, &file))
                              : shoali_fail(SHOAL_ENOMEM, "no memory to write the trace %s", path);
    if (status == SHOAL_OK) {
        w.file = file.file;
        put_all(&w, about, ranks, count);
        status = w.failed && !ferror(w.file)
                     ? shoali_fail(SHOAL_ENOMEM, "no memory to write the trace %s", path)
                     : of_the_trace(path, shoali_new_file_commit(&file));
    }
    shoali_new_file_discard(&file);
    shoali_free(w.computed);
    shoali_free(w.buckets);
    return status;
}
