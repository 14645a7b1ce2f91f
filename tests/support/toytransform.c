/* SPDX-License-Identifier: Apache-2.0 */
/* State: q, p (all tensors one after the other), then the residual; floats. */
#include "support/toytransform.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

typedef struct layout {
    size_t rows, cols, count; /* sums over the tensors */
} layout;

static layout lay_out(const shoal_tensor *tensors, uint32_t tensor_count)
{
    layout l = {0, 0, 0};
    for (uint32_t t = 0; t < tensor_count; t++) {
        assert_int_equal((size_t)tensors[t].rows * tensors[t].cols, tensors[t].count);
        l.rows += tensors[t].rows;
        l.cols += tensors[t].cols;
        l.count += tensors[t].count;
    }
    return l;
}

static size_t state_size(const void *params, const shoal_tensor *tensors, uint32_t tensor_count)
{
    (void)params;
    layout l = lay_out(tensors, tensor_count);
    return (l.cols + l.rows + l.count) * sizeof(float);
}

const float *toy_transform_residual(const void *state, const shoal_tensor *tensors,
                                    uint32_t tensor_count)
{
    layout l = lay_out(tensors, tensor_count);
    return (const float *)state + l.cols + l.rows;
}

/* p = M q, with M = grad + residual, which grad becomes. */
static void multiply(const shoal_tensor *t, float *m, const float *residual, float *q, float *p)
{
    for (uint32_t c = 0; c < t->cols; c++)
        q[c] = (float)shoali_rng_normal(t->key, 1, c);
    for (size_t i = 0; i < t->count; i++)
        m[i] += residual[i];
    for (uint32_t r = 0; r < t->rows; r++) {
        p[r] = 0;
        for (uint32_t c = 0; c < t->cols; c++)
            p[r] += m[(size_t)r * t->cols + c] * q[c];
    }
}

/* p becomes a unit vector, q = M^T p, and the residual what p q^T misses of M. */
static void project(const shoal_tensor *t, const float *m, float *residual, float *q, float *p)
{
    double square = 1e-30;
    for (uint32_t r = 0; r < t->rows; r++)
        square += (double)p[r] * (double)p[r];
    for (uint32_t r = 0; r < t->rows; r++)
        p[r] = (float)((double)p[r] / sqrt(square));
    for (uint32_t c = 0; c < t->cols; c++) {
        q[c] = 0;
        for (uint32_t r = 0; r < t->rows; r++)
            q[c] += m[(size_t)r * t->cols + c] * p[r];
        for (uint32_t r = 0; r < t->rows; r++)
            residual[(size_t)r * t->cols + c] = m[(size_t)r * t->cols + c] - p[r] * q[c];
    }
}

static void expand(const shoal_tensor *t, float *m, const float *q, const float *p)
{
    for (uint32_t r = 0; r < t->rows; r++)
        for (uint32_t c = 0; c < t->cols; c++)
            m[(size_t)r * t->cols + c] = p[r] * q[c];
}

static shoal_status next_round(const void *params, void *state, const shoal_tensor *tensors,
                               uint32_t tensor_count, uint32_t index, float *grad,
                               shoal_round *round_out)
{
    (void)params;
    const layout l = lay_out(tensors, tensor_count);
    float *q = state, *p = q + l.cols, *residual = p + l.rows;
    for (uint32_t t = 0; t < tensor_count; t++) {
        const shoal_tensor *tensor = &tensors[t];
        float *m = grad + tensor->offset;
        if (index == 0)
            multiply(tensor, m, residual, q, p);
        else if (index == 1)
            project(tensor, m, residual, q, p);
        else
            expand(tensor, m, q, p);
        q += tensor->cols;
        p += tensor->rows;
        residual += tensor->count;
    }
    float *all_q = state;
    if (index == 0)
        *round_out = (shoal_round){.buf = all_q + l.cols, .count = l.rows};
    else if (index == 1)
        *round_out = (shoal_round){.buf = all_q, .count = l.cols};
    else
        *round_out = (shoal_round){.last = true};
    return SHOAL_OK;
}

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 0xfff1;
}

const shoali_codec_row toy_transform_row = {
    .name = "toy_transform",
    .paper = "Vogels et al., NeurIPS 2019, one power iteration of rank 1",
    .traits = SHOAL_CODEC_TRANSFORM,
    .wire_id = wire_id,
    .state_size = state_size,
    .next_round = next_round,
};
