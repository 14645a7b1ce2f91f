/* SPDX-License-Identifier: Apache-2.0 */
/* Which codec makes a training step shortest: a pure function of figures that all ranks share
 * (docs/codecs.md, "Let Shoal choose"). worker/codec_choice.c measures them. */
#ifndef SHOALI_PLAN_CHOOSE_H
#define SHOALI_PLAN_CHOOSE_H

#include "plan/predict.h"

/** A codec that may be chosen, and what an exchange of one step's gradients in it takes while
 * nothing else runs: the slowest rank's figures, seconds and bytes per step. */
typedef struct shoali_candidate {
    const char *spec;
    bool lossless, barred; /* barred: it breaks a bound, and is never chosen */
    double error;          /* relative squared error of the mean gradient; NAN: not measured */
    double exchange_s;     /* from start to completion; INFINITY: it could not be measured */
    double cpu_s;          /* processor time of the busiest rank, coding included */
    double code_s;         /* encode and decode */
    double sent_bytes;     /* coded */
    double step_s;         /* predicted; shoali_choose fills it in */
} shoali_candidate;

/** Everything else about a step. */
typedef struct shoali_choose_args {
    double compute_s;      /* forward and backward pass, without an exchange beside it */
    double rest_s;         /* update and whatever else is neither pass nor exchange */
    double cores;          /* processors per worker; what was measured holds for that many */
    const double *ready_s; /* [bucket_count] when each bucket is final, ascending */
    const double *share;   /* [bucket_count] of the elements; sums to 1 */
    uint32_t bucket_count;
} shoali_choose_args;

/**
 * Predict every candidate's step and choose. Candidate 0 is "off" (float32 as it is). Within 2 % of
 * the fastest, which is what a measurement is worth, "off" goes first, then what is lossless, then
 * what is fastest.
 * @param scratch [bucket_count]
 * @return index of the choice; 0 if nothing could be measured
 */
uint32_t shoali_choose(const shoali_choose_args *args, shoali_candidate *candidates, uint32_t count,
                       shoali_bucket_time *scratch);

/**
 * Where to go when what is in use breaks the bound after all: the fastest of those that are not
 * barred and had a smaller error, lossless ones at the end. Candidates as shoali_choose leaves
 * them.
 * @return index; 0 ("off") where no other is left
 */
uint32_t shoali_choose_finer(const shoali_candidate *candidates, uint32_t count, uint32_t in_use);

#endif
