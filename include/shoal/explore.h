/* SPDX-License-Identifier: Apache-2.0 */
/* Phase I of E-RNN (Li et al., HPCA 2019): which recurrent network, and with which circulant
 * blocks, is small enough for a device and still good enough, found in at most a handful of
 * trainings. docs/explore.md tells it in words.
 *
 *     shoal_explore_desc desc = SHOAL_EXPLORE_DESC_INIT;
 *     desc.limit = 0.3, desc.memory_bits = 38e6, desc.matrices = m, desc.matrix_count = 4;
 *     desc.weights = count_weights, desc.train = train_one, desc.ctx = &mine;
 *     if (shoal_explore(&desc, &result) != SHOAL_OK) ...
 *
 * The search itself trains nothing: it calls back. It supposes what E-RNN observed, that the error
 * grows with the block size, and goes through these steps, each trial counted:
 *
 *   1. bounds: k_low is the smallest power of two whose weights fit into the memory's share, k_high
 *      the largest one by which the work still shrinks noticeably;
 *   2. the whole LSTM, unless its error is known;
 *   3. the LSTM at k_low: if that misses the limit, layers must become larger, and the search ends;
 *   4. block size: bisection between k_low and k_high;
 *   5. a GRU at the size found: kept if it holds the limit and has fewer weights;
 *   6. twice the block size in the input matrices, then in the output ones: kept if they hold it.
 *
 * One trial each is set aside for 5 and 6; what the trials do not suffice for is left out, and
 * told. */
#ifndef SHOAL_EXPLORE_H
#define SHOAL_EXPLORE_H
/* Of libshoal_train: pkg-config shoal_train. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SHOAL_EXPLORE_TRIALS_MAX = 16 };

/** A network. Blocks of 1: whole matrices. */
typedef struct shoal_explore_choice {
    bool gru;
    uint32_t k;      /* of recurrent matrices */
    uint32_t kx, ky; /* of input and output matrices */
} shoal_explore_choice;

/** A matrix of the LSTM, whole: for the work that blocks leave. */
typedef struct shoal_explore_matrix {
    uint32_t rows, cols;
} shoal_explore_matrix;

typedef struct shoal_explore_desc {
    size_t size;
    double limit;         /* error that may be added to the whole LSTM's, points */
    double baseline;      /* [NaN: a trial finds it] the whole LSTM's error, percent */
    double memory_bits;   /* [0: no bound] of the device */
    double share;         /* [0.8] of it that weights may take */
    uint32_t weight_bits; /* [12] */
    uint32_t k_most;      /* [64] no larger blocks */
    uint32_t trials;      /* [5] trainings in all, 1 .. SHOAL_EXPLORE_TRIALS_MAX */
    const shoal_explore_matrix *matrices;
    uint32_t matrix_count;
    /** Weights of a network. */
    shoal_status (*weights)(void *ctx, const shoal_explore_choice *choice, uint64_t *count_out);
    /** Train a network; its error in percent. Another status than SHOAL_OK ends the search. */
    shoal_status (*train)(void *ctx, const shoal_explore_choice *choice, double *error_out);
    void *ctx;
} shoal_explore_desc;
/** Everything that this version knows is zero but for the baseline, which is not known. */
#define SHOAL_EXPLORE_DESC_INIT                                                                 \
    {                                                                                           \
        sizeof(shoal_explore_desc), 0, (double)__builtin_nanf(""), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/** What a trial was for. */
typedef enum shoal_explore_step {
    SHOAL_EXPLORE_BASELINE,
    SHOAL_EXPLORE_SANITY,
    SHOAL_EXPLORE_BLOCKS,
    SHOAL_EXPLORE_GRU,
    SHOAL_EXPLORE_INPUT,
    SHOAL_EXPLORE_OUTPUT
} shoal_explore_step;

typedef struct shoal_explore_trial {
    shoal_explore_step step;
    shoal_explore_choice choice;
    uint64_t weights;
    double error, added; /* percent; points above the baseline */
    bool holds;          /* the limit */
    bool kept;           /* and the search went on from it */
} shoal_explore_trial;

typedef struct shoal_explore_result {
    size_t size;
    uint32_t k_low, k_high;
    double baseline;
    bool found;                  /* false: the LSTM misses the limit at k_low already */
    shoal_explore_choice chosen; /* if found */
    uint64_t weights;            /* of it */
    double error;
    shoal_explore_trial trials[SHOAL_EXPLORE_TRIALS_MAX];
    uint32_t trial_count;
    bool blocks_cut;                      /* more trials might have found larger blocks */
    bool input_left_out, output_left_out; /* no trials were left for them */
} shoal_explore_result;

/**
 * Search.
 * @return SHOAL_OK, also if nothing was found | EINVAL (a field; no power of two up to k_most lets
 * the weights fit; too few trials to look at anything) | what a callback returned
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_explore(const shoal_explore_desc *desc,
                                                    shoal_explore_result *result_out);

#ifdef __cplusplus
}
#endif
#endif
