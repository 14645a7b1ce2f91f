/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: y = x / (1 - rate) or 0. A value's fate depends on (seed, layer, global number of its
 * sample, index), so it is the same however the samples are spread over workers. */
#include <string.h>

#include "base/rng.h"
#include "nn/exec.h"

static size_t saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    return (size_t)shoali_shape_elems(layer->out) * batch; /* one byte per value: kept? */
}

static void draw_kept(const shoali_node *node, const shoali_pass *pass, uint8_t *kept)
{
    const shoali_dropout_params *p = node->layer->params;
    size_t elems = (size_t)shoali_shape_elems(node->layer->out);
    uint64_t key = shoali_hash(node->layer->name, strlen(node->layer->name), 0);
    uint32_t limit = (uint32_t)(p->rate * 0x1p32);
    for (uint32_t n = 0; n < pass->count; n++, kept += elems) {
        uint64_t stream = shoali_mix(key, pass->first_serial + n);
        for (size_t i = 0; i < elems; i += 4) {
            uint32_t bits[4];
            shoali_philox(pass->seed, stream, i / 4, bits);
            for (size_t j = 0; j < 4 && i + j < elems; j++)
                kept[i + j] = bits[j] >= limit;
        }
    }
}

static void apply(const shoali_node *node, const shoali_pass *pass, const float *from, float *to)
{
    const shoali_dropout_params *p = node->layer->params;
    const uint8_t *kept = node->saved;
    size_t elems = (size_t)shoali_shape_elems(node->layer->out) * pass->count;
    float scale = (float)(1.0 / (1.0 - p->rate));
    for (size_t i = 0; i < elems; i++)
        to[i] = kept[i] ? from[i] * scale : 0.0f;
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    if (pass->training) {
        draw_kept(node, pass, node->saved);
        apply(node, pass, x, y);
    } else if (y != x) {
        memcpy(y, x, (size_t)shoali_shape_elems(node->layer->out) * pass->count * sizeof *y);
    }
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    (void)x;
    (void)y;
    if (dx != NULL)
        apply(node, pass, dy, dx);
}

const shoali_exec shoali_exec_dropout = {
    .saved_bytes = saved_bytes, .forward = forward, .backward = backward};
