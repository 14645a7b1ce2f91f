/* SPDX-License-Identifier: Apache-2.0 */
#include "train/project.h"

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

static bool of_convolution(const shoal_model *model, uint32_t tensor)
{
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        if (tensor >= layer->tensor_first && tensor < layer->tensor_first + layer->tensor_count)
            return strcmp(layer->row->name, "circulant_conv") == 0;
    }
    return false;
}

static uint32_t block_of(const shoal_model *model, uint32_t tensor)
{
    uint32_t block = model->tensor_params[tensor].block;
    return block > 1 ? block : 1;
}

shoal_status shoali_projection_of(const shoal_model *from, const shoal_model *to, uint32_t i,
                                  shoali_projection *projection_out)
{
    shoali_projection p = {.block = 1};
    if (i >= from->tensor_count || i >= to->tensor_count)
        return shoali_fail(SHOAL_EINVAL, "models %s and %s have %u and %u tensors", from->name,
                           to->name, from->tensor_count, to->tensor_count);
    uint32_t before = block_of(from, i), after = block_of(to, i);
    sides(&from->tensors[i], &p.rows, &p.cols);
    p.count = to->tensors[i].count;
    if (before != after && of_convolution(to, i))
        return shoali_fail(SHOAL_ENOTSUP,
                           "%s of model %s: convolutions are made block-circulant by training them "
                           "so, not from whole ones",
                           to->tensor_params[i].name, to->name);
    if (before == 1)
        p.block = after;
    uint64_t expected = p.block > 1 ? shoali_matrix_count(p.rows, p.cols, p.block)
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

void shoali_project(const shoali_projection *projection, const float *dense, float *values_out)
{
    shoal_circulant_desc desc = desc_of(projection);
    if (projection->block == 1)
        memcpy(values_out, dense, projection->count * sizeof *dense);
    else
        shoal_circulant_project(&desc, dense, values_out);
}

void shoali_unfold(const shoali_projection *projection, const float *values, float *dense_out)
{
    shoal_circulant_desc desc = desc_of(projection);
    if (projection->block == 1)
        memcpy(dense_out, values, projection->count * sizeof *values);
    else
        shoal_circulant_expand(&desc, values, dense_out);
}
