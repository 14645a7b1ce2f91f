/* SPDX-License-Identifier: Apache-2.0 */
/* Max and mean over windows. Max remembers per output which pixel of its plane won (the first one,
 * if equal). */
#include <string.h>

#include "nn/exec.h"

typedef struct geometry {
    int height, width, out_height, out_width, kernel, stride;
    size_t planes; /* channels x samples */
} geometry;

static geometry geometry_of(const shoali_layer *layer, uint32_t count)
{
    const shoali_pool_params *p = layer->params;
    return (geometry){(int)layer->in.height,
                      (int)layer->in.width,
                      (int)layer->out.height,
                      (int)layer->out.width,
                      (int)p->kernel,
                      (int)(p->stride == 0 ? p->kernel : p->stride),
                      (size_t)layer->in.channels * count};
}

/* The window of output (oy, ox), cut at the image's end. */
typedef struct window {
    int top, left, bottom, right;
} window;

static window window_of(const geometry *g, int oy, int ox)
{
    int top = oy * g->stride, left = ox * g->stride;
    int bottom = top + g->kernel, right = left + g->kernel;
    return (window){top, left, bottom < g->height ? bottom : g->height,
                    right < g->width ? right : g->width};
}

/* ---------------------------------------------------------------- max */

static size_t max_saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    return (size_t)shoali_shape_elems(layer->out) * batch * sizeof(uint32_t);
}

static void max_forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    geometry g = geometry_of(node->layer, pass->count);
    uint32_t *winner = node->saved;
    for (size_t plane = 0; plane < g.planes; plane++, x += g.height * g.width)
        for (int oy = 0; oy < g.out_height; oy++)
            for (int ox = 0; ox < g.out_width; ox++) {
                window w = window_of(&g, oy, ox);
                int best = w.top * g.width + w.left;
                for (int iy = w.top; iy < w.bottom; iy++)
                    for (int ix = w.left; ix < w.right; ix++)
                        if (x[iy * g.width + ix] > x[best])
                            best = iy * g.width + ix;
                *y++ = x[best];
                *winner++ = (uint32_t)best;
            }
}

static void max_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                         const float *y, float *dy, float *dx)
{
    geometry g = geometry_of(node->layer, pass->count);
    const uint32_t *winner = node->saved;
    (void)x;
    (void)y;
    if (dx == NULL)
        return;
    memset(dx, 0, g.planes * (size_t)(g.height * g.width) * sizeof *dx);
    for (size_t plane = 0; plane < g.planes; plane++, dx += g.height * g.width)
        for (int i = 0; i < g.out_height * g.out_width; i++)
            dx[*winner++] += *dy++;
}

const shoali_exec shoali_exec_maxpool = {
    .saved_bytes = max_saved_bytes, .forward = max_forward, .backward = max_backward};

/* ---------------------------------------------------------------- mean */

static void avg_forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    geometry g = geometry_of(node->layer, pass->count);
    for (size_t plane = 0; plane < g.planes; plane++, x += g.height * g.width)
        for (int oy = 0; oy < g.out_height; oy++)
            for (int ox = 0; ox < g.out_width; ox++) {
                window w = window_of(&g, oy, ox);
                float sum = 0;
                for (int iy = w.top; iy < w.bottom; iy++)
                    for (int ix = w.left; ix < w.right; ix++)
                        sum += x[iy * g.width + ix];
                *y++ = sum / (float)((w.bottom - w.top) * (w.right - w.left));
            }
}

static void avg_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                         const float *y, float *dy, float *dx)
{
    geometry g = geometry_of(node->layer, pass->count);
    (void)x;
    (void)y;
    if (dx == NULL)
        return;
    memset(dx, 0, g.planes * (size_t)(g.height * g.width) * sizeof *dx);
    for (size_t plane = 0; plane < g.planes; plane++, dx += g.height * g.width)
        for (int oy = 0; oy < g.out_height; oy++)
            for (int ox = 0; ox < g.out_width; ox++) {
                window w = window_of(&g, oy, ox);
                float share = *dy++ / (float)((w.bottom - w.top) * (w.right - w.left));
                for (int iy = w.top; iy < w.bottom; iy++)
                    for (int ix = w.left; ix < w.right; ix++)
                        dx[iy * g.width + ix] += share;
            }
}

const shoali_exec shoali_exec_avgpool = {.forward = avg_forward, .backward = avg_backward};
