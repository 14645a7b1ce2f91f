/* SPDX-License-Identifier: Apache-2.0 */
#include "train/weights_llama.h"

#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "base/new_file.h"

/* Layers of a block, in their order. */
static const char *const block[] = {"rmsnorm", "attention", "add", "rmsnorm", "swiglu", "add"};
enum { BLOCK = sizeof block / sizeof *block };

static bool is(const shoal_model *model, uint32_t layer, const char *kind)
{
    return strcmp(model->layers[layer].row->name, kind) == 0;
}

static const shoali_framewise_params *scores_of(const shoal_model *model)
{
    return model->layers[model->layer_count - 1].params;
}

static bool adds_the_way_around(const shoal_model *model, uint32_t layer)
{
    return ((const shoali_branch_params *)model->layers[layer].params)->back == 3;
}

bool shoali_is_llama(const shoal_model *model)
{
    const uint32_t count = model->layer_count;
    if (count < 3 + BLOCK || (count - 3) % BLOCK != 0 || !is(model, 0, "lookup") ||
        !is(model, count - 2, "rmsnorm") || !is(model, count - 1, "framewise"))
        return false;
    for (uint32_t i = 1; i < count - 2; i++) {
        const char *kind = block[(i - 1) % BLOCK];
        if (!is(model, i, kind) || (kind == block[2] && !adds_the_way_around(model, i)))
            return false;
    }
    return !scores_of(model)->bias && scores_of(model)->k == 1;
}

/* ---------------------------------------------------------------- names */

static const struct {
    const char *role, *name;
} matrices[] = {
    {"query", "self_attn.q_proj"}, {"key", "self_attn.k_proj"}, {"value", "self_attn.v_proj"},
    {"out", "self_attn.o_proj"},   {"gate", "mlp.gate_proj"},   {"up", "mlp.up_proj"},
    {"down", "mlp.down_proj"},
};

void shoali_llama_name(const shoal_model *model, const shoali_layer *layer, const char *role,
                       char *name_out, size_t room)
{
    const uint32_t index = (uint32_t)(layer - model->layers), last = model->layer_count - 1;
    const uint32_t place = (index - 1) % BLOCK, number = (index - 1) / BLOCK;
    const char *name = place == 0 ? "input_layernorm" : "post_attention_layernorm";
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

static shoal_status differs(const shoali_layer *layer, const char *why)
{
    return shoali_fail(SHOAL_EINVAL, "config.json cannot say what layer %s (%s) is: %s",
                       layer->name, layer->spec, why);
}

/* What all blocks have in common: config.json says it once. */
static shoal_status check_blocks(const shoal_model *model)
{
    const shoali_rmsnorm_params *first = model->layers[1].params;
    for (uint32_t i = 1; i + 1 < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i], *same = &model->layers[1 + (i - 1) % BLOCK];
        const shoali_attention_params *attention = layer->params;
        const shoali_rmsnorm_params *norm = layer->params;
        if (is(model, i, "rmsnorm") && norm->eps != first->eps)
            return differs(layer, "eps is one for all norms");
        if (strcmp(layer->spec, same->spec) != 0)
            return differs(layer, "all blocks are alike");
        if (is(model, i, "attention") && (!attention->causal || !attention->rope))
            return differs(layer, "llama's attention is causal, and has rope");
    }
    return SHOAL_OK;
}

static json_t *config_of(const shoal_model *model)
{
    const shoali_layer *first = &model->layers[2];
    const shoali_attention_sizes s = shoali_attention_sizes_of(first);
    const double theta = ((const shoali_attention_params *)first->params)->theta;
    const int64_t ff = ((const shoali_swiglu_params *)model->layers[5].params)->ff;
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
    return all;
}

shoal_status shoali_llama_config(const shoal_model *model, const char *path)
{
    shoali_new_file out;
    SHOALI_TRY(check_blocks(model));
    json_t *config = config_of(model);
    if (config == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = shoali_new_file_open(path, &out);
    if (status == SHOAL_OK) {
        json_dumpf(config, out.file, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        fputc('\n', out.file);
        status = shoali_new_file_commit(&out);
    }
    json_decref(config);
    return status;
}
