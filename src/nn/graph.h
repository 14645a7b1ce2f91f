/* SPDX-License-Identifier: Apache-2.0 */
/* Who reads whose output in a model, and where gradients of outputs lie. A value is what can be
 * read: 0 the batch, i + 1 what layer i gives; views (flatten, branch) are looked through. */
#ifndef SHOALI_NN_GRAPH_H
#define SHOALI_NN_GRAPH_H

#include "model/model.h"

#define SHOALI_GRAPH_NO_SLOT UINT32_MAX

/** One input of a layer. */
typedef struct shoali_edge {
    uint32_t value;
    bool adds; /* a later layer read it, too: its gradient is there already, this one is added */
} shoali_edge;

typedef struct shoali_graph {
    shoali_edge *edges;
    uint32_t *first;   /* [layers + 1]: layer i's edges are first[i] .. first[i + 1] - 1; the
                             last of them is what the layer before gives */
    uint32_t *readers; /* [values]: layers that read it; the loss reads the output */
    bool *trained;     /* [values]: depends on parameters */
    bool *in_place;    /* [layers]: works over its last input's memory, and so does its gradient */
    uint32_t *slot;    /* [values]: buffer of its gradient */
    uint32_t *scratch; /* [layers]: buffer for a gradient that is added; or NO_SLOT */
    uint64_t *slot_elems; /* [slot_count]: size per sample */
    uint32_t slot_count;
    uint32_t output; /* value that the loss reads; its gradient is in slot 0 */
} shoali_graph;

/**
 * Read a model's edges and plan its gradients; all arrays in arena. A value's gradient is
 * accumulated from its last reader to its first, always in that order.
 * @return ENOTSUP if nobody reads what a layer gives. O(layers^2) at worst.
 */
SHOAL_MUST_USE shoal_status shoali_graph_plan(shoal_arena *arena, const shoal_model *model,
                                              shoali_graph *graph_out);

#endif
