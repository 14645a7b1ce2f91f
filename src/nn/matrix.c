/* SPDX-License-Identifier: Apache-2.0 */
/* Block-circulant matrices are expanded before a pass and their gradients folded after it: within a
 * pass over many frames that costs little, and products are BLAS's. */
#include "nn/matrix.h"

#include <cblas.h>
#include <string.h>

size_t shoali_matrix_scratch(uint32_t rows, uint32_t cols, uint32_t block)
{
    return block > 1 ? 2 * (size_t)rows * cols : 0;
}

void shoali_matrix_expand(const float *values, uint32_t rows, uint32_t cols, uint32_t block,
                          float *dense_out)
{
    uint32_t across = (cols + block - 1) / block;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t j = 0; j < across; j++) {
            const float *w = values + ((size_t)(r / block) * across + j) * block;
            float *to = dense_out + (size_t)r * cols + (size_t)j * block;
            uint32_t at = r % block, count = cols - j * block < block ? cols - j * block : block;
            for (uint32_t b = 0; b < count; b++)
                to[b] = w[at >= b ? at - b : at + block - b];
        }
}

void shoali_matrix_fold(const float *dense, uint32_t rows, uint32_t cols, uint32_t block,
                        float *values_out)
{
    uint32_t across = (cols + block - 1) / block;
    size_t count = (size_t)shoali_matrix_count(rows, cols, block);
    const float share = 1.0f / (float)block;
    memset(values_out, 0, count * sizeof *values_out);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t j = 0; j < across; j++) {
            float *w = values_out + ((size_t)(r / block) * across + j) * block;
            const float *from = dense + (size_t)r * cols + (size_t)j * block;
            uint32_t at = r % block, n = cols - j * block < block ? cols - j * block : block;
            for (uint32_t b = 0; b < n; b++)
                w[at >= b ? at - b : at + block - b] += from[b];
        }
    for (size_t i = 0; i < count; i++)
        values_out[i] *= share;
}

shoali_matrix shoali_matrix_open(uint32_t rows, uint32_t cols, uint32_t block, const float **params,
                                 float **grads, float **scratch)
{
    size_t all = (size_t)rows * cols, kept = (size_t)shoali_matrix_count(rows, cols, block);
    shoali_matrix w = {.rows = (int)rows, .cols = (int)cols, .block = block, .dense = *params};
    if (block > 1) {
        shoali_matrix_expand(*params, rows, cols, block, *scratch);
        w.dense = *scratch;
        w.dense_grads = grads != NULL ? *scratch + all : NULL;
        *scratch += 2 * all;
    }
    if (grads != NULL) {
        w.grads = *grads;
        w.dense_grads = block > 1 ? w.dense_grads : *grads;
        memset(w.dense_grads, 0, all * sizeof *w.dense_grads);
        *grads += kept;
    }
    *params += kept;
    return w;
}

void shoali_matrix_close(shoali_matrix *w)
{
    if (w->block > 1)
        shoali_matrix_fold(w->dense_grads, (uint32_t)w->rows, (uint32_t)w->cols, w->block,
                           w->grads);
}

void shoali_matrix_apply(const shoali_matrix *w, uint32_t count, const float *x, size_t x_step,
                         float *y, size_t y_step, bool add)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)count, w->rows, w->cols, 1.0f, x,
                (int)x_step, w->dense, w->cols, add ? 1.0f : 0.0f, y, (int)y_step);
}

void shoali_matrix_back(const shoali_matrix *w, uint32_t count, const float *dy, size_t dy_step,
                        float *dx, size_t dx_step, bool add)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)count, w->cols, w->rows, 1.0f, dy,
                (int)dy_step, w->dense, w->cols, add ? 1.0f : 0.0f, dx, (int)dx_step);
}

void shoali_matrix_learn(shoali_matrix *w, uint32_t count, const float *dy, size_t dy_step,
                         const float *x, size_t x_step)
{
    if (count > 0)
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, w->rows, w->cols, (int)count, 1.0f, dy,
                    (int)dy_step, x, (int)x_step, 1.0f, w->dense_grads, w->cols);
}
