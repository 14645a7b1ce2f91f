/* SPDX-License-Identifier: Apache-2.0 */
/* What codec_choice.c (measure, choose) and codec_bound.c (check, fall back) share. */
#ifndef SHOALI_WORKER_CODEC_CHOICE_PARTS_H
#define SHOALI_WORKER_CODEC_CHOICE_PARTS_H

#include "base/auto_spec.h"
#include "plan/choose.h"
#include "worker/codec_choice.h"

enum { SHOALI_CHOICE_MOST = 32, SHOALI_CHOICE_SAMPLE = 16 };

/* Gradients that travel as one operation, in the order of the backward pass. */
typedef struct shoali_choice_bucket {
    size_t offset, count;
    uint32_t tensor, tensor_count;
    size_t packed; /* elements of it in the exchange that is being measured */
} shoali_choice_bucket;

/* auto:error=E. All of it is the same on all ranks, but for what `want` holds. */
typedef struct shoali_codec_bound {
    double most; /* E; 0: no bound, or nobody to exchange with */
    uint64_t every;
    uint32_t ladder[SHOALI_CHOICE_MOST]; /* candidates: the choice, where it falls to, and so on */
    uint32_t rungs, rung;                /* rung: in use */
    float *want;                         /* [param_count] what this rank wants to be summed */
    float *exact;                        /* [exact_room] of a sample, summed in float32 */
    size_t exact_room;
    bool checking; /* this step */
    uint64_t checks;
    double last; /* NAN: no check yet */
    shoal_train_codec_fall falls[SHOALI_CHOICE_MOST];
    uint32_t fall_count;
} shoali_codec_bound;

struct shoali_codec_choice {
    shoali_candidate candidates[SHOALI_CHOICE_MOST];
    uint32_t count, chosen;
    bool made, measured;
    uint64_t seen;     /* steps of this process */
    double compute_us; /* shortest pass without an exchange beside it */
    double rest_us;
    double off_s, off_cpu_s, off_bytes; /* of the last step's exchange without overlap: float32 */
    double spent_s;                     /* in candidates' exchanges */
    float *copy;                        /* [param_count] */
    shoal_tensor *table;
    shoali_choice_bucket *buckets;
    double *ready_s, *share;
    shoal_op **ops;
    shoali_bucket_time *scratch;
    uint32_t bucket_count;
    shoali_codec_bound bound;
    shoal_arena *arena;
};

/* codec_bound.c */
SHOAL_MUST_USE shoal_status shoali_bound_create(shoal_train *train, const shoali_auto_spec *asked);
void shoali_bound_destroy(shoali_codec_bound *bound);
/** The buckets of choice->copy hold a sample of this rank's gradients: sum it exactly, as what
 * candidates' sums are held against. */
SHOAL_MUST_USE shoal_status shoali_bound_sample(shoal_train *train);
/** They hold its sum as a candidate delivered it. @return relative squared error; NAN: none */
double shoali_bound_sample_error(const shoali_codec_choice *choice);
/** The choice is made: where it may fall to. */
void shoali_bound_ladder(shoali_codec_choice *choice);
/** Whether this step's exchange is checked. */
bool shoali_bound_due(const shoal_train *train);
/** Its exchange is about to begin. */
SHOAL_MUST_USE shoal_status shoali_bound_begin(shoal_train *train);

#endif
