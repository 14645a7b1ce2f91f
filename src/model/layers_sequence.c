/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds of language models. A sample is a sequence: tokens are {1, length, 1}, activations
 * {width, length, 1}. Described only: parameters and FLOPs are formulas of the sizes.
 *
 * With h = width, s = length, a heads of d, g key-value heads, f = ff, per sample and block:
 *     weights   h d (2a + 2g) + (gated ? 3 : 2) h f per expert + a router h experts
 *     forward   2 s (weights that a token meets) + 4 s^2 a d   (scores and their use, not masked)
 * as in Narayanan et al., "Efficient large-scale language model training", SC 2021, appendix. */
#include "base/error.h"
#include "model/model.h"

#define KEY_INT(type, field, low, high, usual, text)                                \
    {                                                                               \
#field, SHOALI_KEY_INT, offsetof(type, field), low, high, NULL, usual, text \
    }
#define KEY_FLAG(type, field, usual, text)                                      \
    {                                                                           \
#field, SHOALI_KEY_FLAG, offsetof(type, field), 0, 0, NULL, usual, text \
    }

static shoal_status need_sequence(const shoali_layer *layer)
{
    return layer->in.width == 1
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL,
                             "an image of %u x %u is no sequence (width x length x 1)",
                             layer->in.height, layer->in.width);
}

/* ---------------------------------------------------------------- embedding */

static shoal_status infer_embedding(shoal_model *model, shoali_layer *layer)
{
    const shoali_embedding_params *p = layer->params;
    SHOALI_TRY(need_sequence(layer));
    if (layer->in.channels != 1)
        return shoali_fail(SHOAL_EINVAL, "tokens are {1, length, 1}, not %u channels",
                           layer->in.channels);
    if (p->positions > 0 && layer->in.height > p->positions)
        return shoali_fail(SHOAL_EINVAL, "a sequence of %u has no place in %lld positions",
                           layer->in.height, (long long)p->positions);
    layer->out = (shoal_shape){(uint32_t)p->width, layer->in.height, 1};
    layer->forward_flops = layer->weight_flops = (double)shoali_shape_elems(layer->out);
    return shoali_layer_weights(model, layer, (double)(p->vocab + p->positions) * (double)p->width);
}

static const shoali_key embedding_keys[] = {
    KEY_INT(shoali_embedding_params, vocab, 1, 1 << 24, "51200", "tokens there are"),
    KEY_INT(shoali_embedding_params, width, 1, 1 << 20, "1024", "values of one token"),
    KEY_INT(shoali_embedding_params, positions, 0, 1 << 24, "0", "learned positions; 0: none"),
};
const shoali_layer_row shoali_layer_embedding = {
    .name = "embedding",
    .help = "a row of a table per token, another per position (described only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {embedding_keys, 3, sizeof(shoali_embedding_params)},
    .infer = infer_embedding,
};

/* ---------------------------------------------------------------- transformer */

typedef struct block_sizes {
    double attention, expert, router, biases; /* elements */
    double heads_width;                       /* a d */
} block_sizes;

static block_sizes sizes_of(const shoali_transformer_params *p, double width)
{
    double dim = p->dim > 0 ? (double)p->dim : width / (double)p->heads;
    double heads = (double)p->heads, shared = p->kv > 0 ? (double)p->kv : heads;
    block_sizes s = {.heads_width = heads * dim};
    s.attention = width * dim * (2 * heads + 2 * shared);
    s.expert = (p->gated ? 3 : 2) * width * (double)p->ff;
    s.router = width * (double)p->experts;
    s.biases = 2 * width; /* scales of two norms */
    if (p->bias)          /* their shifts, and of every product */
        s.biases += 4 * width + (double)p->ff + dim * (heads + 2 * shared);
    return s;
}

static shoal_status check_transformer(const shoali_transformer_params *p, uint32_t width)
{
    if (p->dim == 0 && width % p->heads != 0)
        return shoali_fail(SHOAL_EINVAL, "a width of %u does not split into %lld heads", width,
                           (long long)p->heads);
    if (p->kv > 0 && p->heads % p->kv != 0)
        return shoali_fail(SHOAL_EINVAL, "%lld heads do not share %lld key-value heads",
                           (long long)p->heads, (long long)p->kv);
    if (p->active > p->experts)
        return shoali_fail(SHOAL_EINVAL, "%lld of %lld experts cannot be active",
                           (long long)p->active, (long long)p->experts);
    return SHOAL_OK;
}

static shoal_status infer_transformer(shoal_model *model, shoali_layer *layer)
{
    const shoali_transformer_params *p = layer->params;
    SHOALI_TRY(need_sequence(layer));
    SHOALI_TRY(check_transformer(p, layer->in.channels));
    double length = layer->in.height, experts = p->experts > 0 ? (double)p->experts : 1;
    block_sizes s = sizes_of(p, layer->in.channels);
    double met = s.attention + s.router + s.expert * (p->active > 0 ? (double)p->active : 1);
    double scores = 4 * length * length * s.heads_width;
    layer->out = layer->in;
    layer->forward_flops = 2 * length * met + scores;
    layer->weight_flops = 2 * length * met;
    layer->input_flops = 2 * length * met + 2 * scores;
    return shoali_layer_weights(model, layer,
                                s.attention + s.router + experts * s.expert + s.biases);
}

static const shoali_key transformer_keys[] = {
    KEY_INT(shoali_transformer_params, heads, 1, 1 << 16, "16", "attention heads"),
    KEY_INT(shoali_transformer_params, kv, 0, 1 << 16, "0", "key-value heads; 0: as many as heads"),
    KEY_INT(shoali_transformer_params, dim, 0, 1 << 16, "0", "values of a head; 0: width / heads"),
    KEY_INT(shoali_transformer_params, ff, 1, 1 << 24, "4096", "width of the feed-forward part"),
    KEY_INT(shoali_transformer_params, experts, 0, 1 << 16, "0",
            "feed-forward parts among which a router chooses; 0: one, no router"),
    KEY_INT(shoali_transformer_params, active, 0, 1 << 16, "0", "experts that a token meets"),
    KEY_FLAG(shoali_transformer_params, gated, "off", "three products in place of two (SwiGLU)"),
    KEY_FLAG(shoali_transformer_params, bias, "on", "products and norms add learned values"),
};
const shoali_layer_row shoali_layer_transformer = {
    .name = "transformer",
    .help = "attention and feed-forward block, each with a norm and a way around it (described "
            "only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {transformer_keys, 8, sizeof(shoali_transformer_params)},
    .infer = infer_transformer,
};

/* ---------------------------------------------------------------- unembedding */

static shoal_status infer_unembedding(shoal_model *model, shoali_layer *layer)
{
    const shoali_unembedding_params *p = layer->params;
    SHOALI_TRY(need_sequence(layer));
    double table = (double)p->vocab * layer->in.channels;
    layer->out = (shoal_shape){(uint32_t)p->vocab, layer->in.height, 1};
    layer->forward_flops = 2 * table * layer->in.height;
    layer->weight_flops = layer->input_flops = layer->forward_flops;
    return shoali_layer_weights(model, layer,
                                (p->tied ? 0 : table) + (double)p->norm * layer->in.channels);
}

static const shoali_key unembedding_keys[] = {
    KEY_INT(shoali_unembedding_params, vocab, 1, 1 << 24, "51200", "tokens there are"),
    KEY_INT(shoali_unembedding_params, norm, 0, 2, "0",
            "learned values per channel of a norm before it"),
    KEY_FLAG(shoali_unembedding_params, tied, "on", "the embedding's table once more"),
};
const shoali_layer_row shoali_layer_unembedding = {
    .name = "unembedding",
    .help = "a score for every token of the vocabulary (described only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {unembedding_keys, 3, sizeof(shoali_unembedding_params)},
    .infer = infer_unembedding,
};
