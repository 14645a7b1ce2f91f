/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/init.h"

#include <math.h>

#include "base/rng.h"

static void fill_he(const shoal_tensor *tensor, uint32_t fan_in, uint64_t seed, float *out)
{
    double deviation = sqrt(2.0 / fan_in);
    for (size_t i = 0; i < tensor->count; i++)
        out[i] = (float)(deviation * shoali_rng_normal(seed, tensor->key, i));
}

static void fill_xavier(const shoal_tensor *tensor, uint32_t fan_in, uint32_t fan_out,
                        uint64_t seed, float *out)
{
    double bound = sqrt(6.0 / ((double)fan_in + fan_out));
    for (size_t i = 0; i < tensor->count; i++)
        out[i] = (float)(bound * (2.0 * shoali_rng_double(seed, tensor->key, i) - 1.0));
}

void shoali_init_params(const shoal_model *model, uint64_t seed, float *params_out)
{
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const shoal_tensor *tensor = &model->tensors[t];
        const shoali_param *param = &model->tensor_params[t];
        float *out = params_out + tensor->offset;
        if (param->fill == SHOALI_FILL_WEIGHT && model->init == SHOALI_INIT_HE)
            fill_he(tensor, param->fan_in, seed, out);
        else if (param->fill == SHOALI_FILL_WEIGHT)
            fill_xavier(tensor, param->fan_in, param->fan_out, seed, out);
        else
            for (size_t i = 0; i < tensor->count; i++)
                out[i] = param->fill == SHOALI_FILL_ONE ? 1.0f : 0.0f;
    }
}
