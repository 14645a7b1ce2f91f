/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of a block-circulant layer, checked, and where its parts lie in its memory. */
#ifndef SHOALI_KERNEL_CIRCULANT_SHAPE_H
#define SHOALI_KERNEL_CIRCULANT_SHAPE_H

#include "kernel/circulant.h"
#include "shoal/circulant.h"

typedef struct shoali_circulant_shape {
    uint32_t in, out, k, batch;
    uint32_t p, q;             /* rows and columns of blocks */
    uint32_t p_tiles, q_tiles; /* groups of 8 of them */
    uint32_t bins;
    bool training, first_row;
} shoali_circulant_shape;

/** All in floats: offsets from the start of the memory, and strides. */
typedef struct shoali_circulant_layout {
    size_t tables, w, wt, xs, ys, pad, products, end;
    size_t w_bin, wt_bin, x_bin, y_bin; /* from one bin to the next */
    size_t x_stride, y_stride;          /* from one sample to the next */
    size_t columns; /* blocks of weight gradients at once: their inputs stay in the second cache */
} shoali_circulant_layout;

/** desc was checked (shoal_circulant_bytes). */
void shoali_circulant_shape_of(const shoal_circulant_desc *desc, shoali_circulant_shape *shape_out);
/** head_bytes: what stands in front. */
void shoali_circulant_layout_of(const shoali_circulant_shape *shape, size_t head_bytes,
                                shoali_circulant_layout *layout_out);

/** Bytes of the struct that stands in front of a layer's memory. */
enum { SHOALI_CIRCULANT_HEAD = 512 };

#endif
