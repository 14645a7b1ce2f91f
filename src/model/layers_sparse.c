/* SPDX-License-Identifier: Apache-2.0 */
/* Linear models of sparse features: sparse, and hinge, the loss of a support vector machine. */
#include <stddef.h>

#include "base/error.h"
#include "model/model.h"

/* Values start at 0: the loss is convex, and what no sample has stays out of the model. */
static shoal_status infer_sparse(shoal_model *model, shoali_layer *layer)
{
    const shoali_sparse_params *p = layer->params;
    if (layer->in.channels != 1 || layer->in.width != 2)
        return shoali_fail(SHOAL_EINVAL,
                           "pairs of a feature and its value are 1 x pairs x 2, not %u x %u x %u",
                           layer->in.channels, layer->in.height, layer->in.width);
    const shoali_param table = {.role = "table", .fill = SHOALI_FILL_ZERO};
    layer->out = (shoal_shape){(uint32_t)p->out, 1, 1};
    layer->forward_flops = layer->weight_flops = 2.0 * layer->in.height * (double)p->out;
    return shoali_layer_tensor(model, layer, &table, (uint64_t)p->vocab + p->bias, (uint64_t)p->out,
                               SHOAL_TENSOR_ROWS);
}

static const shoali_key sparse_keys[] = {
    {"vocab", SHOALI_KEY_INT, offsetof(shoali_sparse_params, vocab), 1, 1 << 24, NULL, "65536",
     "features there are"},
    {"out", SHOALI_KEY_INT, offsetof(shoali_sparse_params, out), 1, 65536, NULL, "2", "outputs"},
    {"bias", SHOALI_KEY_FLAG, offsetof(shoali_sparse_params, bias), 0, 0, NULL, "on",
     "one more row, which every sample has with value 1"},
};
const shoali_layer_row shoali_layer_sparse = {
    .name = "sparse",
    .probe = "sparse:vocab=9",
    .help = "rows of a table times the values of a sample's features, summed",
    .traits = SHOALI_LAYER_PAIRS,
    .schema = {sparse_keys, 3, sizeof(shoali_sparse_params)},
    .infer = infer_sparse,
};

static shoal_status infer_hinge(shoal_model *model, shoali_layer *layer)
{
    (void)model;
    if (layer->in.height != 1 || layer->in.width != 1 || layer->in.channels < 2)
        return shoali_fail(SHOAL_EINVAL,
                           "the hinge loss is of two scores or more, not of %u x %u x %u",
                           layer->in.channels, layer->in.height, layer->in.width);
    layer->out = layer->in;
    return SHOAL_OK;
}

const shoali_layer_row shoali_layer_hinge = {
    .name = "hinge",
    .help = "train by the hinge loss, as support vector machines do: max(0, 1 - margin)",
    .traits = SHOALI_LAYER_ALIAS | SHOALI_LAYER_HINGE,
    .infer = infer_hinge,
};
