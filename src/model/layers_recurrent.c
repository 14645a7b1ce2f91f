/* SPDX-License-Identifier: Apache-2.0 */
/* Layer kinds with memory: lstm and gru, over sequences {1, frames, values}. Tensors of one
 * direction, in this order, those of the second (`back_...`) behind those of the first:
 *
 *     lstm   input [4H][F]  recurrent [4H][R]  bias [4H]  peephole [3][H]  project [P][H]
 *     gru    input [3H][F]  recurrent [2H][H]  candidate [H][H]  bias [3H]
 *
 * H cells, F values of a frame, R = P with a projection, else H. Gates of an lstm lie in the order
 * input, forget, cell, output; of a gru update, reset, candidate. Any matrix may be block-circulant
 * (shoali_matrix_count). FLOPs are those of dense matrices: what a kernel saves is
 * its own. */
#include "base/error.h"
#include "model/model.h"

enum { CELLS_MAX = 16384 };

shoal_status shoali_layer_matrix(shoal_model *model, shoali_layer *layer, const shoali_param *param,
                                 uint64_t rows, uint64_t cols)
{
    uint64_t k = param->block;
    if (k <= 1)
        return shoali_layer_tensor(model, layer, param, rows, cols, 0);
    return shoali_layer_tensor(model, layer, param, shoali_matrix_count(rows, cols, k) / k, k, 0);
}

/* Names of the tensors of both directions. */
typedef struct names {
    const char *input, *recurrent, *candidate, *bias, *peephole, *project;
} names;
static const names names_of[2] = {
    {"input", "recurrent", "candidate", "bias", "peephole", "project"},
    {"back_input", "back_recurrent", "back_candidate", "back_bias", "back_peephole",
     "back_project"}};

static shoal_status matrix(shoal_model *model, shoali_layer *layer, const char *role, uint32_t k,
                           uint32_t rows, uint32_t cols, uint32_t fan_out)
{
    const shoali_param param = {
        .role = role, .fill = SHOALI_FILL_WEIGHT, .fan_in = cols, .fan_out = fan_out, .block = k};
    layer->forward_flops += 2.0 * layer->in.height * rows * cols;
    return shoali_layer_matrix(model, layer, &param, rows, cols);
}

static shoal_status lstm_tensors(shoal_model *model, shoali_layer *layer, const names *n)
{
    const shoali_recurrent_params *p = layer->params;
    uint32_t cells = (uint32_t)p->out, back = (uint32_t)(p->proj > 0 ? p->proj : p->out);
    const shoali_param bias = {
        .role = n->bias, .fill = SHOALI_FILL_SPAN, .fan_in = cells, .fan_out = 2 * cells};
    const shoali_param peephole = {.role = n->peephole, .fill = SHOALI_FILL_ZERO};
    SHOALI_TRY(matrix(model, layer, n->input, shoali_block_of(p->kx, p->k), 4 * cells,
                      layer->in.width, cells));
    SHOALI_TRY(
        matrix(model, layer, n->recurrent, shoali_block_of(p->kr, p->k), 4 * cells, back, cells));
    SHOALI_TRY(shoali_layer_tensor(model, layer, &bias, 4 * cells, 0, SHOAL_TENSOR_BIAS));
    if (p->peephole)
        SHOALI_TRY(shoali_layer_tensor(model, layer, &peephole, 3 * cells, 0, SHOAL_TENSOR_BIAS));
    return p->proj > 0
               ? matrix(model, layer, n->project, shoali_block_of(p->ky, p->k), back, cells, back)
               : SHOAL_OK;
}

static shoal_status gru_tensors(shoal_model *model, shoali_layer *layer, const names *n)
{
    const shoali_recurrent_params *p = layer->params;
    uint32_t cells = (uint32_t)p->out, k = shoali_block_of(p->kr, p->k);
    const shoali_param bias = {.role = n->bias, .fill = SHOALI_FILL_ZERO};
    SHOALI_TRY(matrix(model, layer, n->input, shoali_block_of(p->kx, p->k), 3 * cells,
                      layer->in.width, cells));
    SHOALI_TRY(matrix(model, layer, n->recurrent, k, 2 * cells, cells, cells));
    SHOALI_TRY(matrix(model, layer, n->candidate, k, cells, cells, cells));
    return shoali_layer_tensor(model, layer, &bias, 3 * cells, 0, SHOAL_TENSOR_BIAS);
}

static shoal_status infer_recurrent(shoal_model *model, shoali_layer *layer,
                                    shoal_status (*tensors)(shoal_model *model, shoali_layer *layer,
                                                            const names *n))
{
    const shoali_recurrent_params *p = layer->params;
    uint32_t own = (uint32_t)(p->proj > 0 ? p->proj : p->out);
    uint32_t both = p->direction == SHOALI_BOTH && p->merge == SHOALI_MERGE_CONCAT ? 2 : 1;
    if (layer->in.channels != 1)
        return shoali_fail(SHOAL_EINVAL,
                           "%u x %u x %u is no sequence of frames (1 x frames x values)",
                           layer->in.channels, layer->in.height, layer->in.width);
    layer->out = (shoal_shape){1, layer->in.height, both * own};
    SHOALI_TRY(tensors(model, layer, &names_of[0]));
    if (p->direction == SHOALI_BOTH)
        SHOALI_TRY(tensors(model, layer, &names_of[1]));
    layer->weight_flops = layer->input_flops = layer->forward_flops;
    return SHOAL_OK;
}

static shoal_status infer_lstm(shoal_model *model, shoali_layer *layer)
{
    return infer_recurrent(model, layer, lstm_tensors);
}

static shoal_status infer_gru(shoal_model *model, shoali_layer *layer)
{
    return infer_recurrent(model, layer, gru_tensors);
}

#define KEY(field, low, high, usual, text)                                                        \
    {                                                                                             \
#field, SHOALI_KEY_INT, offsetof(shoali_recurrent_params, field), low, high, NULL, usual, \
            text                                                                                  \
    }
#define CHOICE(field, choices, usual, text)                                                        \
    {                                                                                              \
#field, SHOALI_KEY_CHOICE, offsetof(shoali_recurrent_params, field), 0, 0, choices, usual, \
            text                                                                                   \
    }
#define SHARED_KEYS                                                                           \
    KEY(out, 1, CELLS_MAX, "256", "cells"),                                                   \
        CHOICE(direction, "forward|backward|both", "forward",                                 \
               "which way time runs; both: two sets of cells"),                               \
        CHOICE(merge, "sum|concat", "sum", "what becomes of the outputs of both directions"), \
        KEY(k, 1, 4096, "1", "side of the circulant blocks of all matrices; 1: dense"),       \
        KEY(kx, 0, 4096, "0", "the same of the input matrix; 0: k"),                          \
        KEY(kr, 0, 4096, "0", "the same of the recurrent matrices; 0: k")

static const shoali_key lstm_keys[] = {
    SHARED_KEYS,
    KEY(ky, 0, 4096, "0", "the same of the projection; 0: k"),
    KEY(proj, 0, CELLS_MAX, "0", "cells' outputs are projected to so many values; 0: not"),
    {"peephole", SHOALI_KEY_FLAG, offsetof(shoali_recurrent_params, peephole), 0, 0, NULL, "off",
     "gates see their cell"},
    CHOICE(gate, "tanh|sigmoid", "tanh", "function of what enters the cell"),
};
const shoali_layer_row shoali_layer_lstm = {
    .name = "lstm",
    .probe = "lstm:out=5",
    .help = "long short-term memory over the frames",
    .traits = SHOALI_LAYER_FRAMES,
    .schema = {lstm_keys, sizeof lstm_keys / sizeof lstm_keys[0], sizeof(shoali_recurrent_params)},
    .infer = infer_lstm,
};

static const shoali_key gru_keys[] = {SHARED_KEYS};
const shoali_layer_row shoali_layer_gru = {
    .name = "gru",
    .probe = "gru:out=5",
    .help = "gated recurrent units over the frames",
    .traits = SHOALI_LAYER_FRAMES,
    .schema = {gru_keys, sizeof gru_keys / sizeof gru_keys[0], sizeof(shoali_recurrent_params)},
    .infer = infer_gru,
};
