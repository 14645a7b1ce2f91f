/* SPDX-License-Identifier: Apache-2.0 */
#include "model/export_onnx.h"

#include <string.h>

#include "base/error.h"
#include "base/new_file.h"
#include "model/onnx_layers.h"

enum { IR_VERSION = 8, OPSET = 17, ABOUT_MAX = 8 };
#define BYTES_MAX (UINT64_C(2000) << 20) /* a protobuf has at most 2 GiB, names included */

typedef shoali_onnx_writer writer;
#define IN SHOALI_ONNX_INPUTS

const char *shoali_onnx_inner(writer *w, const shoali_layer *layer, const char *what)
{
    return shoali_onnx_text(w->graph, "%s.%s", layer->name, what);
}

/* ---------------------------------------------------------------- weights */

/* dense[out][in][taps]; of each tap, entry (a, b) of a block is its value (a - b) mod k. */
static const float *written_out(writer *w, const float *values, const int64_t *sizes, uint64_t taps,
                                uint64_t k)
{
    const uint64_t out = (uint64_t)sizes[0], in = (uint64_t)sizes[1];
    const uint64_t down = (out + k - 1) / k, across = (in + k - 1) / k;
    float *dense = shoali_arena_array(w->graph->arena, out * in * taps, sizeof *dense), *to = dense;
    w->graph->failed |= dense == NULL;
    for (uint64_t o = 0; dense != NULL && o < out; o++)
        for (uint64_t i = 0; i < in; i++)
            for (uint64_t tap = 0; tap < taps; tap++) {
                const uint64_t block = (tap * down + o / k) * across + i / k;
                *to++ = values[block * k + (o % k + k - i % k) % k];
            }
    return dense;
}

const char *shoali_onnx_weight(writer *w, const shoali_layer *layer, const char *role, size_t dims,
                               const int64_t *sizes)
{
    for (uint32_t i = layer->tensor_first; i < layer->tensor_first + layer->tensor_count; i++) {
        const shoali_param *param = &w->model->tensor_params[i];
        const float *data = w->params + w->model->tensors[i].offset;
        if (strcmp(param->role, role) != 0)
            continue;
        if (param->block > 1 && dims > 1)
            data = written_out(w, data, sizes, dims == 4 ? (uint64_t)(sizes[2] * sizes[3]) : 1,
                               param->block);
        return shoali_onnx_floats(w->graph, shoali_onnx_inner(w, layer, role), data, dims, sizes);
    }
    return NULL;
}

const char *shoali_onnx_vector(writer *w, const shoali_layer *layer, const char *role,
                               uint64_t count)
{
    return shoali_onnx_weight(w, layer, role, 1, (const int64_t[]){(int64_t)count});
}

const char *shoali_onnx_matrix(writer *w, const shoali_layer *layer, const char *role,
                               uint64_t rows, uint64_t cols)
{
    return shoali_onnx_weight(w, layer, role, 2, (const int64_t[]){(int64_t)rows, (int64_t)cols});
}

void shoali_onnx_product(writer *w, const char *x, const char *weight, const char *turned,
                         const char *bias, const char *y)
{
    const char *whole = bias != NULL ? shoali_onnx_text(w->graph, "%s.product", y) : y;
    Shoal__Onnx__Node *turn = shoali_onnx_node(w->graph, "Transpose", turned, IN(weight));
    shoali_onnx_ints(w->graph, turn, "perm", (const int64_t[]){1, 0}, 2);
    shoali_onnx_node(w->graph, "MatMul", whole, IN(x, turned));
    if (bias != NULL)
        shoali_onnx_node(w->graph, "Add", y, IN(whole, bias));
}

/* ---------------------------------------------------------------- vectors and images */

static uint32_t rank_of(const writer *w)
{
    return w->inputs[w->input_count - 1].rank;
}

static uint32_t dense(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const uint64_t in = shoali_shape_elems(layer->in), out = shoali_shape_elems(layer->out);
    if (rank_of(w) > 2) {
        const char *flat = shoali_onnx_inner(w, layer, "flat");
        shoali_onnx_node(w->graph, "Flatten", flat, IN(x));
        x = flat;
    }
    const char *weight = shoali_onnx_matrix(w, layer, "weight", out, in);
    const char *bias = shoali_onnx_vector(w, layer, "bias", out);
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, "Gemm", y, IN(x, weight, bias));
    shoali_onnx_int(w->graph, node, "transB", 1);
    return 2;
}

static uint32_t conv(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_conv_params *p = layer->params;
    const char *bias = shoali_onnx_vector(w, layer, "bias", (uint64_t)p->out);
    const int64_t groups = p->groups > 1 ? p->groups : 1;
    const int64_t seen = (int64_t)layer->in.channels / groups;
    const char *weight = shoali_onnx_weight(w, layer, "weight", 4,
                                            (const int64_t[]){p->out, seen, p->kernel, p->kernel});
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, "Conv", y, IN(x, weight, bias));
    shoali_onnx_ints(w->graph, node, "kernel_shape", (const int64_t[]){p->kernel, p->kernel}, 2);
    shoali_onnx_ints(w->graph, node, "strides", (const int64_t[]){p->stride, p->stride}, 2);
    shoali_onnx_ints(w->graph, node, "pads", (const int64_t[]){p->pad, p->pad, p->pad, p->pad}, 4);
    shoali_onnx_int(w->graph, node, "group", groups);
    return 4;
}

static uint32_t lrn(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_lrn_params *p = layer->params;
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, "LRN", y, IN(x));
    shoali_onnx_int(w->graph, node, "size", p->size);
    shoali_onnx_float(w->graph, node, "alpha", (float)p->alpha);
    shoali_onnx_float(w->graph, node, "beta", (float)p->beta);
    shoali_onnx_float(w->graph, node, "bias", (float)p->k);
    return 4;
}

/* The border at the end of a side. A last, partial window is padding there, which neither wins nor
 * counts; what counts is said as it is. */
static int64_t border_behind(const shoali_pool_params *p, uint32_t in, uint32_t out)
{
    const int64_t stride = p->stride == 0 ? p->kernel : p->stride;
    const int64_t seen = ((int64_t)out - 1) * stride + p->kernel - (int64_t)in - p->pad;
    if (p->include_pad)
        return p->pad;
    return seen > 0 ? seen : 0;
}

static uint32_t pool(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_pool_params *p = layer->params;
    const int64_t stride = p->stride == 0 ? p->kernel : p->stride;
    const int64_t bottom = border_behind(p, layer->in.height, layer->out.height);
    const int64_t right = border_behind(p, layer->in.width, layer->out.width);
    const bool largest = strcmp(layer->row->name, "maxpool") == 0;
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, largest ? "MaxPool" : "AveragePool", y,
                                               IN(x));
    shoali_onnx_ints(w->graph, node, "kernel_shape", (const int64_t[]){p->kernel, p->kernel}, 2);
    shoali_onnx_ints(w->graph, node, "strides", (const int64_t[]){stride, stride}, 2);
    shoali_onnx_ints(w->graph, node, "pads", (const int64_t[]){p->pad, p->pad, bottom, right}, 4);
    if (p->include_pad)
        shoali_onnx_int(w->graph, node, "count_include_pad", 1);
    return 4;
}

static uint32_t batchnorm(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_batchnorm_params *p = layer->params;
    const uint64_t half = layer->state_count / 2;
    const int64_t size[] = {(int64_t)half};
    const char *scale = shoali_onnx_vector(w, layer, "scale", half);
    const char *shift = shoali_onnx_vector(w, layer, "shift", half);
    const float *state = w->state + layer->state_offset;
    const char *mean = shoali_onnx_floats(w->graph, shoali_onnx_inner(w, layer, "mean"), state, 1,
                                          size);
    const char *variance = shoali_onnx_floats(w->graph, shoali_onnx_inner(w, layer, "variance"),
                                              state + half, 1, size);
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, "BatchNormalization", y,
                                               IN(x, scale, shift, mean, variance));
    shoali_onnx_float(w->graph, node, "epsilon", (float)p->eps);
    return rank_of(w);
}

/* ---------------------------------------------------------------- value by value */

static uint32_t plain(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    static const char *const names[][2] = {
        {"relu", "Relu"}, {"tanh", "Tanh"}, {"sigmoid", "Sigmoid"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(layer->row->name, names[i][0]) == 0)
            shoali_onnx_node(w->graph, names[i][1], y, IN(x));
    return rank_of(w);
}

static uint32_t silu(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const char *gate = shoali_onnx_inner(w, layer, "gate");
    shoali_onnx_node(w->graph, "Sigmoid", gate, IN(x));
    shoali_onnx_node(w->graph, "Mul", y, IN(x, gate));
    return rank_of(w);
}

/* The argument of tanh: sqrt(2 / pi) (x + 0.044715 x^3). */
static const char *bent(writer *w, const shoali_layer *layer, const char *x)
{
    const char *square = shoali_onnx_inner(w, layer, "square"),
               *cube = shoali_onnx_inner(w, layer, "cube"),
               *small = shoali_onnx_inner(w, layer, "small"),
               *sum = shoali_onnx_inner(w, layer, "sum"),
               *argument = shoali_onnx_inner(w, layer, "argument");
    const char *a = shoali_onnx_scalar(w->graph, shoali_onnx_inner(w, layer, "a"), 0.044715f);
    const char *b = shoali_onnx_scalar(w->graph, shoali_onnx_inner(w, layer, "b"), 0.79788456f);
    shoali_onnx_node(w->graph, "Mul", square, IN(x, x));
    shoali_onnx_node(w->graph, "Mul", cube, IN(square, x));
    shoali_onnx_node(w->graph, "Mul", small, IN(cube, a));
    shoali_onnx_node(w->graph, "Add", sum, IN(x, small));
    shoali_onnx_node(w->graph, "Mul", argument, IN(sum, b));
    return argument;
}

/* x (1 + f) / 2: f is erf(x / sqrt(2)), or its approximation by tanh. */
static uint32_t gelu(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const shoali_gelu_params *p = layer->params;
    const char *argument = shoali_onnx_inner(w, layer, "argument"),
               *bend = shoali_onnx_inner(w, layer, "bend"),
               *above = shoali_onnx_inner(w, layer, "above"),
               *twice = shoali_onnx_inner(w, layer, "twice");
    const char *one = shoali_onnx_scalar(w->graph, shoali_onnx_inner(w, layer, "one"), 1);
    const char *half = shoali_onnx_scalar(w->graph, shoali_onnx_inner(w, layer, "half"), 0.5f);
    if (p->tanh) {
        argument = bent(w, layer, x);
    } else {
        const char *scale = shoali_onnx_scalar(w->graph, shoali_onnx_inner(w, layer, "scale"),
                                               0.70710678f);
        shoali_onnx_node(w->graph, "Mul", argument, IN(x, scale));
    }
    shoali_onnx_node(w->graph, p->tanh ? "Tanh" : "Erf", bend, IN(argument));
    shoali_onnx_node(w->graph, "Add", above, IN(bend, one));
    shoali_onnx_node(w->graph, "Mul", twice, IN(x, above));
    shoali_onnx_node(w->graph, "Mul", y, IN(twice, half));
    return rank_of(w);
}

static uint32_t join(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    const char *names[SHOALI_LAYER_INPUTS_MAX + 1] = {0};
    const bool sum = strcmp(layer->row->name, "add") == 0;
    (void)x;
    for (uint32_t i = 0; i < w->input_count; i++)
        names[i] = w->inputs[i].name;
    Shoal__Onnx__Node *node = shoali_onnx_node(w->graph, sum ? "Add" : "Concat", y, names);
    if (!sum)
        shoali_onnx_int(w->graph, node, "axis", 1);
    return rank_of(w);
}

static uint32_t nothing(writer *w, const shoali_layer *layer, const char *x, const char *y)
{
    (void)layer;
    shoali_onnx_node(w->graph, "Identity", y, IN(x));
    return rank_of(w);
}

static const shoali_onnx_kind kinds[] = {
    {"dense", dense},     {"circulant", dense}, {"conv", conv},           {"circulant_conv", conv},
    {"maxpool", pool},    {"avgpool", pool},    {"relu", plain},          {"tanh", plain},
    {"sigmoid", plain},   {"silu", silu},       {"gelu", gelu},           {"dropout", nothing},
    {"flatten", nothing}, {"branch", nothing},  {"batchnorm", batchnorm}, {"add", join},
    {"concat", join},     {"hinge", nothing},   {"masked", nothing},      {"ctc", nothing},
    {"lrn", lrn},
};

/* ---------------------------------------------------------------- the whole */

static const shoali_onnx_kind *kind_of(const shoali_layer *layer)
{
    const shoali_onnx_kind *of = shoali_onnx_sequences;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, layer->row->name) == 0)
            return &kinds[i];
    while (of->name != NULL && strcmp(of->name, layer->row->name) != 0)
        of++;
    return of->name != NULL ? of : NULL;
}

static shoal_status check_layers(const shoal_model *model)
{
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        if (kind_of(layer) == NULL || layer->described)
            return shoali_fail(SHOAL_EINVAL, "layer %s (%s) has no form in ONNX here", layer->name,
                               layer->spec);
    }
    return SHOAL_OK;
}

/* Views are looked through, so a layer may read what stands before several of them. */
static void append_layers(writer *w, shoali_onnx_place *values)
{
    uint32_t from[SHOALI_LAYER_INPUTS_MAX];
    for (uint32_t i = 0; i < w->model->layer_count; i++) {
        const shoali_layer *layer = &w->model->layers[i];
        shoali_onnx_place *out = &values[i + 1];
        w->input_count = shoali_layer_inputs(w->model, i, from);
        for (uint32_t k = 0; k < w->input_count; k++)
            w->inputs[k] = values[from[k]];
        const shoali_onnx_place *last = &w->inputs[w->input_count - 1];
        const bool alias = (layer->row->traits & SHOALI_LAYER_ALIAS) != 0;
        *out = *last;
        if (alias && i + 1 < w->model->layer_count)
            continue;
        out->name = i + 1 < w->model->layer_count ? shoali_onnx_inner(w, layer, "y") : "scores";
        out->rank = kind_of(layer)->append(w, layer, last->name, out->name);
    }
}

/* By the first layer that computes; ids: it looks up what comes in. */
static uint32_t first_rank(const shoal_model *model, bool *ids_out)
{
    const shoali_layer_row *row = model->layers[0].row;
    for (uint32_t i = 1; i < model->layer_count && (row->traits & SHOALI_LAYER_ALIAS) != 0; i++)
        row = model->layers[i].row;
    *ids_out = strcmp(row->name, "lookup") == 0;
    if (*ids_out || model->input.height * model->input.width == 1)
        return 2;
    return (row->traits & SHOALI_LAYER_FRAMES) != 0 ? 3 : 4;
}

static Shoal__Onnx__ValueInfo *value_of(writer *w, const shoali_onnx_place *place,
                                        shoal_shape shape, bool ids)
{
    int64_t sizes[] = {shape.channels, shape.height, shape.width};
    if (place->rank == 2)
        sizes[0] = (int64_t)shoali_shape_elems(shape);
    return shoali_onnx_value(w->graph, place->name, ids, place->rank - 1,
                             place->rank == 3 ? sizes + 1 : sizes);
}

static void pack(writer *w, const shoali_onnx_about *about, Shoal__Onnx__Model *out,
                 Shoal__Onnx__Property *properties, Shoal__Onnx__Property **list)
{
    out->has_ir_version = true;
    out->ir_version = IR_VERSION;
    out->producer_name = (char *)(uintptr_t) "shoal";
    out->graph = &w->graph->pb;
    out->metadata_props = list;
    for (size_t i = 0; about != NULL && i < ABOUT_MAX && about->keys[i] != NULL; i++) {
        shoal__onnx__property__init(&properties[i]);
        properties[i].key = (char *)(uintptr_t)about->keys[i];
        properties[i].value = (char *)(uintptr_t)about->values[i];
        list[out->n_metadata_props++] = &properties[i];
    }
}

static shoal_status save(const char *path, const Shoal__Onnx__Model *model)
{
    shoali_new_file file;
    const size_t bytes = shoal__onnx__model__get_packed_size(model);
    uint8_t *packed = shoali_alloc(bytes);
    if (packed == NULL)
        return SHOAL_ENOMEM;
    shoal__onnx__model__pack(model, packed);
    shoal_status status = shoali_new_file_open_named(path, &file);
    if (status == SHOAL_OK) {
        fwrite(packed, 1, bytes, file.file); /* commit reports what failed */
        status = shoali_new_file_commit(&file);
    }
    shoali_free(packed);
    return status;
}

static shoal_status fill(writer *w, shoali_onnx_place *values)
{
    Shoal__Onnx__Graph *graph = &w->graph->pb;
    const shoal_model *model = w->model;
    bool ids;
    values[0] = (shoali_onnx_place){"input", first_rank(model, &ids)};
    append_layers(w, values);
    graph->name = (char *)(uintptr_t)model->name;
    graph->input = shoali_arena_alloc(w->graph->arena, 2 * sizeof *graph->input);
    if (graph->input == NULL)
        return SHOAL_ENOMEM;
    graph->output = graph->input + 1;
    graph->input[0] = value_of(w, &values[0], model->input, ids);
    graph->output[0] = value_of(w, &values[model->layer_count],
                                model->layers[model->layer_count - 1].out, false);
    graph->n_input = graph->n_output = 1;
    return w->graph->failed ? SHOAL_ENOMEM : SHOAL_OK;
}

static shoal_status write_graph(const char *path, writer *w, const shoali_onnx_about *about)
{
    Shoal__Onnx__Model out = SHOAL__ONNX__MODEL__INIT;
    Shoal__Onnx__OperatorSet set = SHOAL__ONNX__OPERATOR_SET__INIT, *sets[] = {&set};
    Shoal__Onnx__Property properties[ABOUT_MAX], *list[ABOUT_MAX];
    shoali_onnx_place *values = shoali_arena_array(
        w->graph->arena, (size_t)w->model->layer_count + 1, sizeof *values);
    if (values == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(fill(w, values));
    if (w->graph->bytes > BYTES_MAX)
        return shoali_fail(SHOAL_EINVAL,
                           "%.1f GB of weights: an ONNX file of one piece has at most 2",
                           (double)w->graph->bytes * 1e-9);
    set.domain = (char *)(uintptr_t) "";
    set.has_version = true;
    set.version = OPSET;
    out.opset_import = sets;
    out.n_opset_import = 1;
    pack(w, about, &out, properties, list);
    return save(path, &out);
}

shoal_status shoali_onnx_write(const char *path, const shoal_model *model, const float *params,
                               const float *state, const shoali_onnx_about *about)
{
    SHOALI_TRY(check_layers(model));
    shoali_onnx_graph graph = {.arena = shoali_arena_create(1 << 16),
                               .pb = SHOAL__ONNX__GRAPH__INIT};
    writer w = {.graph = &graph, .model = model, .params = params, .state = state};
    const shoal_status status = graph.arena != NULL ? write_graph(path, &w, about) : SHOAL_ENOMEM;
    shoali_arena_destroy(graph.arena);
    return status;
}
