/* SPDX-License-Identifier: Apache-2.0 */
/* Masked language modelling (Devlin et al., NAACL 2019): a share of a sample's tokens is hidden,
 * the net tells what stood there, and the loss is of these frames alone. Of those chosen, 80 %
 * become the mask, 10 % any token, 10 % stay. */
#ifndef SHOALI_NN_MASKED_H
#define SHOALI_NN_MASKED_H

#include "model/model.h"
#include "nn/nn.h"

#define SHOALI_NOT_ASKED UINT32_MAX

/**
 * Hide tokens of one sample: which, and by what, follows from (seed, stream) alone. At least one is
 * hidden where there is one.
 * @param layer  the model's last: masked
 * @param x      float32[frames]: tokens, plus classes times their segment; what is none is left
 * @param hidden float32[frames], the same with some hidden
 * @param labels uint32[frames]: the tokens that are asked for, else SHOALI_NOT_ASKED
 */
void shoali_mask(const shoali_layer *layer, const float *x, uint32_t frames, uint64_t seed,
                 uint64_t stream, float *hidden, uint32_t *labels);

/** The stream of sample n of a batch: in training of its number in the run; else of its tokens, so
 * that a test sample is asked the same whenever it comes. */
uint64_t shoali_mask_stream(const shoali_layer *layer, const shoali_batch *batch, uint32_t n,
                            bool training);

/** All samples of a batch, each up to its length. In tests the seed is not read.
 * @param hidden, asked float32 and uint32[count][frames] */
void shoali_mask_batch(const shoali_layer *layer, const shoali_batch *batch, bool training,
                       uint64_t seed, float *hidden, uint32_t *asked);

/** Mean cross-entropy of each sample's asked frames; as shoali_sequence_loss.
 * @param labels uint32[count][frames] of shoali_mask */
void shoali_masked_loss(const shoali_layer *layer, const float *scores, const uint32_t *labels,
                        const shoali_batch *batch, double smoothing, float *dscores,
                        shoali_loss *loss);

#endif
