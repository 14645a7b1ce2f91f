/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution without unrolling: windows are read through taps from a copy of the image with a
 * border of zeros (kernel/conv_sweep.h).
 *
 *     forward    y  = b + sum over taps of W x           image by image
 *     backward   dx = the same with W turned round over dy, in a border of kernel - 1 - pad
 *                dW = sum over pixels of x dy            a few images at a time, dy with channels
 * innermost
 *
 * Sums of blocks are added up, which also keeps rounding small. */
#include <string.h>

#include "kernel/conv_sweep.h"
#include "nn/exec.h"

enum { LANES = SHOALI_CONV_LANES };

typedef struct geometry {
    unsigned channels, height, width, out, out_height, out_width, kernel, taps;
    size_t in_elems, out_elems, pixels; /* per image; pixels of an output plane */
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
    g.direct = pad == 0 && stride == 1 && g.out_width % LANES == 0;
    g.x = shoali_conv_image_make(g.channels, g.height, g.width, g.height + 2 * pad,
                                 g.width + 2 * pad, pad, stride, 1);
    g.dy = shoali_conv_image_make(g.out, g.out_height, g.out_width, g.height + kernel - 1,
                                  g.width + kernel - 1, kernel - 1 - pad, 1, stride);
    return g;
}

/* ---------------------------------------------------------------- memory */

static shoali_conv_room room_of(const shoali_pass *pass)
{
    return (shoali_conv_room){(uintptr_t)pass->work, 0};
}

/* A sweep and its weights. */
typedef struct packed {
    shoali_conv_sweep sweep;
    float *panels;
} packed;

static packed place_sweep(shoali_conv_room *room, const geometry *g, bool back)
{
    packed s = {.sweep = back ? shoali_conv_sweep_place(room, &g->dy, g->kernel, g->channels,
                                                        g->height, g->width)
                              : shoali_conv_sweep_place(room, &g->x, g->kernel, g->out,
                                                        g->out_height, g->out_width)};
    s.panels = shoali_conv_take(room, s.sweep.tap_count * s.sweep.rows, sizeof(float));
    return s;
}

/* What the gradient of the weights needs. */
typedef struct learning {
    shoali_conv_gather gather;
    float *weights;
} learning;

static learning place_gather(shoali_conv_room *room, const geometry *g)
{
    learning l = {.gather = shoali_conv_gather_place(room, &g->x, g->kernel, g->out, g->pixels)};
    l.weights = shoali_conv_take(room, shoali_conv_gather_floats(&l.gather), sizeof(float));
    return l;
}

static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    geometry g = geometry_of(layer);
    shoali_conv_room forward = {0, 0}, backward = {0, 0};
    (void)batch;
    (void)place_sweep(&forward, &g, false);
    (void)place_sweep(&backward, &g, true);
    (void)place_gather(&backward, &g);
    return forward.used > backward.used ? forward.used : backward.used;
}

/* ---------------------------------------------------------------- forward */

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    geometry g = geometry_of(node->layer);
    shoali_conv_room room = room_of(pass);
    packed s = place_sweep(&room, &g, false);
    const float *bias = g.bias ? node->params + (size_t)g.out * g.channels * g.taps : NULL;
    shoali_conv_sweep_init(&s.sweep, &g.x, g.kernel, g.out_height, g.out_width);
    shoali_conv_pack_forward(node->params, g.out, g.channels, g.taps, s.panels);
    for (uint32_t n = 0; n < pass->count; n++, x += g.in_elems, y += g.out_elems) {
        if (!g.direct)
            shoali_conv_image_fill(&g.x, x, s.sweep.padded);
        shoali_conv_sweep_run(&s.sweep, &(shoali_conv_io){g.direct ? x : s.sweep.padded, s.panels,
                                                          bias, y, g.pixels, node->rectify});
    }
}

/* ---------------------------------------------------------------- backward */

/* Gradient of the input, of some images. */
static void sweep_back(const geometry *g, const packed *s, unsigned images, const float *dy,
                       float *dx)
{
    const size_t plane = (size_t)g->height * g->width;
    for (unsigned n = 0; n < images; n++, dy += g->out_elems, dx += g->in_elems) {
        shoali_conv_image_fill(&g->dy, dy, s->sweep.padded);
        shoali_conv_sweep_run(
            &s->sweep, &(shoali_conv_io){s->sweep.padded, s->panels, NULL, dx, plane, false});
    }
}

static void gather_group(const geometry *g, const learning *l, const float *x, const float *dy,
                         unsigned images, bool add, float *dbias)
{
    for (unsigned n = 0; n < images && !g->direct; n++)
        shoali_conv_image_fill(&g->x, x + n * g->in_elems, l->gather.padded + n * g->x.elems);
    shoali_conv_gather_run(&l->gather, g->direct ? x : l->gather.padded, dy, g->out_elems, images,
                           add, l->weights, g->bias ? dbias : NULL);
}

/* To [out][tap]. */
static void unpack_weights(const geometry *g, const learning *l, float *dw)
{
    const size_t taps = l->gather.tap_count;
    for (unsigned o = 0; o < g->out; o++) {
        const size_t first = shoali_conv_gather_at(&l->gather, o, 0),
                     step = shoali_conv_gather_at(&l->gather, o, 1) - first;
        for (size_t t = 0; t < taps; t++)
            dw[o * taps + t] = l->weights[first + t * step];
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
    shoali_conv_room room = room_of(pass);
    learning back = place_gather(&room, &g);
    packed s = {.panels = NULL};
    float *dbias = node->grads + (size_t)g.out * g.channels * g.taps;
    shoali_conv_gather_init(&back.gather, &g.x, g.kernel, g.out_height, g.out_width);
    if (g.bias)
        memset(dbias, 0, g.out * sizeof *dbias);
    if (dx != NULL) {
        s = place_sweep(&room, &g, true);
        shoali_conv_sweep_init(&s.sweep, &g.dy, g.kernel, g.height, g.width);
        shoali_conv_pack_backward(node->params, g.out, g.channels, g.taps, s.panels);
    }
    for (uint32_t n = 0; n < pass->count; n += back.gather.group) {
        uint32_t left = pass->count - n,
                 images = left < back.gather.group ? left : back.gather.group;
        float *slopes = dy + n * g.out_elems;
        if (node->rectify)
            unrectify(images * g.out_elems, y + n * g.out_elems, slopes);
        gather_group(&g, &back, x + n * g.in_elems, slopes, images, n > 0, dbias);
        if (dx != NULL)
            sweep_back(&g, &s, images, slopes, dx + n * g.in_elems);
    }
    unpack_weights(&g, &back, node->grads);
}

const shoali_exec shoali_exec_conv = {
    .rectifies = true, .work_bytes = work_bytes, .forward = forward, .backward = backward};
