/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds of language models. A sample is a sequence: tokens are {1, length, 1}, activations
 * {width, length, 1}. Described only: parameters and FLOPs are formulas of the sizes.
 *
 * With h = width, s = length, a heads of d, g key-value heads, f = ff, per sample and block:
 *     weights   h d (2a + 2g) + (gated ? 3 : 2) h f per expert + a router h experts
 *     forward   2 s (weights that a token meets) + 4 s^2 a d   (scores and their use, not masked)
 * with latent attention 2 s^2 a (d + rope + vdim);
 * as in Narayanan et al., "Efficient large-scale language model training", SC 2021, appendix. */
#include "base/error.h"
#include "model/layer_keys.h"
#include "model/model.h"

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
    return shoali_layer_weights(model, layer,
                                (double)(p->vocab + p->positions + p->types + 2 * p->norm) *
                                    (double)p->width);
}

static const shoali_key embedding_keys[] = {
    SHOALI_LAYER_INT(shoali_embedding_params, vocab, 1, 1 << 24, "51200", "tokens there are"),
    SHOALI_LAYER_INT(shoali_embedding_params, width, 1, 1 << 20, "1024", "values of one token"),
    SHOALI_LAYER_INT(shoali_embedding_params, positions, 0, 1 << 24, "0",
                     "learned positions; 0: none"),
    SHOALI_LAYER_INT(shoali_embedding_params, types, 0, 256, "0",
                     "learned segments, as of two sentences; 0: none"),
    SHOALI_LAYER_FLAG(shoali_embedding_params, norm, "off",
                      "the sum is normalised, scaled and shifted"),
    {"eps", SHOALI_KEY_FLOAT, offsetof(shoali_embedding_params, eps), 0, 1, NULL, "1e-5",
     "with parts: what the norm adds to the variance"},
    SHOALI_LAYER_DROP(shoali_embedding_params, drop,
                      "with parts: share of what comes out that training leaves out"),
};
const shoali_layer_row shoali_layer_embedding = {
    .name = "embedding",
    .help = "a row of a table per token, another per position (described only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {embedding_keys, sizeof embedding_keys / sizeof *embedding_keys,
               sizeof(shoali_embedding_params)},
    .infer = infer_embedding,
};

/* ---------------------------------------------------------------- transformer */

/* Latent attention (DeepSeek-V2, section 2.1): keys and values come from kvrank values per token,
 * and one rotated key of `rope` for all heads; queries, with qrank, from a rank of their own. */
static double latent_matrices(const shoali_transformer_params *p, double width,
                              const shoali_transformer_sizes *s)
{
    double rank = (double)p->kvrank, rope = (double)p->rope, query = s->heads * (s->dim + rope);
    double queries = p->qrank > 0 ? (double)p->qrank * (width + query) : width * query;
    return queries + width * (rank + rope) + rank * s->heads * (s->dim + s->value_dim) +
           s->heads * s->value_dim * width;
}

/* Norms of the block, of heads and of latent values; shifts and biases. */
static double vectors_of(const shoali_transformer_params *p, double width,
                         const shoali_transformer_sizes *s)
{
    double norms = (double)p->norms * width, out = width;
    double projections = s->dim * (s->heads + 2 * s->kv);
    double all = norms + (p->headnorm ? 2 * s->dim : 0);
    if (p->kvrank > 0)
        all += (double)(p->kvrank + p->qrank);
    if (p->bias) /* shifts of the norms, and of every product */
        return all + norms + 2 * out + (double)p->ff + projections;
    return all + (p->qkvbias > 0 ? projections : 0) + (p->qkvbias > 1 ? out : 0);
}

shoali_transformer_sizes shoali_transformer_sizes_of(const shoali_transformer_params *p,
                                                     double width)
{
    shoali_transformer_sizes s = {.heads = (double)p->heads};
    double matrices = p->gated ? 3 : 2;
    s.kv = p->kv > 0 ? (double)p->kv : s.heads;
    s.dim = p->dim > 0 ? (double)p->dim : width / s.heads;
    s.value_dim = p->vdim > 0 ? (double)p->vdim : s.dim;
    s.attention = p->kvrank > 0 ? latent_matrices(p, width, &s)
                                : width * s.dim * (2 * s.heads + 2 * s.kv);
    s.expert = matrices * width * (double)p->ff;
    s.shared = matrices * width * (double)p->shared;
    s.router = width * (double)p->experts;
    s.vectors = vectors_of(p, width, &s) + (p->balanced ? (double)p->experts : 0);
    s.score_width = s.heads * (s.dim + (double)p->rope + s.value_dim);
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
    if (p->kvrank == 0 && (p->qrank > 0 || p->rope > 0 || p->vdim > 0))
        return shoali_fail(SHOAL_EINVAL, "qrank, rope and vdim are of latent attention: it needs "
                                         "kvrank");
    if (p->kvrank > 0 && (p->dim == 0 || p->bias || p->qkvbias > 0 || p->headnorm))
        return shoali_fail(SHOAL_EINVAL, "latent attention says dim, and has neither biases nor "
                                         "norms of heads: bias=off");
    if (p->experts == 0 && (p->shared > 0 || p->balanced))
        return shoali_fail(SHOAL_EINVAL, "shared and balanced are of mixtures: they need experts");
    return SHOAL_OK;
}

static shoal_status infer_transformer(shoal_model *model, shoali_layer *layer)
{
    const shoali_transformer_params *p = layer->params;
    SHOALI_TRY(need_sequence(layer));
    SHOALI_TRY(check_transformer(p, layer->in.channels));
    double length = layer->in.height, experts = p->experts > 0 ? (double)p->experts : 1;
    shoali_transformer_sizes s = shoali_transformer_sizes_of(p, layer->in.channels);
    double met = s.attention + s.router + s.shared +
                 s.expert * (p->active > 0 ? (double)p->active : 1);
    double scores = 2 * length * length * s.score_width;
    layer->out = layer->in;
    layer->forward_flops = 2 * length * met + scores;
    layer->weight_flops = 2 * length * met;
    layer->input_flops = 2 * length * met + 2 * scores;
    return shoali_layer_weights(model, layer,
                                s.attention + s.router + s.shared + experts * s.expert + s.vectors);
}

static const shoali_key transformer_keys[] = {
    SHOALI_LAYER_INT(shoali_transformer_params, heads, 1, 1 << 16, "16", "attention heads"),
    SHOALI_LAYER_INT(shoali_transformer_params, kv, 0, 1 << 16, "0",
                     "key-value heads; 0: as many as heads"),
    SHOALI_LAYER_INT(shoali_transformer_params, dim, 0, 1 << 16, "0",
                     "values of a head; 0: width / heads"),
    SHOALI_LAYER_INT(shoali_transformer_params, ff, 1, 1 << 24, "4096",
                     "width of the feed-forward part"),
    SHOALI_LAYER_INT(shoali_transformer_params, experts, 0, 1 << 16, "0",
                     "feed-forward parts among which a router chooses; 0: one, no router"),
    SHOALI_LAYER_INT(shoali_transformer_params, active, 0, 1 << 16, "0",
                     "experts that a token meets"),
    SHOALI_LAYER_INT(shoali_transformer_params, shared, 0, 1 << 24, "0",
                     "width of the experts that every token meets, all together"),
    SHOALI_LAYER_INT(shoali_transformer_params, qrank, 0, 1 << 20, "0",
                     "latent attention: values that queries are made of; 0: of the token"),
    SHOALI_LAYER_INT(shoali_transformer_params, kvrank, 0, 1 << 20, "0",
                     "latent attention: values that keys and values are made of; 0: none"),
    SHOALI_LAYER_INT(shoali_transformer_params, rope, 0, 1 << 16, "0",
                     "latent attention: values of a head that are rotated, beside dim"),
    SHOALI_LAYER_INT(shoali_transformer_params, vdim, 0, 1 << 16, "0",
                     "latent attention: values of a head's values; 0: dim"),
    SHOALI_LAYER_INT(shoali_transformer_params, norms, 0, 8, "2", "norms with a learned scale"),
    SHOALI_LAYER_INT(
        shoali_transformer_params, qkvbias, 0, 2, "0",
        "with bias=off: 1, queries, keys and values add learned values; 2, the output too"),
    SHOALI_LAYER_FLAG(shoali_transformer_params, gated, "off",
                      "three products in place of two (SwiGLU)"),
    SHOALI_LAYER_FLAG(shoali_transformer_params, bias, "on",
                      "products and norms add learned values"),
    SHOALI_LAYER_FLAG(shoali_transformer_params, headnorm, "off",
                      "norms of each head's query and key"),
    SHOALI_LAYER_FLAG(shoali_transformer_params, balanced, "off",
                      "the router adds a value per expert"),
    SHOALI_LAYER_FLAG(shoali_transformer_params, encoder, "off",
                      "all tokens see each other, and norms stand behind the sums (BERT)"),
    SHOALI_LAYER_FLAG(
        shoali_transformer_params, other, "off",
        "rope that is stretched, windows, or no silu: planners need not know, parts refuses"),
    {"theta", SHOALI_KEY_FLOAT, offsetof(shoali_transformer_params, theta), 1, 1e12, NULL, "10000",
     "with parts: base of the slowest turn of rope"},
    {"eps", SHOALI_KEY_FLOAT, offsetof(shoali_transformer_params, eps), 0, 1, NULL, "1e-5",
     "with parts: what norms add to the mean of the squares"},
    SHOALI_LAYER_DROP(shoali_transformer_params, drop,
                      "with parts: share of what attention and products give that training leaves "
                      "out"),
    SHOALI_LAYER_DROP(shoali_transformer_params, attdrop,
                      "with parts: the same of attention's weights"),
};
const shoali_layer_row shoali_layer_transformer = {
    .name = "transformer",
    .help = "attention and feed-forward block, each with a norm and a way around it (described "
            "only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {transformer_keys, sizeof transformer_keys / sizeof *transformer_keys,
               sizeof(shoali_transformer_params)},
    .infer = infer_transformer,
};

/* ---------------------------------------------------------------- unembedding */

static shoal_status infer_unembedding(shoal_model *model, shoali_layer *layer)
{
    const shoali_unembedding_params *p = layer->params;
    SHOALI_TRY(need_sequence(layer));
    double width = layer->in.channels, table = (double)p->vocab * width;
    double square = p->transform ? width * width : 0;
    layer->out = (shoal_shape){(uint32_t)p->vocab, layer->in.height, 1};
    layer->forward_flops = 2 * (table + square) * layer->in.height;
    layer->weight_flops = layer->input_flops = layer->forward_flops;
    return shoali_layer_weights(model, layer,
                                (p->tied ? 0 : table) + (double)p->norm * width + square +
                                    (p->transform ? width : 0) + (p->bias ? (double)p->vocab : 0));
}

static const shoali_key unembedding_keys[] = {
    SHOALI_LAYER_INT(shoali_unembedding_params, vocab, 1, 1 << 24, "51200", "tokens there are"),
    SHOALI_LAYER_INT(shoali_unembedding_params, norm, 0, 2, "0",
                     "learned values per channel of a norm before it"),
    SHOALI_LAYER_FLAG(shoali_unembedding_params, tied, "on", "the embedding's table once more"),
    SHOALI_LAYER_FLAG(shoali_unembedding_params, bias, "off", "a learned value per score"),
    SHOALI_LAYER_FLAG(shoali_unembedding_params, transform, "off",
                      "a product of the width and gelu before the norm"),
    {"eps", SHOALI_KEY_FLOAT, offsetof(shoali_unembedding_params, eps), 0, 1, NULL, "1e-5",
     "with parts: what the norm adds to the mean of the squares"},
};
const shoali_layer_row shoali_layer_unembedding = {
    .name = "unembedding",
    .help = "a score for every token of the vocabulary (described only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {unembedding_keys, sizeof unembedding_keys / sizeof *unembedding_keys,
               sizeof(shoali_unembedding_params)},
    .infer = infer_unembedding,
};
