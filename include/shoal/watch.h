/* SPDX-License-Identifier: Apache-2.0 */
/* What a running job does: any rank answers on a local unix socket, from what heartbeats told it.
 *
 *     shoal_watch_ask(NULL, 1000000, &watch)
 *     for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++)
 *         shoal_watch_rank(watch, i, &rank)
 *     shoal_watch_close(watch)
 *
 * The answer does not need the ranks that it is about: it comes while they are stopped, dead or
 * computing. Sockets live in SHOAL_STATUS_DIR, else $XDG_RUNTIME_DIR/shoal, else /tmp/shoal-UID: a
 * folder that only its user may enter. Only that user (and root) gets an answer. */
#ifndef SHOAL_WATCH_H
#define SHOAL_WATCH_H

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_watch shoal_watch;

/** Steps, or operations, that a verdict on who is slow needs. */
enum { SHOAL_VERDICT_STEPS = 50 };

/** How one rank fares, as the answering rank knows it. The words for its state are those of NCCL's
 * RAS. */
typedef struct shoal_watch_rank_state {
    size_t size;
    char host[64];
    /** "running" | "missing" (has not connected yet) | "unresponsive" (silent for a second, or 0.4
     * of the peer timeout) | "dead" (given up) | "left" (said goodbye) */
    char state[16];
    /** "compute", "network", "input" (making batches), "load" (more samples than others), "disk"
     * (its part of checkpoints), "pause" (its process stands still now and then): everyone waits
     * for it, for this reason; at most one rank has each. "": no, or not surely: docs/status.md. */
    char cause[16];
    double slow_s;                /* for how long, at least */
    double caused_ms, last_share; /* of a mean operation; share of the last windows, 0 .. 1 */
    bool busy;          /* `operation` is under way, for doing_s; else it is the last one */
    char operation[64]; /* "all-reduce 1182"; "" before the first */
    double doing_s;     /* busy: in the operation; else: since it ended */
    uint64_t ended;     /* operations that have ended there */
    double last_seen_s; /* since any frame came from it */
    double compute_ms;  /* between two operations, mean of the last window */
    /** Of its best connection each way, bytes per second while there was something to send; 0: not
     * known (shared memory, or nothing sent yet). */
    double sends_bytes_s, receives_bytes_s;
    /** Per operation, mean of the windows that the verdict is on: making batches, writing its part
     * of checkpoints, standing still, and samples taken. 0 where the job does not train. */
    double data_ms, disk_ms, paused_ms, samples;
    uint64_t step;         /* of its training, made so far; 0: it does not train, or none yet */
    uint32_t epoch;        /* of that step, from 1 */
    double loss, accuracy; /* mean of its own samples in that step; when last tested, percent. NaN:
                              not known */
} shoal_watch_rank_state;

/**
 * Ask a job that runs on this host.
 * @param place      NULL or "": the only job here | a job's name (SHOAL_JOB) | its number in the
 *                   order of shoal_watch_all, from 1 | the path of one rank's socket. All ranks
 *                   found are asked at once; the first answer counts.
 * @param timeout_us of the whole
 * @param watch_out  owned by the caller; shoal_watch_close.
 * @return SHOAL_OK | EINVAL (no such job, or several: they are in the text) | ETIMEDOUT (sockets,
 *         but no answer) | ECORRUPT | EIO | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_watch_ask(const char *place, int64_t timeout_us,
                                                      shoal_watch **watch_out);
/**
 * Ask all jobs of this user that run on this host.
 * @param watch_out  the job that has been running for longest; shoal_watch_next has the others.
 *                   Jobs of which no rank answers come last, and have 0 ranks. Owned by the caller;
 *                   shoal_watch_close closes them all.
 * @return SHOAL_OK | EINVAL (there is none) | EIO | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_watch_all(int64_t timeout_us, shoal_watch **watch_out);
/** The next job of shoal_watch_all; NULL: that was the last. */
SHOAL_API const shoal_watch *shoal_watch_next(const shoal_watch *watch);
/** The job's name, who answered, and for how long it has been running. Without a name (SHOAL_JOB)
 *  it is called after its program and a number. */
SHOAL_API void shoal_watch_job(const shoal_watch *watch, const char **job_out,
                               uint32_t *answered_by_out, double *age_s_out);
SHOAL_API uint32_t shoal_watch_ranks(const shoal_watch *watch);
/** rank_out->size says how much of it the caller knows. @return SHOAL_OK | EINVAL (no such rank) */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_watch_rank(const shoal_watch *watch, uint32_t rank,
                                                       shoal_watch_rank_state *rank_out);
/** What else the answering rank has to say, a line each: which of several links to another rank is
 * not used any more. "" if nothing; lives as long as watch. */
SHOAL_API const char *shoal_watch_notes(const shoal_watch *watch);
/** NULL is allowed. */
SHOAL_API void shoal_watch_close(shoal_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
