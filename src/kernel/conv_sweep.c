/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv_sweep.h"

#include <string.h>

#include "kernel/kernel.h"

enum { TAP_BLOCK = 320, PIXEL_BLOCK = 256, LANES = SHOALI_CONV_LANES, WIDE = 2 * LANES };

void *shoali_conv_take(shoali_conv_room *room, size_t count, size_t size)
{
    uintptr_t piece = room->base + room->used;
    room->used += (count * size + 63) / 64 * 64;
    return (void *)piece;
}

const shoali_conv_kernels *shoali_conv_kernels_here(void)
{
#if defined(__x86_64__)
    if (shoali_kernel()->avx2)
        return &shoali_conv_avx2;
#elif defined(__aarch64__)
    if (shoali_kernel()->neon)
        return &shoali_conv_neon;
#endif
    return &shoali_conv_ref;
}

/* ---------------------------------------------------------------- sweeps over pixels */

shoali_conv_sweep shoali_conv_sweep_place(shoali_conv_room *room, const shoali_conv_image *image,
                                          unsigned kernel, unsigned rows, unsigned height,
                                          unsigned width)
{
    shoali_conv_sweep s = {.rows = rows,
                           .per_channel = (size_t)kernel * kernel,
                           .tap_count = (size_t)image->channels * kernel * kernel,
                           .span_count = shoali_conv_span_count(height, width)};
    s.taps = shoali_conv_take(room, s.tap_count, sizeof *s.taps);
    s.spans = shoali_conv_take(room, s.span_count, sizeof *s.spans);
    s.padded = shoali_conv_take(room, image->elems + LANES, sizeof(float));
    s.zeros = shoali_conv_take(room, SHOALI_CONV_ROWS, sizeof(float));
    return s;
}

void shoali_conv_sweep_init(const shoali_conv_sweep *s, const shoali_conv_image *image,
                            unsigned kernel, unsigned height, unsigned width)
{
    shoali_conv_image_taps(image, kernel, s->taps);
    shoali_conv_image_spans(image, height, width, s->spans);
    memset(s->padded, 0, (image->elems + LANES) * sizeof(float));
    memset(s->zeros, 0, SHOALI_CONV_ROWS * sizeof(float));
}

/* Taps [first, first + count) of all panels, so that the image's part of them stays in the cache.
 */
static void sweep_block(const shoali_conv_sweep *s, const shoali_conv_io *io, size_t first,
                        size_t count)
{
    const float *panel = io->panels, *bias = io->bias;
    for (unsigned i = 0; i < shoali_conv_panel_count(s->rows); i++) {
        unsigned row, rows = shoali_conv_panel(s->rows, i, &row);
        const shoali_conv_pixels job = {.x = io->x,
                                        .taps = s->taps + first,
                                        .tap_count = count,
                                        .spans = s->spans,
                                        .span_count = s->span_count,
                                        .w = panel + first * rows,
                                        .rows = rows,
                                        .bias = first > 0      ? NULL
                                                : bias != NULL ? bias + row
                                                               : s->zeros,
                                        .y = io->y + row * io->plane,
                                        .plane = io->plane,
                                        .rectify = io->rectify && first + count == s->tap_count};
        shoali_conv_kernels_here()->pixels(&job);
        panel += s->tap_count * rows;
    }
}

void shoali_conv_sweep_run(const shoali_conv_sweep *s, const shoali_conv_io *io)
{
    size_t block = s->per_channel < TAP_BLOCK ? TAP_BLOCK / s->per_channel * s->per_channel
                                              : s->per_channel;
    for (size_t t = 0; t < s->tap_count; t += block)
        sweep_block(s, io, t, s->tap_count - t < block ? s->tap_count - t : block);
}

/* ---------------------------------------------------------------- sums over pixels */

unsigned shoali_conv_group(size_t pixels)
{
    return pixels >= PIXEL_BLOCK ? 1 : (unsigned)(PIXEL_BLOCK / pixels);
}

static size_t lanes_of(unsigned out)
{
    return ((size_t)out + LANES - 1) / LANES * LANES;
}

shoali_conv_gather shoali_conv_gather_place(shoali_conv_room *room, const shoali_conv_image *image,
                                            unsigned kernel, unsigned out, size_t pixels)
{
    shoali_conv_gather g = {.tap_count = (size_t)image->channels * kernel * kernel,
                            .pixels = pixels,
                            .out = out,
                            .group = shoali_conv_group(pixels)};
    g.taps = shoali_conv_take(room, g.tap_count, sizeof(int32_t));
    g.windows = shoali_conv_take(room, g.group * pixels, sizeof(int32_t));
    g.padded = shoali_conv_take(room, g.group * image->elems, sizeof(float));
    g.slopes = shoali_conv_take(room, g.group * pixels * lanes_of(out), sizeof(float));
    return g;
}

void shoali_conv_gather_init(const shoali_conv_gather *g, const shoali_conv_image *image,
                             unsigned kernel, unsigned height, unsigned width)
{
    shoali_conv_image_taps(image, kernel, g->taps);
    shoali_conv_image_windows(image, height, width, g->group, g->windows);
    memset(g->padded, 0, g->group * image->elems * sizeof(float));
}

size_t shoali_conv_gather_floats(const shoali_conv_gather *g)
{
    return g->tap_count * lanes_of(g->out);
}

/* Lanes of the panel that starts at output `first`. */
static unsigned panel_lanes(const shoali_conv_gather *g, unsigned first)
{
    return g->out - first > LANES ? WIDE : LANES;
}

size_t shoali_conv_gather_at(const shoali_conv_gather *g, unsigned out, size_t tap)
{
    unsigned first = out / WIDE * WIDE;
    return first * g->tap_count + tap * panel_lanes(g, first) + (out - first);
}

/* Sum of [pixel][lane] over pixels, added to the bias' gradient. */
static void add_bias(const float *slopes, size_t pixels, unsigned lanes, unsigned known,
                     float *dbias)
{
    float sums[WIDE] = {0};
    for (size_t p = 0; p < pixels; p++)
        for (unsigned l = 0; l < lanes; l++)
            sums[l] += slopes[p * lanes + l];
    for (unsigned l = 0; l < known; l++)
        dbias[l] += sums[l];
}

/* The lanes of one panel over some images, a block of pixels at a time. */
static void gather_lanes(const shoali_conv_gather *g, const float *x, size_t pixels, unsigned lanes,
                         const float *slopes, float *dw, bool add)
{
    for (size_t p = 0; p < pixels; p += PIXEL_BLOCK) {
        const shoali_conv_weights job = {.x = x,
                                         .taps = g->taps,
                                         .tap_count = g->tap_count,
                                         .pixels = g->windows + p,
                                         .pixel_count = pixels - p < PIXEL_BLOCK ? pixels - p
                                                                                 : PIXEL_BLOCK,
                                         .dy = slopes + p * lanes,
                                         .vectors = lanes / LANES,
                                         .dw = dw,
                                         .add = add || p > 0};
        shoali_conv_kernels_here()->weights(&job);
    }
}

void shoali_conv_gather_run(const shoali_conv_gather *g, const float *x, const float *dy,
                            size_t dy_step, unsigned images, bool add, float *dw, float *dbias)
{
    float *slopes = g->slopes;
    for (unsigned first = 0; first < g->out; first += WIDE) {
        unsigned lanes = panel_lanes(g, first);
        unsigned known = g->out - first < lanes ? g->out - first : lanes;
        for (unsigned n = 0; n < images; n++)
            shoali_conv_kernels_here()->lanes(
                &(shoali_conv_lanes){dy + n * dy_step + first * g->pixels, g->pixels, known,
                                     lanes / LANES, slopes + n * g->pixels * lanes});
        if (dbias != NULL)
            add_bias(slopes, images * g->pixels, lanes, known, dbias + first);
        gather_lanes(g, x, images * g->pixels, lanes, slopes, dw, add);
        slopes += images * g->pixels * lanes;
        dw += g->tap_count * lanes;
    }
}
