/* SPDX-License-Identifier: Apache-2.0 */
/* A transform of two rounds: every matrix (rows x cols) of a table travels as a product of two
 * vectors. Round 0 sums p = M q, round 1 sums M^T p after p has been made a unit vector; what the
 * product misses of this rank's matrix stays in the state and is added to the next gradient. One
 * step of the power iteration that PowerSGD (Vogels et al., NeurIPS 2019) is made of, with rank
 * 1. */
#ifndef SHOALI_TESTS_SUPPORT_TOYTRANSFORM_H
#define SHOALI_TESTS_SUPPORT_TOYTRANSFORM_H

#include "codec/codec.h"

extern const shoali_codec_row toy_transform_row;

/** What state keeps back of the gradient, as laid out in the operation's buffer. */
const float *toy_transform_residual(const void *state, const shoal_tensor *tensors,
                                    uint32_t tensor_count);

#endif
