/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds with parameters: dense, conv, batchnorm. FLOPs count a multiply-add as 2 and leave
 * biases out, as papers do; a backward pass costs one more product for the weights and one for the
 * input. */
#include "base/error.h"
#include "model/layer_keys.h"
#include "model/model.h"

#define KEY_BIAS(type)                                                                        \
    {                                                                                         \
        "bias", SHOALI_KEY_FLAG, offsetof(type, bias), 0, 0, NULL, "on", "add a learned bias" \
    }

static shoal_status declare_bias(shoal_model *model, shoali_layer *layer, uint32_t out)
{
    const shoali_param bias = {.role = "bias", .fill = SHOALI_FILL_ZERO};
    return shoali_layer_tensor(model, layer, &bias, out, 0, SHOAL_TENSOR_BIAS);
}

/* ---------------------------------------------------------------- dense */

/* Weight is float32[out][in]. Any input shape is taken as the vector that it is in memory. */
static shoal_status infer_dense(shoal_model *model, shoali_layer *layer)
{
    const shoali_dense_params *p = layer->params;
    uint64_t in = shoali_shape_elems(layer->in), out = (uint64_t)p->out;
    if (in > SHOALI_MODEL_ELEMS_MAX)
        return shoali_fail(SHOAL_EINVAL, "an input of %llu values is too large",
                           (unsigned long long)in);
    const shoali_param weight = {.role = "weight",
                                 .fill = SHOALI_FILL_WEIGHT,
                                 .fan_in = (uint32_t)in,
                                 .fan_out = (uint32_t)out};
    layer->out = (shoal_shape){(uint32_t)out, 1, 1};
    layer->forward_flops = 2.0 * (double)in * (double)out;
    layer->weight_flops = layer->input_flops = layer->forward_flops;
    SHOALI_TRY(shoali_layer_tensor(model, layer, &weight, out, in, 0));
    return p->bias ? declare_bias(model, layer, (uint32_t)out) : SHOAL_OK;
}

static const shoali_key dense_keys[] = {
    SHOALI_LAYER_INT(shoali_dense_params, out, 1, 1 << 24, "10", "outputs"),
    KEY_BIAS(shoali_dense_params),
    SHOALI_LAYER_PRECISION(shoali_dense_params),
};
const shoali_layer_row shoali_layer_dense = {
    .name = "dense",
    .help = "every output sees every input",
    .schema = {dense_keys, 3, sizeof(shoali_dense_params)},
    .infer = infer_dense,
};

/* ---------------------------------------------------------------- conv */

/* Places of a window of `kernel` in `side` padded values; 0 if it does not fit. */
static uint32_t places(uint32_t side, const shoali_conv_params *p)
{
    int64_t room = (int64_t)side + 2 * p->pad - p->kernel;
    return room < 0 ? 0 : (uint32_t)(room / p->stride + 1);
}

/* Weight is float32[out][in channels][kernel][kernel]; cross-correlation, as every framework means
 * it. */
static shoal_status infer_conv(shoal_model *model, shoali_layer *layer)
{
    const shoali_conv_params *p = layer->params;
    uint32_t height = places(layer->in.height, p), width = places(layer->in.width, p);
    if (height == 0 || width == 0)
        return shoali_fail(SHOAL_EINVAL, "a kernel of %d does not fit into %u x %u padded by %d",
                           (int)p->kernel, layer->in.height, layer->in.width, (int)p->pad);
    if (p->pad >= p->kernel)
        return shoali_fail(SHOAL_EINVAL,
                           "pad %d is not below kernel %d: windows would see nothing but zeros",
                           (int)p->pad, (int)p->kernel);
    if (layer->in.channels % p->groups != 0 || p->out % p->groups != 0)
        return shoali_fail(SHOAL_EINVAL, "%u input and %d output channels do not fit %d groups",
                           layer->in.channels, (int)p->out, (int)p->groups);
    uint64_t taps = (uint64_t)(p->kernel * p->kernel);
    uint64_t fan_in = taps * (layer->in.channels / (uint64_t)p->groups);
    if (fan_in > UINT32_MAX)
        return shoali_fail(SHOAL_EINVAL, "a window of %llu values is too large",
                           (unsigned long long)fan_in);
    const shoali_param weight = {.role = "weight",
                                 .fill = SHOALI_FILL_WEIGHT,
                                 .fan_in = (uint32_t)fan_in,
                                 .fan_out = (uint32_t)(taps * (uint64_t)p->out)};
    layer->out = (shoal_shape){(uint32_t)p->out, height, width};
    layer->forward_flops = 2.0 * (double)fan_in * (double)p->out * height * width;
    layer->weight_flops = layer->input_flops = layer->forward_flops;
    SHOALI_TRY(shoali_layer_tensor(model, layer, &weight, (uint64_t)p->out, fan_in, 0));
    return p->bias ? declare_bias(model, layer, (uint32_t)p->out) : SHOAL_OK;
}

static const shoali_key conv_keys[] = {
    SHOALI_LAYER_INT(shoali_conv_params, out, 1, 65536, "1", "output channels"),
    SHOALI_LAYER_INT(shoali_conv_params, kernel, 1, 255, "3", "side of the square window, pixels"),
    SHOALI_LAYER_INT(shoali_conv_params, stride, 1, 255, "1", "step of the window, pixels"),
    SHOALI_LAYER_INT(shoali_conv_params, pad, 0, 254, "0", "zeros around the image, pixels"),
    SHOALI_LAYER_INT(shoali_conv_params, groups, 1, 65536, "1",
                     "channels are cut into so many groups that do not see each other"),
    KEY_BIAS(shoali_conv_params),
    SHOALI_LAYER_PRECISION(shoali_conv_params),
};
const shoali_layer_row shoali_layer_conv = {
    .name = "conv",
    .help = "2-D convolution over all channels",
    .schema = {conv_keys, 7, sizeof(shoali_conv_params)},
    .infer = infer_conv,
};

/* ---------------------------------------------------------------- batchnorm */

/* State: running mean, then running variance, per channel. */
static shoal_status infer_batchnorm(shoal_model *model, shoali_layer *layer)
{
    const shoali_param scale = {.role = "scale", .fill = SHOALI_FILL_ONE};
    const shoali_param shift = {.role = "shift", .fill = SHOALI_FILL_ZERO};
    double elems = (double)shoali_shape_elems(layer->in);
    layer->out = layer->in;
    layer->state_count = 2 * (uint64_t)layer->in.channels;
    layer->forward_flops = 7 * elems; /* mean 1, variance 3, normalise 2, shift 1 */
    layer->weight_flops = 3 * elems;
    layer->input_flops = 5 * elems;
    SHOALI_TRY(shoali_layer_tensor(model, layer, &scale, layer->in.channels, 0, SHOAL_TENSOR_NORM));
    return shoali_layer_tensor(model, layer, &shift, layer->in.channels, 0, SHOAL_TENSOR_NORM);
}

static const shoali_key batchnorm_keys[] = {
    {"momentum", SHOALI_KEY_FLOAT, offsetof(shoali_batchnorm_params, momentum), 0, 1, NULL, "0.1",
     "share of a batch in the running statistics"},
    {"eps", SHOALI_KEY_FLOAT, offsetof(shoali_batchnorm_params, eps), 1e-12, 1, NULL, "1e-5",
     "added to the variance"},
};
const shoali_layer_row shoali_layer_batchnorm = {
    .name = "batchnorm",
    .help = "normalise every channel over the batch, then scale and shift it",
    .schema = {batchnorm_keys, 2, sizeof(shoali_batchnorm_params)},
    .infer = infer_batchnorm,
};

/* ---------------------------------------------------------------- lookup */

enum { FRAME_FAN = 3 }; /* of a row of a sequence: Xavier's values are -1 .. 1 */

/* The fan that gives this deviation by the model's way to draw (nn/init.h). */
static uint32_t fan_of(const shoal_model *model, double std)
{
    return (uint32_t)((model->init == SHOALI_INIT_HE ? 2 : 1) / (std * std) + 0.5);
}

/* First values as if all rows of a sample were one matrix's input: their sum stays of order 1. Of
 * sequences it is each value that does. */
static shoal_status infer_lookup(shoal_model *model, shoali_layer *layer)
{
    const shoali_lookup_params *p = layer->params;
    if (layer->in.channels != 1 || layer->in.width != 1)
        return shoali_fail(SHOAL_EINVAL, "ids are 1 x fields x 1, not %u x %u x %u",
                           layer->in.channels, layer->in.height, layer->in.width);
    const uint64_t out = (uint64_t)layer->in.height * (uint64_t)p->width;
    if (out > UINT32_MAX)
        return shoali_fail(SHOAL_EINVAL, "%u ids of %lld values each", layer->in.height,
                           (long long)p->width);
    if (p->types > 0 && !p->frames)
        return shoali_fail(SHOAL_EINVAL, "ids side by side have no segments; say frames");
    if (p->positions > 0 && (!p->frames || layer->in.height > p->positions))
        return shoali_fail(SHOAL_EINVAL,
                           p->frames ? "a sequence of %u has no place in %lld positions"
                                     : "%u ids side by side have no %lld positions; say frames",
                           layer->in.height, (long long)p->positions);
    const uint32_t fan = p->std > 0 ? fan_of(model, p->std) : FRAME_FAN;
    const bool plain = !p->frames && p->std == 0;
    const shoali_param table = {.role = "table",
                                .fill = SHOALI_FILL_WEIGHT,
                                .fan_in = plain ? (uint32_t)out : fan,
                                .fan_out = plain ? (uint32_t)p->width : fan};
    const shoali_param places = {
        .role = "positions", .fill = SHOALI_FILL_WEIGHT, .fan_in = fan, .fan_out = fan};
    const shoali_param types = {
        .role = "types", .fill = SHOALI_FILL_WEIGHT, .fan_in = fan, .fan_out = fan};
    layer->out = p->frames ? (shoal_shape){1, layer->in.height, (uint32_t)p->width}
                           : (shoal_shape){(uint32_t)out, 1, 1};
    layer->forward_flops = layer->weight_flops = (double)out;
    /* with places and segments, a step touches others than its ids' rows */
    const uint64_t width = (uint64_t)p->width;
    const bool alone = p->positions == 0 && p->types == 0;
    SHOALI_TRY(shoali_layer_tensor(model, layer, &table, (uint64_t)p->vocab, width,
                                   alone ? SHOAL_TENSOR_ROWS : 0));
    if (p->positions > 0)
        SHOALI_TRY(shoali_layer_tensor(model, layer, &places, (uint64_t)p->positions, width, 0));
    return p->types > 0 ? shoali_layer_tensor(model, layer, &types, (uint64_t)p->types, width, 0)
                        : SHOAL_OK;
}

static const shoali_key lookup_keys[] = {
    {"vocab", SHOALI_KEY_INT, offsetof(shoali_lookup_params, vocab), 1, 1 << 24, NULL, "262144",
     "ids there are"},
    {"width", SHOALI_KEY_INT, offsetof(shoali_lookup_params, width), 1, 1 << 16, NULL, "16",
     "values of one id"},
    {"frames", SHOALI_KEY_FLAG, offsetof(shoali_lookup_params, frames), 0, 0, NULL, "off",
     "ids are a sequence: a row per frame"},
    {"positions", SHOALI_KEY_INT, offsetof(shoali_lookup_params, positions), 0, 1 << 20, NULL, "0",
     "with frames: rows of another table, added by a frame's place; 0: none"},
    {"types", SHOALI_KEY_INT, offsetof(shoali_lookup_params, types), 0, 256, NULL, "0",
     "with frames: rows of another table, added by a frame's segment; id + vocab is of the next "
     "one; 0: none"},
    {"std", SHOALI_KEY_FLOAT, offsetof(shoali_lookup_params, std), 0, 1, NULL, "0",
     "deviation of the first values; 0: about 1 of frames, else a sum of order 1"},
};
const shoali_layer_row shoali_layer_lookup = {
    .name = "lookup",
    .probe = "lookup:vocab=5,width=3",
    .help = "a row of a table per id, side by side",
    .schema = {lookup_keys, 6, sizeof(shoali_lookup_params)},
    .infer = infer_lookup,
};
