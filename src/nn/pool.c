/* SPDX-License-Identifier: Apache-2.0 */
/* Max and mean over windows. Max remembers per output which value of its window won: the first one,
 * if equal; one that is no number, so that it is not lost before the exchange can name it. */
#include <string.h>

#include "nn/exec.h"

typedef struct geometry {
    int height, width, out_height, out_width, kernel, stride, pad;
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
                      (int)p->pad,
                      (size_t)layer->in.channels * count};
}

/* The window of output (oy, ox), cut to the image. */
typedef struct window {
    int top, left, bottom, right;
} window;

static window window_of(const geometry *g, int oy, int ox)
{
    int top = oy * g->stride - g->pad, left = ox * g->stride - g->pad;
    int bottom = top + g->kernel, right = left + g->kernel;
    return (window){top > 0 ? top : 0, left > 0 ? left : 0, bottom < g->height ? bottom : g->height,
                    right < g->width ? right : g->width};
}

/* ---------------------------------------------------------------- max */

/* Which value of its whole window won: ky * kernel + kx. */
static size_t max_saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    return (size_t)shoali_shape_elems(layer->out) * batch * sizeof(uint16_t);
}

static bool beats(float challenger, float best)
{
    return (challenger > best) | (challenger != challenger);
}

static uint16_t winner(const geometry *g, int oy, int ox, const float *x)
{
    const window w = window_of(g, oy, ox);
    int best_y = w.top, best_x = w.left;
    for (int iy = w.top; iy < w.bottom; iy++)
        for (int ix = w.left; ix < w.right; ix++)
            if (beats(x[iy * g->width + ix], x[best_y * g->width + best_x])) {
                best_y = iy;
                best_x = ix;
            }
    return (uint16_t)((best_y - (oy * g->stride - g->pad)) * g->kernel + best_x -
                      (ox * g->stride - g->pad));
}

/* Where in the plane it is. */
static int index_of(const geometry *g, int oy, int ox, uint16_t won)
{
    int y = oy * g->stride - g->pad + won / g->kernel;
    return y * g->width + ox * g->stride - g->pad + won % g->kernel;
}

/* A row of whole windows of 2 x 2: half of all pools there are. Winners are chosen by index, not by
 * value: which one it is is a coin toss, and compilers branch on floats. */
static void max_row_of_pairs(const geometry *g, const float *x, float *y, uint16_t *won)
{
    int below = g->width, count = g->width / 2;
    for (int i = 0; i < count; i++, x += 2) {
        int upper = beats(x[1], x[0]), lower = beats(x[below + 1], x[below]);
        int down = beats(x[below + lower], x[upper]);
        y[i] = x[down * below + (upper ^ ((upper ^ lower) & -down))];
        won[i] = (uint16_t)(2 * down + (upper ^ ((upper ^ lower) & -down)));
    }
}

static void max_plane(const geometry *g, const float *x, float *y, uint16_t *won)
{
    bool pairs = g->kernel == 2 && g->stride == 2 && g->pad == 0;
    for (int oy = 0; oy < g->out_height; oy++, y += g->out_width, won += g->out_width) {
        int ox = 0;
        if (pairs && 2 * oy + 1 < g->height) {
            ox = g->width / 2;
            max_row_of_pairs(g, x + (size_t)(2 * oy) * (size_t)g->width, y, won);
        }
        for (; ox < g->out_width; ox++) {
            won[ox] = winner(g, oy, ox, x);
            y[ox] = x[index_of(g, oy, ox, won[ox])];
        }
    }
}

static void max_forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    geometry g = geometry_of(node->layer, pass->count);
    size_t outputs = (size_t)g.out_height * (size_t)g.out_width;
    uint16_t *won = node->saved;
    for (size_t plane = 0; plane < g.planes; plane++, y += outputs, won += outputs)
        max_plane(&g, x + plane * (size_t)(g.height * g.width), y, won);
}

/* Windows do not overlap and cover all: two rows at a time are cleared while they are in the cache.
 */
static void max_back_pairs(const geometry *g, const uint16_t *won, const float *dy, float *dx)
{
    for (int oy = 0; oy < g->out_height; oy++, dx += 2 * g->width) {
        memset(dx, 0, 2 * (size_t)g->width * sizeof *dx);
        for (int ox = 0; ox < g->out_width; ox++, won++, dy++)
            dx[(*won >> 1) * g->width + 2 * ox + (*won & 1)] = *dy;
    }
}

static void max_back_plane(const geometry *g, const uint16_t *won, const float *dy, float *dx)
{
    memset(dx, 0, (size_t)(g->height * g->width) * sizeof *dx);
    for (int oy = 0; oy < g->out_height; oy++)
        for (int ox = 0; ox < g->out_width; ox++, won++, dy++)
            dx[index_of(g, oy, ox, *won)] += *dy;
}

static void max_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                         const float *y, float *dy, float *dx)
{
    geometry g = geometry_of(node->layer, pass->count);
    size_t outputs = (size_t)g.out_height * (size_t)g.out_width;
    bool pairs = g.kernel == 2 && g.stride == 2 && g.pad == 0 && g.height % 2 == 0 &&
                 g.width % 2 == 0;
    const uint16_t *won = node->saved;
    (void)x;
    (void)y;
    for (size_t plane = 0; dx != NULL && plane < g.planes; plane++, won += outputs, dy += outputs)
        (pairs ? max_back_pairs : max_back_plane)(&g, won, dy,
                                                  dx + plane * (size_t)(g.height * g.width));
}

const shoali_exec shoali_exec_maxpool = {
    .saved_bytes = max_saved_bytes, .forward = max_forward, .backward = max_backward};

/* ---------------------------------------------------------------- mean */

/* What the mean of a window is divided by. */
static float counted(const shoali_layer *layer, const geometry *g, int oy, int ox)
{
    const shoali_pool_params *p = layer->params;
    const window w = window_of(g, oy, ox);
    return (float)(p->include_pad ? g->kernel * g->kernel
                                  : (w.bottom - w.top) * (w.right - w.left));
}

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
                *y++ = sum / counted(node->layer, &g, oy, ox);
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
                float share = *dy++ / counted(node->layer, &g, oy, ox);
                for (int iy = w.top; iy < w.bottom; iy++)
                    for (int ix = w.left; ix < w.right; ix++)
                        dx[iy * g.width + ix] += share;
            }
}

const shoali_exec shoali_exec_avgpool = {.forward = avg_forward, .backward = avg_backward};
