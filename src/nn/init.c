/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/init.h"

#include <math.h>

#include "base/rng.h"

/* All outputs of a circulant block see the sum of its inputs with the same weight, the sum of its
 * first row. Behind ReLU that is most of what they see: one sign of it, and none of them is ever
 * above zero. Blocks from this side on begin with a sum of zero; smaller ones need it, as it is a
 * large part of what they can tell, and there are many of them beside each other. */
enum { BALANCED_FROM = 16 };

/* How a tensor's values are drawn: the deviation or bound of its distribution. */
typedef struct law {
    shoali_fill fill;
    bool normal;
    double scale;
    size_t first, end; /* of a span of ones */
    size_t block;      /* of FILL_BALANCED: entries that sum up to 0 */
} law;

static law law_of(const shoal_model *model, uint32_t tensor)
{
    const shoali_param *param = &model->tensor_params[tensor];
    const bool balanced = param->fill == SHOALI_FILL_BALANCED && param->block >= BALANCED_FROM;
    law l = {.fill = param->fill,
             .normal = model->init == SHOALI_INIT_HE,
             .first = param->fan_in,
             .end = param->fan_out,
             .block = balanced ? param->block : 0};
    if (param->fill == SHOALI_FILL_WEIGHT || param->fill == SHOALI_FILL_BALANCED)
        l.scale = l.normal ? sqrt(2.0 / param->fan_in)
                           : sqrt(6.0 / ((double)param->fan_in + param->fan_out));
    if (balanced) /* what the mean takes away */
        l.scale *= sqrt((double)l.block / ((double)l.block - 1));
    return l;
}

/* One weight, before its block is balanced. */
static double draw(const law *l, uint64_t seed, uint64_t key, size_t i)
{
    return l->scale * (l->normal ? (double)shoali_rng_normal(seed, key, i)
                                 : 2.0 * shoali_rng_double(seed, key, i) - 1.0);
}

static double block_mean(const law *l, uint64_t seed, uint64_t key, size_t block)
{
    double sum = 0;
    for (size_t i = 0; i < l->block; i++)
        sum += draw(l, seed, key, block * l->block + i);
    return sum / (double)l->block;
}

/* Values [first, first + count) of a tensor. */
static void fill(const law *l, uint64_t seed, uint64_t key, size_t first, size_t count, float *out)
{
    double mean = 0;
    for (size_t i = first; i < first + count; i++) {
        if (l->block > 0 && (i == first || i % l->block == 0))
            mean = block_mean(l, seed, key, i / l->block);
        if (l->fill == SHOALI_FILL_SPAN)
            out[i - first] = i >= l->first && i < l->end ? 1.0f : 0.0f;
        else if (l->fill == SHOALI_FILL_ZERO || l->fill == SHOALI_FILL_ONE)
            out[i - first] = l->fill == SHOALI_FILL_ONE ? 1.0f : 0.0f;
        else
            out[i - first] = (float)(draw(l, seed, key, i) - mean);
    }
}

void shoali_init_params(const shoal_model *model, uint64_t seed, float *params_out)
{
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const shoal_tensor *tensor = &model->tensors[t];
        law l = law_of(model, t);
        fill(&l, seed, tensor->key, 0, tensor->count, params_out + tensor->offset);
    }
}

void shoali_init_columns(const shoal_model *model, uint32_t t, uint64_t seed, size_t first,
                         size_t count, float *out)
{
    const shoal_tensor *tensor = &model->tensors[t];
    size_t cols = tensor->rows > 0 ? tensor->cols : 1, rows = tensor->count / cols;
    law l = law_of(model, t);
    for (size_t r = 0; r < rows; r++)
        fill(&l, seed, tensor->key, r * cols + first, count, out + r * count);
}
