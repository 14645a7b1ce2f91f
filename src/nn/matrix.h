/* SPDX-License-Identifier: Apache-2.0 */
/* A weight matrix W [rows][cols] of a layer over frames, dense or block-circulant, and the three
 * products that training needs. Vectors are rows of arrays with a stride (`step`, elements). */
#ifndef SHOALI_NN_MATRIX_H
#define SHOALI_NN_MATRIX_H

#include "model/model.h"

typedef struct shoali_matrix {
    int rows, cols;
    uint32_t block;
    const float *dense;           /* float32[rows][cols]; NULL if fast */
    float *dense_grads;           /* the same; NULL: forward only, or fast */
    float *grads;                 /* of the values kept */
    struct shoal_circulant *fast; /* products by FFT; NULL: of dense matrices */
    float *in, *out;              /* of fast: vectors side by side */
    float *sums;                  /* of fast: the gradient's spectrum so far */
    void *rounded;                /* work of products in bf16; NULL: in float32 */
} shoali_matrix;

/** Whether products run in the frequency domain (shoal/circulant.h): where that was measured to be
 * faster than BLAS on the matrix written out. */
bool shoali_matrix_is_fast(uint32_t rows, uint32_t cols, uint32_t block);

/** Floats of scratch that shoali_matrix_open takes. */
size_t shoali_matrix_scratch(uint32_t rows, uint32_t cols, uint32_t block);

/** Bytes of work for products in bf16 by a dense matrix. */
size_t shoali_matrix_rounded(uint32_t rows, uint32_t cols);

/**
 * Take the next matrix of a layer.
 * @param params, grads in: its values; moved behind them. grads NULL: forward only.
 * @param scratch in: free floats; moved behind those taken.
 */
shoali_matrix shoali_matrix_open(uint32_t rows, uint32_t cols, uint32_t block, const float **params,
                                 float **grads, float **scratch);
/** Gradients are complete: a circulant block's values get the mean over the entries they stand
 * for. */
void shoali_matrix_close(shoali_matrix *w);

/** y = x W^T, or y += with add. */
void shoali_matrix_apply(const shoali_matrix *w, uint32_t count, const float *x, size_t x_step,
                         float *y, size_t y_step, bool add);
/** dx = dy W, or dx += with add. */
void shoali_matrix_back(const shoali_matrix *w, uint32_t count, const float *dy, size_t dy_step,
                        float *dx, size_t dx_step, bool add);
/** dW += dy^T x. */
void shoali_matrix_learn(shoali_matrix *w, uint32_t count, const float *dy, size_t dy_step,
                         const float *x, size_t x_step);

/** dense[rows][cols] from kept values, and kept values as the means over dense. */
void shoali_matrix_expand(const float *values, uint32_t rows, uint32_t cols, uint32_t block,
                          float *dense_out);
void shoali_matrix_fold(const float *dense, uint32_t rows, uint32_t cols, uint32_t block,
                        float *values_out);

#endif
