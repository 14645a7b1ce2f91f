/* SPDX-License-Identifier: Apache-2.0 */
/* Block-circulant matrices, two ways. Large ones run in the frequency domain, transformed once per
 * pass, and sum their gradients up there; small ones are expanded before a pass, and their dense
 * gradients folded after it. */
#include "nn/matrix.h"

#include <string.h>

#include "kernel/kernel.h"
#include "nn/gemm.h"
#include "nn/rounded.h"
#include "shoal/circulant.h"

enum {
    BATCH = 64,
    ROUNDED = 512, /* vectors at a time in bf16 */
    ALIGN = 16 /* floats */,
    FAST_SIDE = 64,
    FAST_SIZE = 1 << 14,
    FAST_BLOCK_MAX = 64
};

/* Measured with 1 to 64 vectors against OpenBLAS with AVX-512: 128 x 128 and 256 x 64 are faster
 * in both directions for k = 4, 8, 16, 64 x 64 and 40 x 256 are not. A side of less than 4 blocks
 * leaves most lanes of a group empty. */
bool shoali_matrix_is_fast(uint32_t rows, uint32_t cols, uint32_t block)
{
    const uint32_t side = rows < cols ? rows : cols;
    return block >= 4 && block <= FAST_BLOCK_MAX && block <= side / 4 &&
           (block & (block - 1)) == 0 && side >= FAST_SIDE && (uint64_t)rows * cols >= FAST_SIZE;
}

static shoal_circulant_desc desc_of(uint32_t rows, uint32_t cols, uint32_t block, bool training)
{
    shoal_circulant_desc desc = SHOAL_CIRCULANT_DESC_INIT;
    desc.in = cols;
    desc.out = rows;
    desc.block = block;
    desc.batch_max = BATCH;
    desc.training = training;
    return desc;
}

/* The layer's memory, a gradient's sums behind it, and room to align both. The sizes are within the
 * kernels' bounds: model checked them. */
static size_t fast_floats(uint32_t rows, uint32_t cols, uint32_t block, bool training)
{
    const shoal_circulant_desc desc = desc_of(rows, cols, block, training);
    size_t bytes = 0;
    if (shoal_circulant_bytes(&desc, &bytes) != SHOAL_OK)
        return 0;
    return bytes / sizeof(float) + ALIGN + (training ? shoal_circulant_sums(&desc) : 0);
}

size_t shoali_matrix_scratch(uint32_t rows, uint32_t cols, uint32_t block)
{
    const size_t all = (size_t)rows * cols;
    if (!shoali_matrix_is_fast(rows, cols, block))
        return block > 1 ? 2 * all : 0;
    return fast_floats(rows, cols, block, true) + (size_t)BATCH * (rows + cols);
}

size_t shoali_matrix_rounded(uint32_t rows, uint32_t cols)
{
    const size_t weights = (size_t)rows * cols, vectors = (size_t)ROUNDED * (rows + cols);
    return shoali_rounded_bytes(weights + vectors);
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

static float *take(float **scratch, size_t floats)
{
    float *taken = *scratch;
    *scratch += floats;
    return taken;
}

static void open_fast(shoali_matrix *w, const float *values, bool training, float **scratch)
{
    const uint32_t rows = (uint32_t)w->rows, cols = (uint32_t)w->cols;
    const shoal_circulant_desc desc = desc_of(rows, cols, w->block, training);
    float *memory = take(scratch, fast_floats(rows, cols, w->block, training));
    memory += (ALIGN - (uintptr_t)memory / sizeof(float) % ALIGN) % ALIGN;
    if (training) {
        const size_t sums = shoal_circulant_sums(&desc);
        w->sums = memory;
        memset(w->sums, 0, sums * sizeof *w->sums);
        memory += sums;
    }
    w->in = take(scratch, (size_t)BATCH * cols);
    w->out = take(scratch, (size_t)BATCH * rows);
    if (shoal_circulant_init(&desc, memory, &w->fast) == SHOAL_OK)
        shoal_circulant_set_weights(w->fast, values);
}

shoali_matrix shoali_matrix_open(uint32_t rows, uint32_t cols, uint32_t block, const float **params,
                                 float **grads, float **scratch)
{
    size_t all = (size_t)rows * cols, kept = (size_t)shoali_matrix_count(rows, cols, block);
    shoali_matrix w = {.rows = (int)rows, .cols = (int)cols, .block = block, .dense = *params};
    const bool fast = shoali_matrix_is_fast(rows, cols, block);
    if (block > 1 && grads != NULL && !fast)
        w.dense_grads = take(scratch, all);
    if (fast) {
        w.dense = NULL;
        open_fast(&w, *params, grads != NULL, scratch);
    } else if (block > 1) {
        float *dense = take(scratch, all);
        shoali_matrix_expand(*params, rows, cols, block, dense);
        w.dense = dense;
    }
    if (grads != NULL) {
        w.grads = *grads;
        w.dense_grads = block > 1 ? w.dense_grads : *grads;
        if (!fast)
            memset(w.dense_grads, 0, all * sizeof *w.dense_grads);
        *grads += kept;
    }
    *params += kept;
    return w;
}

void shoali_matrix_close(shoali_matrix *w)
{
    const uint32_t rows = (uint32_t)w->rows, cols = (uint32_t)w->cols;
    if (w->fast != NULL) {
        shoal_circulant_learned(w->fast, w->sums, w->grads);
        shoali_kernel()->scale(w->grads, 1.0f / (float)w->block,
                               (size_t)shoali_matrix_count(rows, cols, w->block));
    } else if (w->block > 1) {
        shoali_matrix_fold(w->dense_grads, rows, cols, w->block, w->grads);
    }
}

/* ---------------------------------------------------------------- products */

/* Vectors side by side: themselves, or a copy. */
static const float *gathered(const float *from, size_t step, size_t values, uint32_t count,
                             float *room)
{
    if (step == values)
        return from;
    for (uint32_t n = 0; n < count; n++)
        memcpy(room + n * values, from + n * step, values * sizeof *room);
    return room;
}

static void scatter(const float *from, size_t values, uint32_t count, float *to, size_t step,
                    bool add)
{
    for (uint32_t n = 0; n < count; n++, from += values, to += step) {
        if (!add)
            memcpy(to, from, values * sizeof *to);
        for (size_t i = 0; add && i < values; i++)
            to[i] += from[i];
    }
}

/* At most BATCH vectors. back: through the transpose. */
static void run_fast(const shoali_matrix *w, uint32_t count, const float *from, size_t from_step,
                     float *to, size_t to_step, bool add, bool back)
{
    const size_t in = (size_t)(back ? w->rows : w->cols), out = (size_t)(back ? w->cols : w->rows);
    const bool direct = !add && to_step == out;
    float *result = direct ? to : back ? w->in : w->out;
    from = gathered(from, from_step, in, count, back ? w->out : w->in);
    if (back)
        shoal_circulant_backward(w->fast, from, count, result, NULL);
    else
        shoal_circulant_forward(w->fast, from, count, NULL, result);
    if (!direct)
        scatter(result, out, count, to, to_step, add);
}

static void run_all_fast(const shoali_matrix *w, uint32_t count, const float *from,
                         size_t from_step, float *to, size_t to_step, bool add, bool back)
{
    for (uint32_t n = 0; n < count; n += BATCH)
        run_fast(w, count - n < BATCH ? count - n : BATCH, from + n * from_step, from_step,
                 to + n * to_step, to_step, add, back);
}

/* to = from W^T or, back, from W; += with add. */
static void run_rounded(const shoali_matrix *w, uint32_t count, const float *from, size_t from_step,
                        float *to, size_t to_step, bool add, bool back)
{
    const int in = back ? w->rows : w->cols, out = back ? w->cols : w->rows;
    for (uint32_t n = 0; n < count; n += ROUNDED) {
        const int some = (int)(count - n < ROUNDED ? count - n : ROUNDED);
        shoali_rounded_gemm(false, !back, some, out, in, from + n * from_step, (int)from_step,
                            w->dense, w->cols, add, to + n * to_step, (int)to_step, w->rounded);
    }
}

void shoali_matrix_apply(const shoali_matrix *w, uint32_t count, const float *x, size_t x_step,
                         float *y, size_t y_step, bool add)
{
    if (w->fast != NULL)
        run_all_fast(w, count, x, x_step, y, y_step, add, false);
    else if (w->rounded != NULL)
        run_rounded(w, count, x, x_step, y, y_step, add, false);
    else
        shoali_gemm(false, true, (int)count, w->rows, w->cols, 1.0f, x, (int)x_step, w->dense,
                    w->cols, add ? 1.0f : 0.0f, y, (int)y_step);
}

void shoali_matrix_back(const shoali_matrix *w, uint32_t count, const float *dy, size_t dy_step,
                        float *dx, size_t dx_step, bool add)
{
    if (w->fast != NULL)
        run_all_fast(w, count, dy, dy_step, dx, dx_step, add, true);
    else if (w->rounded != NULL)
        run_rounded(w, count, dy, dy_step, dx, dx_step, add, true);
    else
        shoali_gemm(false, false, (int)count, w->cols, w->rows, 1.0f, dy, (int)dy_step, w->dense,
                    w->cols, add ? 1.0f : 0.0f, dx, (int)dx_step);
}

static void learn_fast(const shoali_matrix *w, uint32_t count, const float *dy, size_t dy_step,
                       const float *x, size_t x_step)
{
    for (uint32_t n = 0; n < count; n += BATCH, dy += BATCH * dy_step, x += BATCH * x_step) {
        const uint32_t some = count - n < BATCH ? count - n : BATCH;
        shoal_circulant_learn(w->fast, gathered(x, x_step, (size_t)w->cols, some, w->in),
                              gathered(dy, dy_step, (size_t)w->rows, some, w->out), some, w->sums);
    }
}

static void learn_rounded(const shoali_matrix *w, uint32_t count, const float *dy, size_t dy_step,
                          const float *x, size_t x_step)
{
    for (uint32_t n = 0; n < count; n += ROUNDED) {
        const int some = (int)(count - n < ROUNDED ? count - n : ROUNDED);
        shoali_rounded_gemm(true, false, w->rows, w->cols, some, dy + n * dy_step, (int)dy_step,
                            x + n * x_step, (int)x_step, true, w->dense_grads, w->cols, w->rounded);
    }
}

void shoali_matrix_learn(shoali_matrix *w, uint32_t count, const float *dy, size_t dy_step,
                         const float *x, size_t x_step)
{
    if (w->fast != NULL)
        learn_fast(w, count, dy, dy_step, x, x_step);
    else if (w->rounded != NULL)
        learn_rounded(w, count, dy, dy_step, x, x_step);
    else if (count > 0)
        shoali_gemm(true, false, w->rows, w->cols, (int)count, 1.0f, dy, (int)dy_step, x,
                    (int)x_step, 1.0f, w->dense_grads, w->cols);
}
