/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOALI_NN_INIT_H
#define SHOALI_NN_INIT_H

#include "model/model.h"

/**
 * Draw a model's first weights: value i of a tensor depends on (seed, tensor key, i) only, so every
 * rank, and any part of a model, gets the same. He: normal, variance 2 / fan_in (He et al., ICCV
 * 2015). Xavier: uniform, variance 2 / (fan_in + fan_out) (Glorot, Bengio, AISTATS 2010). Large
 * circulant blocks of layers that are not recurrent sum up to 0 (init.c says why). Biases 0, norm
 * scales 1.
 */
void shoali_init_params(const shoal_model *model, uint64_t seed, float *params_out);

/** Columns [first, first + count) of a tensor with rows and columns, as shoali_init_params draws
 * them; a vector is one column. out: float32[rows][count]. */
void shoali_init_columns(const shoal_model *model, uint32_t tensor, uint64_t seed, size_t first,
                         size_t count, float *out);

#endif
