/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker does when: a ring of events in memory, put on one clock and into one file at the
 * end. Perfetto's JSON (Trace Event Format): docs/trace.md. */
#ifndef SHOALI_TRACE_TRACE_H
#define SHOALI_TRACE_TRACE_H

#include <stdatomic.h>

#include "watch/kept.h"
#include "worker/worker.h"

/* The longest steps of each rank outlive its ring. The five longest of all are among those of the
 * rank that took longest for them; what others did in these is there, too, unless they have eight
 * that were longer. */
enum { SHOALI_TRACE_SLOW = 8, SHOALI_TRACE_SLOW_EVENTS = 256 };

typedef enum {
    SHOALI_TRACE_STEP,
    SHOALI_TRACE_DATA,
    SHOALI_TRACE_COMPUTE, /* what follows lies in it, and SHOALI_TRACE_DATA */
    SHOALI_TRACE_FORWARD, /* with the loss */
    SHOALI_TRACE_BACKWARD,
    SHOALI_TRACE_WAIT,
    SHOALI_TRACE_UPDATE,
    SHOALI_TRACE_EXCHANGE, /* a bucket, from its operation's start to its end */
    SHOALI_TRACE_CHECK,    /* of the replicas */
    SHOALI_TRACE_EVALUATE,
    SHOALI_TRACE_CHECKPOINT,
    SHOALI_TRACE_REFORM,
    SHOALI_TRACE_KINDS
} shoali_trace_kind;

/* A slow step's events, which outlive the ring. */
typedef struct shoali_trace_slow {
    uint64_t took_us, step, count;
    shoali_trace_event events[SHOALI_TRACE_SLOW_EVENTS];
} shoali_trace_slow;

struct shoali_trace {
    const char *path; /* NULL: no file, but who asks is told (trace_ask.c) */
    uint64_t last;    /* steps that are asked for; UINT64_MAX: all */
    bool reports;     /* this was the worker that tells, after the latest step */
    bool written;     /* or tried */
    double error_us;  /* of the clocks in it, at most; NaN: this rank has written none */
    shoali_trace_slow slow[SHOALI_TRACE_SLOW]; /* of this run's, in no order; took_us 0: none */
    shoali_kept ring;
};

/** What one rank brings to the file; its clock is offset_us ahead of the first rank's. */
typedef struct shoali_trace_rank {
    uint32_t rank;
    uint64_t overwritten, count;
    double offset_us, error_us; /* the true offset is within so much of it */
    shoali_trace_event *events; /* [count] owned, by start */
} shoali_trace_rank;

/** Take the ring, 0.9 MB, if desc.trace or desc.keep_events asks for one, and see that the file can
 * be written.
 * @return SHOAL_OK | EINVAL (simulate, plan, no_exchange) | EIO | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_trace_open(shoal_train *train);
/** Something that began at start_us has ended now. No lock, no allocation; without a ring nothing.
 * Any thread. */
void shoali_trace_note(shoal_train *train, shoali_trace_kind kind, uint64_t start_us);
/** A step that began at start_us has ended: its events are kept, if it is one of the longest. */
void shoali_trace_step(shoal_train *train, uint64_t start_us);
/** The same of a bucket: all but kind is given. */
void shoali_trace_add(shoali_trace *trace, shoali_trace_event event);
/** Collective among the members: their events on the first one's clock, which writes the file. */
SHOAL_MUST_USE shoal_status shoali_trace_collect(shoal_train *train);
/** The members are others, in another communicator. */
void shoali_trace_reform(shoal_train *train);
/** Where the run ended without that, who told last writes what it has itself. Of a run in a folder
 * that asked for no trace each rank writes its slow steps. */
void shoali_trace_close(shoal_train *train);

/** How far a rank's clock is ahead of the first one's. An all-reduce ends nowhere before it has
 * begun everywhere, so that is less than (its end - the first one's start) and more than (its start
 * - the first one's end); the narrowest of all rounds holds. After Cristian, "Probabilistic clock
 * synchronization" (Distributed Computing 3, 1989).
 * @param first, its [rounds][start, end] in microseconds
 * @param rank_out offset_us, error_us */
void shoali_trace_compare(const uint64_t *first, const uint64_t *its, uint32_t rounds,
                          shoali_trace_rank *rank_out);

/* trace_write.c */
/** What is said of the whole. */
typedef struct shoali_trace_about {
    const char *path, *made_by, *model;
    uint64_t steps;
    bool exact;               /* ranks make each step together, so that they can be compared */
    bool whole;               /* all ranks are there */
    const shoal_train *train; /* whose losses are told; NULL: none */
} shoali_trace_about;
/** Put events in the order in which they began. */
void shoali_trace_sort(shoali_trace_rank *rank);
/** Whether a trace can be written there, which a run asks before hours are spent: EIO. */
SHOAL_MUST_USE shoal_status shoali_trace_may(const char *path);
/** Events are sorted. The file is there whole, or not at all.
 * @return SHOAL_OK | EIO | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_trace_write(const shoali_trace_about *about,
                                               shoali_trace_rank *ranks, uint32_t count);

#endif
