/* SPDX-License-Identifier: Apache-2.0 */
/* Layers over frames, and over vectors side by side, as ONNX nodes: values are [batch, frames,
 * width]. */
#include <math.h>
#include <string.h>

#include "model/onnx_layers.h"

typedef shoali_onnx_writer writer;
#define IN SHOALI_ONNX_INPUTS

/* Rows by number; a second table by a frame's place, a third by its segment, id / vocab. */
static const char *segments(writer *w, const shoali_layer *layer, const char *ids, const char *rows)
{
    const shoali_lookup_params *p = layer->params;
    const char *vocab = shoali_onnx_list(w->graph, shoali_onnx_inner(w, layer, "vocab"),
                                         (const int64_t[]){p->vocab}, 1);
    const char *segment = shoali_onnx_inner(w, layer, "segment"),
               *of_segment = shoali_onnx_inner(w, layer, "of_segment"),
               *sum = shoali_onnx_inner(w, layer, "with_segment");
    const char *table = shoali_onnx_matrix(w, layer, "types", (uint64_t)p->types,
                                           (uint64_t)p->width);
    shoali_onnx_node(w->graph, "Div", segment, IN(ids, vocab));
    shoali_onnx_node(w->graph, "Gather", of_segment, IN(table, segment));
    shoali_onnx_node(w->graph, "Add", sum, IN(rows, of_segment));
    return sum;
}

static const char *token_of(writer *w, const shoali_layer *layer, const char *ids)
{
    const shoali_lookup_params *p = layer->params;
    const char *token = shoali_onnx_inner(w, layer, "token");
    if (p->types == 0)
        return ids;
    const char *vocab = shoali_onnx_list(w->graph, shoali_onnx_inner(w, layer, "tokens"),
                                         (const int64_t[]){p->vocab}, 1);
    shoali_onnx_node(w->graph, "Mod", token, IN(ids, vocab));
    return token;
}

static uint32_t lookup(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_lookup_params *p = layer->params;
    const uint64_t width = (uint64_t)p->width;
    const char *table = shoali_onnx_matrix(w, layer, "table", (uint64_t)p->vocab, width);
    const char *rows = shoali_onnx_inner(w, layer, "rows");
    shoali_onnx_node(w->graph, "Gather", rows, IN(table, token_of(w, layer, x)));
    if (p->types > 0)
        rows = segments(w, layer, x, rows);
    if (p->positions > 0) {
        /* those of the sample's own length: the first rows */
        const char *places = shoali_onnx_matrix(w, layer, "positions", layer->in.height, width);
        const char *sum = shoali_onnx_inner(w, layer, "placed");
        shoali_onnx_node(w->graph, "Add", sum, IN(rows, places));
        rows = sum;
    }
    if (p->frames) {
        shoali_onnx_node(w->graph, "Identity", y, IN(rows));
        return 3;
    }
    shoali_onnx_node(w->graph, "Flatten", y, IN(rows)); /* side by side */
    return 2;
}

static uint32_t layernorm(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_layernorm_params *p = layer->params;
    const uint64_t width = layer->in.width;
    const char *scale = shoali_onnx_vector(w, layer, "scale", width);
    const char *shift = shoali_onnx_vector(w, layer, "shift", width);
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, "LayerNormalization", y,
                                               IN(x, scale, shift));
    shoali_onnx_int(w->graph, node, "axis", -1);
    shoali_onnx_float(w->graph, node, "epsilon", (float)p->eps);
    return 3;
}

/* x / sqrt(mean of x^2 + eps) scale */
static uint32_t rmsnorm(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_rmsnorm_params *p = layer->params;
    const char *scale = shoali_onnx_vector(w, layer, "scale", layer->in.width);
    const char *eps = shoali_onnx_scalar(w->graph, shoali_onnx_inner(w, layer, "eps"),
                                         (float)p->eps);
    const char *square = shoali_onnx_inner(w, layer, "square"),
               *mean = shoali_onnx_inner(w, layer, "mean"),
               *above = shoali_onnx_inner(w, layer, "above"),
               *root = shoali_onnx_inner(w, layer, "root"),
               *unit = shoali_onnx_inner(w, layer, "unit");
    shoali_onnx_node(w->graph, "Mul", square, IN(x, x));
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, "ReduceMean", mean, IN(square));
    shoali_onnx_ints(w->graph, node, "axes", (const int64_t[]){-1}, 1);
    shoali_onnx_node(w->graph, "Add", above, IN(mean, eps));
    shoali_onnx_node(w->graph, "Sqrt", root, IN(above));
    shoali_onnx_node(w->graph, "Div", unit, IN(x, root));
    shoali_onnx_node(w->graph, "Mul", y, IN(unit, scale));
    return 3;
}

/* The table of the lookup, which a tied layer works with. */
static const char *lent(const writer *w, shoali_onnx_graph *g)
{
    for (uint32_t i = 0; i < w->model->layer_count; i++)
        if (w->model->layers[i].lends)
            return shoali_onnx_text(g, "%s.table", w->model->layers[i].name);
    return "";
}

static uint32_t framewise(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_framewise_params *p = layer->params;
    const uint64_t in = layer->in.width, out = layer->out.width;
    const char *weight = p->tied ? lent(w, w->graph)
                                 : shoali_onnx_matrix(w, layer, "weight", out, in);
    const char *bias = shoali_onnx_vector(w, layer, "bias", out);
    shoali_onnx_product(w, x, weight, shoali_onnx_inner(w, layer, "turned"), bias, y);
    return 3;
}

static uint32_t bias(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    shoali_onnx_node(w->graph, "Add", y,
                     IN(x, shoali_onnx_vector(w, layer, "bias", layer->in.width)));
    return 3;
}

static uint32_t framepool(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_framepool_params *p = layer->params;
    if (p->by == SHOALI_POOL_MEAN) {
        Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, "ReduceMean", y, IN(x));
        shoali_onnx_ints(w->graph, node, "axes", (const int64_t[]){1}, 1);
        shoali_onnx_int(w->graph, node, "keepdims", 0);
        return 2;
    }
    const char *first = shoali_onnx_list(w->graph, shoali_onnx_inner(w, layer, "first"),
                                         (const int64_t[]){0}, 1);
    const char *frame = shoali_onnx_inner(w, layer, "frame");
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, "Gather", frame, IN(x, first));
    shoali_onnx_int(w->graph, node, "axis", 1);
    shoali_onnx_node(w->graph, "Flatten", y, IN(frame));
    return 2;
}

static uint32_t swiglu(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_swiglu_params *p = layer->params;
    const uint64_t ff = (uint64_t)p->ff, width = layer->in.width;
    const char *gate = shoali_onnx_inner(w, layer, "gated"),
               *share = shoali_onnx_inner(w, layer, "share"),
               *silu = shoali_onnx_inner(w, layer, "silu"),
               *up = shoali_onnx_inner(w, layer, "raised"),
               *both = shoali_onnx_inner(w, layer, "both");
    shoali_onnx_product(w, x, shoali_onnx_matrix(w, layer, "gate", ff, width),
                        shoali_onnx_inner(w, layer, "gate_turned"), NULL, gate);
    shoali_onnx_product(w, x, shoali_onnx_matrix(w, layer, "up", ff, width),
                        shoali_onnx_inner(w, layer, "up_turned"), NULL, up);
    shoali_onnx_node(w->graph, "Sigmoid", share, IN(gate));
    shoali_onnx_node(w->graph, "Mul", silu, IN(gate, share));
    shoali_onnx_node(w->graph, "Mul", both, IN(silu, up));
    shoali_onnx_product(w, both, shoali_onnx_matrix(w, layer, "down", width, ff),
                        shoali_onnx_inner(w, layer, "down_turned"), NULL, y);
    return 3;
}

/* ---------------------------------------------------------------- products of vectors */

/* Columns of a matrix by their numbers. */
static const char *picks(writer *w, const char *name, const int64_t *values, size_t count,
                         const char *from, const char *out)
{
    shoali_onnx_list(w->graph, name, values, count);
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, "Gather", out, IN(from, name));
    shoali_onnx_int(w->graph, node, "axis", 1);
    return out;
}

/* All products of the vectors' matrix with itself, of which those below the diagonal are taken. */
static const char *pairs(writer *w, const shoali_layer *layer, const char *vectors, int64_t count)
{
    shoali_onnx_graph *g = w->graph;
    const char *columns = shoali_onnx_inner(w, layer, "columns"),
               *square = shoali_onnx_inner(w, layer, "square"),
               *row = shoali_onnx_inner(w, layer, "row");
    Shoal__Onnx__Node *node = shoali_onnx_node(g, "Transpose", columns, IN(vectors));
    shoali_onnx_ints(g, node, "perm", (const int64_t[]){0, 2, 1}, 3);
    shoali_onnx_node(g, "MatMul", square, IN(vectors, columns));
    shoali_onnx_node(g, "Flatten", row, IN(square));
    int64_t *of = shoali_arena_array(g->arena, (size_t)(count * count), sizeof *of);
    size_t below = 0;
    g->failed |= of == NULL;
    for (int64_t a = 0; of != NULL && a < count; a++)
        for (int64_t b = 0; b < a; b++)
            of[below++] = a * count + b;
    return picks(w, shoali_onnx_inner(w, layer, "below"), of, below, row,
                 shoali_onnx_inner(w, layer, "pairs"));
}

static uint32_t dots(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_dots_params *p = layer->params;
    shoali_onnx_graph *g = w->graph;
    const int64_t count = (int64_t)shoali_shape_elems(layer->in) / p->width;
    const char *vectors = shoali_onnx_inner(w, layer, "vectors");
    const char *shape = shoali_onnx_list(g, shoali_onnx_inner(w, layer, "shape"),
                                         (const int64_t[]){-1, count, p->width}, 3);
    shoali_onnx_node(g, "Reshape", vectors, IN(x, shape));
    if (p->by == SHOALI_DOTS_VALUES) {
        Shoal__Onnx__Node *node = shoali_onnx_node(g, "ReduceProd", y, IN(vectors));
        shoali_onnx_ints(g, node, "axes", (const int64_t[]){1}, 1);
        shoali_onnx_int(g, node, "keepdims", 0);
        return 2;
    }
    const char *products = pairs(w, layer, vectors, count);
    const size_t kept = (size_t)(p->keep * p->width);
    int64_t *first = shoali_arena_array(g->arena, kept + 1, sizeof *first);
    g->failed |= first == NULL;
    for (size_t i = 0; first != NULL && i < kept; i++)
        first[i] = (int64_t)i;
    if (kept == 0 || first == NULL) {
        shoali_onnx_node(g, "Identity", y, IN(products));
        return 2;
    }
    const char *front = picks(w, shoali_onnx_inner(w, layer, "first"), first, kept, x,
                              shoali_onnx_inner(w, layer, "kept"));
    Shoal__Onnx__Node *node = shoali_onnx_node(g, "Concat", y, IN(front, products));
    shoali_onnx_int(g, node, "axis", 1);
    return 2;
}

/* ---------------------------------------------------------------- attention */

/* cos or sin of every frame's turn, [frames][dim], both halves alike. */
static const char *turns(writer *w, const shoali_layer *layer, bool sine)
{
    const shoali_attention_params *p = layer->params;
    const shoali_attention_sizes s = shoali_attention_sizes_of(layer);
    float *values = shoali_arena_array(w->graph->arena, (size_t)s.frames * s.dim, sizeof *values);
    w->graph->failed |= values == NULL;
    for (uint32_t t = 0; values != NULL && t < s.frames; t++)
        for (uint32_t i = 0; i < s.dim; i++) {
            const double angle = t * pow(p->theta, -2.0 * (i % (s.dim / 2)) / s.dim);
            values[(size_t)t * s.dim + i] = (float)(sine ? sin(angle) : cos(angle));
        }
    return shoali_onnx_floats(w->graph, shoali_onnx_inner(w, layer, sine ? "sine" : "cosine"),
                              values, 2, (const int64_t[]){s.frames, s.dim});
}

/* x cos + (-second half, first half) sin */
static const char *turned(writer *w, const char *x, const char *cosine, const char *sine)
{
    shoali_onnx_graph *g = w->graph;
    const char *halves[2] = {shoali_onnx_text(g, "%s.a", x), shoali_onnx_text(g, "%s.b", x)};
    const char *minus = shoali_onnx_text(g, "%s.minus", x),
               *across = shoali_onnx_text(g, "%s.across", x),
               *kept = shoali_onnx_text(g, "%s.kept", x),
               *moved = shoali_onnx_text(g, "%s.moved", x),
               *out = shoali_onnx_text(g, "%s.turned", x);
    Shoal__Onnx__Node *split = shoali_onnx_node(g, "Split", halves[0], IN(x));
    shoali_onnx_second(g, split, halves[1]);
    shoali_onnx_int(g, split, "axis", -1);
    shoali_onnx_node(g, "Neg", minus, IN(halves[1]));
    Shoal__Onnx__Node *join = shoali_onnx_node(g, "Concat", across, IN(minus, halves[0]));
    shoali_onnx_int(g, join, "axis", -1);
    shoali_onnx_node(g, "Mul", kept, IN(x, cosine));
    shoali_onnx_node(g, "Mul", moved, IN(across, sine));
    shoali_onnx_node(g, "Add", out, IN(kept, moved));
    return out;
}

/* [batch][heads][frames][dim] of x; groups: how many heads share one. */
static const char *heads(writer *w, const shoali_layer *layer, const char *x, const char *role,
                         uint32_t count, uint32_t groups)
{
    shoali_onnx_graph *g = w->graph;
    const shoali_attention_sizes s = shoali_attention_sizes_of(layer);
    const uint64_t values = (uint64_t)count * s.dim;
    const char *flat = shoali_onnx_text(g, "%s.%s.flat", layer->name, role),
               *apart = shoali_onnx_text(g, "%s.%s.apart", layer->name, role),
               *out = shoali_onnx_text(g, "%s.%s.heads", layer->name, role);
    const char *added = shoali_onnx_vector(w, layer, shoali_onnx_text(g, "%s_bias", role), values);
    shoali_onnx_product(w, x, shoali_onnx_matrix(w, layer, role, values, s.width),
                        shoali_onnx_text(g, "%s.%s.weight", layer->name, role), added, flat);
    const char *shape = shoali_onnx_list(g, shoali_onnx_text(g, "%s.shape", flat),
                                         (const int64_t[]){0, s.frames, count, s.dim}, 4);
    shoali_onnx_node(g, "Reshape", apart, IN(flat, shape));
    Shoal__Onnx__Node *node = shoali_onnx_node(g, "Transpose", out, IN(apart));
    shoali_onnx_ints(g, node, "perm", (const int64_t[]){0, 2, 1, 3}, 4);
    if (groups == 1)
        return out;
    int64_t *of = shoali_arena_array(g->arena, (size_t)count * groups, sizeof *of);
    g->failed |= of == NULL;
    for (uint32_t i = 0; of != NULL && i < count * groups; i++)
        of[i] = i / groups;
    const char *shared = shoali_onnx_text(g, "%s.%s.shared", layer->name, role);
    const char *which = shoali_onnx_text(g, "%s.of", shared);
    if (of != NULL)
        shoali_onnx_list(g, which, of, (size_t)count * groups);
    node = shoali_onnx_node(g, "Gather", shared, IN(out, which));
    shoali_onnx_int(g, node, "axis", 1);
    return shared;
}

/* Frames that a frame must not see are far below all others. */
static const char *hidden(writer *w, const shoali_layer *layer, const char *scores)
{
    const uint32_t frames = shoali_attention_sizes_of(layer).frames;
    float *values = shoali_arena_array(w->graph->arena, (size_t)frames * frames, sizeof *values);
    w->graph->failed |= values == NULL;
    for (size_t i = 0; values != NULL && i < (size_t)frames * frames; i++)
        values[i] = i % frames > i / frames ? -1e30f : 0;
    const char *mask = shoali_onnx_floats(w->graph, shoali_onnx_inner(w, layer, "mask"), values, 2,
                                          (const int64_t[]){frames, frames});
    const char *out = shoali_onnx_inner(w, layer, "seen");
    shoali_onnx_node(w->graph, "Add", out, IN(scores, mask));
    return out;
}

static const char *weighed(writer *w, const shoali_layer *layer, const char *q, const char *k,
                           const char *v)
{
    const shoali_attention_params *p = layer->params;
    const float by = 1.0f / sqrtf((float)shoali_attention_sizes_of(layer).dim);
    shoali_onnx_graph *g = w->graph;
    const char *columns = shoali_onnx_inner(w, layer, "columns"),
               *products = shoali_onnx_inner(w, layer, "products"),
               *scores = shoali_onnx_inner(w, layer, "scores"),
               *shares = shoali_onnx_inner(w, layer, "shares"),
               *out = shoali_onnx_inner(w, layer, "values");
    const char *scale = shoali_onnx_scalar(g, shoali_onnx_inner(w, layer, "scale"), by);
    Shoal__Onnx__Node *node = shoali_onnx_node(g, "Transpose", columns, IN(k));
    shoali_onnx_ints(g, node, "perm", (const int64_t[]){0, 1, 3, 2}, 4);
    shoali_onnx_node(g, "MatMul", products, IN(q, columns));
    shoali_onnx_node(g, "Mul", scores, IN(products, scale));
    if (p->causal)
        scores = hidden(w, layer, scores);
    node = shoali_onnx_node(g, "Softmax", shares, IN(scores));
    shoali_onnx_int(g, node, "axis", -1);
    shoali_onnx_node(g, "MatMul", out, IN(shares, v));
    return out;
}

static uint32_t attention(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_attention_params *p = layer->params;
    const shoali_attention_sizes s = shoali_attention_sizes_of(layer);
    shoali_onnx_graph *g = w->graph;
    const char *q = heads(w, layer, x, "query", s.heads, 1);
    const char *k = heads(w, layer, x, "key", s.kv, s.heads / s.kv);
    const char *v = heads(w, layer, x, "value", s.kv, s.heads / s.kv);
    if (p->rope) {
        const char *cosine = turns(w, layer, false), *sine = turns(w, layer, true);
        q = turned(w, q, cosine, sine);
        k = turned(w, k, cosine, sine);
    }
    const char *values = weighed(w, layer, q, k, v);
    const char *beside = shoali_onnx_inner(w, layer, "beside"),
               *flat = shoali_onnx_inner(w, layer, "flat");
    const int64_t all = (int64_t)s.heads * s.dim;
    const char *shape = shoali_onnx_list(g, shoali_onnx_inner(w, layer, "shape"),
                                         (const int64_t[]){0, s.frames, all}, 3);
    Shoal__Onnx__Node *node = shoali_onnx_node(g, "Transpose", beside, IN(values));
    shoali_onnx_ints(g, node, "perm", (const int64_t[]){0, 2, 1, 3}, 4);
    shoali_onnx_node(g, "Reshape", flat, IN(beside, shape));
    shoali_onnx_product(w, flat, shoali_onnx_matrix(w, layer, "out", s.width, (uint64_t)all),
                        shoali_onnx_inner(w, layer, "out_turned"),
                        shoali_onnx_vector(w, layer, "out_bias", s.width), y);
    return 3;
}

const shoali_onnx_kind shoali_onnx_sequences[] = {{"lookup", lookup},   {"layernorm", layernorm},
                                                  {"rmsnorm", rmsnorm}, {"framewise", framewise},
                                                  {"bias", bias},       {"framepool", framepool},
                                                  {"swiglu", swiglu},   {"attention", attention},
                                                  {"dots", dots},       {NULL, NULL}};
