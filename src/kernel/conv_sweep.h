/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions made of the inner loops in conv_kernels.h: sweeps over pixels (forward, and back to
 * the input), and sums over pixels (the weights' gradient). Tables are made once for a shape; any
 * number of sets of weights may share them. Blocks keep what is read most in the first cache: a few
 * hundred taps at a time in a sweep, about 256 pixels at a time for the weights. */
#ifndef SHOALI_KERNEL_CONV_SWEEP_H
#define SHOALI_KERNEL_CONV_SWEEP_H

#include "kernel/conv_image.h"

/** Pieces of a piece of memory, one behind the other, aligned to 64; with base 0 they are only
 * counted. */
typedef struct shoali_conv_room {
    uintptr_t base;
    size_t used;
} shoali_conv_room;
void *shoali_conv_take(shoali_conv_room *room, size_t count, size_t size);

/** The inner loops of this CPU. */
const shoali_conv_kernels *shoali_conv_kernels_here(void);

/* ---------------------------------------------------------------- sweeps over pixels */

/** y[row] = sums over the taps of an image. tap_count and rows may be lowered for an image's first
 * channels alone. */
typedef struct shoali_conv_sweep {
    unsigned rows; /* output channels */
    size_t per_channel, tap_count, span_count;
    int32_t *taps;
    shoali_conv_span *spans;
    float *padded; /* one image with its border; spans may read LANES floats beyond it */
    float *zeros;  /* a bias of nothing */
} shoali_conv_sweep;

/** What one image's sweep reads and writes. */
typedef struct shoali_conv_io {
    const float *x;
    const float *panels; /* packed weights: conv_image.h */
    const float *bias;   /* NULL: none */
    float *y;
    size_t plane;
    bool rectify;
} shoali_conv_io;

/** Take the memory (place) and fill the tables, the padded image with 0 (init). */
shoali_conv_sweep shoali_conv_sweep_place(shoali_conv_room *room, const shoali_conv_image *image,
                                          unsigned kernel, unsigned rows, unsigned height,
                                          unsigned width);
void shoali_conv_sweep_init(const shoali_conv_sweep *sweep, const shoali_conv_image *image,
                            unsigned kernel, unsigned height, unsigned width);
void shoali_conv_sweep_run(const shoali_conv_sweep *sweep, const shoali_conv_io *io);

/* ---------------------------------------------------------------- sums over pixels */

/** dw[tap][out] = sums over the pixels of some images. */
typedef struct shoali_conv_gather {
    size_t tap_count, pixels; /* pixels of an output plane */
    unsigned out, group;      /* output channels; most images at a time */
    int32_t *taps;
    int32_t *windows; /* [group][pixel]: offsets in padded, or in images that need no border */
    float *padded;    /* [group] images */
    float *slopes;    /* [lane panel][group][pixel][lanes] */
} shoali_conv_gather;

/** As many images as make a block of pixels. */
unsigned shoali_conv_group(size_t pixels);
shoali_conv_gather shoali_conv_gather_place(shoali_conv_room *room, const shoali_conv_image *image,
                                            unsigned kernel, unsigned out, size_t pixels);
void shoali_conv_gather_init(const shoali_conv_gather *gather, const shoali_conv_image *image,
                             unsigned kernel, unsigned height, unsigned width);

/** Floats of dw: lanes are padded to whole vectors. */
size_t shoali_conv_gather_floats(const shoali_conv_gather *gather);
/** Where (out, tap) stands in dw. */
size_t shoali_conv_gather_at(const shoali_conv_gather *gather, unsigned out, size_t tap);

/**
 * @param x     padded images, or images themselves: what windows count from.
 * @param dy    float32[images][..][out][pixels], images dy_step floats apart.
 * @param add   to what is in dw; else dw is overwritten.
 * @param dw    shoali_conv_gather_floats, aligned to 32.
 * @param dbias NULL, or float32[out]: the sums of dy are added.
 */
void shoali_conv_gather_run(const shoali_conv_gather *gather, const float *x, const float *dy,
                            size_t dy_step, unsigned images, bool add, float *dw, float *dbias);

#endif
