/* SPDX-License-Identifier: Apache-2.0 */
/* A second, slow opinion on every layer: double, one sample and one value at a time, written from
 * the definitions and sharing no code with src/nn. Forward only: gradients come from differences.
 */
#ifndef SHOALI_TESTS_SUPPORT_REFERENCE_NET_H
#define SHOALI_TESTS_SUPPORT_REFERENCE_NET_H

#include "model/model.h"

typedef struct reference_batch {
    const double *x;
    const uint32_t *labels;
    uint32_t count;
    uint64_t first_serial, seed;
    double weight;
    bool training;
    const double *state;     /* running statistics, for training == false */
    const uint32_t *lengths; /* of sequences: frames of each sample; labels are [count][frames] */
} reference_batch;

/** weight * mean cross-entropy of the batch. scores_out may be NULL. */
double reference_loss(const shoal_model *model, const double *params, const reference_batch *batch,
                      double *scores_out);

/** Forward of the layer kinds over frames (reference_frames.c); false: another kind. */
bool reference_frames(const shoali_layer *layer, const double *params, const reference_batch *batch,
                      const double *x, double *y);
/** The same of the kinds of language models (reference_tokens.c). y is 0 before. */
bool reference_tokens(const shoali_layer *layer, const double *params, const reference_batch *batch,
                      const double *x, double *y);
/** weight * mean loss of a model of sequences. */
double reference_sequence_loss(const shoal_model *model, const double *scores,
                               const reference_batch *batch);

#endif
