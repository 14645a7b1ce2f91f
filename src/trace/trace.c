/* SPDX-License-Identifier: Apache-2.0 */
/* The ring, the clocks, and how the first member comes by the others' events. */
#include "trace/trace.h"
#include "worker/together.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"

enum {
    ROUNDS = 32,    /* of the clocks' comparison */
    WORD_PARTS = 4, /* a float holds sixteen bits of a word */
    EVENT_WORDS = sizeof(shoali_trace_event) / sizeof(uint64_t) /* 48 bytes: no rest */
};

/* ------------------------------------------------------------------ the ring */

/* What a run is that has no trace; NULL: it may have one. */
static const char *refused(const shoal_train *train)
{
    const shoal_train_desc *d = &train->desc;
    return d->simulate > 0                        ? "simulate"
           : d->plan != NULL                      ? "plan"
           : d->no_exchange && train->workers > 1 ? "no_exchange"
                                                  : NULL;
}

shoal_status shoali_trace_open(shoal_train *train)
{
    const shoal_train_desc *d = &train->desc;
    if (d->trace == NULL && (!d->keep_events || train->comm == NULL || refused(train) != NULL))
        return SHOAL_OK;
    if (refused(train) != NULL)
        return shoali_fail(SHOAL_EINVAL, "a trace of a run with %s is not there yet",
                           refused(train));
    if (train->server)
        return SHOAL_OK;
    if (d->trace != NULL && train->members.place == 0) /* before hours are spent */
        SHOALI_TRY(shoali_trace_may(d->trace));
    train->trace = shoali_alloc(sizeof *train->trace);
    if (train->trace == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for a trace");
    train->trace->path = d->trace;
    train->trace->error_us = (double)NAN;
    train->trace->last = d->trace_last > 0 ? d->trace_last : UINT64_MAX;
    snprintf(train->trace->ring.model, sizeof train->trace->ring.model, "%s",
             d->model != NULL ? d->model : "");
    return SHOAL_OK;
}

void shoali_trace_reform(shoal_train *train)
{
    if (train->trace == NULL || train->comm == NULL)
        return;
    train->trace->ring.together = !train->loose;
    shoali_comm_tell_events(train->comm, &train->trace->ring);
}

void shoali_trace_add(shoali_trace *trace, shoali_trace_event event)
{
    if (trace != NULL)
        shoali_kept_add(&trace->ring, &event);
}

void shoali_trace_note(shoal_train *train, shoali_trace_kind kind, uint64_t start_us)
{
    if (train->trace == NULL)
        return;
    uint64_t took_us = shoali_now_us() - start_us;
    shoali_trace_add(
        train->trace,
        (shoali_trace_event){.start_us = start_us,
                             .step = train->step,
                             .took_us = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX,
                             .kind = kind});
}

void shoali_trace_step(shoal_train *train, uint64_t start_us)
{
    shoali_trace *trace = train->trace;
    shoali_trace_note(train, SHOALI_TRACE_STEP, start_us);
    if (trace == NULL || (trace->path == NULL && train->desc.out == NULL))
        return;
    const uint64_t took_us = shoali_now_us() - start_us;
    shoali_trace_slow *least = &trace->slow[0];
    for (int i = 1; i < SHOALI_TRACE_SLOW; i++)
        least = trace->slow[i].took_us < least->took_us ? &trace->slow[i] : least;
    if (took_us <= least->took_us)
        return;
    least->took_us = took_us;
    least->step = train->step;
    least->count = shoali_kept_step(&trace->ring, train->step, least->events,
                                    SHOALI_TRACE_SLOW_EVENTS);
}

static int by_start(const void *a, const void *b)
{
    const shoali_trace_event *x = a, *y = b;
    return x->start_us != y->start_us ? (x->start_us > y->start_us ? 1 : -1)
                                      : (x->took_us < y->took_us) - (x->took_us > y->took_us);
}

void shoali_trace_sort(shoali_trace_rank *rank)
{
    if (rank->count > 1)
        qsort(rank->events, rank->count, sizeof *rank->events, by_start);
}

static bool has(const shoali_trace_rank *own, uint64_t count, const shoali_trace_event *event)
{
    for (uint64_t i = 0; i < count; i++)
        if (own->events[i].step == event->step &&
            memcmp(&own->events[i], event, sizeof *event) == 0)
            return true;
    return false;
}

/* What the ring has lost of slow steps. */
static void add_slow(const shoali_trace *trace, shoali_trace_rank *own)
{
    const uint64_t of_ring = own->count;
    for (int s = 0; own->overwritten > 0 && s < SHOALI_TRACE_SLOW; s++)
        for (uint64_t i = 0; i < trace->slow[s].count; i++)
            if (!has(own, of_ring, &trace->slow[s].events[i]))
                own->events[own->count++] = trace->slow[s].events[i];
}

/* Those of the ring that are asked for and, unless these are the last steps, those of slow steps;
 * sorted. */
static shoal_status take_own(const shoal_train *train, shoali_trace_rank *own_out)
{
    const shoali_trace *trace = train->trace;
    const uint64_t from = trace->last < train->step ? train->step - trace->last : 0;
    *own_out = (shoali_trace_rank){.rank = train->rank};
    own_out->events = shoali_alloc_array(
        SHOALI_KEPT_EVENTS + SHOALI_TRACE_SLOW * SHOALI_TRACE_SLOW_EVENTS, sizeof *own_out->events);
    if (own_out->events == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory to write a trace");
    const uint64_t kept = shoali_kept_copy(&trace->ring, 0, own_out->events, &own_out->overwritten);
    for (uint64_t i = 0; i < kept; i++)
        if (own_out->events[i].step >= from)
            own_out->events[own_out->count++] = own_out->events[i];
    if (trace->last == UINT64_MAX)
        add_slow(trace, own_out);
    shoali_trace_sort(own_out);
    return SHOAL_OK;
}

static shoal_status write_own(const shoal_train *train, const char *path, shoali_trace_rank *ranks,
                              uint32_t count, bool whole)
{
    const shoali_trace_about about = {.path = path,
                                      .made_by = train->trace->path != NULL ? "shoal train --trace"
                                                                            : "shoal train --out",
                                      .model = train->desc.model,
                                      .steps = train->step,
                                      .exact = whole && !train->loose,
                                      .whole = whole,
                                      .train = train};
    return shoali_trace_write(&about, ranks, count);
}

/* ------------------------------------------------------------------ words as floats */

/* Sums of floats carry whole numbers below 2^24: sixteen bits each, of one rank, others add 0. */
static void put_words(const uint64_t *words, size_t count, float *out)
{
    for (size_t i = 0; i < count * WORD_PARTS; i++)
        out[i] = (float)(words[i / WORD_PARTS] >> (16 * (i % WORD_PARTS)) & 0xffff);
}

static void get_words(const float *in, size_t count, uint64_t *words_out)
{
    memset(words_out, 0, count * sizeof *words_out);
    for (size_t i = 0; i < count * WORD_PARTS; i++)
        words_out[i / WORD_PARTS] |= (uint64_t)in[i] << (16 * (i % WORD_PARTS));
}

/* ------------------------------------------------------------------ clocks */

void shoali_trace_compare(const uint64_t *first, const uint64_t *its, uint32_t rounds,
                          shoali_trace_rank *rank_out)
{
    int64_t most = INT64_MAX, least = INT64_MIN;
    for (size_t i = 0; i < 2 * (size_t)rounds; i += 2) {
        int64_t below = (int64_t)(its[i + 1] - first[i]), above = (int64_t)(its[i] - first[i + 1]);
        most = below < most ? below : most;
        least = above > least ? above : least;
    }
    rank_out->offset_us = ((double)most + (double)least) / 2;
    rank_out->error_us = fabs((double)most - (double)least) / 2;
}

static shoal_status align(shoal_train *train, shoali_trace_rank *ranks)
{
    const size_t words = 2 * (size_t)ROUNDS, each = words * WORD_PARTS;
    uint64_t mine[2 * ROUNDS], first[2 * ROUNDS];
    float *all = shoali_alloc_array(each * train->members.count, sizeof *all);
    if (all == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory to compare clocks");
    shoal_status status = SHOAL_OK;
    for (size_t i = 0; i < words && status == SHOAL_OK; i += 2) {
        float nothing = 0;
        mine[i] = shoali_now_us();
        status = shoali_train_reduce(train, &nothing, 1, SHOAL_SUM, "clocks");
        mine[i + 1] = shoali_now_us();
    }
    uint32_t place = 0;
    while (train->members.ranks[place] != train->rank)
        place++;
    put_words(mine, words, all + each * place);
    if (status == SHOAL_OK)
        status = shoali_train_reduce(train, all, each * train->members.count, SHOAL_SUM, "clocks");
    get_words(all, words, first);
    for (uint32_t i = 0; i < train->members.count && status == SHOAL_OK; i++) {
        get_words(all + each * i, words, mine);
        ranks[i].rank = train->members.ranks[i];
        if (i > 0)
            shoali_trace_compare(first, mine, ROUNDS, &ranks[i]);
    }
    shoali_free(all);
    return status;
}

/* ------------------------------------------------------------------ to the first member */

/* One member's events to the first; both are here. buf: a count and a place for `most` events. */
static shoal_status hand_over(shoal_train *train, uint32_t place, const shoali_trace_rank *own,
                              shoali_trace_rank *ranks, uint64_t most, float *buf)
{
    const size_t words = 2 + most * EVENT_WORDS;
    const bool receives = train->members.ranks[0] == train->rank;
    const uint32_t pair[2] = {train->members.ranks[0], train->members.ranks[place]};
    uint64_t head[2] = {own->count, own->overwritten};
    memset(buf, 0, words * WORD_PARTS * sizeof *buf);
    if (!receives) {
        put_words(head, 2, buf);
        put_words((const uint64_t *)(const void *)own->events, own->count * EVENT_WORDS,
                  buf + 2 * (size_t)WORD_PARTS);
    }
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf;
    desc.count = words * WORD_PARTS;
    desc.members = pair;
    desc.member_count = 2;
    desc.label = "trace";
    SHOALI_TRY(shoali_comm_run(train->comm, &desc, NULL));
    if (!receives)
        return SHOAL_OK;
    shoali_trace_rank *to = &ranks[place];
    get_words(buf, 2, head);
    to->count = head[0] < most ? head[0] : most;
    to->overwritten = head[1];
    to->events = shoali_alloc_array(to->count + 1, sizeof *to->events);
    if (to->events == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for the trace of rank %u", to->rank);
    get_words(buf + 2 * (size_t)WORD_PARTS, to->count * EVENT_WORDS,
              (uint64_t *)(void *)to->events);
    return SHOAL_OK;
}

static shoal_status gather(shoal_train *train, const shoali_trace_rank *own,
                           shoali_trace_rank *ranks)
{
    float most = (float)own->count; /* below 2^24 */
    SHOALI_TRY(align(train, ranks));
    SHOALI_TRY(shoali_train_reduce(train, &most, 1, SHOAL_MAX, "trace"));
    float *buf = shoali_alloc_array((2 + (size_t)most * EVENT_WORDS) * WORD_PARTS, sizeof *buf);
    if (buf == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory to collect a trace");
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 1; i < train->members.count && status == SHOAL_OK; i++)
        if (train->rank == train->members.ranks[0] || train->rank == train->members.ranks[i])
            status = hand_over(train, i, own, ranks, (uint64_t)most, buf);
    shoali_free(buf);
    return status;
}

static double worst(const shoali_trace_rank *ranks, uint32_t count)
{
    double error_us = 0;
    for (uint32_t i = 0; i < count; i++)
        error_us = fmax(error_us, ranks[i].error_us);
    return error_us;
}

shoal_status shoali_trace_collect(shoal_train *train)
{
    const uint32_t count = train->comm != NULL ? train->members.count : 1;
    shoali_trace_rank own = {0};
    if (train->trace == NULL || train->trace->path == NULL)
        return SHOAL_OK;
    shoali_trace_rank *ranks = shoali_alloc_array(count, sizeof *ranks);
    shoal_status status = ranks != NULL ? take_own(train, &own) : SHOAL_ENOMEM;
    if (status == SHOAL_OK && count > 1)
        status = gather(train, &own, ranks);
    train->trace->written = status == SHOAL_OK;
    if (status == SHOAL_OK && (count == 1 || train->rank == train->members.ranks[0])) {
        own.offset_us = own.error_us = 0;
        ranks[0] = own;
        own.events = NULL;
        status = write_own(train, train->trace->path, ranks, count, true);
        train->trace->error_us = status == SHOAL_OK ? worst(ranks, count) : (double)NAN;
    }
    for (uint32_t i = 0; ranks != NULL && i < count; i++)
        shoali_free(ranks[i].events);
    shoali_free(own.events);
    shoali_free(ranks);
    return status;
}

/* OUT/slowest.json, slowest.N.json: each rank's own, which asks nobody and so costs no network, and
 * is there after a failure, too. */
static void write_slow(const shoal_train *train)
{
    enum { MOST = SHOALI_TRACE_SLOW * SHOALI_TRACE_SLOW_EVENTS, PATH_BYTES = 4096 };
    char path[PATH_BYTES], number[16] = "";
    shoali_trace_rank own = {.rank = train->rank};
    if (train->rank > 0)
        snprintf(number, sizeof number, ".%u", train->rank);
    if (snprintf(path, sizeof path, "%s/slowest%s.json", train->desc.out, number) >= PATH_BYTES)
        return;
    own.events = shoali_alloc_array(MOST, sizeof *own.events);
    for (int s = 0; own.events != NULL && s < SHOALI_TRACE_SLOW; s++)
        for (uint64_t i = 0; i < train->trace->slow[s].count; i++)
            own.events[own.count++] = train->trace->slow[s].events[i];
    shoali_trace_sort(&own);
    if (own.count > 0 && write_own(train, path, &own, 1, false) != SHOAL_OK)
        shoali_log(WARN, "%s", shoal_last_error()->text);
    shoali_free(own.events);
}

void shoali_trace_close(shoal_train *train)
{
    shoali_trace *trace = train->trace;
    shoali_trace_rank own = {0};
    if (trace != NULL && train->comm != NULL)
        shoali_comm_tell_events(train->comm, NULL);
    if (trace != NULL && trace->path != NULL && !trace->written && trace->reports) {
        shoal_status status = take_own(train, &own);
        if (status == SHOAL_OK)
            status = write_own(train, trace->path, &own, 1, false);
        if (status == SHOAL_OK)
            shoali_log(WARN, "the run did not end well: %s has the events of rank %u alone",
                       trace->path, train->rank);
        shoali_free(own.events);
    }
    if (trace != NULL && trace->path == NULL && train->desc.out != NULL)
        write_slow(train);
    shoali_free(trace);
    train->trace = NULL;
}
