/* SPDX-License-Identifier: Apache-2.0 */
/* Models of LLaMA's kind as Hugging Face's `transformers` names them: tensors, and config.json.
 *
 *     lookup1.table                     model.embed_tokens.weight
 *     rmsnorm1.scale                    model.layers.0.input_layernorm.weight
 *     attention1.query, key, value, out     .self_attn.q_proj, k_proj, v_proj, o_proj.weight
 *     rmsnorm2.scale                        .post_attention_layernorm.weight
 *     swiglu1.gate, up, down                .mlp.gate_proj, up_proj, down_proj.weight
 *     the last rmsnorm's                model.norm.weight
 *     framewise1.weight                 lm_head.weight; tied: none */
#ifndef SHOALI_TRAIN_WEIGHTS_LLAMA_H
#define SHOALI_TRAIN_WEIGHTS_LLAMA_H

#include "model/model.h"

/** Whether a model is a lookup of frames, blocks as parts.c makes them, a norm, and scores. */
bool shoali_is_llama(const shoal_model *model);

/** Their name of a tensor of such a model. */
void shoali_llama_name(const shoal_model *model, const shoali_layer *layer, const char *role,
                       char *name_out, size_t room);

/** Write config.json. @return SHOAL_OK | EINVAL (blocks that differ, which it cannot say; a layer
 * that attends otherwise) | EIO | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_llama_config(const shoal_model *model, const char *path);

#endif
