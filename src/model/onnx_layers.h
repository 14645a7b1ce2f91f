/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the ONNX exporter: what each kind of layer becomes. */
#ifndef SHOALI_MODEL_ONNX_LAYERS_H
#define SHOALI_MODEL_ONNX_LAYERS_H

#include "model/model.h"
#include "model/onnx_graph.h"

/** A value of the graph. rank: 4 of images [batch, channels, height, width], 3 of frames [batch,
 * frames, values], 2 of vectors and of token ids. */
typedef struct shoali_onnx_place {
    const char *name;
    uint32_t rank;
} shoali_onnx_place;

typedef struct shoali_onnx_writer {
    shoali_onnx_graph *graph;
    const shoal_model *model;
    const float *params, *state;
    shoali_onnx_place inputs[SHOALI_LAYER_INPUTS_MAX]; /* of the layer at work; the last is the one
                                                          before it */
    uint32_t input_count;
} shoali_onnx_writer;

/** Its own name for a value inside a layer: "LAYER.what". */
const char *shoali_onnx_inner(shoali_onnx_writer *w, const shoali_layer *layer, const char *what);
/** The tensor of that role as an initializer "LAYER.role" of these sizes, block-circulant ones
 * written out. NULL: the layer has none. */
const char *shoali_onnx_weight(shoali_onnx_writer *w, const shoali_layer *layer, const char *role,
                               size_t dims, const int64_t *sizes);
/** So a vector, or a matrix [rows][cols]. */
const char *shoali_onnx_vector(shoali_onnx_writer *w, const shoali_layer *layer, const char *role,
                               uint64_t count);
const char *shoali_onnx_matrix(shoali_onnx_writer *w, const shoali_layer *layer, const char *role,
                               uint64_t rows, uint64_t cols);
/** y = x W^T + b of [out][in], bias NULL: none; the names of W and what W^T is to be called. */
void shoali_onnx_product(shoali_onnx_writer *w, const char *x, const char *weight,
                         const char *turned, const char *bias, const char *y);

/** A kind of layer: appends nodes whose last output is `y`, and says its rank. */
typedef struct shoali_onnx_kind {
    const char *name;
    uint32_t (*append)(shoali_onnx_writer *w, const shoali_layer *layer, const char *x,
                       const char *y);
} shoali_onnx_kind;

/* Of sequences (onnx_sequences.c), NULL name at the end. */
extern const shoali_onnx_kind shoali_onnx_sequences[];

#endif
