/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and errors of sequences: cross-entropy per frame, or CTC (Graves et al., ICML 2006), and
 * the edit distance between what was said and what was heard. */
#ifndef SHOALI_NN_SEQUENCE_LOSS_H
#define SHOALI_NN_SEQUENCE_LOSS_H

#include "model/model.h"
#include "nn/nn.h"

typedef struct shoali_sequence_work shoali_sequence_work;

/** Memory for sequences of a model, from the arena. */
SHOAL_MUST_USE shoal_status shoali_sequence_work_create(shoal_arena *arena,
                                                        const shoal_model *model,
                                                        shoali_sequence_work **work_out);

/** Gradient of weight * mean loss into dscores (float32[count][frames][classes], 0 behind a
 * sequence's end; NULL: no gradient), and all of *loss but count.
 * @param smoothing of the labels of frames; CTC has none. */
void shoali_sequence_loss(shoali_sequence_work *work, const float *scores,
                          const shoali_batch *batch, double smoothing, float *dscores,
                          shoali_loss *loss);

#endif
