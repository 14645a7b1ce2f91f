/* SPDX-License-Identifier: Apache-2.0 */
/* An ONNX graph under construction: nodes in the order in which they run, tensors, and texts, all
 * in an arena. The first failure sticks and is what shoali_onnx_write returns. */
#ifndef SHOALI_MODEL_ONNX_GRAPH_H
#define SHOALI_MODEL_ONNX_GRAPH_H

#include <stdarg.h>

#include "base/arena.h"
#include "onnx_min.pb-c.h"
#include "shoal/shoal.h"

typedef struct shoali_onnx_graph {
    shoal_arena *arena;
    Shoal__Onnx__Graph pb;
    size_t nodes_room, tensors_room;
    uint64_t bytes; /* of tensors */
    bool failed;    /* no memory */
} shoali_onnx_graph;

/** A text in the arena; "" once memory ran out. */
const char *shoali_onnx_text(shoali_onnx_graph *g, const char *format, ...) SHOAL_PRINTF(2, 3);
/** Append a node with one output, which is also its name. inputs: NULL ends them.
 * @return for attributes; never NULL. */
Shoal__Onnx__Node *shoali_onnx_node(shoali_onnx_graph *g, const char *op, const char *output,
                                    const char *const inputs[]);
#define SHOALI_ONNX_INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/** Another output. */
void shoali_onnx_second(shoali_onnx_graph *g, Shoal__Onnx__Node *node, const char *output);
void shoali_onnx_int(shoali_onnx_graph *g, Shoal__Onnx__Node *node, const char *name,
                     int64_t value);
void shoali_onnx_float(shoali_onnx_graph *g, Shoal__Onnx__Node *node, const char *name,
                       float value);
void shoali_onnx_ints(shoali_onnx_graph *g, Shoal__Onnx__Node *node, const char *name,
                      const int64_t *values, size_t count);
/** Append a tensor. data: borrowed until the graph is written. @return its name */
const char *shoali_onnx_floats(shoali_onnx_graph *g, const char *name, const float *data,
                               size_t dims, const int64_t *sizes);
const char *shoali_onnx_scalar(shoali_onnx_graph *g, const char *name, float value);
/** A vector of whole numbers, copied. */
const char *shoali_onnx_list(shoali_onnx_graph *g, const char *name, const int64_t *values,
                             size_t count);
/** What goes in (or comes out): the batch, which is left open, and sizes. ints: whole numbers. */
Shoal__Onnx__ValueInfo *shoali_onnx_value(shoali_onnx_graph *g, const char *name, bool ints,
                                          size_t dims, const int64_t *sizes);

#endif
