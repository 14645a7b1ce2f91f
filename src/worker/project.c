/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/project.h"

#include <string.h>

#include "base/error.h"
#include "shoal/circulant.h"

/* Sides of a whole matrix; a vector has one row. */
static void sides(const shoal_tensor *tensor, uint32_t *rows_out, uint32_t *cols_out)
{
    bool vector = tensor->rows == 0 || tensor->cols == 0;
    *rows_out = vector ? 1 : tensor->rows;
    *cols_out = vector ? (uint32_t)tensor->count : tensor->cols;
}

/* Of a tensor that is a block-circulant convolution's: in how many matrices; else 1. */
static uint32_t taps_of(const shoal_model *model, uint32_t tensor)
{
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        if (tensor >= layer->tensor_first && tensor < layer->tensor_first + layer->tensor_count) {
            const shoali_circulant_conv_params *p = layer->params;
            return strcmp(layer->row->name, "circulant_conv") == 0
                       ? (uint32_t)(p->conv.kernel * p->conv.kernel)
                       : 1;
        }
    }
    return 1;
}

static uint32_t block_of(const shoal_model *model, uint32_t tensor)
{
    uint32_t block = model->tensor_params[tensor].block;
    return block > 1 ? block : 1;
}

shoal_status shoali_projection_of(const shoal_model *from, const shoal_model *to, uint32_t i,
                                  shoali_projection *projection_out)
{
    shoali_projection p = {.block = 1, .taps = 1};
    if (i >= from->tensor_count || i >= to->tensor_count)
        return shoali_fail(SHOAL_EINVAL, "models %s and %s have %u and %u tensors", from->name,
                           to->name, from->tensor_count, to->tensor_count);
    uint32_t before = block_of(from, i), after = block_of(to, i);
    sides(&from->tensors[i], &p.rows, &p.cols);
    p.count = to->tensors[i].count;
    if (before == 1)
        p.block = after;
    if (p.block > 1) {
        p.taps = taps_of(to, i);
        p.cols /= p.taps;
    }
    uint64_t expected = p.block > 1 ? p.taps * shoali_matrix_count(p.rows, p.cols, p.block)
                                    : from->tensors[i].count;
    if (expected != p.count || (before > 1 && before != after))
        return shoali_fail(SHOAL_EINVAL,
                           "%s of model %s has %zu values, %s of model %s %zu: they do not fit",
                           from->tensor_params[i].name, from->name, from->tensors[i].count,
                           to->tensor_params[i].name, to->name, p.count);
    *projection_out = p;
    return SHOAL_OK;
}

static shoal_circulant_desc desc_of(const shoali_projection *p)
{
    shoal_circulant_desc desc = SHOAL_CIRCULANT_DESC_INIT;
    desc.in = p->cols;
    desc.out = p->rows;
    desc.block = p->block;
    return desc;
}

size_t shoali_projection_whole(const shoali_projection *projection)
{
    return (size_t)projection->rows * projection->cols * projection->taps;
}

/* A tap's matrix out of a whole convolution, or into it. */
static void take_tap(const shoali_projection *p, uint32_t tap, const float *whole, float *matrix)
{
    for (size_t i = 0; i < (size_t)p->rows * p->cols; i++)
        matrix[i] = whole[i * p->taps + tap];
}

static void put_tap(const shoali_projection *p, uint32_t tap, const float *matrix, float *whole)
{
    for (size_t i = 0; i < (size_t)p->rows * p->cols; i++)
        whole[i * p->taps + tap] = matrix[i];
}

void shoali_project(const shoali_projection *projection, const float *dense, float *room,
                    float *values_out)
{
    const shoal_circulant_desc desc = desc_of(projection);
    if (projection->block == 1) {
        memcpy(values_out, dense, projection->count * sizeof *dense);
        return;
    }
    for (uint32_t tap = 0; tap < projection->taps; tap++) {
        take_tap(projection, tap, dense, room);
        shoal_circulant_project(&desc, room, values_out);
        values_out += projection->count / projection->taps;
    }
}

void shoali_unfold(const shoali_projection *projection, const float *values, float *room,
                   float *dense_out)
{
    const shoal_circulant_desc desc = desc_of(projection);
    if (projection->block == 1) {
        memcpy(dense_out, values, projection->count * sizeof *values);
        return;
    }
    for (uint32_t tap = 0; tap < projection->taps; tap++) {
        shoal_circulant_expand(&desc, values, room);
        put_tap(projection, tap, room, dense_out);
        values += projection->count / projection->taps;
    }
}
