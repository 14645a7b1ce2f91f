/* SPDX-License-Identifier: Apache-2.0 */
/* Models of GPT-2's kind as Hugging Face's `transformers` names them. Their matrices are [in, out],
 * and queries, keys and values are one:
 *
 *     lookup1.table, positions          transformer.wte.weight, wpe.weight
 *     layernorm1.scale, shift           transformer.h.0.ln_1.weight, bias
 *     attention1.query, key, value          .attn.c_attn.weight; their biases: .bias
 *     attention1.out, out_bias              .attn.c_proj.weight, bias
 *     layernorm2                            .ln_2
 *     framewise1, 2                         .mlp.c_fc, c_proj
 *     the last layernorm                transformer.ln_f
 *     the last framewise's weight       lm_head.weight; tied: none */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "files/weights_hf.h"

/* Layers of a block, in their order, and how far back their sums reach. */
static const char *const block[] = {"layernorm", "attention", "add",       "layernorm",
                                    "framewise", "gelu",      "framewise", "add"};
static const uint8_t backs[] = {0, 0, 3, 0, 0, 0, 0, 5};
enum { BLOCK = sizeof block / sizeof *block, EDGES = 3 };

static const shoali_framewise_params *framewise_of(const shoal_model *model, uint32_t layer)
{
    return model->layers[layer].params;
}

static bool attends(const shoali_layer *layer)
{
    const shoali_attention_params *p = layer->params;
    const shoali_attention_sizes s = shoali_attention_sizes_of(layer);
    return p->causal && !p->rope && p->bias && s.kv == s.heads && s.heads * s.dim == s.width;
}

static bool is_block(const shoal_model *model, uint32_t first)
{
    const shoali_layernorm_params *one = model->layers[first].params;
    const shoali_layernorm_params *other = model->layers[first + 3].params;
    const shoali_framewise_params *up = framewise_of(model, first + 4);
    const shoali_framewise_params *down = framewise_of(model, first + 6);
    return one->bias && other->bias && attends(&model->layers[first + 1]) && up->bias &&
           up->k == 1 && down->bias && down->k == 1 &&
           ((const shoali_gelu_params *)model->layers[first + 5].params)->tanh;
}

static bool is_gpt2(const shoal_model *model)
{
    const uint32_t count = model->layer_count;
    if (count < EDGES + BLOCK || !shoali_hf_is(model, 0, "lookup") ||
        !shoali_hf_is(model, count - 2, "layernorm") ||
        !shoali_hf_is(model, count - 1, "framewise") ||
        !shoali_hf_repeats(model, 1, count - EDGES, block, backs, BLOCK))
        return false;
    for (uint32_t i = 1; i < count - 2; i += BLOCK)
        if (!is_block(model, i))
            return false;
    const shoali_framewise_params *scores = framewise_of(model, count - 1);
    return ((const shoali_lookup_params *)model->layers[0].params)->positions > 0 &&
           ((const shoali_layernorm_params *)model->layers[count - 2].params)->bias &&
           !scores->bias && scores->k == 1;
}

/* ---------------------------------------------------------------- names */

static bool ends_in_bias(const char *role)
{
    const size_t length = strlen(role);
    return strcmp(role, "shift") == 0 || (length >= 4 && strcmp(role + length - 4, "bias") == 0);
}

static void place_of(const shoal_model *model, const shoali_layer *layer, const char *role,
                     shoali_hf_place *place)
{
    static const char *const modules[BLOCK] = {"ln_1", "attn.c_attn", "", "ln_2", "mlp.c_fc",
                                               "",     "mlp.c_proj"};
    const uint32_t index = (uint32_t)(layer - model->layers), last = model->layer_count - 1;
    const uint32_t at = (index - 1) % BLOCK, number = (index - 1) / BLOCK;
    const char *what = ends_in_bias(role) ? "bias" : "weight", *module = modules[at];
    if (index == 0 || index + 1 >= last) {
        snprintf(place->name, sizeof place->name, "%s.%s",
                 index == last    ? "lm_head"
                 : index > 0      ? "transformer.ln_f"
                 : role[0] == 'p' ? "transformer.wpe"
                                  : "transformer.wte",
                 what);
        return;
    }
    if (at == 1) {
        const bool out = strncmp(role, "out", 3) == 0, first = strncmp(role, "query", 5) == 0;
        module = out ? "attn.c_proj" : module;
        place->tensors = out ? 1 : first ? 3 : 0;
    }
    place->transposed = at != 0 && at != 3 && !ends_in_bias(role);
    snprintf(place->name, sizeof place->name, "transformer.h.%u.%s.%s", number, module, what);
}

/* ---------------------------------------------------------------- config.json */

static shoal_status check(const shoal_model *model)
{
    const uint32_t last_norm = model->layer_count - 2;
    const double eps = ((const shoali_layernorm_params *)model->layers[1].params)->eps;
    SHOALI_TRY(shoali_hf_alike(model, 1, model->layer_count - EDGES, BLOCK));
    for (uint32_t i = 1; i <= last_norm; i++)
        if (shoali_hf_is(model, i, "layernorm") &&
            ((const shoali_layernorm_params *)model->layers[i].params)->eps != eps)
            return shoali_hf_differs(&model->layers[i], "eps is one for all norms");
    return SHOAL_OK;
}

static shoal_status config_of(const shoal_model *model, json_t **json_out)
{
    const shoali_lookup_params *tables = model->layers[0].params;
    const shoali_attention_params *attention = model->layers[2].params;
    const double eps = ((const shoali_layernorm_params *)model->layers[1].params)->eps;
    SHOALI_TRY(check(model));
    *json_out = json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:f, s:b, s:s, s:n, s:n}",
        "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "activation_function", "gelu_new",
        "vocab_size", (json_int_t)tables->vocab, "n_positions", (json_int_t)tables->positions,
        "n_embd", (json_int_t)tables->width, "n_layer", (int)((model->layer_count - EDGES) / BLOCK),
        "n_head", (json_int_t)attention->heads, "n_inner", (json_int_t)framewise_of(model, 5)->out,
        "n_ctx", (json_int_t)tables->positions, "layer_norm_epsilon", eps, "tie_word_embeddings",
        (int)framewise_of(model, model->layer_count - 1)->tied, "torch_dtype", "float32",
        "bos_token_id", "eos_token_id");
    return SHOAL_OK;
}

static const char *const buffers[] = {".attn.bias", ".attn.masked_bias", NULL};
static const char *const own_heads[] = {"lm_head.", NULL};
extern const shoali_hf_family shoali_hf_gpt2;
const shoali_hf_family shoali_hf_gpt2 = {.what = "GPT-2",
                                         .prefix = "transformer.",
                                         .buffers = buffers,
                                         .heads = own_heads,
                                         .front = 1,
                                         .block = BLOCK,
                                         .attention = 1,
                                         .sums = {1, 6},
                                         .drops = {"embd_pdrop", "resid_pdrop", "attn_pdrop"},
                                         .is = is_gpt2,
                                         .place = place_of,
                                         .config = config_of};
