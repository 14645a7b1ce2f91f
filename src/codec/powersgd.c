/* SPDX-License-Identifier: Apache-2.0 */
/* powersgd: a gradient matrix M (rows x cols) as the product of two thin ones. A transform of two
 * rounds; what is summed over the members is written +M+:
 *
 *     0   M = gradient + residual, P = M Q            sum of P, and of what is no matrix
 *     1   P orthonormal, Q = M' P, residual = M - P Q'       sum of Q
 *     2   gradient = P +Q+', and +Q+ is where the next step begins (warm start)
 *
 * Delivered + residuals = the sum of all gradients, and every member ends with the same bits: P is
 * orthonormalised and multiplied out in one fixed order; only the products that end in sums go
 * through OpenBLAS. Vectors, and matrices of which P and Q would be no smaller, travel as they are.
 *
 * State, floats: whether Q is set; P of all matrices and the others' elements, in the order of the
 * table (round 0); Q' of all matrices (round 1); residuals of the matrices. All zero at first. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "kernel/kernel.h"

typedef struct powersgd_params {
    int64_t rank;
} powersgd_params;

static const shoali_key keys[] = {
    {"rank", SHOALI_KEY_INT, offsetof(powersgd_params, rank), 1, 64, NULL, "2",
     "columns of the thin matrices"},
};

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 61;
}

static bool is_matrix(const powersgd_params *p, const shoal_tensor *t)
{
    const size_t rows = t->rows, cols = t->cols, rank = (size_t)p->rank;
    return rows * cols == t->count && rank * (rows + cols) < t->count &&
           (t->flags & SHOAL_TENSOR_RAW) == 0;
}

/* Floats of the parts of the state. */
typedef struct sizes {
    size_t first, second, residual;
} sizes;

static sizes sizes_of(const powersgd_params *p, const shoal_tensor *tensors, uint32_t tensor_count)
{
    const size_t rank = (size_t)p->rank;
    sizes s = {0, 0, 0};
    for (uint32_t i = 0; i < tensor_count; i++) {
        const shoal_tensor *t = &tensors[i];
        bool matrix = is_matrix(p, t);
        s.first += matrix ? rank * t->rows : t->count;
        s.second += matrix ? rank * t->cols : 0;
        s.residual += matrix ? t->count : 0;
    }
    return s;
}

static size_t state_size(const void *params, const shoal_tensor *tensors, uint32_t tensor_count)
{
    sizes s = sizes_of(params, tensors, tensor_count);
    return (1 + s.first + s.second + s.residual) * sizeof(float);
}

/* One tensor's part of everything. */
typedef struct part {
    const shoal_tensor *tensor;
    int rank;
    float *m, *p, *q, *residual; /* rows x cols, rows x rank, rank x cols, rows x cols */
} part;

/* Columns of Q that are nothing would stay nothing. Every member draws the same. */
static void renew_q(const part *a, bool all)
{
    for (int j = 0; j < a->rank; j++) {
        float *row = a->q + (size_t)j * a->tensor->cols;
        if (!all && shoali_kernel()->absmax(row, a->tensor->cols) > 0)
            continue;
        for (size_t c = 0; c < a->tensor->cols; c++)
            row[c] = (float)shoali_rng_normal(a->tensor->key, 61, (uint64_t)j << 32 | c);
    }
}

static void multiply(const part *a, bool first_time)
{
    const int rows = (int)a->tensor->rows, cols = (int)a->tensor->cols;
    renew_q(a, first_time);
    shoali_kernel()->add(a->m, a->residual, a->tensor->count);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, a->rank, cols, 1, a->m, cols, a->q,
                cols, 0, a->p, a->rank);
}

static double dot(const part *a, int i, int j)
{
    double sum = 0;
    for (size_t r = 0; r < a->tensor->rows; r++)
        sum += (double)a->p[r * (size_t)a->rank + (size_t)i] *
               (double)a->p[r * (size_t)a->rank + (size_t)j];
    return sum;
}

/* Column j += factor * column i, or *= factor for i = j. */
static void combine(const part *a, int j, double factor, int i)
{
    for (size_t r = 0; r < a->tensor->rows; r++) {
        float *row = a->p + r * (size_t)a->rank;
        row[j] = (float)((i == j ? 0 : (double)row[j]) + factor * (double)row[i]);
    }
}

/* Gram and Schmidt, in double; a column that depends on those before it becomes 0, and is drawn
 * anew for the next step. */
static void orthonormalise(const part *a)
{
    const double dependent = 1e-10;
    for (int j = 0; j < a->rank; j++) {
        const double before = dot(a, j, j);
        for (int i = 0; i < j; i++)
            combine(a, j, -dot(a, i, j), i);
        const double after = dot(a, j, j);
        combine(a, j, after > dependent * before ? 1 / sqrt(after) : 0, j);
    }
}

/* out = factor * P Q' + to (NULL: 0): row by row, while it is in the cache, by columns of P. */
static void expand(const part *a, float factor, const float *to, float *out)
{
    const size_t cols = a->tensor->cols;
    for (size_t r = 0; r < a->tensor->rows; r++) {
        float *row = out + r * cols;
        if (to != NULL)
            shoali_kernel()->copy(row, to + r * cols, cols);
        else
            memset(row, 0, cols * sizeof *row);
        for (size_t j = 0; j < (size_t)a->rank; j++)
            shoali_kernel()->axpy(row, factor * a->p[r * (size_t)a->rank + j], a->q + j * cols,
                                  cols);
    }
}

static void project(const part *a)
{
    const int rows = (int)a->tensor->rows, cols = (int)a->tensor->cols;
    orthonormalise(a);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, a->rank, cols, rows, 1, a->p, a->rank,
                a->m, cols, 0, a->q, cols);
    expand(a, -1, a->m, a->residual);
}

static void matrix_round(const part *a, uint32_t index, bool first_time)
{
    if (index == 0)
        multiply(a, first_time);
    else if (index == 1)
        project(a);
    else
        expand(a, 1, NULL, a->m);
}

static void vector_round(const shoal_tensor *t, uint32_t index, float *grad, float *buffer)
{
    if (index == 0)
        shoali_kernel()->copy(buffer, grad, t->count);
    else if (index == 1)
        shoali_kernel()->copy(grad, buffer, t->count);
}

static shoal_status next_round(const void *params, void *state, const shoal_tensor *tensors,
                               uint32_t tensor_count, uint32_t index, float *grad,
                               shoal_round *round_out)
{
    const powersgd_params *p = params;
    const sizes s = sizes_of(p, tensors, tensor_count);
    float *set = state, *first = set + 1, *second = first + s.first;
    float *at_first = first, *at_second = second, *at_residual = second + s.second;
    for (uint32_t i = 0; i < tensor_count; i++) {
        const shoal_tensor *t = &tensors[i];
        if (!is_matrix(p, t)) {
            vector_round(t, index, grad + t->offset, at_first);
            at_first += t->count;
            continue;
        }
        const part a = {t, (int)p->rank, grad + t->offset, at_first, at_second, at_residual};
        matrix_round(&a, index, *set == 0);
        at_first += (size_t)p->rank * t->rows;
        at_second += (size_t)p->rank * t->cols;
        at_residual += t->count;
    }
    *set = 1;
    *round_out = (shoal_round){.last = true};
    if (index == 0)
        *round_out = (shoal_round){.buf = first, .count = s.first};
    else if (index == 1 && s.second > 0)
        *round_out = (shoal_round){.buf = second, .count = s.second};
    return SHOAL_OK;
}

/* A tenth, of matrices of some size: what P and Q take depends on shapes. */
const shoali_codec_row shoali_codec_powersgd = {
    .name = "powersgd",
    .paper = "Vogels et al., \"PowerSGD: Practical Low-Rank Gradient Compression for Distributed "
             "Optimization\", NeurIPS 2019; columns of Q that vanish are drawn anew",
    .traits = SHOAL_CODEC_TRANSFORM,
    .bytes_per_elem = 0.1F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(powersgd_params)},
    .wire_id = wire_id,
    .state_size = state_size,
    .next_round = next_round,
};
