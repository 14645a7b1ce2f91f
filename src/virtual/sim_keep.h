/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation leaves in the form of a real run (shoal_sim_keep): a run folder and a trace.
 * sim_keep.c: the folder, and who is told what; sim_lines.c: lines of metrics and of events;
 * sim_judge.c: who was slow. */
#ifndef SHOALI_VIRTUAL_SIM_KEEP_H
#define SHOALI_VIRTUAL_SIM_KEEP_H

#include <jansson.h>
#include <stdio.h>

#include "driver/sim.h"
#include "trace/trace.h"
#include "worker/worker.h"

enum {
    SHOALI_SIM_BUFFER = 1 << 14, /* of a worker's lines, whole ones; files are not kept open */
    SHOALI_SIM_LINE = 2048,      /* room for a line */
    SHOALI_SIM_TRACE_EVENTS = 1 << 20, /* of all workers; of one as many as a real rank keeps */
    SHOALI_SIM_RECENT = 256            /* steps that are judged: as of a real run */
};

/** What is kept of a worker. */
typedef struct shoali_sim_lines {
    char *text; /* [SHOALI_SIM_BUFFER] */
    size_t used;
    bool begun;    /* its file is there */
    uint32_t rank; /* among those who are there */
    uint64_t steps, last_end_ns;
    uint64_t sent_bytes, received_bytes, dense_bytes; /* when its newest step ended */
    uint64_t comm_ns, comm_until_ns;                  /* since then; counted up to here */
    double compute_us, wait_us;                       /* sums */
    shoali_trace_event *events;                       /* [keep.events_each] a ring */
    uint64_t noted;
} shoali_sim_lines;

/** An iteration that is judged. */
typedef struct shoali_sim_recent {
    uint64_t step; /* counted from 1 */
    float step_us, compute_us;
} shoali_sim_recent;

typedef struct shoali_sim_keep {
    shoal_sim *sim;
    char *out, *trace; /* NULL: none */
    int lock, events;  /* descriptor + 1 */
    shoali_sim_lines *workers;
    shoali_sim_recent *recent; /* [workers][SHOALI_SIM_RECENT] */
    uint32_t events_each, live, lost;
    shoal_status status; /* the first failure to write */
    shoal_error error;
    size_t there; /* of out's path: the bytes that lead to a folder which was there */
} shoali_sim_keep;

/** Remember the first failure. */
void shoali_sim_keep_note(shoali_sim_keep *keep, shoal_status status);

/* sim_lines.c */
/** A step that a worker has made: a line of its metrics. */
void shoali_sim_line_step(shoali_sim_keep *keep, uint32_t worker, const shoali_sim_iteration *it);
/** That it goes on in the epoch that begins. */
void shoali_sim_line_reform(shoali_sim_keep *keep, uint32_t worker);
/** What a network has learnt, at the end. */
void shoali_sim_line_epoch(shoali_sim_keep *keep);
void shoali_sim_lines_flush(shoali_sim_keep *keep);
/** A line of events.jsonl at this virtual moment; `more` is given away. */
void shoali_sim_event_add(shoali_sim_keep *keep, const char *event, uint32_t rank, json_t *more);
void shoali_sim_event_warn(shoali_sim_keep *keep, const char *level, uint32_t rank,
                           const char *text);

/* sim_undo.c */
/** How much of a path leads to something that is there, in bytes. */
size_t shoali_sim_there(const char *path);
/** Remove what a run folder of which nothing came has got from us, and the folders made for it. */
void shoali_sim_undo(const shoali_sim_keep *keep);

/* sim_judge.c */
/** Add to the events who was slow. */
void shoali_sim_judge(shoali_sim_keep *keep);

#endif
