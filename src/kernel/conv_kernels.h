/* SPDX-License-Identifier: Apache-2.0 */
/* The two inner loops of a convolution. Both read an image through a list of taps: offsets, in
 * floats, from the first value of a window to its others. So nothing is unrolled into a matrix, and
 * every kernel size is the same loop.
 *
 * A row of the table does the same operations in the same order as the reference, fused
 * multiply-adds included: the bits are equal. */
#ifndef SHOALI_KERNEL_CONV_KERNELS_H
#define SHOALI_KERNEL_CONV_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHOALI_CONV_LANES = 8, /* pixels of a span, and floats of a vector */
    SHOALI_CONV_ROWS =
        6 /* output channels (taps) of a panel: 6 x 2 vectors fill 12 of 16 registers */
};

/** Up to LANES neighbouring outputs of one image row. */
typedef struct shoali_conv_span {
    uint32_t in; /* first window's first value; LANES + largest tap floats behind it are readable */
    uint32_t out; /* first output in its plane */
    uint32_t count;
} shoali_conv_span;

/** y[r][pixel] = start + sum over taps of w[tap][r] * x[pixel + tap]: forward, and backward to the
 * input. */
typedef struct shoali_conv_pixels {
    const float *x;
    const int32_t *taps;
    size_t tap_count;
    const shoali_conv_span *spans;
    size_t span_count;
    const float *w;    /* float32[tap_count][rows] */
    unsigned rows;     /* 1 .. ROWS */
    const float *bias; /* start: float32[rows]; NULL: what is in y */
    float *y;
    size_t plane; /* floats from one row of y to the next */
    bool rectify; /* at last, y = max(y, 0); NaN stays */
} shoali_conv_pixels;

/** dw[tap][lane] = start + sum over pixels of x[pixel + tap] * dy[pixel][lane]: backward to the
 * weights. */
typedef struct shoali_conv_weights {
    const float *x;
    const int32_t *taps;
    size_t tap_count;
    const int32_t *pixels; /* offsets of windows in x */
    size_t pixel_count;
    const float *dy;  /* float32[pixel_count][vectors * LANES], 32-byte aligned */
    unsigned vectors; /* 1 or 2 */
    float *dw;        /* float32[tap_count][vectors * LANES], 32-byte aligned */
    bool add;         /* start: what is in dw; else 0 */
} shoali_conv_weights;

/** to[pixel][lane] = from[lane][pixel] for lanes below known, else 0: dy as `weights` reads it. */
typedef struct shoali_conv_lanes {
    const float *from; /* float32[known][pixels] */
    size_t pixels;
    unsigned known;
    unsigned vectors; /* 1 or 2 */
    float *to;        /* float32[pixels][vectors * LANES], 32-byte aligned */
} shoali_conv_lanes;

typedef struct shoali_conv_kernels {
    void (*pixels)(const shoali_conv_pixels *job);
    void (*weights)(const shoali_conv_weights *job);
    void (*lanes)(const shoali_conv_lanes *job);
} shoali_conv_kernels;

extern const shoali_conv_kernels shoali_conv_ref;
extern const shoali_conv_kernels shoali_conv_avx2; /* only on x86-64 builds */
extern const shoali_conv_kernels shoali_conv_neon; /* only on aarch64 builds */

#endif
