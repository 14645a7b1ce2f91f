/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds without parameters: pools, activations, dropout, flatten. */
#include "base/error.h"
#include "model/model.h"

/* ---------------------------------------------------------------- pools */

static uint32_t windows(uint32_t side, int64_t kernel, int64_t stride, bool ceil)
{
    int64_t room = (int64_t)side - kernel;
    if (room < 0)
        return 0;
    int64_t whole = room / stride + 1;
    /* a partial window counts if it starts inside the image */
    return (uint32_t)(ceil && room % stride != 0 && whole * stride < side ? whole + 1 : whole);
}

static shoal_status infer_pool(shoal_model *model, shoali_layer *layer)
{
    const shoali_pool_params *p = layer->params;
    int64_t stride = p->stride == 0 ? p->kernel : p->stride;
    (void)model;
    layer->out = (shoal_shape){layer->in.channels,
                               windows(layer->in.height, p->kernel, stride, p->ceil),
                               windows(layer->in.width, p->kernel, stride, p->ceil)};
    if (layer->out.height == 0 || layer->out.width == 0)
        return shoali_fail(SHOAL_EINVAL, "a window of %d does not fit into %u x %u", (int)p->kernel,
                           layer->in.height, layer->in.width);
    layer->forward_flops = (double)shoali_shape_elems(layer->out) * (double)(p->kernel * p->kernel);
    layer->input_flops = layer->forward_flops;
    return SHOAL_OK;
}

static const shoali_key pool_keys[] = {
    {"kernel", SHOALI_KEY_INT, offsetof(shoali_pool_params, kernel), 1, 255, NULL, "2",
     "side of the window, pixels"},
    {"stride", SHOALI_KEY_INT, offsetof(shoali_pool_params, stride), 0, 255, NULL, "0",
     "step of the window, pixels; 0: its side"},
    {"ceil", SHOALI_KEY_FLAG, offsetof(shoali_pool_params, ceil), 0, 0, NULL, "off",
     "a partial window at the end counts"},
};
const shoali_layer_row shoali_layer_maxpool = {
    .name = "maxpool",
    .help = "largest value of each window",
    .schema = {pool_keys, 3, sizeof(shoali_pool_params)},
    .infer = infer_pool,
};
const shoali_layer_row shoali_layer_avgpool = {
    .name = "avgpool",
    .help = "mean of each window (of the pixels in it, where it is partial)",
    .schema = {pool_keys, 3, sizeof(shoali_pool_params)},
    .infer = infer_pool,
};

/* ---------------------------------------------------------------- elementwise */

static shoal_status infer_elementwise(shoal_model *model, shoali_layer *layer)
{
    (void)model;
    layer->out = layer->in;
    layer->forward_flops = layer->input_flops = (double)shoali_shape_elems(layer->in);
    return SHOAL_OK;
}

const shoali_layer_row shoali_layer_relu = {
    .name = "relu",
    .help = "max(x, 0)",
    .traits = SHOALI_LAYER_IN_PLACE | SHOALI_LAYER_KEEPS_OUTPUT | SHOALI_LAYER_RECTIFIES,
    .infer = infer_elementwise,
};
const shoali_layer_row shoali_layer_tanh = {
    .name = "tanh",
    .help = "hyperbolic tangent",
    .traits = SHOALI_LAYER_IN_PLACE | SHOALI_LAYER_KEEPS_OUTPUT,
    .infer = infer_elementwise,
};

static const shoali_key dropout_keys[] = {
    {"rate", SHOALI_KEY_FLOAT, offsetof(shoali_dropout_params, rate), 0, 0.99, NULL, "0.5",
     "share of values set to zero in training"},
};
const shoali_layer_row shoali_layer_dropout = {
    .name = "dropout",
    .help = "training: zero a random share of the values, scale the others up",
    .traits = SHOALI_LAYER_IN_PLACE,
    .schema = {dropout_keys, 1, sizeof(shoali_dropout_params)},
    .infer = infer_elementwise,
};

/* ---------------------------------------------------------------- flatten */

static shoal_status infer_flatten(shoal_model *model, shoali_layer *layer)
{
    (void)model;
    layer->out = (shoal_shape){(uint32_t)shoali_shape_elems(layer->in), 1, 1};
    return SHOAL_OK;
}

const shoali_layer_row shoali_layer_flatten = {
    .name = "flatten",
    .help = "an image as a vector",
    .traits = SHOALI_LAYER_ALIAS,
    .infer = infer_flatten,
};
