/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds that transformers of other tools are made of, operation by operation (ONNX): a sample
 * is a sequence, {width, length, 1}, or what else a layer before gives. Only the
 * activations run. */
#include "base/error.h"
#include "model/layer_keys.h"
#include "model/model.h"

static shoal_status infer_linear(shoal_model *model, shoali_layer *layer)
{
    const shoali_linear_params *p = layer->params;
    double in = layer->in.channels, out = (double)p->out;
    double tokens = (double)layer->in.height * layer->in.width;
    layer->out = (shoal_shape){(uint32_t)p->out, layer->in.height, layer->in.width};
    layer->forward_flops = 2 * tokens * in * out;
    layer->weight_flops = layer->input_flops = layer->forward_flops;
    return shoali_layer_weights(model, layer, (p->tied ? 0 : in * out) + (p->bias ? out : 0));
}

static const shoali_key linear_keys[] = {
    SHOALI_LAYER_INT(shoali_linear_params, out, 1, 1 << 24, "1024", "values of one token"),
    SHOALI_LAYER_FLAG(shoali_linear_params, tied, "off",
                      "by the table of the embedding, which is counted"),
    SHOALI_LAYER_FLAG(shoali_linear_params, bias, "on", "add a learned value per output"),
};
const shoali_layer_row shoali_layer_linear = {
    .name = "linear",
    .help = "one matrix for every token (described only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {linear_keys, 3, sizeof(shoali_linear_params)},
    .infer = infer_linear,
};

/* The product of two activations: of queries with keys, of scores with values. */
static shoal_status infer_product(shoal_model *model, shoali_layer *layer)
{
    const shoali_product_params *p = layer->params;
    shoal_shape other;
    SHOALI_TRY(shoali_layer_back(model, layer, p->back, &other));
    layer->out = (shoal_shape){(uint32_t)p->out, layer->in.height, layer->in.width};
    layer->forward_flops = 2 * (double)shoali_shape_elems(layer->out) * (double)p->inner;
    layer->input_flops = 2 * layer->forward_flops;
    return SHOAL_OK;
}

static const shoali_key product_keys[] = {
    SHOALI_LAYER_INT(shoali_product_params, out, 1, 1 << 30, "1024",
                     "values of one token: of all heads together"),
    SHOALI_LAYER_INT(shoali_product_params, inner, 1, 1 << 30, "64",
                     "products that are summed for each"),
    SHOALI_LAYER_INT(shoali_product_params, back, 1, SHOALI_MODEL_LAYERS_MAX, "1",
                     "what the layer before is multiplied with: so many layers before"),
};
const shoali_layer_row shoali_layer_product = {
    .name = "product",
    .help = "matrix product of two outputs, as in attention (described only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {product_keys, 3, sizeof(shoali_product_params)},
    .infer = infer_product,
};

/* Of sequences as nets run them, {1, frames, values}, it trains. */
static shoal_status infer_layernorm(shoal_model *model, shoali_layer *layer)
{
    const shoali_layernorm_params *p = layer->params;
    const shoali_param scale = {.role = "scale", .fill = SHOALI_FILL_ONE};
    const shoali_param shift = {.role = "shift", .fill = SHOALI_FILL_ZERO};
    double elems = (double)shoali_shape_elems(layer->in), channels = layer->in.channels;
    layer->described = layer->in.channels != 1;
    layer->out = layer->in;
    layer->forward_flops = 9 * elems; /* as a block's norms: src/plan/transformer.c */
    layer->input_flops = 14 * elems;
    layer->weight_flops = 7 * elems;
    if (layer->described)
        return shoali_layer_weights(model, layer, p->bias ? 2 * channels : channels);
    SHOALI_TRY(shoali_layer_tensor(model, layer, &scale, layer->in.width, 0, SHOAL_TENSOR_BIAS));
    return p->bias
               ? shoali_layer_tensor(model, layer, &shift, layer->in.width, 0, SHOAL_TENSOR_BIAS)
               : SHOAL_OK;
}

static const shoali_key layernorm_keys[] = {
    SHOALI_LAYER_FLAG(shoali_layernorm_params, bias, "on", "a learned shift beside the scale"),
    {"eps", SHOALI_KEY_FLOAT, offsetof(shoali_layernorm_params, eps), 0, 1, NULL, "1e-5",
     "added to the variance"},
};
const shoali_layer_row shoali_layer_layernorm = {
    .name = "layernorm",
    .help = "each frame's values normalised, scaled and shifted",
    .traits = SHOALI_LAYER_FRAMES,
    .schema = {layernorm_keys, 2, sizeof(shoali_layernorm_params)},
    .infer = infer_layernorm,
};

static shoal_status infer_positions(shoal_model *model, shoali_layer *layer)
{
    const shoali_positions_params *p = layer->params;
    layer->out = layer->in;
    layer->forward_flops = layer->weight_flops = (double)shoali_shape_elems(layer->in);
    return shoali_layer_weights(model, layer, (double)p->rows * layer->in.channels);
}

static const shoali_key positions_keys[] = {
    SHOALI_LAYER_INT(shoali_positions_params, rows, 1, 1 << 24, "1024", "of the table"),
};
const shoali_layer_row shoali_layer_positions = {
    .name = "positions",
    .help = "a row of a table added to each token by its position (described only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {positions_keys, 1, sizeof(shoali_positions_params)},
    .infer = infer_positions,
};

static shoal_status infer_mul(shoal_model *model, shoali_layer *layer)
{
    const shoali_branch_params *p = layer->params;
    shoal_shape other;
    SHOALI_TRY(shoali_layer_back(model, layer, p->back, &other));
    if (shoali_shape_elems(other) != shoali_shape_elems(layer->in))
        return shoali_fail(SHOAL_EINVAL, "cannot multiply %u x %u x %u with %u x %u x %u",
                           layer->in.channels, layer->in.height, layer->in.width, other.channels,
                           other.height, other.width);
    layer->out = layer->in;
    layer->forward_flops = (double)shoali_shape_elems(layer->in);
    layer->input_flops = 2 * layer->forward_flops;
    return SHOAL_OK;
}

static const shoali_key mul_keys[] = {
    SHOALI_LAYER_INT(shoali_branch_params, back, 1, SHOALI_MODEL_LAYERS_MAX, "1",
                     "with whose output: so many layers before"),
};
const shoali_layer_row shoali_layer_mul = {
    .name = "mul",
    .help = "an earlier output's values times this one's, as gates do (described only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .schema = {mul_keys, 1, sizeof(shoali_branch_params)},
    .infer = infer_mul,
};

static shoal_status infer_view(shoal_model *model, shoali_layer *layer)
{
    const shoali_view_params *p = layer->params;
    (void)model;
    layer->out = (shoal_shape){(uint32_t)p->width, (uint32_t)p->length, 1};
    return SHOAL_OK;
}

static const shoali_key view_keys[] = {
    SHOALI_LAYER_INT(shoali_view_params, width, 1, 1 << 30, "1024",
                     "values of one token from here on"),
    SHOALI_LAYER_INT(shoali_view_params, length, 1, 1 << 24, "1", "tokens from here on"),
};
const shoali_layer_row shoali_layer_view = {
    .name = "view",
    .help = "a part of the output before, or all of it in another shape (described only)",
    .traits = SHOALI_LAYER_ALIAS | SHOALI_LAYER_DESCRIBED,
    .schema = {view_keys, 2, sizeof(shoali_view_params)},
    .infer = infer_view,
};

/* ---------------------------------------------------------------- activations */

/* What only planners may see stays describable: models of other tools are larger than nets here. */
static shoal_status infer_pointwise(shoali_layer *layer, double forward, double backward)
{
    layer->described = shoali_shape_elems(layer->in) > SHOALI_MODEL_ELEMS_MAX;
    layer->out = layer->in;
    layer->forward_flops = forward * (double)shoali_shape_elems(layer->in);
    layer->input_flops = backward * (double)shoali_shape_elems(layer->in);
    return SHOAL_OK;
}

static shoal_status infer_sigmoid(shoal_model *model, shoali_layer *layer)
{
    (void)model;
    return infer_pointwise(layer, 4, 3);
}

static shoal_status infer_silu(shoal_model *model, shoali_layer *layer)
{
    (void)model;
    return infer_pointwise(layer, 5, 6);
}

static shoal_status infer_gelu(shoal_model *model, shoali_layer *layer)
{
    (void)model;
    return infer_pointwise(layer, 8, 13);
}

const shoali_layer_row shoali_layer_sigmoid = {
    .name = "sigmoid",
    .help = "1 / (1 + exp(-x))",
    .traits = SHOALI_LAYER_IN_PLACE | SHOALI_LAYER_KEEPS_OUTPUT,
    .infer = infer_sigmoid,
};
const shoali_layer_row shoali_layer_silu = {
    .name = "silu",
    .help = "x times its sigmoid",
    .infer = infer_silu,
};
static const shoali_key gelu_keys[] = {
    SHOALI_LAYER_FLAG(shoali_gelu_params, tanh, "off",
                      "the approximation by tanh, which GPT-2 was trained with"),
};
const shoali_layer_row shoali_layer_gelu = {
    .name = "gelu",
    .help = "x times the normal distribution's share below it",
    .schema = {gelu_keys, 1, sizeof(shoali_gelu_params)},
    .infer = infer_gelu,
};
/* What a graph has on its way to gelu: alone it is no function that nets are trained with. */
const shoali_layer_row shoali_layer_erf = {
    .name = "erf",
    .help = "the error function (described only)",
    .traits = SHOALI_LAYER_DESCRIBED,
    .infer = infer_gelu,
};
