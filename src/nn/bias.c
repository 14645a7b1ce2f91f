/* SPDX-License-Identifier: Apache-2.0 */
/* y = x + b, a learned value for each value of a frame: what scores made by a tied table add
 * (Devlin et al., NAACL 2019). */
#include "base/error.h"
#include "nn/recurrent.h"

extern const shoali_layer_row shoali_layer_bias;
extern const shoali_exec shoali_exec_bias;

static shoal_status infer(shoal_model *model, shoali_layer *layer)
{
    const shoali_param bias = {.role = "bias", .fill = SHOALI_FILL_ZERO};
    if (layer->in.channels != 1)
        return shoali_fail(SHOAL_EINVAL, "%u x %u x %u is no sequence (1 x frames x values)",
                           layer->in.channels, layer->in.height, layer->in.width);
    layer->out = layer->in;
    layer->forward_flops = layer->weight_flops = (double)shoali_shape_elems(layer->in);
    return shoali_layer_tensor(model, layer, &bias, layer->in.width, 0, SHOAL_TENSOR_BIAS);
}

const shoali_layer_row shoali_layer_bias = {
    .name = "bias",
    .help = "adds a learned value to each value of a frame",
    .traits = SHOALI_LAYER_FRAMES | SHOALI_LAYER_IN_PLACE,
    .infer = infer,
};

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_walk walk = shoali_walk_of(node, pass, false);
    const size_t width = node->layer->in.width;
    for (uint32_t n = 0; n < walk.count; n++)
        for (uint32_t t = walk.from; t < shoali_walk_length(&walk, n); t++) {
            const size_t at = ((size_t)n * walk.frames + t) * width;
            for (size_t i = 0; i < width; i++)
                y[at + i] = x[at + i] + node->params[i];
        }
    shoali_walk_clear(&walk, y, width);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_walk walk = shoali_walk_of(node, pass, false);
    const uint32_t width = node->layer->in.width;
    (void)x;
    (void)y;
    shoali_walk_bias(&walk, dy, width, node->grads);
    if (dx == NULL)
        return;
    for (size_t i = 0; dx != dy && i < (size_t)walk.count * walk.frames * width; i++)
        dx[i] = dy[i];
    shoali_walk_clear(&walk, dx, width);
}

const shoali_exec shoali_exec_bias = {.continues = true, .forward = forward, .backward = backward};
