/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds without parameters: pools, activations, dropout, flatten. */
#include "base/error.h"
#include "model/model.h"

/* ---------------------------------------------------------------- pools */

static uint32_t windows(uint32_t side, const shoali_pool_params *p, int64_t stride)
{
    int64_t padded = (int64_t)side + 2 * p->pad, room = padded - p->kernel;
    if (room < 0)
        return 0;
    int64_t whole = room / stride + 1;
    /* a partial window counts if it starts inside the image */
    bool partial = p->ceil && room % stride != 0 && whole * stride < side + p->pad;
    return (uint32_t)(partial ? whole + 1 : whole);
}

static shoal_status infer_pool(shoal_model *model, shoali_layer *layer)
{
    const shoali_pool_params *p = layer->params;
    int64_t stride = p->stride == 0 ? p->kernel : p->stride;
    (void)model;
    layer->out = (shoal_shape){layer->in.channels, windows(layer->in.height, p, stride),
                               windows(layer->in.width, p, stride)};
    if (p->pad >= p->kernel)
        return shoali_fail(SHOAL_EINVAL,
                           "pad %d is not below kernel %d: windows would see nothing but border",
                           (int)p->pad, (int)p->kernel);
    if (layer->out.height == 0 || layer->out.width == 0)
        return shoali_fail(SHOAL_EINVAL, "a window of %d does not fit into %u x %u", (int)p->kernel,
                           layer->in.height, layer->in.width);
    layer->forward_flops = (double)shoali_shape_elems(layer->out) * (double)(p->kernel * p->kernel);
    layer->input_flops = layer->forward_flops;
    return SHOAL_OK;
}

/* What a partial window counts of the border differs among frameworks. */
static shoal_status infer_mean_pool(shoal_model *model, shoali_layer *layer)
{
    const shoali_pool_params *p = layer->params;
    if (p->include_pad && p->ceil)
        return shoali_fail(SHOAL_EINVAL,
                           "include_pad does not go with ceil: how much of the border "
                           "a partial window counts is not agreed on");
    return infer_pool(model, layer);
}

static const shoali_key pool_keys[] = {
    {"kernel", SHOALI_KEY_INT, offsetof(shoali_pool_params, kernel), 1, 255, NULL, "2",
     "side of the window, pixels"},
    {"stride", SHOALI_KEY_INT, offsetof(shoali_pool_params, stride), 0, 255, NULL, "0",
     "step of the window, pixels; 0: its side"},
    {"ceil", SHOALI_KEY_FLAG, offsetof(shoali_pool_params, ceil), 0, 0, NULL, "off",
     "a partial window at the end counts"},
    {"pad", SHOALI_KEY_INT, offsetof(shoali_pool_params, pad), 0, 254, NULL, "0",
     "border around the image, pixels, that never wins and is not counted"},
    {"include_pad", SHOALI_KEY_FLAG, offsetof(shoali_pool_params, include_pad), 0, 0, NULL, "off",
     "the border counts, as zeros (PyTorch's count_include_pad)"},
};
const shoali_layer_row shoali_layer_maxpool = {
    .name = "maxpool",
    .help = "largest value of each window",
    .schema = {pool_keys, 4, sizeof(shoali_pool_params)},
    .infer = infer_pool,
};
const shoali_layer_row shoali_layer_avgpool = {
    .name = "avgpool",
    .help = "mean of each window (of the pixels in it, where it is partial)",
    .schema = {pool_keys, 5, sizeof(shoali_pool_params)},
    .infer = infer_mean_pool,
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
    if (shoali_shape_elems(layer->in) > SHOALI_MODEL_ELEMS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%u x %u x %u values are too many for a vector",
                           layer->in.channels, layer->in.height, layer->in.width);
    layer->out = (shoal_shape){(uint32_t)shoali_shape_elems(layer->in), 1, 1};
    return SHOAL_OK;
}

const shoali_layer_row shoali_layer_flatten = {
    .name = "flatten",
    .help = "an image as a vector",
    .traits = SHOALI_LAYER_ALIAS,
    .infer = infer_flatten,
};
