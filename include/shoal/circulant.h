/* SPDX-License-Identifier: Apache-2.0 */
/* Products with block-circulant matrices: weights, work and gradients are `block` times smaller
 * than those of a dense layer. Needs nothing else of Shoal: no communicator, no heap, no threads.
 *
 * A matrix of out x in is cut into blocks of k x k (the last ones padded with zeros), p = ceil(out
 * / k) rows of q = ceil(in / k) blocks. Block (i, j) is circulant, given by k weights:
 *
 *     w: float32[p][q][k]     C[a][b] = w[i][j][(a - b) mod k]     (w is the first column)
 *                             C[a][b] = w[i][j][(b - a) mod k]     (first_row: w is the first row)
 *
 * The product runs in the frequency domain: one real FFT per input block, a small complex matrix
 * product per bin, one inverse FFT per output block. k may be anything from 1 to 1024; powers of
 * two have fast transforms, others a plain (slow) one.
 *
 *     shoal_circulant_desc desc = SHOAL_CIRCULANT_DESC_INIT;
 *     desc.in = desc.out = 1024, desc.block = 8, desc.batch_max = 1;
 *     size_t bytes;
 *     shoal_circulant *layer;
 *     if (shoal_circulant_bytes(&desc, &bytes) != SHOAL_OK) ...
 *     if (shoal_circulant_init(&desc, aligned_alloc(64, bytes), &layer) != SHOAL_OK) ...
 *     shoal_circulant_set_weights(layer, w);
 *     shoal_circulant_forward(layer, x, 1, bias, y);
 *
 * Memory: everything lies in the block that the caller hands to init, and dies with it; nothing is
 * allocated later. Threads: a layer belongs to one thread at a time (it holds scratch).
 *
 * Results are equal to the dense product in exact arithmetic; in float32 the relative L2 error is
 * below 2e-6 for k <= 128. Source: Ding et al., "CirCNN", MICRO 2017; docs/circulant.md. */
#ifndef SHOAL_CIRCULANT_H
#define SHOAL_CIRCULANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Shape of a layer. */
typedef struct shoal_circulant_desc {
    size_t size;        /* sizeof(shoal_circulant_desc), by which versions are told apart */
    uint32_t in, out;   /* features, 1 .. 2^24 */
    uint32_t block;     /* k, 1 .. 1024 */
    uint32_t batch_max; /* most samples per call, 1 .. 2^20 */
    bool training;      /* backward will be called: keeps what it needs */
    bool first_row;     /* the weights' convention; else first column */
} shoal_circulant_desc;

/** Starting point: everything that this version knows is zero, size is set. */
#define SHOAL_CIRCULANT_DESC_INIT                              \
    {                                                          \
        sizeof(shoal_circulant_desc), 0, 0, 0, 1, false, false \
    }

typedef struct shoal_circulant shoal_circulant;

/** Floats of w: p * q * k. 0 if block is 0. Padding counts: it is stored and learns nothing. */
SHOAL_API size_t shoal_circulant_weights(const shoal_circulant_desc *desc);

/**
 * Memory that a layer wants.
 * @return SHOAL_OK | SHOAL_EINVAL (a field out of its range, or more than 2^40 bytes)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_circulant_bytes(const shoal_circulant_desc *desc,
                                                            size_t *bytes_out);

/**
 * Make a layer in memory of the caller. Its weights are zero.
 * @param memory    shoal_circulant_bytes() bytes, aligned to 64; the caller's, and in use until
 * the caller takes it back: there is nothing to destroy.
 * @param layer_out lies in memory.
 * @return SHOAL_OK | SHOAL_EINVAL (as shoal_circulant_bytes; memory NULL or not aligned)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_circulant_init(const shoal_circulant_desc *desc,
                                                           void *memory,
                                                           shoal_circulant **layer_out);

/** Take new weights: transforms them and keeps the spectra, w is not read later. To be called
 * whenever w changed. Costs about as much as a forward pass of two samples. */
SHOAL_API void shoal_circulant_set_weights(shoal_circulant *layer, const float *w);

/**
 * y = x C^T + bias.
 * @param x     float32[count][in], unchanged.
 * @param count samples, 0 .. batch_max.
 * @param bias  float32[out], NULL: none.
 * @param y     float32[count][out], overwritten; must not overlap x.
 */
SHOAL_API void shoal_circulant_forward(shoal_circulant *layer, const float *x, size_t count,
                                       const float *bias, float *y);

/**
 * Gradients, for the x of the latest forward call (its spectra are kept); desc.training only.
 * @param dy    float32[count][out], count as in that call.
 * @param dx    float32[count][in], overwritten: dy C. NULL: not wanted.
 * @param dw    float32[p][q][k], overwritten: sums over samples and over the k entries that a
 * weight stands for. Divided by k it is the projection of the dense gradient. NULL: not wanted.
 */
SHOAL_API void shoal_circulant_backward(shoal_circulant *layer, const float *dy, size_t count,
                                        float *dx, float *dw);

/** Floats of sums for shoal_circulant_learn. desc as shoal_circulant_bytes takes it. */
SHOAL_API size_t shoal_circulant_sums(const shoal_circulant_desc *desc);

/**
 * The gradient of the weights over many calls, as of a sequence's frames: it is summed up as a
 * spectrum, and transformed once at the end. Any layer, training or not.
 * @param x, dy float32[count][in], float32[count][out], count <= batch_max. A backward call that
 * wants dw needs its forward call after this one: spectra of x are kept no longer.
 * @param sums  float32[shoal_circulant_sums()], aligned to 64, zero at first: added to.
 */
SHOAL_API void shoal_circulant_learn(shoal_circulant *layer, const float *x, const float *dy,
                                     size_t count, float *sums);
/** @param dw as of shoal_circulant_backward, overwritten. */
SHOAL_API void shoal_circulant_learned(shoal_circulant *layer, const float *sums, float *dw);

/** The middle of forward alone: products per bin, of the spectra of the latest call of more than
 * one sample, whose results stay inside. For benchmarks, which compare it with what the processor
 * can do. */
SHOAL_API void shoal_circulant_multiply(shoal_circulant *layer, size_t count);

/** The matrix itself: dense float32[out][in] from w. Exact. Reads in, out, block, first_row. */
SHOAL_API void shoal_circulant_expand(const shoal_circulant_desc *desc, const float *w,
                                      float *dense);

/** The nearest block-circulant matrix: each weight is the mean of the entries of dense[out][in]
 * that it stands for, padding left out (a weight that stands for padding only becomes 0). Means are
 * taken in double; project(expand(w)) == w. */
SHOAL_API void shoal_circulant_project(const shoal_circulant_desc *desc, const float *dense,
                                       float *w);

/** First-column weights to first-row weights of the same matrix, or back: w[t] and w[(k - t) mod
 * k] change places. */
SHOAL_API void shoal_circulant_convert(const shoal_circulant_desc *desc, float *w);

/* ------------------------------------------------------------------ convolutions
 *
 * A convolution whose matrix from input to output channels is block-circulant for each tap of the
 * window. Every pixel's blocks of channels are transformed once; per bin there is an ordinary
 * convolution with in / k complex channels to out / k; every output pixel's blocks are transformed
 * back once. So a tap costs about k / 2 times fewer multiplications than the dense one's (2k - 2
 * for k * k), and a pixel one transform more on either side.
 *
 * Images are float32[count][channels][height][width]; pixels are the lanes of the transforms, which
 * therefore run at full width whatever k is. */

/** Shape of a convolution. */
typedef struct shoal_circulant_conv_desc {
    size_t size;            /* sizeof(shoal_circulant_conv_desc) */
    uint32_t in, out;       /* channels, 1 .. 65536 */
    uint32_t height, width; /* of the input, pixels */
    uint32_t kernel;        /* side of the square window, 1 .. 255 */
    uint32_t stride;        /* 1 .. 255 */
    uint32_t pad;           /* zeros around the image, below kernel */
    uint32_t block;         /* k, 1 .. 1024; powers of two are fast */
    bool training;          /* backward will be called */
    bool rectify;           /* forward gives max(y, 0) */
} shoal_circulant_conv_desc;

/** Starting point: no channels, stride 1, size is set. */
#define SHOAL_CIRCULANT_CONV_DESC_INIT                                          \
    {                                                                           \
        sizeof(shoal_circulant_conv_desc), 0, 0, 0, 0, 1, 1, 0, 1, false, false \
    }

typedef struct shoal_circulant_conv shoal_circulant_conv;

/** Floats of w, float32[kernel * kernel][p][q][k]: per tap (row by row) a matrix in first-column
 * form. 0 if block is 0. */
SHOAL_API size_t shoal_circulant_conv_weights(const shoal_circulant_conv_desc *desc);

/**
 * Memory that a convolution wants; independent of how many images a call brings.
 * @return SHOAL_OK | SHOAL_EINVAL (a field out of its range, a window that does not fit, an image
 * of more than 2^31 values)
 */
SHOAL_API SHOAL_MUST_USE shoal_status
shoal_circulant_conv_bytes(const shoal_circulant_conv_desc *desc, size_t *bytes_out);

/** As shoal_circulant_init: memory of the caller, aligned to 64, nothing to destroy. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_circulant_conv_init(
    const shoal_circulant_conv_desc *desc, void *memory, shoal_circulant_conv **layer_out);

/** Take new weights; w is not read later. */
SHOAL_API void shoal_circulant_conv_set_weights(shoal_circulant_conv *layer, const float *w);

/**
 * @param x    float32[count][in][height][width], unchanged.
 * @param bias float32[out], NULL: none.
 * @param y    float32[count][out][(height + 2 pad - kernel) / stride + 1][..], overwritten; must
 * not overlap x.
 */
SHOAL_API void shoal_circulant_conv_forward(shoal_circulant_conv *layer, const float *x,
                                            size_t count, const float *bias, float *y);

/**
 * Gradients; desc.training only. Of a convolution that rectifies, dy is to be 0 where y is: that
 * is the caller's part, as are the biases, sums of dy.
 * @param x  as given to forward: nothing is kept from there.
 * @param dy float32[count][out][..][..], unchanged.
 * @param dx as x, overwritten. NULL: not wanted.
 * @param dw as w, overwritten: sums, as of shoal_circulant_backward. NULL: not wanted.
 */
SHOAL_API void shoal_circulant_conv_backward(shoal_circulant_conv *layer, const float *x,
                                             const float *dy, size_t count, float *dx, float *dw);

#ifdef __cplusplus
}
#endif
#endif
