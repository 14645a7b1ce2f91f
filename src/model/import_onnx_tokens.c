/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX graphs whose samples are sequences, as PyTorch exports transformers: what multiplies becomes
 * a layer (tables, matrices, products of attention, norms, gates), what moves data or works on
 * single values with constants is followed for its shape only. Norms and GELUs that were exported
 * in pieces are known by what they come to: values of one layer that meet again are that layer's,
 * times a learned vector a norm, times an activation of themselves a gate. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/import_onnx.h"

enum { INPUTS_MAX = 64, OUTPUTS_MAX = 16 };

typedef shoali_onnx_value value;
typedef shoali_onnx_node node_pb;

typedef struct importer {
    shoal_arena *arena;
    value *values;
    shoali_layer_list list;
    shoal_shape *shapes;             /* [1 + layers]: the input's, then each layer's */
    const shoali_onnx_tensor *table; /* of the embedding */
} importer;

static shoal_status define(importer *im, const char *name, const value *what)
{
    value *v = NULL;
    HASH_FIND_STR(im->values, name, v);
    if (v == NULL) {
        v = shoali_arena_alloc(im->arena, sizeof *v);
        if (v == NULL)
            return SHOAL_ENOMEM;
        *v = *what;
        v->name = name;
        HASH_ADD_KEYPTR(hh, im->values, name, strlen(name), v);
        return SHOAL_OK;
    }
    UT_hash_handle hh = v->hh;
    *v = *what;
    v->name = name;
    v->hh = hh;
    return SHOAL_OK;
}

static value *find(importer *im, const char *name)
{
    value *found = NULL;
    HASH_FIND_STR(im->values, name, found);
    return found;
}

static shoal_status give(importer *im, const node_pb *node, const value *what)
{
    if (node->n_output == 0)
        return shoali_onnx_refuse(node, "gives nothing");
    return define(im, node->output[0], what);
}

static int64_t last_dim(const value *v)
{
    return v->rank > 0 ? v->dims[v->rank - 1] : 1;
}

/* ---------------------------------------------------------------- layers */

static shoal_shape shape_of(const importer *im, int64_t layer)
{
    return im->shapes[layer + 1];
}

/* The list can have failed; then nothing more is added, and the end says so. */
static void add_layer(importer *im, shoal_shape shape, const char *spec)
{
    if (im->list.failed || im->list.count >= SHOALI_MODEL_LAYERS_MAX) {
        im->list.failed = true;
        return;
    }
    shoali_layer_list_add(&im->list, "%s", spec);
    im->shapes[im->list.count] = shape;
}

static bool as_shape(int64_t width, int64_t length, shoal_shape *out)
{
    if (width > 1 << 30 || length > 1 << 24)
        return false;
    *out = (shoal_shape){(uint32_t)width, (uint32_t)length, 1};
    return true;
}

/* Stand behind a value's layer, seen as rows of `width`. */
static shoal_status stand(importer *im, const node_pb *node, const value *v, int64_t width)
{
    char spec[64];
    shoal_shape want, is = shape_of(im, v->layer);
    int64_t back = im->list.count - v->layer, elems = shoali_onnx_elems(v);
    if (elems % width != 0 || !as_shape(width, elems / width, &want))
        return shoali_onnx_refuse(node, "its input does not divide into tokens");
    if (back > 1) {
        snprintf(spec, sizeof spec, "branch:back=%lld", (long long)back);
        add_layer(im, is, spec);
    }
    if (is.channels == want.channels && (uint64_t)is.height * is.width == want.height)
        return SHOAL_OK;
    snprintf(spec, sizeof spec, "view:width=%u,length=%u", want.channels, want.height);
    add_layer(im, want, spec);
    return SHOAL_OK;
}

/* What the last layer gives, with v's dimensions but the last. */
static shoal_status give_layer(importer *im, const node_pb *node, const value *v, int64_t width)
{
    value out = *v;
    out.layer = (int64_t)im->list.count - 1;
    out.constant = out.known = false;
    out.weight = NULL;
    if (out.rank == 0)
        return give(im, node, &out);
    out.dims[out.rank - 1] = 1;
    if (width > SHOALI_ONNX_ELEMS / shoali_onnx_elems(&out))
        return shoali_onnx_refuse(node, "gives more than a sample can have");
    out.dims[out.rank - 1] = width;
    return give(im, node, &out);
}

static shoal_status add_simple(importer *im, const node_pb *node, const value *v, const char *spec)
{
    SHOALI_TRY(stand(im, node, v, last_dim(v)));
    add_layer(im, shape_of(im, (int64_t)im->list.count - 1), spec);
    return give_layer(im, node, v, last_dim(v));
}

static shoal_status add_linear(importer *im, const node_pb *node, const value *v, const value *w,
                               bool turned, bool bias)
{
    char spec[96];
    if (w->rank != 2 || w->dims[turned ? 1 : 0] != last_dim(v))
        return shoali_onnx_refuse(node, "its weight does not fit the tokens");
    int64_t out = w->dims[turned ? 0 : 1];
    bool tied = w->weight != NULL && w->weight == im->table;
    if (out > 1 << 24)
        return shoali_onnx_refuse(node, "the weight has no sensible shape");
    SHOALI_TRY(stand(im, node, v, last_dim(v)));
    snprintf(spec, sizeof spec, "linear:out=%lld%s,bias=%s", (long long)out, tied ? ",tied" : "",
             bias ? "on" : "off");
    shoal_shape shape = shape_of(im, (int64_t)im->list.count - 1);
    shape.channels = (uint32_t)out;
    add_layer(im, shape, spec);
    return give_layer(im, node, v, out);
}

/* Rows of a by columns of b, for every head: a's rows are the tokens, or some of them. */
static shoal_status add_product(importer *im, const node_pb *node, const value *a, const value *b)
{
    char spec[96];
    value out = *a;
    if (a->rank < 2 || b->rank < 2 || b->dims[b->rank - 2] != last_dim(a))
        return shoali_onnx_refuse(node, "its factors do not fit each other");
    int64_t inner = last_dim(a), columns = last_dim(b), elems = shoali_onnx_elems(a) / inner;
    int64_t length = shape_of(im, a->layer).height;
    if (columns > SHOALI_ONNX_ELEMS / elems)
        return shoali_onnx_refuse(node, "the product is too large");
    elems *= columns;
    if (elems % length != 0 || elems / length > 1 << 30)
        length = 1;
    if (elems / length > 1 << 30 || shoali_onnx_elems(a) % length != 0)
        return shoali_onnx_refuse(node, "its factors do not divide into tokens");
    SHOALI_TRY(stand(im, node, a, shoali_onnx_elems(a) / length));
    int64_t back = im->list.count - b->layer;
    if (back < 1)
        return shoali_onnx_refuse(node, "its input comes from no layer");
    snprintf(spec, sizeof spec, "product:out=%lld,inner=%lld,back=%lld",
             (long long)(elems / length), (long long)inner, (long long)back);
    add_layer(im, (shoal_shape){(uint32_t)(elems / length), (uint32_t)length, 1}, spec);
    out.dims[out.rank - 1] = columns;
    return give_layer(im, node, &out, columns);
}

/* ---------------------------------------------------------------- two activations meet */

static bool same_elems(const importer *im, int64_t a, int64_t b)
{
    return shoali_shape_elems(shape_of(im, a)) == shoali_shape_elems(shape_of(im, b));
}

/* Of one layer both: that layer's. Else a gate, or a join, where both are whole outputs; parts of
 * outputs, as rotated positions are, only have a shape. */
static shoal_status add_pair(importer *im, const node_pb *node, const value *a, const value *b,
                             const char *join)
{
    char spec[64];
    const value *most = shoali_onnx_elems(a) >= shoali_onnx_elems(b) ? a : b;
    const value *later = a->layer >= b->layer ? a : b, *other = later == a ? b : a;
    value out = *most;
    out.layer = later->layer;
    if (a->layer == b->layer)
        return give(im, node, &out);
    int64_t gate = strcmp(join, "mul") == 0
                       ? shoali_onnx_gate(&im->list, later->layer, other->layer)
                       : -1;
    if (gate >= 0)
        return give(im, node, &out);
    bool whole = shoali_onnx_elems(a) == shoali_onnx_elems(b) &&
                 same_elems(im, a->layer, b->layer) &&
                 (uint64_t)shoali_onnx_elems(a) == shoali_shape_elems(shape_of(im, a->layer));
    if (!whole)
        return give(im, node, &out);
    shoal_shape shape = shape_of(im, other->layer);
    SHOALI_TRY(stand(im, node, later, shape.channels));
    snprintf(spec, sizeof spec, "%s:back=%lld", join,
             (long long)((int64_t)im->list.count - other->layer));
    add_layer(im, shape, spec);
    return give_layer(im, node, &out, last_dim(&out));
}

/* ---------------------------------------------------------------- learned vectors and tables */

static bool is_learned(const value *w)
{
    return w->weight != NULL && w->weight->name != NULL && w->weight->name[0] != '\0';
}

/* The layer's spec ends in bias=off: it learns that. */
static bool take_bias(importer *im, const value *v)
{
    static const char off[] = "bias=off";
    if (v->layer < 0 || im->list.failed)
        return false;
    const char *spec = im->list.layers[v->layer];
    size_t len = strlen(spec);
    if (len < sizeof off || strcmp(spec + len - (sizeof off - 1), off) != 0)
        return false;
    char *with = shoali_arena_strdup(im->arena, spec);
    if (with == NULL) {
        im->list.failed = true;
        return false;
    }
    strcpy(with + len - 3, "on");
    im->list.layers[v->layer] = with;
    return true;
}

static shoal_status add_constant(importer *im, const node_pb *node, const value *v, const value *w,
                                 bool product)
{
    char spec[64];
    value out = *v;
    int64_t width = last_dim(v), elems = shoali_onnx_elems(w);
    bool vector = elems == width && last_dim(w) == width && width > 1;
    bool table = elems > width && last_dim(w) == width && elems <= shoali_onnx_elems(v);
    if (elems > shoali_onnx_elems(v)) { /* it is the constant that gives the shape */
        out.rank = w->rank;
        memcpy(out.dims, w->dims, sizeof out.dims);
    }
    if (!is_learned(w) || (!vector && !table) || (table && product))
        return give(im, node, &out);
    if (product)
        return add_simple(im, node, v, "layernorm:bias=off");
    if (vector && take_bias(im, v))
        return give(im, node, v);
    if (vector && w->weight->n_dims < 2)
        return shoali_onnx_refuse(node, "adds a learned vector to what is no product and no norm");
    snprintf(spec, sizeof spec, "positions:rows=%lld",
             (long long)(w->weight->n_dims > 1 ? w->weight->dims[w->weight->n_dims - 2] : 1));
    return add_simple(im, node, v, spec);
}

static shoal_status add_gather(importer *im, const node_pb *node, const value *a, const value *b)
{
    char spec[96];
    value out = *b;
    int64_t axis = shoali_onnx_integer(node, "axis", 0);
    if (!a->constant) { /* some of the tokens */
        axis = axis < 0 ? axis + a->rank : axis;
        if (axis < 0 || axis >= a->rank || !b->constant || b->rank > 1)
            return shoali_onnx_refuse(node, "what it takes is not known beforehand");
        out = *a;
        out.dims[axis] = b->rank == 0 ? 1 : b->dims[0];
        return give(im, node, &out);
    }
    if (a->weight == NULL || a->rank != 2 || axis != 0 || b->layer >= 0 ||
        b->rank == SHOALI_ONNX_RANK || a->dims[0] > 1 << 24 || a->dims[1] > 1 << 20 ||
        im->list.count > 0)
        return shoali_onnx_refuse(node, "only a table that the graph's tokens look up first is "
                                        "read");
    im->table = a->weight;
    snprintf(spec, sizeof spec, "embedding:vocab=%lld,width=%lld", (long long)a->dims[0],
             (long long)a->dims[1]);
    add_layer(im, (shoal_shape){(uint32_t)a->dims[1], shape_of(im, -1).height, 1}, spec);
    out.rank++;
    return give_layer(im, node, &out, a->dims[1]);
}

/* ---------------------------------------------------------------- data that moves */

static shoal_status move_data(importer *im, const node_pb *node, const value *const *in,
                              size_t count)
{
    value out = {0};
    SHOALI_TRY(shoali_onnx_move(node, in, count, &out));
    return give(im, node, &out);
}

static shoal_status add_split(importer *im, const node_pb *node, const value *const *in,
                              size_t count)
{
    if (node->n_output > OUTPUTS_MAX)
        return shoali_onnx_refuse(node, "too many parts");
    for (size_t i = 0; i < node->n_output; i++) {
        value out;
        SHOALI_TRY(shoali_onnx_split(node, in, count, i, &out));
        SHOALI_TRY(define(im, node->output[i], &out));
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- operators */

static bool is_one_of(const char *op, const char *names)
{
    size_t len = strlen(op);
    for (const char *at = names; len > 0 && (at = strstr(at, op)) != NULL; at += len)
        if ((at == names || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

static const char singles[] =
    "Cast Identity Dropout Neg Sqrt Reciprocal Softmax LogSoftmax Clip Abs "
    "Exp Log Cos Sin Not";
static const char pairs[] = "Add Sub Mul Div Pow Where Equal Less Greater And Or Min Max";
static const char moves[] = "Reshape Transpose Expand Flatten Slice Unsqueeze Squeeze ReduceMean";
static const char known[] =
    "Gather, MatMul, Gemm, LayerNormalization, Gelu, Erf, Sigmoid, Tanh, Relu, Softmax, Add, Sub, "
    "Mul, Div, Pow, Sqrt, ReduceMean, Where, Reshape, Transpose, Split, Slice, Concat, Expand, "
    "Unsqueeze, Squeeze, Shape, Cast, Constant";

static shoal_status add_matrix(importer *im, const node_pb *node, const value *const *in,
                               size_t count)
{
    bool gemm = strcmp(node->op_type, "Gemm") == 0;
    if (count < 2 || in[0] == NULL || in[1] == NULL || in[0]->constant ||
        shoali_onnx_integer(node, "transA", 0) != 0)
        return shoali_onnx_refuse(node, "only products of what layers give are read");
    if (!in[1]->constant)
        return add_product(im, node, in[0], in[1]);
    return add_linear(im, node, in[0], in[1], shoali_onnx_integer(node, "transB", 0) != 0,
                      gemm && count > 2);
}

/* Element by element, of two or three. */
static shoal_status add_elements(importer *im, const node_pb *node, const value *const *in,
                                 size_t count)
{
    const value *data[2] = {NULL, NULL}, *constant = NULL;
    bool product = strcmp(node->op_type, "Mul") == 0;
    for (size_t i = 0, at = 0; i < count && i < 3; i++) {
        if (in[i] == NULL)
            return shoali_onnx_refuse(node, "its input comes from no layer");
        if (in[i]->constant)
            constant = in[i];
        else if (at < 2)
            data[at++] = in[i];
    }
    if (data[0] == NULL)
        return shoali_onnx_refuse(node, "none of its first three inputs comes from a layer");
    if (data[1] != NULL)
        return add_pair(im, node, data[0], data[1], product ? "mul" : "add");
    if (constant == NULL || !(product || strcmp(node->op_type, "Add") == 0))
        return give(im, node, data[0]);
    return add_constant(im, node, data[0], constant, product);
}

static shoal_status add_norm(importer *im, const node_pb *node, const value *const *in,
                             size_t count)
{
    if (count < 2 || in[1] == NULL || in[0]->rank == 0 ||
        shoali_onnx_elems(in[1]) != last_dim(in[0]))
        return shoali_onnx_refuse(node, "only norms over the last dimension are read");
    return add_simple(im, node, in[0],
                      count > 2 && in[2] != NULL ? "layernorm:bias=on" : "layernorm:bias=off");
}

/* At least one input is what a layer gives. */
static shoal_status add_active(importer *im, const node_pb *node, const value *const *in,
                               size_t count)
{
    static const char *const activations[][2] = {{"Gelu", "gelu"},
                                                 {"Erf", "erf"},
                                                 {"Sigmoid", "sigmoid"},
                                                 {"Tanh", "tanh"},
                                                 {"Relu", "relu"}};
    const char *op = node->op_type;
    if (is_one_of(op, "MatMul Gemm"))
        return add_matrix(im, node, in, count);
    if (is_one_of(op, pairs) && count > 1)
        return add_elements(im, node, in, count);
    if (strcmp(op, "Concat") == 0)
        return move_data(im, node, in, count);
    if (strcmp(op, "Gather") == 0 && count > 1 && in[0] != NULL && in[1] != NULL)
        return add_gather(im, node, in[0], in[1]);
    if (in[0] == NULL || in[0]->constant)
        return shoali_onnx_refuse(node, "its input comes from no layer");
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcmp(op, activations[i][0]) == 0)
            return add_simple(im, node, in[0], activations[i][1]);
    if (strcmp(op, "LayerNormalization") == 0)
        return add_norm(im, node, in, count);
    if (is_one_of(op, singles))
        return give(im, node, in[0]);
    if (is_one_of(op, moves))
        return move_data(im, node, in, count);
    if (strcmp(op, "Split") == 0)
        return add_split(im, node, in, count);
    return shoali_fail(SHOAL_ECORRUPT,
                       "node '%.48s': operator '%.48s' is not known in graphs of tokens; known: %s",
                       node->name != NULL ? node->name : "", op, known);
}

static shoal_status add_node(importer *im, const node_pb *node)
{
    const value *in[INPUTS_MAX];
    value out;
    bool active = false;
    const char *op = node->op_type;
    if (op == NULL || node->n_input > INPUTS_MAX)
        return shoali_fail(SHOAL_ECORRUPT,
                           "a node without an operator, or with more than %d inputs", INPUTS_MAX);
    for (size_t i = 0; i < node->n_input; i++) {
        in[i] = find(im, node->input[i]);
        active = active || (in[i] != NULL && !in[i]->constant);
    }
    if (strcmp(op, "Constant") == 0) {
        const Shoal__Onnx__Attribute *a = shoali_onnx_attribute(node, "value");
        bool good = a != NULL && a->t != NULL && shoali_onnx_of_tensor(a->t, &out);
        out.weight = NULL; /* nobody learns it */
        return good ? give(im, node, &out) : shoali_onnx_refuse(node, "has no tensor that is read");
    }
    if (active && strcmp(op, "Shape") != 0)
        return add_active(im, node, in, node->n_input);
    if (!shoali_onnx_fold(node, in, node->n_input, &out))
        return shoali_onnx_refuse(node, "the shape that it gives is not known beforehand; export "
                                        "the graph with fixed sizes");
    return give(im, node, &out);
}

/* ---------------------------------------------------------------- the graph */

static const Shoal__Onnx__Shape *shape_in(const Shoal__Onnx__ValueInfo *info)
{
    return info->type != NULL && info->type->tensor != NULL ? info->type->tensor->shape : NULL;
}

static bool is_weight(const Shoal__Onnx__Graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (graph->initializer[i]->name != NULL && strcmp(graph->initializer[i]->name, name) == 0)
            return true;
    return false;
}

static const Shoal__Onnx__ValueInfo *first_input(const Shoal__Onnx__Graph *graph)
{
    for (size_t i = 0; i < graph->n_input && i < INPUTS_MAX; i++)
        if (graph->input[i]->name != NULL && !is_weight(graph, graph->input[i]->name))
            return graph->input[i];
    return NULL;
}

bool shoali_onnx_is_tokens(const Shoal__Onnx__Graph *graph)
{
    enum { INT32 = 6, INT64 = 7 };
    const Shoal__Onnx__ValueInfo *info = first_input(graph);
    const Shoal__Onnx__Shape *shape = info != NULL ? shape_in(info) : NULL;
    if (shape == NULL)
        return false;
    int32_t type = info->type->tensor->elem_type;
    if (shape->n_dim == 3 || (shape->n_dim == 2 && (type == INT32 || type == INT64)))
        return true;
    for (size_t i = 0; shape->n_dim == 2 && i < graph->n_node && i < SHOALI_ONNX_NODES; i++)
        if (graph->node[i]->op_type != NULL &&
            is_one_of(graph->node[i]->op_type, "Erf Sigmoid Gelu LayerNormalization Pow Mul"))
            return true;
    return false;
}

/* [batch, length] of tokens, [batch, length, width] or [batch, width]; one sample is read. Further
 * inputs of tokens are masks and kinds: what they look up is not looked up anew. */
static shoal_status read_input(importer *im, const Shoal__Onnx__ValueInfo *info, bool first,
                               shoal_shape *out)
{
    const Shoal__Onnx__Shape *shape = shape_in(info);
    value v = {.constant = !first, .layer = -1, .rank = 1, .dims = {1}};
    if (shape == NULL || shape->n_dim < 1 || shape->n_dim > 4)
        return shoali_fail(SHOAL_ECORRUPT,
                           "input '%.48s' must be [batch, length], [batch, length, "
                           "width] or [batch, n]",
                           info->name);
    for (size_t i = 1; i < shape->n_dim; i++) {
        int64_t side = shape->dim[i]->has_value ? shape->dim[i]->value : 0;
        if (side < 1 || side > 1 << 20)
            return shoali_fail(SHOAL_ECORRUPT,
                               "dimension %zu of input '%.48s' is not fixed: export the graph with "
                               "the length that is trained on",
                               i, info->name);
        if (side > SHOALI_ONNX_ELEMS / shoali_onnx_elems(&v))
            return shoali_fail(SHOAL_ECORRUPT, "input '%.48s' has too many values", info->name);
        v.dims[v.rank++] = side;
    }
    if (first) {
        int32_t type = info->type->tensor->elem_type;
        bool tokens = v.rank == 2 && (type == 6 || type == 7);
        int64_t width = tokens ? 1 : last_dim(&v);
        if (!as_shape(width, shoali_onnx_elems(&v) / width, out))
            return shoali_fail(SHOAL_ECORRUPT, "input '%.48s' has too many values", info->name);
    }
    return define(im, info->name, &v);
}

static shoal_status read_graph(importer *im, const Shoal__Onnx__Graph *graph,
                               shoali_model_text *text)
{
    const Shoal__Onnx__ValueInfo *first = first_input(graph);
    if (first == NULL || graph->n_node > SHOALI_ONNX_NODES || graph->n_input > INPUTS_MAX)
        return shoali_fail(SHOAL_ECORRUPT, "the graph has no input, or more than %d nodes",
                           SHOALI_ONNX_NODES);
    for (size_t i = 0; i < graph->n_initializer; i++) {
        value v;
        const shoali_onnx_tensor *t = graph->initializer[i];
        if (t->name == NULL)
            continue;
        if (!shoali_onnx_of_tensor(t, &v))
            return shoali_fail(SHOAL_ECORRUPT, "weight '%.48s' has no sensible shape", t->name);
        SHOALI_TRY(define(im, t->name, &v));
    }
    for (size_t i = 0; i < graph->n_input; i++) {
        const Shoal__Onnx__ValueInfo *info = graph->input[i];
        if (info->name != NULL && find(im, info->name) == NULL)
            SHOALI_TRY(read_input(im, info, info == first, &text->input));
    }
    im->shapes[0] = text->input;
    for (size_t i = 0; i < graph->n_node; i++)
        SHOALI_TRY(add_node(im, graph->node[i]));
    return shoali_layer_list_end(&im->list, text);
}

shoal_status shoali_onnx_tokens(const Shoal__Onnx__Graph *graph, shoal_arena *arena,
                                shoali_model_text *text)
{
    importer im = {.arena = arena, .list = {.arena = arena}};
    im.shapes = shoali_arena_array(arena, SHOALI_MODEL_LAYERS_MAX + 1, sizeof *im.shapes);
    shoal_status status = im.shapes != NULL ? read_graph(&im, graph, text) : SHOAL_ENOMEM;
    HASH_CLEAR(hh, im.values);
    return status;
}
