/* SPDX-License-Identifier: Apache-2.0 */
/* One vector of a sequence: its first frame (BERT's pooler: Devlin et al., NAACL 2019) or the mean
 * of its frames (Reimers, Gurevych, EMNLP 2019). Of sequences as planners see them,
 * {values, frames, 1}, it is described only. */
#include <string.h>

#include "nn/recurrent.h"

extern const shoali_layer_row shoali_layer_framepool;
extern const shoali_exec shoali_exec_framepool;

static shoal_status infer(shoal_model *model, shoali_layer *layer)
{
    const shoali_framepool_params *p = layer->params;
    (void)model;
    layer->described = layer->in.channels != 1;
    layer->out = (shoal_shape){layer->described ? layer->in.channels : layer->in.width, 1, 1};
    layer->forward_flops = layer->input_flops = p->by == SHOALI_POOL_FIRST
                                                    ? 0
                                                    : (double)shoali_shape_elems(layer->in);
    return SHOAL_OK;
}

static const shoali_key keys[] = {
    {"by", SHOALI_KEY_CHOICE, offsetof(shoali_framepool_params, by), 0, 0, "first|mean", "first",
     "the first frame alone, or the mean of all"},
};
const shoali_layer_row shoali_layer_framepool = {
    .name = "framepool",
    .help = "a sequence's frames as one vector",
    .schema = {keys, 1, sizeof(shoali_framepool_params)},
    .infer = infer,
};

static uint32_t taken(const shoali_node *node, const shoali_walk *walk, uint32_t sample)
{
    const shoali_framepool_params *p = node->layer->params;
    return p->by == SHOALI_POOL_FIRST ? 1 : shoali_walk_length(walk, sample);
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_walk walk = shoali_walk_of(node, pass, false);
    const size_t width = node->layer->in.width;
    memset(y, 0, walk.count * width * sizeof *y);
    for (uint32_t n = 0; n < walk.count; n++, x += walk.frames * width, y += width) {
        const uint32_t frames = taken(node, &walk, n);
        for (size_t i = 0; i < frames * width; i++)
            y[i % width] += x[i];
        for (size_t i = 0; i < width; i++)
            y[i] /= (float)frames;
    }
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_walk walk = shoali_walk_of(node, pass, false);
    const size_t width = node->layer->in.width;
    (void)x;
    (void)y;
    if (dx == NULL)
        return;
    memset(dx, 0, walk.count * walk.frames * width * sizeof *dx);
    for (uint32_t n = 0; n < walk.count; n++, dx += walk.frames * width, dy += width) {
        const uint32_t frames = taken(node, &walk, n);
        for (size_t i = 0; i < frames * width; i++)
            dx[i] = dy[i % width] / (float)frames;
    }
}

const shoali_exec shoali_exec_framepool = {.forward = forward, .backward = backward};
