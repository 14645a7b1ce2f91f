/* SPDX-License-Identifier: Apache-2.0 */
/* y = scale * x / sqrt(mean(x^2) + eps), frame by frame (Zhang and Sennrich, NeurIPS 2019). */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "nn/recurrent.h"

/* 1 / sqrt(mean + eps). */
static float part_of(const float *x, size_t width, double eps)
{
    const float squares = cblas_sdot((int)width, x, 1, x, 1);
    return (float)(1 / sqrt((double)squares / (double)width + eps));
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_rmsnorm_params *p = node->layer->params;
    const shoali_walk walk = shoali_walk_of(node, pass, false);
    const size_t width = node->layer->in.width;
    for (uint32_t n = 0; n < walk.count; n++)
        for (uint32_t t = walk.from; t < shoali_walk_length(&walk, n); t++) {
            const size_t at = ((size_t)n * walk.frames + t) * width;
            const float part = part_of(x + at, width, p->eps);
            for (size_t i = 0; i < width; i++)
                y[at + i] = x[at + i] * part * node->params[i];
        }
    shoali_walk_clear(&walk, y, width);
}

/* With u = dy * scale and r the part: dx = r u - x r^3 mean(u x). */
static void frame_back(const shoali_node *node, double eps, const float *x, float *dy, float *dx)
{
    const size_t width = node->layer->in.width;
    const float part = part_of(x, width, eps);
    for (size_t i = 0; i < width; i++) {
        node->grads[i] += dy[i] * x[i] * part;
        dy[i] *= node->params[i];
    }
    if (dx == NULL)
        return;
    const float mean = cblas_sdot((int)width, dy, 1, x, 1) / (float)width;
    const float along = part * part * part * mean;
    for (size_t i = 0; i < width; i++)
        dx[i] = part * dy[i] - along * x[i];
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_rmsnorm_params *p = node->layer->params;
    const shoali_walk walk = shoali_walk_of(node, pass, false);
    const size_t width = node->layer->in.width;
    (void)y;
    memset(node->grads, 0, width * sizeof *node->grads);
    for (uint32_t n = 0; n < walk.count; n++)
        for (uint32_t t = 0; t < shoali_walk_length(&walk, n); t++) {
            const size_t at = ((size_t)n * walk.frames + t) * width;
            frame_back(node, p->eps, x + at, dy + at, dx != NULL ? dx + at : NULL);
        }
    if (dx != NULL)
        shoali_walk_clear(&walk, dx, width);
}

const shoali_exec shoali_exec_rmsnorm = {
    .continues = true, .forward = forward, .backward = backward};
