/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds of language models that train. A sample is a sequence of frames, {1, frames, values},
 * as of the recurrent kinds (layers_frames.c): what lies behind a sample's end is 0.
 *
 * With T frames of w values, a heads of d, g pairs of keys and values, f = ff, per sample:
 *     weights   attention w d (2a + 2g), swiglu 3 w f
 *     forward   2 T (weights), and of attention 4 a d (pairs of frames that see each other);
 *     backward  twice as much for the weights, and 2.5 times the pairs' products, for the scores
 *               are computed anew */
#include "base/error.h"
#include "model/layer_keys.h"
#include "model/model.h"

static shoal_status need_frames(const shoali_layer *layer)
{
    return layer->in.channels == 1
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL, "%u x %u x %u is no sequence (1 x frames x values)",
                             layer->in.channels, layer->in.height, layer->in.width);
}

static shoal_status declare(shoal_model *model, shoali_layer *layer, const char *role,
                            uint64_t rows, uint64_t cols)
{
    const shoali_param param = {.role = role,
                                .fill = SHOALI_FILL_WEIGHT,
                                .fan_in = (uint32_t)cols,
                                .fan_out = (uint32_t)rows};
    const double flops = 2.0 * layer->in.height * (double)rows * (double)cols;
    layer->forward_flops += flops;
    layer->weight_flops += flops;
    layer->input_flops += flops;
    return shoali_layer_tensor(model, layer, &param, rows, cols, 0);
}

static shoal_status declare_bias(shoal_model *model, shoali_layer *layer, const char *role,
                                 uint64_t count)
{
    const shoali_param bias = {.role = role, .fill = SHOALI_FILL_ZERO};
    return shoali_layer_tensor(model, layer, &bias, count, 0, SHOAL_TENSOR_BIAS);
}

/* ---------------------------------------------------------------- rmsnorm */

static shoal_status infer_rmsnorm(shoal_model *model, shoali_layer *layer)
{
    const shoali_param scale = {.role = "scale", .fill = SHOALI_FILL_ONE};
    const double elems = (double)shoali_shape_elems(layer->in);
    SHOALI_TRY(need_frames(layer));
    layer->out = layer->in;
    layer->forward_flops = 4 * elems;
    layer->weight_flops = 3 * elems;
    layer->input_flops = 6 * elems;
    return shoali_layer_tensor(model, layer, &scale, layer->in.width, 0, SHOAL_TENSOR_BIAS);
}

static const shoali_key rmsnorm_keys[] = {
    {"eps", SHOALI_KEY_FLOAT, offsetof(shoali_rmsnorm_params, eps), 0, 1, NULL, "1e-5",
     "added to the mean of the squares"},
};
const shoali_layer_row shoali_layer_rmsnorm = {
    .name = "rmsnorm",
    .help = "each frame divided by the root of its mean square, times learned scales",
    .traits = SHOALI_LAYER_FRAMES,
    .schema = {rmsnorm_keys, 1, sizeof(shoali_rmsnorm_params)},
    .infer = infer_rmsnorm,
};

/* ---------------------------------------------------------------- attention */

shoali_attention_sizes shoali_attention_sizes_of(const shoali_layer *layer)
{
    const shoali_attention_params *p = layer->params;
    const uint32_t heads = (uint32_t)p->heads, width = layer->in.width;
    return (shoali_attention_sizes){
        .heads = heads,
        .kv = (uint32_t)(p->kv > 0 ? p->kv : p->heads),
        .dim = (uint32_t)(p->dim > 0 ? p->dim : width / heads),
        .width = width,
        .frames = layer->in.height,
    };
}

static shoal_status check_attention(const shoali_layer *layer, const shoali_attention_sizes *s)
{
    const shoali_attention_params *p = layer->params;
    SHOALI_TRY(need_frames(layer));
    if (p->dim == 0 && s->width % s->heads != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%u values of a frame do not divide into %u heads; say dim=, the values "
                           "of a head, or take other heads",
                           s->width, s->heads);
    if (s->heads % s->kv != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%u heads cannot share %u keys and values alike; kv must divide heads",
                           s->heads, s->kv);
    if (p->rope && s->dim % 2 != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "rope turns pairs of values; a head has %u, which is odd: take another "
                           "dim, or rope=off",
                           s->dim);
    if ((uint64_t)s->heads * s->dim > 1 << 24)
        return shoali_fail(SHOAL_EINVAL, "%u heads of %u values are too large", s->heads, s->dim);
    return SHOAL_OK;
}

static shoal_status infer_attention(shoal_model *model, shoali_layer *layer)
{
    const shoali_attention_params *p = layer->params;
    const shoali_attention_sizes s = shoali_attention_sizes_of(layer);
    SHOALI_TRY(check_attention(layer, &s));
    const uint64_t q = (uint64_t)s.heads * s.dim, g = (uint64_t)s.kv * s.dim;
    const double t = s.frames, pairs = p->causal ? t * (t + 1) / 2 : t * t;
    layer->out = layer->in;
    SHOALI_TRY(declare(model, layer, "query", q, s.width));
    SHOALI_TRY(declare(model, layer, "key", g, s.width));
    SHOALI_TRY(declare(model, layer, "value", g, s.width));
    SHOALI_TRY(declare(model, layer, "out", s.width, q));
    if (p->bias) {
        SHOALI_TRY(declare_bias(model, layer, "query_bias", q));
        SHOALI_TRY(declare_bias(model, layer, "key_bias", g));
        SHOALI_TRY(declare_bias(model, layer, "value_bias", g));
        SHOALI_TRY(declare_bias(model, layer, "out_bias", s.width));
    }
    layer->forward_flops += 4 * pairs * (double)q;
    layer->input_flops += 10 * pairs * (double)q;
    return SHOAL_OK;
}

static const shoali_key attention_keys[] = {
    SHOALI_LAYER_INT(shoali_attention_params, heads, 1, 4096, "4", "sets of queries"),
    SHOALI_LAYER_INT(shoali_attention_params, kv, 0, 4096, "0",
                     "sets of keys and values, which heads share (grouped queries); 0: as heads"),
    SHOALI_LAYER_INT(shoali_attention_params, dim, 0, 1 << 16, "0",
                     "values of a head; 0: width / heads"),
    SHOALI_LAYER_FLAG(shoali_attention_params, causal, "on",
                      "frames see themselves and earlier ones only"),
    SHOALI_LAYER_FLAG(shoali_attention_params, rope, "on",
                      "queries and keys are turned by their place"),
    SHOALI_LAYER_FLAG(shoali_attention_params, bias, "off", "all four products add learned values"),
    {"theta", SHOALI_KEY_FLOAT, offsetof(shoali_attention_params, theta), 1, 1e12, NULL, "10000",
     "of rope: its slowest turn's base"},
    SHOALI_LAYER_DROP(shoali_attention_params, drop, "share of weights set to zero in training"),
    SHOALI_LAYER_PRECISION(shoali_attention_params),
};
const shoali_layer_row shoali_layer_attention = {
    .name = "attention",
    .help = "frames look at frames: queries, keys, values and what comes out are products",
    .traits = SHOALI_LAYER_FRAMES,
    .schema = {attention_keys, sizeof attention_keys / sizeof *attention_keys,
               sizeof(shoali_attention_params)},
    .infer = infer_attention,
};

/* ---------------------------------------------------------------- swiglu */

static shoal_status infer_swiglu(shoal_model *model, shoali_layer *layer)
{
    const shoali_swiglu_params *p = layer->params;
    SHOALI_TRY(need_frames(layer));
    const uint64_t ff = (uint64_t)p->ff, width = layer->in.width;
    layer->out = layer->in;
    SHOALI_TRY(declare(model, layer, "gate", ff, width));
    SHOALI_TRY(declare(model, layer, "up", ff, width));
    return declare(model, layer, "down", width, ff);
}

static const shoali_key swiglu_keys[] = {
    SHOALI_LAYER_INT(shoali_swiglu_params, ff, 1, 1 << 20, "344", "values between the products"),
    SHOALI_LAYER_PRECISION(shoali_swiglu_params),
};
const shoali_layer_row shoali_layer_swiglu = {
    .name = "swiglu",
    .probe = "swiglu:ff=9",
    .help = "within each frame: down(silu(gate(x)) * up(x))",
    .traits = SHOALI_LAYER_FRAMES,
    .schema = {swiglu_keys, 2, sizeof(shoali_swiglu_params)},
    .infer = infer_swiglu,
};
