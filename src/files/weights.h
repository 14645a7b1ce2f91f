/* SPDX-License-Identifier: Apache-2.0 */
/* A model's weights as PyTorch's modules name and shape them, in safetensors: layer conv1 is a
 * module `conv1`, so that
 *
 *     ours                                   PyTorch's
 *     conv1.weight  [out][in k k]            Conv2d  conv1.weight [out, in, k, k]
 *     dense, framewise: weight, bias         Linear  weight [out, in], bias [out]
 *     batchnorm: scale, shift, its state     BatchNorm2d  weight, bias, running_mean, running_var
 *     lstm: input, recurrent, bias           LSTM(batch_first)  weight_ih_l0, weight_hh_l0,
 *       (gates i, f, z, o as there)            bias_ih_l0 and bias_hh_l0, whose sum ours is
 *
 *     lookup, rmsnorm, attention, swiglu     Embedding, RMSNorm, and Linears: q_proj, gate_proj ...
 *     a whole LLaMA, GPT-2, BERT              as weights_llama.c, _gpt2.c and _bert.c say
 *
 * the backward direction with `_reverse`. What has no counterpart (circulant blocks, peepholes,
 * gru, whose candidate differs) is refused by name. Another kind is a line of the table there. */
#ifndef SHOALI_FILES_WEIGHTS_H
#define SHOALI_FILES_WEIGHTS_H

#include "files/safetensors.h"
#include "model/model.h"

/** Write them. state: of batch norm. @return SHOAL_OK | EINVAL (the layer) | EIO | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_weights_write(const char *path, const shoal_model *model,
                                                 const float *params, const float *state);
/** Whether a file says nothing of a model of ours, so that its tensors are named so. */
bool shoali_weights_are_foreign(const shoali_safetensors *file);
/** Read them, all or none, in float32 or from 16 bits.
 * @param fresh_out NULL, or how many tensors of a head the file lacks, which stay as they are
 * @return SHOAL_OK | EINVAL (a layer; a tensor that is missing, there too much or of another shape
 * or type: its name, what was expected, what was found) | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_weights_read(const char *path, const shoali_safetensors *file,
                                                const shoal_model *model, float *params,
                                                float *state, uint32_t *fresh_out);

#endif
