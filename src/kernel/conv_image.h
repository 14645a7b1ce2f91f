/* SPDX-License-Identifier: Apache-2.0 */
/* The image as the inner loops want it, and weights and gradients in panels. */
#ifndef SHOALI_KERNEL_CONV_IMAGE_H
#define SHOALI_KERNEL_CONV_IMAGE_H

#include "kernel/conv_kernels.h"

/**
 * A stack of planes with a border of zeros, from which windows are read at step 1.
 *
 * With stride s, plane c is kept as s * s planes, one per remainder of y and x: a window's taps of
 * one remainder are neighbours there. With spread s, values lie s apart with zeros between them
 * (the gradient of a strided output).
 */
typedef struct shoali_conv_image {
    unsigned channels, height, width; /* of what is copied in */
    unsigned pad;                     /* zeros above and to the left */
    unsigned stride, spread;
    unsigned rows, pitch; /* of a plane: the copy's height and width */
    size_t plane, elems;  /* floats of a plane (of all its remainders), and of all planes */
} shoali_conv_image;

/** height, width: of the result; padded_*: with both borders, before it is split by remainders. */
shoali_conv_image shoali_conv_image_make(unsigned channels, unsigned height, unsigned width,
                                         unsigned padded_height, unsigned padded_width,
                                         unsigned pad, unsigned stride, unsigned spread);
/** Copy one image in; borders must be zero already and stay so. */
void shoali_conv_image_fill(const shoali_conv_image *image, const float *from, float *to);
/** Offsets of the taps [channel][ky][kx] of a window. */
void shoali_conv_image_taps(const shoali_conv_image *image, unsigned kernel, int32_t *taps_out);
/** Spans of an output of height x width. */
void shoali_conv_image_spans(const shoali_conv_image *image, unsigned height, unsigned width,
                             shoali_conv_span *spans_out);
/** Offsets of the windows of each output [image][y][x], for `images` images in a row. */
void shoali_conv_image_windows(const shoali_conv_image *image, unsigned height, unsigned width,
                               unsigned images, int32_t *windows_out);
size_t shoali_conv_span_count(unsigned height, unsigned width);

/** Rows are cut into panels of at most SHOALI_CONV_ROWS, as equal as can be: panel i's first row,
 * and how many. */
unsigned shoali_conv_panel_count(unsigned rows);
unsigned shoali_conv_panel(unsigned rows, unsigned i, unsigned *first_out);

/** w[out][in][tap] as panels [panel][in, tap][row]. */
void shoali_conv_pack_forward(const float *w, unsigned out, unsigned in, unsigned taps,
                              float *panels_out);
/** The same for the gradient of the input: rows are `in`, taps run backwards: panels [panel][out,
 * tap][row]. */
void shoali_conv_pack_backward(const float *w, unsigned out, unsigned in, unsigned taps,
                               float *panels_out);

#endif
