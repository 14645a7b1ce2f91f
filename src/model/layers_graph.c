/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds that make a graph of the chain: branch takes an earlier output up again, add and
 * concat join one with the output of the layer before.
 *
 *     conv            a block of a residual network:
 *     relu      <-+   back=3 of add names this relu
 *     conv        |
 *     batchnorm   |
 *     add:back=3 -+
 *     relu */
#include "base/error.h"
#include "model/model.h"

enum { JOINED_MAX = SHOALI_LAYER_INPUTS_MAX - 1 };

shoal_status shoali_layer_back(const shoal_model *model, const shoali_layer *layer, int64_t back,
                               shoal_shape *shape_out)
{
    int64_t index = layer - model->layers, at = index - (back > 0 ? back : 1);
    if (at < -1)
        return shoali_fail(SHOAL_EINVAL, "back=%lld reaches beyond the model's input",
                           (long long)back);
    *shape_out = at < 0 ? model->input : model->layers[at].out;
    return SHOAL_OK;
}

static bool same_shape(shoal_shape a, shoal_shape b)
{
    return a.channels == b.channels && a.height == b.height && a.width == b.width;
}

/* What only planners may see stays describable: blocks of language models meet in joints, too. */
static void describe_huge(shoali_layer *layer)
{
    layer->described = shoali_shape_elems(layer->out) > SHOALI_MODEL_ELEMS_MAX;
}

static shoal_status infer_branch(shoal_model *model, shoali_layer *layer)
{
    const shoali_branch_params *p = layer->params;
    SHOALI_TRY(shoali_layer_back(model, layer, p->back, &layer->in));
    layer->out = layer->in;
    describe_huge(layer);
    return SHOAL_OK;
}

static const shoali_key branch_keys[] = {
    {"back", SHOALI_KEY_INT, offsetof(shoali_branch_params, back), 1, SHOALI_MODEL_LAYERS_MAX, NULL,
     "1", "whose output: so many layers before; one further than the first is the input"},
};
const shoali_layer_row shoali_layer_branch = {
    .name = "branch",
    .help = "go on from an earlier output",
    .traits = SHOALI_LAYER_ALIAS,
    .schema = {branch_keys, 1, sizeof(shoali_branch_params)},
    .infer = infer_branch,
};

static shoal_status infer_add(shoal_model *model, shoali_layer *layer)
{
    const shoali_branch_params *p = layer->params;
    shoal_shape other;
    SHOALI_TRY(shoali_layer_back(model, layer, p->back, &other));
    if (!same_shape(other, layer->in))
        return shoali_fail(SHOAL_EINVAL, "cannot add %u x %u x %u to %u x %u x %u", other.channels,
                           other.height, other.width, layer->in.channels, layer->in.height,
                           layer->in.width);
    layer->out = layer->in;
    layer->forward_flops = layer->input_flops = (double)shoali_shape_elems(layer->in);
    describe_huge(layer);
    return SHOAL_OK;
}

const shoali_layer_row shoali_layer_add = {
    .name = "add",
    .help = "sum with an earlier output",
    .traits = SHOALI_LAYER_IN_PLACE,
    .schema = {branch_keys, 1, sizeof(shoali_branch_params)},
    .infer = infer_add,
};

static shoal_status read_backs(const char *text, int64_t backs_out[JOINED_MAX], size_t *count_out)
{
    size_t count = 0;
    int64_t value = 0;
    for (const char *at = text;; at++) {
        if (*at >= '0' && *at <= '9' && value <= SHOALI_MODEL_LAYERS_MAX) {
            value = 10 * value + (*at - '0');
            continue;
        }
        bool ends = *at == '/' || *at == '\0';
        if (!ends || value < 1 || value > SHOALI_MODEL_LAYERS_MAX || count == JOINED_MAX)
            return shoali_fail(SHOAL_EINVAL,
                               "back=%s must be 1 .. %d numbers of layers, as in back=3/7", text,
                               JOINED_MAX);
        backs_out[count++] = value;
        value = 0;
        if (*at == '\0')
            break;
    }
    *count_out = count;
    return SHOAL_OK;
}

static shoal_status infer_concat(shoal_model *model, shoali_layer *layer)
{
    const shoali_concat_params *p = layer->params;
    int64_t backs[JOINED_MAX];
    size_t count = 0;
    uint64_t channels = layer->in.channels;
    SHOALI_TRY(read_backs(p->back, backs, &count));
    for (size_t i = 0; i < count; i++) {
        shoal_shape other;
        SHOALI_TRY(shoali_layer_back(model, layer, backs[i], &other));
        if (other.height != layer->in.height || other.width != layer->in.width)
            return shoali_fail(SHOAL_EINVAL,
                               "cannot put channels of %u x %u beside those of %u x %u",
                               other.height, other.width, layer->in.height, layer->in.width);
        channels += other.channels;
    }
    if (channels > SHOALI_MODEL_ELEMS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%llu channels are too many",
                           (unsigned long long)channels);
    layer->out = (shoal_shape){(uint32_t)channels, layer->in.height, layer->in.width};
    describe_huge(layer);
    return SHOAL_OK;
}

static const shoali_key concat_keys[] = {
    {"back", SHOALI_KEY_TEXT, offsetof(shoali_concat_params, back), 0, 0, NULL, "1",
     "whose outputs: numbers of layers before, as in 3/7"},
};
const shoali_layer_row shoali_layer_concat = {
    .name = "concat",
    .help = "channels of earlier outputs, then those of the layer before",
    .schema = {concat_keys, 1, sizeof(shoali_concat_params)},
    .infer = infer_concat,
};

/* ---------------------------------------------------------------- who reads whom */

uint32_t shoali_layer_value(const shoal_model *model, uint32_t value)
{
    while (value > 0 && (model->layers[value - 1].row->traits & SHOALI_LAYER_ALIAS) != 0) {
        const shoali_layer *view = &model->layers[value - 1];
        const shoali_branch_params *p = view->params;
        value -= view->row == &shoali_layer_branch ? (uint32_t)p->back : 1;
    }
    return value;
}

uint32_t shoali_layer_inputs(const shoal_model *model, uint32_t index,
                             uint32_t inputs_out[SHOALI_LAYER_INPUTS_MAX])
{
    const shoali_layer *layer = &model->layers[index];
    int64_t backs[JOINED_MAX];
    size_t count = 0;
    if (layer->row == &shoali_layer_branch || layer->row == &shoali_layer_add) {
        const shoali_branch_params *p = layer->params;
        backs[count++] = p->back;
    } else if (layer->row == &shoali_layer_concat) {
        const shoali_concat_params *p = layer->params;
        if (read_backs(p->back, backs, &count) != SHOAL_OK)
            count = 0; /* not in a model that was built */
    }
    for (size_t i = 0; i < count; i++)
        inputs_out[i] = shoali_layer_value(model, index + 1 - (uint32_t)backs[i]);
    if (layer->row != &shoali_layer_branch)
        inputs_out[count++] = shoali_layer_value(model, index);
    return (uint32_t)count;
}
