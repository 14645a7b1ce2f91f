/* SPDX-License-Identifier: Apache-2.0 */
/* example: y = x sigmoid(b x), b a learned value per channel (Ramachandran, Zoph, Le, 2017). */
#include "support/example_op.h"

#include <math.h>
#include <string.h>

static shoal_status infer(shoal_model *model, shoali_layer *layer)
{
    const shoali_param slope = {.role = "slope", .fill = SHOALI_FILL_ONE};
    const double elems = (double)shoali_shape_elems(layer->in);
    layer->out = layer->in;
    layer->forward_flops = 6 * elems;
    layer->weight_flops = 5 * elems;
    layer->input_flops = 6 * elems;
    return shoali_layer_tensor(model, layer, &slope, layer->in.channels, 0, SHOAL_TENSOR_BIAS);
}

const shoali_layer_row shoali_layer_example = {
    .name = "example",
    .help = "x times the sigmoid of x times a learned value",
    .infer = infer,
};

static float share(float z)
{
    return 1 / (1 + expf(-z));
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const size_t channels = node->layer->in.channels;
    const size_t pixels = (size_t)node->layer->in.height * node->layer->in.width;
    for (size_t i = 0; i < pass->count * channels * pixels; i++)
        y[i] = x[i] * share(node->params[i / pixels % channels] * x[i]);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const size_t channels = node->layer->in.channels;
    const size_t pixels = (size_t)node->layer->in.height * node->layer->in.width;
    (void)y;
    memset(node->grads, 0, channels * sizeof *node->grads);
    for (size_t i = 0; i < pass->count * channels * pixels; i++) {
        const size_t c = i / pixels % channels;
        const float b = node->params[c], s = share(b * x[i]), rise = s * (1 - s) * x[i];
        node->grads[c] += dy[i] * rise * x[i];
        if (dx != NULL)
            dx[i] = dy[i] * (s + b * rise);
    }
}

const shoali_exec shoali_exec_example = {.forward = forward, .backward = backward};
