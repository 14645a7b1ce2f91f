/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds that treat every frame of a sequence alike. A sample is {1, frames, values}, frame by
 * frame in memory; frames is the longest sequence there may be, and what lies behind the end of a
 * shorter one is 0 (docs/sequence-models.md). */
#include "base/error.h"
#include "model/layer_keys.h"
#include "model/model.h"

static shoal_status need_frames(const shoali_layer *layer)
{
    return layer->in.channels == 1
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL,
                             "%u x %u x %u is no sequence of frames "
                             "(1 x frames x values)",
                             layer->in.channels, layer->in.height, layer->in.width);
}

/* ---------------------------------------------------------------- onehot */

static shoal_status infer_onehot(shoal_model *model, shoali_layer *layer)
{
    const shoali_onehot_params *p = layer->params;
    (void)model;
    SHOALI_TRY(need_frames(layer));
    if (layer->in.width != 1)
        return shoali_fail(SHOAL_EINVAL, "a frame of %u values is no token", layer->in.width);
    layer->out = (shoal_shape){1, layer->in.height, (uint32_t)p->classes};
    layer->forward_flops = (double)layer->in.height;
    return SHOAL_OK;
}

static const shoali_key onehot_keys[] = {
    {"classes", SHOALI_KEY_INT, offsetof(shoali_onehot_params, classes), 1, 65536, NULL, "64",
     "tokens there are"},
};
const shoali_layer_row shoali_layer_onehot = {
    .name = "onehot",
    .help = "a token per frame as 1 in its place and 0 elsewhere",
    .traits = SHOALI_LAYER_FRAMES,
    .schema = {onehot_keys, 1, sizeof(shoali_onehot_params)},
    .infer = infer_onehot,
};

/* ---------------------------------------------------------------- framewise */

extern const shoali_layer_row shoali_layer_lookup;

/* The first layer's table is the matrix: a value per token, as it is a row per token there. */
static shoal_status borrow(shoal_model *model, shoali_layer *layer)
{
    const shoali_framewise_params *p = layer->params;
    shoali_layer *first = &model->layers[0];
    const shoali_lookup_params *table = first->params;
    if (p->bias || p->k > 1)
        return shoali_fail(SHOAL_EINVAL, "what is tied has neither a bias nor blocks: bias=off");
    if (layer == first || first->row != &shoali_layer_lookup || !table->frames)
        return shoali_fail(SHOAL_EINVAL, "tied: the model does not begin with a lookup of frames");
    if (table->vocab != p->out || table->width != layer->in.width)
        return shoali_fail(
            SHOAL_EINVAL, "tied: a table of %lld rows of %lld values is no matrix of %lld x %u",
            (long long)table->vocab, (long long)table->width, (long long)p->out, layer->in.width);
    first->lends = true;
    layer->param_offset = first->param_offset;
    return SHOAL_OK;
}

static shoal_status infer_framewise(shoal_model *model, shoali_layer *layer)
{
    const shoali_framewise_params *p = layer->params;
    uint32_t in = layer->in.width, out = (uint32_t)p->out, k = (uint32_t)p->k;
    const shoali_param weight = {
        .role = "weight", .fill = SHOALI_FILL_WEIGHT, .fan_in = in, .fan_out = out, .block = k};
    const shoali_param bias = {.role = "bias", .fill = SHOALI_FILL_ZERO};
    SHOALI_TRY(need_frames(layer));
    if (k > 1 && p->precision == SHOALI_BF16)
        return shoali_fail(SHOAL_EINVAL, "circulant blocks (k=%u) are float32's: no precision=bf16",
                           k);
    layer->out = (shoal_shape){1, layer->in.height, out};
    layer->forward_flops = 2.0 * layer->in.height * in * out;
    layer->weight_flops = layer->input_flops = layer->forward_flops;
    if (p->tied)
        return borrow(model, layer);
    SHOALI_TRY(shoali_layer_matrix(model, layer, &weight, out, in));
    return p->bias ? shoali_layer_tensor(model, layer, &bias, out, 0, SHOAL_TENSOR_BIAS) : SHOAL_OK;
}

static const shoali_key framewise_keys[] = {
    {"out", SHOALI_KEY_INT, offsetof(shoali_framewise_params, out), 1, 65536, NULL, "40",
     "outputs of a frame"},
    {"k", SHOALI_KEY_INT, offsetof(shoali_framewise_params, k), 1, 4096, NULL, "1",
     "side of the circulant blocks; 1: dense"},
    {"bias", SHOALI_KEY_FLAG, offsetof(shoali_framewise_params, bias), 0, 0, NULL, "on",
     "add a learned bias"},
    {"tied", SHOALI_KEY_FLAG, offsetof(shoali_framewise_params, tied), 0, 0, NULL, "off",
     "by the table of the lookup at the model's start: it has no values of its own"},
    SHOALI_LAYER_PRECISION(shoali_framewise_params),
};
const shoali_layer_row shoali_layer_framewise = {
    .name = "framewise",
    .help = "dense within each frame, the same weights for all",
    .traits = SHOALI_LAYER_FRAMES,
    .schema = {framewise_keys, 5, sizeof(shoali_framewise_params)},
    .infer = infer_framewise,
};

/* ---------------------------------------------------------------- ctc */

static shoal_status infer_ctc(shoal_model *model, shoali_layer *layer)
{
    (void)model;
    SHOALI_TRY(need_frames(layer));
    layer->out = layer->in;
    return SHOAL_OK;
}

const shoali_layer_row shoali_layer_ctc = {
    .name = "ctc",
    .help = "train by connectionist temporal classification; class 0 is the blank",
    .traits = SHOALI_LAYER_ALIAS | SHOALI_LAYER_FRAMES | SHOALI_LAYER_CTC,
    .infer = infer_ctc,
};
