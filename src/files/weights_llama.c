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
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "files/weights_hf.h"

/* Layers of a block, in their order. */
static const char *const block[] = {"rmsnorm", "attention", "add", "rmsnorm", "swiglu", "add"};
static const uint8_t backs[] = {0, 0, 3, 0, 0, 3};
enum { BLOCK = sizeof block / sizeof *block };

static const shoali_framewise_params *scores_of(const shoal_model *model)
{
    return model->layers[model->layer_count - 1].params;
}

/* A lookup of frames, blocks as parts.c makes them, a norm, and scores. */
static bool is_llama(const shoal_model *model)
{
    const uint32_t count = model->layer_count;
    if (count < 3 + BLOCK || !shoali_hf_is(model, 0, "lookup") ||
        !shoali_hf_is(model, count - 2, "rmsnorm") || !shoali_hf_is(model, count - 1, "framewise"))
        return false;
    for (uint32_t i = 2; i < count - 2; i += BLOCK)
        if (shoali_hf_is(model, i, "attention") &&
            ((const shoali_attention_params *)model->layers[i].params)->bias)
            return false;
    return shoali_hf_repeats(model, 1, count - 3, block, backs, BLOCK) &&
           ((const shoali_lookup_params *)model->layers[0].params)->positions == 0 &&
           !scores_of(model)->bias && scores_of(model)->k == 1;
}

/* ---------------------------------------------------------------- names */

static const struct {
    const char *role, *name;
} matrices[] = {
    {"query", "self_attn.q_proj"}, {"key", "self_attn.k_proj"}, {"value", "self_attn.v_proj"},
    {"out", "self_attn.o_proj"},   {"gate", "mlp.gate_proj"},   {"up", "mlp.up_proj"},
    {"down", "mlp.down_proj"},
};

static void place_of(const shoal_model *model, const shoali_layer *layer, const char *role,
                     shoali_hf_place *place)
{
    char *name_out = place->name;
    const size_t room = sizeof place->name;
    const uint32_t index = (uint32_t)(layer - model->layers), last = model->layer_count - 1;
    const uint32_t at = (index - 1) % BLOCK, number = (index - 1) / BLOCK;
    const char *name = at == 0 ? "input_layernorm" : "post_attention_layernorm";
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        if (strcmp(matrices[i].role, role) == 0)
            name = matrices[i].name;
    if (index == 0 || index + 1 >= last)
        snprintf(name_out, room, "%s.weight",
                 index == 0      ? "model.embed_tokens"
                 : index == last ? "lm_head"
                                 : "model.norm");
    else
        snprintf(name_out, room, "model.layers.%u.%s.weight", number, name);
}

/* ---------------------------------------------------------------- config.json */

/* What all blocks have in common: config.json says it once. */
static shoal_status check_blocks(const shoal_model *model)
{
    const shoali_rmsnorm_params *first = model->layers[1].params;
    for (uint32_t i = 1; i + 1 < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i], *same = &model->layers[1 + (i - 1) % BLOCK];
        const shoali_attention_params *attention = layer->params;
        const shoali_rmsnorm_params *norm = layer->params;
        if (shoali_hf_is(model, i, "rmsnorm") && norm->eps != first->eps)
            return shoali_hf_differs(layer, "eps is one for all norms");
        if (strcmp(layer->spec, same->spec) != 0)
            return shoali_hf_differs(layer, "all blocks are alike");
        if (shoali_hf_is(model, i, "attention") && (!attention->causal || !attention->rope))
            return shoali_hf_differs(layer, "llama's attention is causal, and has rope");
    }
    return SHOAL_OK;
}

static shoal_status config_of(const shoal_model *model, json_t **json_out)
{
    const shoali_layer *first = &model->layers[2];
    const shoali_attention_sizes s = shoali_attention_sizes_of(first);
    const double theta = ((const shoali_attention_params *)first->params)->theta;
    const int64_t ff = ((const shoali_swiglu_params *)model->layers[5].params)->ff;
    SHOALI_TRY(check_blocks(model));
    json_t *all = json_pack(
        "{s:[s], s:s, s:s, s:i, s:I, s:i, s:i, s:i, s:i, s:I, s:i}", "architectures",
        "LlamaForCausalLM", "model_type", "llama", "hidden_act", "silu", "hidden_size",
        (int)s.width, "intermediate_size", (json_int_t)ff, "num_hidden_layers",
        (int)((model->layer_count - 3) / BLOCK), "num_attention_heads", (int)s.heads,
        "num_key_value_heads", (int)s.kv, "head_dim", (int)s.dim, "vocab_size",
        (json_int_t)scores_of(model)->out, "max_position_embeddings", (int)s.frames);
    json_t *more = json_pack(
        "{s:f, s:f, s:{s:s, s:f}, s:b, s:b, s:b, s:s, s:n, s:n}", "rms_norm_eps",
        ((const shoali_rmsnorm_params *)model->layers[1].params)->eps, "rope_theta", theta,
        "rope_parameters", "rope_type", "default", "rope_theta", theta, "tie_word_embeddings",
        (int)scores_of(model)->tied, "attention_bias", 0, "mlp_bias", 0, "torch_dtype", "float32",
        "bos_token_id", "eos_token_id");
    if (all != NULL && more != NULL)
        json_object_update(all, more);
    json_decref(more);
    *json_out = all;
    return SHOAL_OK;
}

static const char *const own_heads[] = {"lm_head.", NULL};
extern const shoali_hf_family shoali_hf_llama;
const shoali_hf_family shoali_hf_llama = {.what = "LLaMA",
                                          .prefix = "",
                                          .heads = own_heads,
                                          .front = 1,
                                          .block = BLOCK,
                                          .attention = 1,
                                          .sums = {1, 4},
                                          .drops = {NULL, NULL, "attention_dropout"},
                                          .is = is_llama,
                                          .place = place_of,
                                          .config = config_of};
