/* SPDX-License-Identifier: Apache-2.0 */
/* y = scale * (x - mean) / sqrt(variance + eps) + shift, frame by frame (Ba, Kiros, Hinton, arXiv
 * 1607.06450). */
#include <math.h>
#include <string.h>

#include "nn/recurrent.h"

typedef struct moments {
    float mean, part; /* part: 1 / sqrt(variance + eps) */
} moments;

/* In double: a mean that is large beside the deviation takes no digits of it. */
static moments moments_of(const float *x, size_t width, double eps)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < width; i++)
        sum += (double)x[i];
    const double mean = sum / (double)width;
    for (size_t i = 0; i < width; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (moments){(float)mean, (float)(1 / sqrt(squares / (double)width + eps))};
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_layernorm_params *p = node->layer->params;
    const shoali_walk walk = shoali_walk_of(node, pass, false);
    const size_t width = node->layer->in.width;
    const float *scale = node->params, *shift = p->bias ? scale + width : NULL;
    for (uint32_t n = 0; n < walk.count; n++)
        for (uint32_t t = walk.from; t < shoali_walk_length(&walk, n); t++) {
            const size_t at = ((size_t)n * walk.frames + t) * width;
            const moments m = moments_of(x + at, width, p->eps);
            for (size_t i = 0; i < width; i++)
                y[at + i] = (x[at + i] - m.mean) * m.part * scale[i] +
                            (shift != NULL ? shift[i] : 0);
        }
    shoali_walk_clear(&walk, y, width);
}

/* With z the normalised x and u = dy * scale: dx = part (u - mean(u) - z mean(u z)). dy becomes u.
 */
static void frame_back(const shoali_node *node, const float *x, float *dy, float *dx)
{
    const shoali_layernorm_params *p = node->layer->params;
    const size_t width = node->layer->in.width;
    const moments m = moments_of(x, width, p->eps);
    double mean = 0, along = 0;
    for (size_t i = 0; i < width; i++) {
        const float z = (x[i] - m.mean) * m.part;
        node->grads[i] += dy[i] * z;
        if (p->bias)
            node->grads[width + i] += dy[i];
        dy[i] *= node->params[i];
        mean += (double)dy[i];
        along += (double)dy[i] * (double)z;
    }
    mean /= (double)width;
    along /= (double)width;
    for (size_t i = 0; dx != NULL && i < width; i++)
        dx[i] = m.part * (dy[i] - (float)mean - (x[i] - m.mean) * m.part * (float)along);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_walk walk = shoali_walk_of(node, pass, false);
    const size_t width = node->layer->in.width;
    (void)y;
    memset(node->grads, 0, (size_t)node->layer->param_count * sizeof *node->grads);
    for (uint32_t n = 0; n < walk.count; n++)
        for (uint32_t t = 0; t < shoali_walk_length(&walk, n); t++) {
            const size_t at = ((size_t)n * walk.frames + t) * width;
            frame_back(node, x + at, dy + at, dx != NULL ? dx + at : NULL);
        }
    if (dx != NULL)
        shoali_walk_clear(&walk, dx, width);
}

const shoali_exec shoali_exec_layernorm = {
    .continues = true, .forward = forward, .backward = backward};
