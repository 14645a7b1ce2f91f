/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution without unrolling: windows are read through taps from a copy of the image with a
 * border of zeros.
 *
 *     forward    y  = b + sum over taps of W x           image by image
 *     backward   dx = the same with W turned round over dy, in a border of kernel - 1 - pad
 *                dW = sum over pixels of x dy            a few images at a time, dy with channels
 * innermost
 *
 * Blocks keep what is read most in the first cache: a few hundred taps at a time forward, about 256
 * pixels at a time for dW. Sums of blocks are added up, which also keeps rounding small. */
#include <string.h>

#include "kernel/kernel.h"
#include "nn/conv_image.h"
#include "nn/exec.h"

enum {
    TAP_BLOCK = 320,
    PIXEL_BLOCK = 256,
    LANES = SHOALI_CONV_LANES,
    WIDE = 2 * LANES,
    ALIGN = 16
};

typedef struct geometry {
    unsigned channels, height, width, out, out_height, out_width, kernel, taps;
    size_t in_elems, out_elems, pixels; /* per image; pixels of an output plane */
    unsigned group;                     /* images at a time for dW */
    bool bias, direct;                  /* direct: windows can be read from the input itself */
    shoali_conv_image x, dy;            /* dy: for the gradient of the input */
} geometry;

static geometry geometry_of(const shoali_layer *layer)
{
    const shoali_conv_params *p = layer->params;
    unsigned kernel = (unsigned)p->kernel, pad = (unsigned)p->pad, stride = (unsigned)p->stride;
    geometry g = {.channels = layer->in.channels,
                  .height = layer->in.height,
                  .width = layer->in.width,
                  .out = layer->out.channels,
                  .out_height = layer->out.height,
                  .out_width = layer->out.width,
                  .kernel = kernel,
                  .taps = kernel * kernel,
                  .in_elems = (size_t)shoali_shape_elems(layer->in),
                  .out_elems = (size_t)shoali_shape_elems(layer->out),
                  .pixels = (size_t)layer->out.height * layer->out.width,
                  .bias = p->bias};
    g.group = g.pixels >= PIXEL_BLOCK ? 1 : (unsigned)(PIXEL_BLOCK / g.pixels);
    g.direct = pad == 0 && stride == 1 && g.out_width % LANES == 0;
    g.x = shoali_conv_image_make(g.channels, g.height, g.width, g.height + 2 * pad,
                                 g.width + 2 * pad, pad, stride, 1);
    g.dy = shoali_conv_image_make(g.out, g.out_height, g.out_width, g.height + kernel - 1,
                                  g.width + kernel - 1, kernel - 1 - pad, 1, stride);
    return g;
}

/* ---------------------------------------------------------------- memory */

/* Pieces of the net's work memory, one behind the other; with base 0 they are only counted. */
typedef struct work {
    uintptr_t base;
    size_t used;
} work;

static work work_of(const shoali_pass *pass)
{
    return (work){(uintptr_t)pass->work, 0};
}

static void *take(work *w, size_t count, size_t size)
{
    uintptr_t piece = w->base + w->used;
    w->used += (count * size + 63) / 64 * 64;
    return (void *)piece;
}

static size_t rounded(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* What a sweep over pixels needs: of x forward, of dy backward. */
typedef struct sweep {
    const shoali_conv_image *image;
    unsigned rows; /* output channels of the sweep */
    size_t tap_count, span_count;
    int32_t *taps;
    shoali_conv_span *spans;
    float *panels; /* packed weights */
    float *padded; /* one image; spans may read LANES floats beyond it */
    float *zeros;  /* a bias of nothing */
} sweep;

static sweep place_sweep(work *w, const shoali_conv_image *image, unsigned kernel, unsigned rows,
                         unsigned height, unsigned width)
{
    sweep s = {.image = image,
               .rows = rows,
               .tap_count = (size_t)image->channels * kernel * kernel,
               .span_count = shoali_conv_span_count(height, width)};
    s.taps = take(w, s.tap_count, sizeof *s.taps);
    s.spans = take(w, s.span_count, sizeof *s.spans);
    s.panels = take(w, s.tap_count * rows, sizeof(float));
    s.padded = take(w, image->elems + LANES, sizeof(float));
    s.zeros = take(w, SHOALI_CONV_ROWS, sizeof(float));
    return s;
}

static sweep make_sweep(work *w, const shoali_conv_image *image, unsigned kernel, unsigned rows,
                        unsigned height, unsigned width)
{
    sweep s = place_sweep(w, image, kernel, rows, height, width);
    shoali_conv_image_taps(image, kernel, s.taps);
    shoali_conv_image_spans(image, height, width, s.spans);
    memset(s.padded, 0, (image->elems + LANES) * sizeof(float));
    memset(s.zeros, 0, SHOALI_CONV_ROWS * sizeof(float));
    return s;
}

/* What the gradient of the weights needs. */
typedef struct gather {
    int32_t *taps;
    int32_t *windows; /* [group][pixel]: offsets in padded, or in the input itself */
    float *padded;    /* [group] images */
    float *slopes;    /* [lane panel][group][pixel][lanes] */
    float *weights;   /* [lane panel][tap][lanes] */
} gather;

static gather place_gather(work *w, const geometry *g)
{
    size_t lanes = rounded(g->out, LANES), taps = (size_t)g->channels * g->taps;
    return (gather){.taps = take(w, taps, sizeof(int32_t)),
                    .windows = take(w, g->group * g->pixels, sizeof(int32_t)),
                    .padded = take(w, g->group * g->x.elems, sizeof(float)),
                    .slopes = take(w, g->group * g->pixels * lanes, sizeof(float)),
                    .weights = take(w, taps * lanes, sizeof(float))};
}

static gather make_gather(work *w, const geometry *g)
{
    gather s = place_gather(w, g);
    shoali_conv_image_taps(&g->x, g->kernel, s.taps);
    shoali_conv_image_windows(&g->x, g->out_height, g->out_width, g->group, s.windows);
    memset(s.padded, 0, g->group * g->x.elems * sizeof(float));
    return s;
}

static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    geometry g = geometry_of(layer);
    work forward = {0, 0}, backward = {0, 0};
    (void)batch;
    (void)place_sweep(&forward, &g.x, g.kernel, g.out, g.out_height, g.out_width);
    (void)place_sweep(&backward, &g.dy, g.kernel, g.channels, g.height, g.width);
    (void)place_gather(&backward, &g);
    return forward.used > backward.used ? forward.used : backward.used;
}

/* ---------------------------------------------------------------- sweeps over pixels */

static const shoali_conv_kernels *kernels(void)
{
#if defined(__x86_64__)
    if (shoali_kernel()->avx2)
        return &shoali_conv_avx2;
#endif
    return &shoali_conv_ref;
}

/* What one image's sweep reads and writes. */
typedef struct sweep_io {
    const float *x;
    const float *bias; /* NULL: none */
    float *y;
    size_t plane;
    bool rectify;
} sweep_io;

/* Taps [first, first + count) of all panels, so that the image's part of them stays in the cache.
 */
static void sweep_block(const sweep *s, const sweep_io *io, size_t first, size_t count)
{
    const float *panel = s->panels, *bias = io->bias;
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
        kernels()->pixels(&job);
        panel += s->tap_count * rows;
    }
}

static void sweep_image(const sweep *s, const sweep_io *io)
{
    size_t per_channel = s->tap_count / s->image->channels;
    size_t block = per_channel < TAP_BLOCK ? TAP_BLOCK / per_channel * per_channel : per_channel;
    for (size_t t = 0; t < s->tap_count; t += block)
        sweep_block(s, io, t, s->tap_count - t < block ? s->tap_count - t : block);
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    geometry g = geometry_of(node->layer);
    work w = work_of(pass);
    sweep s = make_sweep(&w, &g.x, g.kernel, g.out, g.out_height, g.out_width);
    const float *bias = g.bias ? node->params + (size_t)g.out * g.channels * g.taps : NULL;
    shoali_conv_pack_forward(node->params, g.out, g.channels, g.taps, s.panels);
    for (uint32_t n = 0; n < pass->count; n++, x += g.in_elems, y += g.out_elems) {
        if (!g.direct)
            shoali_conv_image_fill(&g.x, x, s.padded);
        sweep_image(&s, &(sweep_io){g.direct ? x : s.padded, bias, y, g.pixels, node->rectify});
    }
}

/* Gradient of the input, of some images. */
static void sweep_back(const geometry *g, const sweep *s, unsigned images, const float *dy,
                       float *dx)
{
    for (unsigned n = 0; n < images; n++, dy += g->out_elems, dx += g->in_elems) {
        shoali_conv_image_fill(&g->dy, dy, s->padded);
        sweep_image(s, &(sweep_io){s->padded, NULL, dx, (size_t)g->height * g->width, false});
    }
}

/* ---------------------------------------------------------------- weights */

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

/* The lanes of one panel over a group of images, a block of pixels at a time. */
static void gather_lanes(const geometry *g, const gather *s, const float *x, size_t pixels,
                         unsigned lanes, const float *slopes, float *weights, bool add)
{
    for (size_t p = 0; p < pixels; p += PIXEL_BLOCK) {
        const shoali_conv_weights job = {.x = x,
                                         .taps = s->taps,
                                         .tap_count = (size_t)g->channels * g->taps,
                                         .pixels = s->windows + p,
                                         .pixel_count = pixels - p < PIXEL_BLOCK ? pixels - p
                                                                                 : PIXEL_BLOCK,
                                         .dy = slopes + p * lanes,
                                         .vectors = lanes / LANES,
                                         .dw = weights,
                                         .add = add || p > 0};
        kernels()->weights(&job);
    }
}

static void gather_group(const geometry *g, const gather *s, const float *x, const float *dy,
                         unsigned images, bool add, float *dbias)
{
    size_t taps = (size_t)g->channels * g->taps;
    float *slopes = s->slopes, *weights = s->weights;
    for (unsigned n = 0; n < images && !g->direct; n++)
        shoali_conv_image_fill(&g->x, x + n * g->in_elems, s->padded + n * g->x.elems);
    for (unsigned first = 0; first < g->out; first += WIDE) {
        unsigned lanes = g->out - first > LANES ? WIDE : LANES;
        unsigned known = g->out - first < lanes ? g->out - first : lanes;
        for (unsigned n = 0; n < images; n++)
            kernels()->lanes(&(shoali_conv_lanes){dy + n * g->out_elems + first * g->pixels,
                                                  g->pixels, known, lanes / LANES,
                                                  slopes + n * g->pixels * lanes});
        if (g->bias)
            add_bias(slopes, images * g->pixels, lanes, known, dbias + first);
        gather_lanes(g, s, g->direct ? x : s->padded, images * g->pixels, lanes, slopes, weights,
                     add);
        slopes += images * g->pixels * lanes;
        weights += taps * lanes;
    }
}

/* [lane panel][tap][lane] to [out][tap]. */
static void unpack_weights(const geometry *g, const float *weights, float *dw)
{
    size_t taps = (size_t)g->channels * g->taps;
    for (unsigned first = 0; first < g->out; first += WIDE) {
        unsigned lanes = g->out - first > LANES ? WIDE : LANES;
        for (unsigned l = 0; l < lanes && first + l < g->out; l++)
            for (size_t t = 0; t < taps; t++)
                dw[(first + l) * taps + t] = weights[t * lanes + l];
        weights += taps * lanes;
    }
}

/* The gradient before max(y, 0). */
static void unrectify(size_t count, const float *y, float *dy)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

/* Group by group: what a group's gradient is copied into is still in the cache for its second use.
 */
static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    geometry g = geometry_of(node->layer);
    work w = work_of(pass);
    gather back = make_gather(&w, &g);
    sweep s = {.image = NULL};
    float *dbias = node->grads + (size_t)g.out * g.channels * g.taps;
    if (g.bias)
        memset(dbias, 0, g.out * sizeof *dbias);
    if (dx != NULL) {
        s = make_sweep(&w, &g.dy, g.kernel, g.channels, g.height, g.width);
        shoali_conv_pack_backward(node->params, g.out, g.channels, g.taps, s.panels);
    }
    for (uint32_t n = 0; n < pass->count; n += g.group) {
        uint32_t images = pass->count - n < g.group ? pass->count - n : g.group;
        float *slopes = dy + n * g.out_elems;
        if (node->rectify)
            unrectify(images * g.out_elems, y + n * g.out_elems, slopes);
        gather_group(&g, &back, x + n * g.in_elems, slopes, images, n > 0, dbias);
        if (dx != NULL)
            sweep_back(&g, &s, images, slopes, dx + n * g.in_elems);
    }
    unpack_weights(&g, back.weights, node->grads);
}

const shoali_exec shoali_exec_conv = {
    .rectifies = true, .work_bytes = work_bytes, .forward = forward, .backward = backward};
