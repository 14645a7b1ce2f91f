/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX as a chain of layer specs: nodes in file order (ONNX demands topological order), one layer
 * each; where a node does not go on from the layer before, a branch stands in between, and joins
 * say how far back their other inputs are. Shapes are followed as far as pooling over everything
 * needs them; the model's own inference checks the rest. Of weights their shapes are read, and
 * noted which layer has them (import_onnx_weights.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/import_onnx.h"

enum { NODES_MAX = SHOALI_ONNX_NODES, SIDE_MAX = 65536 };

typedef Shoal__Onnx__Node node_pb;
typedef Shoal__Onnx__Attribute attribute_pb;
typedef Shoal__Onnx__Tensor tensor_pb;

/* A value by its name: a weight, or what a layer gives (-1: the model's input). */
typedef struct value {
    const char *name;
    const tensor_pb *weight;
    int64_t layer;
    shoal_shape shape;
    UT_hash_handle hh;
} value;

typedef struct importer {
    const char *what;
    shoal_arena *arena;
    value *values;
    shoali_layer_list list;
    shoal_shape shape; /* of the layer before */
    shoali_onnx_takes takes;
} importer;

shoal_status shoali_onnx_refuse(const node_pb *node, const char *why)
{
    return shoali_fail(SHOAL_ECORRUPT, "node '%.48s' (%.32s): %s",
                       node->name != NULL ? node->name : "", node->op_type, why);
}

static value *find(importer *im, const char *name)
{
    value *found = NULL;
    HASH_FIND_STR(im->values, name, found);
    return found;
}

static shoal_status define(importer *im, const char *name, const tensor_pb *weight, int64_t layer,
                           shoal_shape shape)
{
    value *v = find(im, name);
    if (v == NULL) {
        v = shoali_arena_alloc(im->arena, sizeof *v);
        if (v == NULL)
            return SHOAL_ENOMEM;
        v->name = name;
        HASH_ADD_KEYPTR(hh, im->values, name, strlen(name), v);
    }
    v->weight = weight;
    v->layer = layer;
    v->shape = shape;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- attributes */

const attribute_pb *shoali_onnx_attribute(const node_pb *node, const char *name)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (node->attribute[i]->name != NULL && strcmp(node->attribute[i]->name, name) == 0)
            return node->attribute[i];
    }
    return NULL;
}

int64_t shoali_onnx_integer(const node_pb *node, const char *name, int64_t fallback)
{
    const attribute_pb *a = shoali_onnx_attribute(node, name);
    return a != NULL && a->has_i ? a->i : fallback;
}

static const value *weight_at(importer *im, const node_pb *node, size_t i)
{
    const value *v = i < node->n_input ? find(im, node->input[i]) : NULL;
    return v != NULL && v->weight != NULL ? v : NULL;
}

/* Note a weight of a layer, the last one as a rule. */
static shoal_status keep(importer *im, int64_t layer, const char *role, const value *weight,
                         bool turned)
{
    shoali_onnx_takes *t = &im->takes;
    if (weight == NULL)
        return SHOAL_OK;
    if (t->count == t->room) {
        const size_t room = t->room == 0 ? 64 : 2 * t->room;
        shoali_onnx_taken *items = shoali_arena_array(im->arena, room, sizeof *items);
        if (items == NULL)
            return SHOAL_ENOMEM;
        if (t->count > 0)
            memcpy(items, t->items, t->count * sizeof *items);
        t->items = items;
        t->room = room;
    }
    t->items[t->count++] = (shoali_onnx_taken){layer, role, weight->weight, turned};
    return SHOAL_OK;
}

static shoal_status keep_last(importer *im, const char *role, const value *weight, bool turned)
{
    return keep(im, (int64_t)im->list.count - 1, role, weight, turned);
}

/* What it computes is not what its layer does: that costs the same, but weights would mislead. */
static void differs(importer *im, const node_pb *node)
{
    im->takes.other = im->takes.other != NULL ? im->takes.other : node;
}

/* ---------------------------------------------------------------- layers */

/* Go on from this node's input `i`. */
static shoal_status go_on_from(importer *im, const node_pb *node, size_t i)
{
    const value *v = i < node->n_input ? find(im, node->input[i]) : NULL;
    if (v == NULL || v->weight != NULL)
        return shoali_onnx_refuse(node, "its input comes from no layer");
    int64_t back = im->list.count - v->layer;
    if (back > 1)
        shoali_layer_list_add(&im->list, "branch:back=%lld", (long long)back);
    im->shape = v->shape;
    return SHOAL_OK;
}

/* What a node gives is what the last layer gives. */
static shoal_status give(importer *im, const node_pb *node)
{
    if (node->n_output == 0)
        return shoali_onnx_refuse(node, "gives nothing");
    return define(im, node->output[0], NULL, (int64_t)im->list.count - 1, im->shape);
}

static shoal_status add_plain(importer *im, const node_pb *node, const char *spec)
{
    SHOALI_TRY(go_on_from(im, node, 0));
    shoali_layer_list_add(&im->list, "%s", spec);
    return give(im, node);
}

/* The value goes through unchanged: no layer. */
static shoal_status add_nothing(importer *im, const node_pb *node)
{
    const value *v = node->n_input > 0 ? find(im, node->input[0]) : NULL;
    if (v == NULL || node->n_output == 0)
        return shoali_onnx_refuse(node, "its input comes from no layer");
    return define(im, node->output[0], v->weight, v->layer, v->shape);
}

static uint32_t window_side(uint32_t in, int64_t kernel, int64_t stride, int64_t pad)
{
    int64_t room = (int64_t)in + 2 * pad - kernel;
    return room < 0 ? 0 : (uint32_t)(room / stride + 1);
}

static shoal_status add_conv(importer *im, const node_pb *node)
{
    const value *w = weight_at(im, node, 1);
    int64_t kernel, stride, pad, dilation;
    if (w == NULL || w->weight->n_dims != 4 || w->weight->dims[2] != w->weight->dims[3] ||
        w->weight->dims[0] < 1 || w->weight->dims[0] > SIDE_MAX)
        return shoali_onnx_refuse(node, "its kernel must be a square weight of out x in x k x k");
    SHOALI_TRY(shoali_onnx_same(node, "kernel_shape", 1, w->weight->dims[2], &kernel));
    SHOALI_TRY(shoali_onnx_same(node, "strides", 1, 1, &stride));
    SHOALI_TRY(shoali_onnx_same(node, "pads", 0, 0, &pad));
    SHOALI_TRY(shoali_onnx_same(node, "dilations", 1, 1, &dilation));
    SHOALI_TRY(shoali_onnx_check_auto_pad(node));
    if (dilation != 1)
        return shoali_onnx_refuse(node, "dilations are not read");
    char groups[32] = "";
    if (shoali_onnx_integer(node, "group", 1) != 1)
        snprintf(groups, sizeof groups, ",groups=%lld",
                 (long long)shoali_onnx_integer(node, "group", 1));
    SHOALI_TRY(go_on_from(im, node, 0));
    shoali_layer_list_add(&im->list, "conv:out=%lld,kernel=%lld,stride=%lld,pad=%lld,bias=%s%s",
                          (long long)w->weight->dims[0], (long long)kernel, (long long)stride,
                          (long long)pad, node->n_input > 2 ? "on" : "off", groups);
    SHOALI_TRY(keep_last(im, "weight", w, false));
    SHOALI_TRY(keep_last(im, "bias", weight_at(im, node, 2), false));
    im->shape = (shoal_shape){(uint32_t)w->weight->dims[0],
                              window_side(im->shape.height, kernel, stride, pad),
                              window_side(im->shape.width, kernel, stride, pad)};
    return give(im, node);
}

static shoal_status add_pool(importer *im, const node_pb *node, const char *kind)
{
    char spec[SHOALI_LAYER_SPEC_MAX];
    SHOALI_TRY(go_on_from(im, node, 0));
    SHOALI_TRY(shoali_onnx_pool(node, kind, &im->shape, spec));
    shoali_layer_list_add(&im->list, "%s", spec);
    return give(im, node);
}

static shoal_status add_global_pool(importer *im, const node_pb *node)
{
    SHOALI_TRY(go_on_from(im, node, 0));
    if (im->shape.height != im->shape.width || im->shape.height < 1 || im->shape.height > 255)
        return shoali_onnx_refuse(node, "pools an image that is not square, or larger than 255");
    if (im->shape.height > 1)
        shoali_layer_list_add(&im->list, "avgpool:kernel=%u", im->shape.height);
    im->shape.height = im->shape.width = 1;
    return give(im, node);
}

static bool scales(const node_pb *node, const char *name)
{
    const attribute_pb *a = shoali_onnx_attribute(node, name);
    return a != NULL && a->has_f && a->f != 1;
}

/* Gemm and MatMul with a weight: a dense layer. */
static shoal_status add_dense(importer *im, const node_pb *node)
{
    const value *w = weight_at(im, node, 1);
    bool turned = shoali_onnx_integer(node, "transB", 0) != 0,
         gemm = strcmp(node->op_type, "Gemm") == 0;
    if (w == NULL || w->weight->n_dims != 2 || shoali_onnx_integer(node, "transA", 0) != 0)
        return shoali_onnx_refuse(node, "only products with a weight matrix are read");
    int64_t out = w->weight->dims[turned ? 0 : 1];
    if (out < 1 || out > INT32_MAX)
        return shoali_onnx_refuse(node, "the weight has no sensible shape");
    SHOALI_TRY(go_on_from(im, node, 0));
    if (im->shape.height * im->shape.width != 1) {
        shoali_layer_list_add(&im->list, "flatten");
    }
    shoali_layer_list_add(&im->list, "dense:out=%lld,bias=%s", (long long)out,
                          gemm && node->n_input > 2 ? "on" : "off");
    SHOALI_TRY(keep_last(im, "weight", w, !turned));
    SHOALI_TRY(keep_last(im, "bias", gemm ? weight_at(im, node, 2) : NULL, false));
    if (scales(node, "alpha") || scales(node, "beta"))
        differs(im, node);
    im->shape = (shoal_shape){(uint32_t)out, 1, 1};
    return give(im, node);
}

static bool ends_in_off(const char *spec)
{
    size_t len = strlen(spec);
    return len > 8 && strcmp(spec + len - 8, "bias=off") == 0;
}

/* One value, the same for all: it is no weight that counts. */
static bool is_single(const value *v)
{
    int64_t elems = 1;
    for (size_t i = 0; v->weight != NULL && i < v->weight->n_dims; i++)
        elems = v->weight->dims[i] == 1 ? elems : 2;
    return v->weight != NULL && elems == 1;
}

/* MatMul and then Add of a vector is how exporters write a dense layer with bias. */
static shoal_status add_bias(importer *im, const node_pb *node, size_t data)
{
    const value *v = find(im, node->input[data]);
    bool fits = v != NULL && v->weight == NULL && v->layer >= 0 &&
                v->layer == (int64_t)im->list.count - 1 && !im->list.failed &&
                ends_in_off(im->list.layers[v->layer]);
    if (!fits)
        return shoali_onnx_refuse(node, "adds a weight to what is no product");
    const char *spec = im->list.layers[v->layer];
    char *with = shoali_arena_strdup(im->arena, spec);
    if (with == NULL)
        return SHOAL_ENOMEM;
    strcpy(with + strlen(with) - 3, "on");
    im->list.layers[v->layer] = with;
    SHOALI_TRY(keep(im, v->layer, "bias", weight_at(im, node, 1 - data), false));
    return give(im, node);
}

static shoal_status add_sum(importer *im, const node_pb *node)
{
    if (node->n_input != 2)
        return shoali_onnx_refuse(node, "only sums of two are read");
    for (size_t i = 0; i < 2; i++) {
        const value *w = weight_at(im, node, 1 - i), *v = find(im, node->input[i]);
        if (w != NULL && v != NULL && is_single(w) && shoali_shape_elems(v->shape) > 1 &&
            v->weight == NULL && node->n_output > 0) {
            differs(im, node);
            return define(im, node->output[0], NULL, v->layer, v->shape);
        }
        if (w != NULL)
            return add_bias(im, node, i);
    }
    const value *a = find(im, node->input[0]), *b = find(im, node->input[1]);
    size_t later = a != NULL && b != NULL && a->layer > b->layer ? 0 : 1;
    const value *other = later == 0 ? b : a;
    SHOALI_TRY(go_on_from(im, node, later));
    if (other == NULL)
        return shoali_onnx_refuse(node, "its input comes from no layer");
    shoali_layer_list_add(&im->list, "add:back=%lld",
                          (long long)((int64_t)im->list.count - other->layer));
    return give(im, node);
}

/* Product of two: with a constant nothing that counts; a gate; or a join. */
static shoal_status add_mul(importer *im, const node_pb *node)
{
    const value *a = node->n_input == 2 ? find(im, node->input[0]) : NULL;
    const value *b = node->n_input == 2 ? find(im, node->input[1]) : NULL;
    if (a == NULL || b == NULL || node->n_output == 0)
        return shoali_onnx_refuse(node, "its input comes from no layer");
    if (a->weight != NULL || b->weight != NULL) {
        const value *w = a->weight != NULL ? a : b, *v = w == a ? b : a;
        if (v->weight != NULL || !is_single(w))
            return shoali_onnx_refuse(node, "only a single constant, or another output, is read");
        differs(im, node);
        return define(im, node->output[0], NULL, v->layer, v->shape);
    }
    int64_t later = a->layer > b->layer ? a->layer : b->layer;
    const value *v = a->layer == later ? a : b;
    if (a->layer == b->layer || shoali_onnx_gate(&im->list, a->layer, b->layer) >= 0)
        return define(im, node->output[0], NULL, later, v->shape);
    if (shoali_shape_elems(a->shape) != shoali_shape_elems(b->shape))
        return shoali_onnx_refuse(node, "its factors have different shapes");
    SHOALI_TRY(go_on_from(im, node, v == a ? 0 : 1));
    shoali_layer_list_add(&im->list, "mul:back=%lld",
                          (long long)((int64_t)im->list.count - (v == a ? b : a)->layer));
    return give(im, node);
}

static shoal_status add_concat(importer *im, const node_pb *node)
{
    char backs[SHOALI_KEY_TEXT_BYTES] = "";
    uint64_t channels = 0;
    if (shoali_onnx_integer(node, "axis", 1) != 1 || node->n_input < 2)
        return shoali_onnx_refuse(node,
                                  "only channels (axis 1) of two or more can be put together");
    SHOALI_TRY(go_on_from(im, node, node->n_input - 1));
    for (size_t i = 0; i < node->n_input; i++) {
        const value *v = find(im, node->input[i]);
        size_t used = strlen(backs);
        if (v == NULL || v->weight != NULL)
            return shoali_onnx_refuse(node, "its input comes from no layer");
        channels += v->shape.channels;
        int64_t back = (int64_t)im->list.count - v->layer;
        if (i + 1 < node->n_input &&
            snprintf(backs + used, sizeof backs - used, "%s%lld", i > 0 ? "/" : "",
                     (long long)back) >= (int)(sizeof backs - used))
            return shoali_onnx_refuse(node, "too many inputs");
    }
    shoali_layer_list_add(&im->list, "concat:back=%s", backs);
    im->shape.channels = (uint32_t)(channels < UINT32_MAX ? channels : UINT32_MAX);
    return give(im, node);
}

static shoal_status add_flatten(importer *im, const node_pb *node)
{
    SHOALI_TRY(go_on_from(im, node, 0));
    uint64_t elems = shoali_shape_elems(im->shape);
    if (im->shape.height * im->shape.width != 1)
        shoali_layer_list_add(&im->list, "flatten");
    im->shape = (shoal_shape){(uint32_t)(elems < UINT32_MAX ? elems : UINT32_MAX), 1, 1};
    return give(im, node);
}

static shoal_status add_lrn(importer *im, const node_pb *node)
{
    static const char *const attributes[][2] = {
        {"alpha", "alpha"}, {"beta", "beta"}, {"bias", "k"}};
    char spec[SHOALI_LAYER_SPEC_MAX];
    const int64_t size = shoali_onnx_integer(node, "size", 0);
    if (size < 1 || size > 255)
        return shoali_onnx_refuse(node, "its size must be 1 .. 255");
    int used = snprintf(spec, sizeof spec, "lrn:size=%d", (int)size);
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        const attribute_pb *a = shoali_onnx_attribute(node, attributes[i][0]);
        if (a != NULL && a->has_f)
            used += snprintf(spec + used, sizeof spec - (size_t)used, ",%s=%.9g", attributes[i][1],
                             (double)a->f);
    }
    return add_plain(im, node, spec);
}

static shoal_status add_constant(importer *im, const node_pb *node)
{
    const attribute_pb *a = shoali_onnx_attribute(node, "value");
    if (a == NULL || a->t == NULL || node->n_output == 0)
        return shoali_onnx_refuse(node, "has no tensor");
    return define(im, node->output[0], a->t, -1, (shoal_shape){1, 1, 1});
}

static shoal_status add_maxpool(importer *im, const node_pb *node)
{
    return add_pool(im, node, "maxpool");
}

static shoal_status add_avgpool(importer *im, const node_pb *node)
{
    return add_pool(im, node, "avgpool");
}

static shoal_status add_relu(importer *im, const node_pb *node)
{
    return add_plain(im, node, "relu");
}

static shoal_status add_tanh(importer *im, const node_pb *node)
{
    return add_plain(im, node, "tanh");
}

static shoal_status add_norm(importer *im, const node_pb *node)
{
    static const char *const roles[] = {"scale", "shift", "mean", "variance"};
    const attribute_pb *eps = shoali_onnx_attribute(node, "epsilon");
    char spec[64] = "batchnorm";
    if (eps != NULL && eps->has_f && eps->f > 0 && eps->f < 1 && eps->f != 1e-5f)
        snprintf(spec, sizeof spec, "batchnorm:eps=%.9g", (double)eps->f);
    SHOALI_TRY(add_plain(im, node, spec));
    for (size_t i = 0; i < 4; i++)
        SHOALI_TRY(keep_last(im, roles[i], weight_at(im, node, i + 1), false));
    return SHOAL_OK;
}

static shoal_status add_clip(importer *im, const node_pb *node)
{
    differs(im, node);
    return add_plain(im, node, "relu");
}

static shoal_status add_dropout(importer *im, const node_pb *node)
{
    return add_plain(im, node, "dropout");
}

static shoal_status add_sigmoid(importer *im, const node_pb *node)
{
    return add_plain(im, node, "sigmoid");
}

static shoal_status add_gelu(importer *im, const node_pb *node)
{
    return add_plain(im, node, node->op_type[0] == 'E' ? "erf" : "gelu");
}

/* Softmax belongs to the loss here. Clip is ReLU6: it costs what relu costs. */
static const struct {
    const char *name;
    shoal_status (*add)(importer *im, const node_pb *node);
} operators[] = {{"Conv", add_conv},
                 {"Gemm", add_dense},
                 {"MatMul", add_dense},
                 {"Add", add_sum},
                 {"Sum", add_sum},
                 {"Concat", add_concat},
                 {"MaxPool", add_maxpool},
                 {"AveragePool", add_avgpool},
                 {"GlobalAveragePool", add_global_pool},
                 {"BatchNormalization", add_norm},
                 {"LRN", add_lrn},
                 {"Relu", add_relu},
                 {"Clip", add_clip},
                 {"Tanh", add_tanh},
                 {"Sigmoid", add_sigmoid},
                 {"Erf", add_gelu},
                 {"Gelu", add_gelu},
                 {"Mul", add_mul},
                 {"Div", add_mul},
                 {"Pow", add_mul},
                 {"Dropout", add_dropout},
                 {"Flatten", add_flatten},
                 {"Reshape", add_flatten},
                 {"Softmax", add_nothing},
                 {"LogSoftmax", add_nothing},
                 {"Identity", add_nothing},
                 {"Constant", add_constant}};
enum { OPERATORS = sizeof operators / sizeof operators[0] };

static shoal_status add_node(importer *im, const node_pb *node)
{
    char known[400] = "";
    for (size_t i = 0; node->op_type != NULL && i < OPERATORS; i++) {
        if (strcmp(operators[i].name, node->op_type) == 0)
            return operators[i].add(im, node);
    }
    for (size_t i = 0, used = 0; i < OPERATORS; i++, used = strlen(known))
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", operators[i].name);
    return shoali_fail(SHOAL_ECORRUPT, "node '%.48s': operator '%.48s' is not known; known: %s",
                       node->name != NULL ? node->name : "",
                       node->op_type != NULL ? node->op_type : "", known);
}

/* ---------------------------------------------------------------- the graph */

/* [batch, channels, height, width] or [batch, n]; a batch may be unknown. */
static shoal_status read_input(const Shoal__Onnx__ValueInfo *info, shoal_shape *out)
{
    const Shoal__Onnx__Shape *shape = info->type != NULL && info->type->tensor != NULL
                                          ? info->type->tensor->shape
                                          : NULL;
    uint32_t sides[3] = {1, 1, 1};
    if (shape == NULL || (shape->n_dim != 2 && shape->n_dim != 4))
        return shoali_fail(SHOAL_ECORRUPT,
                           "input '%.48s' must be [batch, channels, height, width] or [batch, n]",
                           info->name);
    for (size_t i = 1; i < shape->n_dim; i++) {
        int64_t side = shape->dim[i]->has_value ? shape->dim[i]->value : 0;
        if (side < 1 || side > SIDE_MAX)
            return shoali_fail(SHOAL_ECORRUPT, "dimension %zu of input '%.48s' is not fixed", i,
                               info->name);
        sides[i - 1] = (uint32_t)side;
    }
    *out = (shoal_shape){sides[0], sides[1], sides[2]};
    return SHOAL_OK;
}

static shoal_status read_graph(importer *im, const Shoal__Onnx__Graph *graph,
                               shoali_model_text *text)
{
    bool found = false;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const tensor_pb *t = graph->initializer[i];
        if (t->name != NULL)
            SHOALI_TRY(define(im, t->name, t, -1, (shoal_shape){1, 1, 1}));
    }
    for (size_t i = 0; i < graph->n_input; i++) {
        const Shoal__Onnx__ValueInfo *info = graph->input[i];
        if (info->name == NULL || find(im, info->name) != NULL)
            continue; /* old files list weights among the inputs */
        if (found)
            return shoali_fail(SHOAL_ECORRUPT, "more than one input ('%.48s')", info->name);
        SHOALI_TRY(read_input(info, &text->input));
        SHOALI_TRY(define(im, info->name, NULL, -1, text->input));
        found = true;
    }
    if (!found || graph->n_node > NODES_MAX)
        return shoali_fail(SHOAL_ECORRUPT, "the graph has no input, or more than %d nodes",
                           NODES_MAX);
    im->shape = text->input;
    for (size_t i = 0; i < graph->n_node; i++)
        SHOALI_TRY(add_node(im, graph->node[i]));
    return shoali_layer_list_end(&im->list, text);
}

shoal_status shoali_import_onnx_use(const char *what, const uint8_t *bytes, size_t len_bytes,
                                    shoal_arena *arena, shoali_model_text *text_out,
                                    shoali_onnx_use use, void *ctx)
{
    importer im = {.what = what, .arena = arena, .list = {.arena = arena}};
    Shoal__Onnx__Model *file;
    shoal_arena *unpacked = shoali_arena_create(1 << 16);
    shoal_status status = unpacked != NULL
                              ? shoali_onnx_unpack(what, bytes, len_bytes, unpacked, &file)
                              : SHOAL_ENOMEM;
    if (status == SHOAL_OK) {
        *text_out = (shoali_model_text){.name = shoali_onnx_name_of(what, arena)};
        if (text_out->name == NULL)
            status = SHOAL_ENOMEM;
        else if (shoali_onnx_is_tokens(file->graph))
            status = shoali_onnx_tokens(file->graph, arena, text_out);
        else
            status = read_graph(&im, file->graph, text_out);
        if (status == SHOAL_OK && use != NULL)
            status = use(ctx, text_out, &im.takes);
        status = shoali_onnx_in_file(what, status);
    }
    HASH_CLEAR(hh, im.values);
    shoali_arena_destroy(unpacked);
    return status;
}
