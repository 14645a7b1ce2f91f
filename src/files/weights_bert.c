/* SPDX-License-Identifier: Apache-2.0 */
/* Models of BERT's kind as Hugging Face's `transformers` names them:
 *
 *     lookup1.table, positions, types   bert.embeddings.word_, position_, token_type_embeddings
 *     layernorm1                        bert.embeddings.LayerNorm
 *     attention1.query, key, value      bert.encoder.layer.0.attention.self.query, key, value
 *     attention1.out, layernorm2            .attention.output.dense, .attention.output.LayerNorm
 *     framewise1                            .intermediate.dense
 *     framewise2, layernorm3                .output.dense, .output.LayerNorm
 *     masked: framewise, layernorm      cls.predictions.transform.dense, .LayerNorm
 *             bias                      cls.predictions.bias
 *     pooler: dense                     bert.pooler.dense
 *
 * A file's heads that the model does not have are left. */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "files/weights_hf.h"

/* Layers of a block, in their order, and how far back their sums reach. */
static const char *const block[] = {"attention", "add",       "layernorm", "framewise",
                                    "gelu",      "framewise", "add",       "layernorm"};
static const uint8_t backs[] = {0, 2, 0, 0, 0, 0, 4, 0};
static const char *const scores[] = {"framewise", "gelu", "layernorm",
                                     "framewise", "bias", "masked"};
static const char *const pooler[] = {"framepool", "dense", "tanh"};
enum { BLOCK = 8, FRONT = 2, SCORES = 6, POOLER = 3, TABLE = 3, BIAS = 4 };

/* The layer behind the last block. */
static uint32_t head_of(const shoal_model *model)
{
    uint32_t at = FRONT;
    while (at + BLOCK <= model->layer_count && shoali_hf_is(model, at, "attention"))
        at += BLOCK;
    return at;
}

static bool are(const shoal_model *model, uint32_t first, const char *const *kinds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (first + count != model->layer_count || !shoali_hf_is(model, first + i, kinds[i]))
            return false;
    return true;
}

static bool is_plain(const shoali_layer *layer, bool tied)
{
    const shoali_framewise_params *p = layer->params;
    return p->k == 1 && p->tied == tied && p->bias == !tied;
}

static bool is_whole_gelu(const shoali_layer *layer)
{
    return !((const shoali_gelu_params *)layer->params)->tanh;
}

static bool attends(const shoali_layer *layer)
{
    const shoali_attention_params *p = layer->params;
    const shoali_attention_sizes s = shoali_attention_sizes_of(layer);
    return !p->causal && !p->rope && p->bias && s.kv == s.heads && s.heads * s.dim == s.width;
}

static bool is_head(const shoal_model *model, uint32_t head)
{
    const shoali_layer *layers = model->layers + head;
    if (are(model, head, scores, SCORES))
        return is_plain(&layers[0], false) && is_whole_gelu(&layers[1]) &&
               is_plain(&layers[TABLE], true);
    if (are(model, head, pooler, POOLER)) {
        const shoali_dense_params *dense = layers[1].params;
        return dense->bias && dense->out == model->layers[0].out.width;
    }
    return are(model, head, pooler, 1); /* one vector: of the first frame, or the mean */
}

static bool is_bert(const shoal_model *model)
{
    const uint32_t head = head_of(model);
    if (head == FRONT || model->layer_count <= head || !shoali_hf_is(model, 0, "lookup") ||
        !shoali_hf_is(model, 1, "layernorm") ||
        !shoali_hf_repeats(model, FRONT, head - FRONT, block, backs, BLOCK))
        return false;
    for (uint32_t i = FRONT; i < head; i += BLOCK)
        if (!attends(&model->layers[i]) || !is_plain(&model->layers[i + 3], false) ||
            !is_whole_gelu(&model->layers[i + 4]) || !is_plain(&model->layers[i + 5], false))
            return false;
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (shoali_hf_is(model, i, "layernorm") &&
            !((const shoali_layernorm_params *)model->layers[i].params)->bias)
            return false;
    const shoali_lookup_params *tables = model->layers[0].params;
    return tables->positions > 0 && tables->types > 0 && is_head(model, head);
}

/* ---------------------------------------------------------------- names */

static bool ends_in_bias(const char *role)
{
    const size_t length = strlen(role);
    return strcmp(role, "shift") == 0 || (length >= 4 && strcmp(role + length - 4, "bias") == 0);
}

static const char *table_of(const char *role)
{
    return role[0] == 'p'               ? "position_embeddings"
           : strcmp(role, "types") == 0 ? "token_type_embeddings"
                                        : "word_embeddings";
}

static const char *attention_of(const char *role)
{
    return role[0] == 'q'   ? "attention.self.query"
           : role[0] == 'k' ? "attention.self.key"
           : role[0] == 'v' ? "attention.self.value"
                            : "attention.output.dense";
}

static void place_of(const shoal_model *model, const shoali_layer *layer, const char *role,
                     shoali_hf_place *place)
{
    static const char *const modules[BLOCK] = {"",
                                               "",
                                               "attention.output.LayerNorm",
                                               "intermediate.dense",
                                               "",
                                               "output.dense",
                                               "",
                                               "output.LayerNorm"};
    const uint32_t index = (uint32_t)(layer - model->layers), head = head_of(model);
    const uint32_t at = (index - FRONT) % BLOCK;
    const char *what = ends_in_bias(role) ? "bias" : "weight";
    if (index < FRONT)
        snprintf(place->name, sizeof place->name, "bert.embeddings.%s.%s",
                 index == 0 ? table_of(role) : "LayerNorm", what);
    else if (index < head)
        snprintf(place->name, sizeof place->name, "bert.encoder.layer.%u.%s.%s",
                 (index - FRONT) / BLOCK, at == 0 ? attention_of(role) : modules[at], what);
    else if (!model->masked)
        snprintf(place->name, sizeof place->name, "bert.pooler.dense.%s", what);
    else if (index == head + BIAS)
        snprintf(place->name, sizeof place->name, "cls.predictions.bias");
    else
        snprintf(place->name, sizeof place->name, "cls.predictions.transform.%s.%s",
                 index == head ? "dense" : "LayerNorm", what);
}

/* ---------------------------------------------------------------- config.json */

static double eps_of(const shoal_model *model)
{
    return ((const shoali_layernorm_params *)model->layers[1].params)->eps;
}

static shoal_status check(const shoal_model *model)
{
    SHOALI_TRY(shoali_hf_alike(model, FRONT, head_of(model) - FRONT, BLOCK));
    for (uint32_t i = 1; i < model->layer_count; i++)
        if (shoali_hf_is(model, i, "layernorm") &&
            ((const shoali_layernorm_params *)model->layers[i].params)->eps != eps_of(model))
            return shoali_hf_differs(&model->layers[i], "eps is one for all norms");
    return SHOAL_OK;
}

static shoal_status config_of(const shoal_model *model, json_t **json_out)
{
    const shoali_lookup_params *tables = model->layers[0].params;
    const shoali_attention_params *attention = model->layers[FRONT].params;
    const shoali_framewise_params *up = model->layers[FRONT + 3].params;
    const uint32_t blocks = (head_of(model) - FRONT) / BLOCK;
    SHOALI_TRY(check(model));
    json_t *config = json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:I, s:I, s:f, s:b, s:s, s:s, s:n}",
        "architectures", model->masked ? "BertForMaskedLM" : "BertModel", "model_type", "bert",
        "hidden_act", "gelu", "vocab_size", (json_int_t)tables->vocab, "max_position_embeddings",
        (json_int_t)tables->positions, "type_vocab_size", (json_int_t)tables->types, "hidden_size",
        (json_int_t)tables->width, "num_hidden_layers", (int)blocks, "num_attention_heads",
        (json_int_t)attention->heads, "intermediate_size", (json_int_t)up->out, "layer_norm_eps",
        eps_of(model), "tie_word_embeddings", 1, "position_embedding_type", "absolute",
        "torch_dtype", "float32", "pad_token_id");
    if (config != NULL && model->masked) {
        const shoali_masked_params *p = model->layers[model->layer_count - 1].params;
        json_object_set_new(config, "mask_token_id",
                            json_integer(p->mask < 0 ? tables->vocab - 1 : p->mask));
    }
    *json_out = config;
    return SHOAL_OK;
}

static const char *const buffers[] = {"embeddings.position_ids",
                                      "pooler.dense.weight",
                                      "pooler.dense.bias",
                                      "cls.predictions.bias",
                                      "cls.predictions.decoder.weight",
                                      "cls.predictions.decoder.bias",
                                      "cls.predictions.transform.dense.weight",
                                      "cls.predictions.transform.dense.bias",
                                      "cls.predictions.transform.LayerNorm.weight",
                                      "cls.predictions.transform.LayerNorm.bias",
                                      "cls.predictions.transform.LayerNorm.gamma",
                                      "cls.predictions.transform.LayerNorm.beta",
                                      "cls.seq_relationship.weight",
                                      "cls.seq_relationship.bias",
                                      NULL};
static const char *const own_heads[] = {"cls.", "bert.pooler.", "pooler.", NULL};
extern const shoali_hf_family shoali_hf_bert;
const shoali_hf_family shoali_hf_bert = {
    .what = "BERT",
    .prefix = "bert.",
    .buffers = buffers,
    .heads = own_heads,
    .front = FRONT,
    .block = BLOCK,
    .attention = 0,
    .sums = {0, 5},
    .drops = {"hidden_dropout_prob", "hidden_dropout_prob", "attention_probs_dropout_prob"},
    .is = is_bert,
    .place = place_of,
    .config = config_of};
