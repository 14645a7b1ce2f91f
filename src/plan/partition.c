/* SPDX-License-Identifier: Apache-2.0 */
/* From a model to the chain that HyPar divides, and what users read of a plan. */
#include "plan/partition.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const char *const modes[] = {"executed", "figure", "table2"};
static const char *const methods[] = {"optimum", "greedy", "exhaustive", "data",
                                      "model",   "owt",    "given"};
enum { MODES = sizeof modes / sizeof modes[0], METHODS = sizeof methods / sizeof methods[0] };

const char *shoal_partition_mode_name(size_t mode)
{
    return mode < MODES ? modes[mode] : NULL;
}

const char *shoal_partition_method_name(size_t method)
{
    return method < METHODS ? methods[method] : NULL;
}

/* ---------------------------------------------------------------- the chain */

static bool is_kind(const shoali_layer *layer, const char *kind)
{
    return strcmp(layer->row->name, kind) == 0;
}

static bool is_joint(const shoali_layer *layer)
{
    return is_kind(layer, "branch") || is_kind(layer, "add") || is_kind(layer, "concat");
}

/* Elements of the matrices of a layer; 0: it has none, so it belongs to the one before. */
static uint64_t weights_of(const shoal_model *model, const shoali_layer *layer)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < layer->tensor_count; t++) {
        const shoal_tensor *tensor = &model->tensors[layer->tensor_first + t];
        sum += tensor->rows > 0 ? tensor->count : 0;
    }
    return layer->tensor_count > 0 ? sum : layer->param_count;
}

static double macs_of(const shoali_layer *layer, uint64_t weights)
{
    if (is_kind(layer, "conv"))
        return (double)weights * layer->in.height * layer->in.width;
    return is_kind(layer, "dense") ? (double)weights : layer->forward_flops / 2;
}

/* Kinds that the trainer can run on a part of the samples and a part of the channels. */
static bool divisible_kind(const shoali_layer *layer)
{
    static const char *const kinds[] = {"dense", "conv", "maxpool", "avgpool",
                                        "relu",  "tanh", "flatten"};
    if (is_kind(layer, "conv") && ((const shoali_conv_params *)layer->params)->groups > 1)
        return false; /* a part of the channels would cut through groups */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (is_kind(layer, kinds[i]))
            return !layer->described;
    return false;
}

static const char *say(shoal_partition *p, const char *format, ...) SHOAL_PRINTF(2, 3);
static const char *say(shoal_partition *p, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return shoali_arena_strdup(p->arena, text);
}

static shoal_status add_weighted(shoal_partition *p, const shoal_model *model, uint32_t index,
                                 uint64_t weights)
{
    const shoali_layer *layer = &model->layers[index];
    bool conv = is_kind(layer, "conv");
    uint64_t in = conv ? layer->in.channels : shoali_shape_elems(layer->in);
    uint64_t outputs = shoali_shape_elems(layer->out);
    p->layers[p->layer_count] = (shoali_part_layer){
        .name = shoali_arena_strdup(p->arena, layer->name),
        .kind = layer->row->name,
        .index = index,
        .weights = weights,
        .biases = layer->param_count - weights,
        .outputs = outputs,
        .unpooled = outputs,
        .channels = layer->out.channels,
        .in_splits = in <= UINT32_MAX ? (uint32_t)in : 1,
        .macs = macs_of(layer, weights),
        .flops = layer->forward_flops,
        .spatial = conv,
    };
    return p->layers[p->layer_count++].name != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

/* A layer without matrices: its output is what travels, its parameters count as biases. */
static void add_follower(shoal_partition *p, const shoali_layer *layer)
{
    p->graph = p->graph || is_joint(layer);
    if (p->layer_count == 0)
        return;
    shoali_part_layer *last = &p->layers[p->layer_count - 1];
    last->biases += layer->param_count;
    last->flops += layer->forward_flops;
    if (!is_joint(layer))
        last->outputs = shoali_shape_elems(layer->out);
}

static shoal_status walk(shoal_partition *p, const shoal_model *model)
{
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        uint64_t weights = weights_of(model, layer);
        if (p->unfit == NULL && !divisible_kind(layer)) {
            p->unfit = say(p, "%s ('%s') cannot be divided by the trainer", layer->name,
                           layer->spec);
            if (p->unfit == NULL)
                return SHOAL_ENOMEM;
        }
        if (weights > 0)
            SHOALI_TRY(add_weighted(p, model, i, weights));
        else
            add_follower(p, layer);
    }
    return p->layer_count > 0
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL, "model '%s' has no weights to divide", model->name);
}

/* Every sum of partition_cost.c, scaled by 2^H where it is, is below 2^62. */
static shoal_status check_counts(const shoal_partition *p)
{
    double sum = 0;
    for (uint32_t l = 0; l < p->layer_count; l++) {
        const shoali_part_layer *layer = &p->layers[l];
        double moved = (double)(layer->outputs > layer->unpooled ? layer->outputs
                                                                 : layer->unpooled);
        sum += 2 * (double)(layer->weights + layer->biases) + 5 * p->batch * moved;
    }
    if (sum * (double)(1u << p->levels) < 0x1p62)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL,
                       "model %s with batch %u on 2^%u accelerators moves more than 2^62 elements",
                       p->model, p->batch, p->levels);
}

static shoal_status fill_chain(shoal_partition *p, const shoal_partition_desc *desc,
                               const shoal_model *model)
{
    p->model = shoali_arena_strdup(p->arena, desc->model);
    p->layers = shoali_arena_array(p->arena, model->layer_count, sizeof *p->layers);
    if (p->model == NULL || p->layers == NULL)
        return SHOAL_ENOMEM;
    p->batch = desc->batch != 0 ? desc->batch : 256;
    p->levels = desc->levels;
    p->mode = desc->mode;
    p->method = desc->method;
    SHOALI_TRY(walk(p, model));
    return check_counts(p);
}

shoal_status shoali_partition_chain(const shoal_partition_desc *desc, const shoal_model *model,
                                    shoal_partition **partition_out)
{
    if (desc->levels > SHOAL_PARTITION_LEVELS_MAX || desc->batch > 1u << 24 ||
        (size_t)desc->mode >= MODES || (size_t)desc->method >= METHODS)
        return shoali_fail(SHOAL_EINVAL,
                           "%u levels, batch %u, mode %d or method %d is out of range (levels 0 .. "
                           "%d, batch 1 .. %u)",
                           desc->levels, desc->batch, (int)desc->mode, (int)desc->method,
                           SHOAL_PARTITION_LEVELS_MAX, 1u << 24);
    shoal_arena *arena = shoali_arena_create(4096);
    shoal_partition *p = arena != NULL ? shoali_arena_alloc(arena, sizeof *p) : NULL;
    shoal_status status = SHOAL_ENOMEM;
    if (p != NULL) {
        p->arena = arena;
        status = fill_chain(p, desc, model);
    }
    if (status != SHOAL_OK)
        shoali_arena_destroy(arena);
    else
        *partition_out = p;
    return status;
}

/* ---------------------------------------------------------------- can it run */

/* A part of a pooled image is a range of channels; without a pool before it, of values. */
static uint32_t splits_of(const shoal_partition *p, uint32_t l, uint32_t before)
{
    const shoali_part_layer *layer = &p->layers[l];
    bool pooled_part = l > 0 && before > 0 && layer[-1].spatial;
    return pooled_part ? layer[-1].channels : layer->in_splits;
}

bool shoali_partition_divides(const shoal_partition *p, uint32_t l, uint32_t before, uint32_t count)
{
    return p->mode != SHOAL_PARTITION_EXECUTED || splits_of(p, l, before) % (1u << count) == 0;
}

shoal_status shoali_partition_judge(shoal_partition *p)
{
    uint32_t workers = 1u << p->levels;
    p->why_not = p->unfit;
    if (p->why_not == NULL && p->batch % workers != 0)
        p->why_not = say(p, "a batch of %u does not divide among %u workers", p->batch, workers);
    for (uint32_t l = 0; l < p->layer_count && p->why_not == NULL; l++) {
        uint32_t parts = 1u << __builtin_popcount(p->layers[l].mask);
        uint32_t splits = splits_of(p, l, l > 0 ? p->layers[l - 1].mask : 0);
        if (splits % parts == 0)
            continue;
        p->why_not = say(p, "%s: %u inputs do not divide into %u parts", p->layers[l].name, splits,
                         parts);
        return p->why_not != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- users' functions */

static shoal_status make(const shoal_partition_desc *desc, const shoal_model *model,
                         shoal_partition **partition_out)
{
    shoal_partition *p;
    SHOALI_TRY(shoali_partition_chain(desc, model, &p));
    shoal_status status = shoali_partition_solve(p, desc->given);
    if (status == SHOAL_OK)
        status = shoali_partition_judge(p);
    if (status != SHOAL_OK)
        shoal_partition_destroy(p);
    else
        *partition_out = p;
    return status;
}

shoal_status shoal_partition_create(const shoal_partition_desc *desc,
                                    shoal_partition **partition_out)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->model == NULL || partition_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_partition_create needs a desc of this version's "
                                         "size with a model; start from "
                                         "SHOAL_PARTITION_DESC_INIT");
    shoal_model *model;
    SHOALI_TRY(shoal_model_open(desc->model, &model));
    shoal_status status = make(desc, model, partition_out);
    shoal_model_close(model);
    return status;
}

void shoal_partition_destroy(shoal_partition *partition)
{
    if (partition != NULL)
        shoali_arena_destroy(partition->arena);
}

static double own_macs(const shoal_partition *p)
{
    double sum = 0;
    for (uint32_t l = 0; l < p->layer_count; l++)
        sum += p->layers[l].macs;
    return sum;
}

shoal_status shoal_partition_describe(const shoal_partition *p, shoal_partition_info *info_out)
{
    if (p == NULL || info_out == NULL || info_out->size != sizeof *info_out)
        return shoali_fail(SHOAL_EINVAL, "shoal_partition_describe needs a partition and an info "
                                         "of this version's size");
    *info_out = (shoal_partition_info){
        .size = sizeof *info_out,
        .model = p->model,
        .batch = p->batch,
        .levels = p->levels,
        .layer_count = p->layer_count,
        .mode = p->mode,
        .method = p->method,
        .elements = shoali_partition_elements(p),
        .bias_elements = shoali_partition_bias_elements(p),
        .executed_elements = shoali_partition_executed(p),
        .macs = own_macs(p),
        .graph = p->graph,
        .why_not = p->why_not,
    };
    return SHOAL_OK;
}

shoal_status shoal_partition_layer(const shoal_partition *p, uint32_t index,
                                   shoal_partition_layer_info *info_out)
{
    if (p == NULL || info_out == NULL || info_out->size != sizeof *info_out)
        return shoali_fail(SHOAL_EINVAL, "shoal_partition_layer needs a partition and an info of "
                                         "this version's size");
    if (index >= p->layer_count)
        return shoali_fail(SHOAL_EINVAL, "layer %u of a partition with %u", index, p->layer_count);
    const shoali_part_layer *layer = &p->layers[index];
    *info_out = (shoal_partition_layer_info){.size = sizeof *info_out,
                                             .name = layer->name,
                                             .kind = layer->kind,
                                             .weights = layer->weights,
                                             .outputs = layer->outputs,
                                             .mask = layer->mask};
    return SHOAL_OK;
}

shoal_status shoal_partition_level(const shoal_partition *p, uint32_t level, uint64_t *elements_out)
{
    if (p == NULL || level < 1 || level > p->levels)
        return shoali_fail(SHOAL_EINVAL, "level %u of a partition with %u", level,
                           p != NULL ? p->levels : 0);
    uint64_t scaled = shoali_partition_level_scaled(p, level), unit = UINT64_C(1) << p->levels;
    *elements_out = (scaled + unit - 1) / unit;
    return SHOAL_OK;
}

double shoal_partition_time(const shoal_partition *p, double macs, double ratio)
{
    if (macs <= 0)
        macs = own_macs(p);
    double share = 16.0 / (double)(1u << p->levels) * p->batch / 256;
    return ratio * share * macs / 1e9 + 4 * (double)shoali_partition_elements(p) / 1e9;
}
