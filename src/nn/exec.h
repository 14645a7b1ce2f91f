/* SPDX-License-Identifier: Apache-2.0 */
/* How a layer kind runs: the other half of its row in model/layers.def. Executors are pure: they
 * read and write what they are handed, keep nothing, allocate nothing, and give the same bits for
 * the same input. */
#ifndef SHOALI_NN_EXEC_H
#define SHOALI_NN_EXEC_H

#include "model/model.h"

/** One layer of a net: views of the net's arenas. */
typedef struct shoali_node {
    const shoali_layer *layer;
    const struct shoali_exec *exec;
    float *params, *grads; /* float32[layer->param_count]: tensors one behind the other */
    float *state;          /* float32[layer->state_count] */
    void *saved;           /* saved_bytes: from a forward pass to its backward pass */
    float *y;              /* output; NULL: the input under another shape (ALIAS) */
    bool in_place;         /* y is the input's memory */
    bool rectify;          /* the next layer's max(y, 0) is done here, forward and backward */
    bool absorbed;         /* this layer's max(y, 0) is done by the one before */
} shoali_node;

/** What a pass over all layers has in common. */
typedef struct shoali_pass {
    uint32_t count; /* samples, >= 1 */
    bool training;
    uint64_t seed, first_serial;
    void *work; /* the largest work_bytes, 64-byte aligned; contents die with the call */
    const uint32_t *lengths; /* uint32[count]: frames of each sequence, >= 1; NULL: all there are */
    uint32_t longest;        /* of them; 0: all there are */
    uint32_t from; /* frames before it are as the last pass left them: forward only, and of kinds
                      that continue */
} shoali_pass;

/** What a joint (add, concat) reads: the last is the layer before. */
typedef struct shoali_inputs {
    uint32_t count;
    const float *x[SHOALI_LAYER_INPUTS_MAX];
    uint32_t channels[SHOALI_LAYER_INPUTS_MAX];
} shoali_inputs;

typedef struct shoali_exec {
    bool rectifies; /* honours node->rectify */
    bool continues; /* honours pass->from */
    /** Bytes for `batch` samples; NULL: 0. */
    size_t (*saved_bytes)(const shoali_layer *layer, uint32_t batch);
    size_t (*work_bytes)(const shoali_layer *layer, uint32_t batch);
    /** Once, when the net's nodes are complete and saved is there (zeroed): make what lies in it,
     * for passes of up to `batch` samples. NULL: nothing. */
    shoal_status (*setup)(const shoali_node *node, uint32_t batch);
    /** End what setup made outside saved, as far as it came. NULL: nothing. */
    void (*teardown)(const shoali_node *node);
    /** y = f(x), count samples each; y == x if the row is IN_PLACE and the net chose so. */
    void (*forward)(const shoali_node *node, const shoali_pass *pass, const float *x, float *y);
    /** Overwrite node->grads, and dx unless it is NULL. dx == dy if y == x. dy may be spoilt. */
    void (*backward)(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx);
    /** Of joints, in place of the two above. y == the last x if the row is IN_PLACE and the net
     * chose so. */
    void (*join_forward)(const shoali_node *node, const shoali_pass *pass, const shoali_inputs *in,
                         float *y);
    /** The gradient of one input into dx, or added to it. dx == dy if y is that input. */
    void (*join_backward)(const shoali_node *node, const shoali_pass *pass, const shoali_inputs *in,
                          uint32_t input, const float *dy, float *dx, bool add);
    /** The rows of its one tensor's gradient that the last backward may have made other than zero,
     *  ascending. NULL: any. */
    const uint32_t *(*rows)(const shoali_node *node, size_t *count_out);
} shoali_exec;

/** Of a kind that is not DESCRIBED. */
const shoali_exec *shoali_exec_of(const shoali_layer_row *row);

/** sum over samples of weight * (softmax(scores) - label) / count into dscores (NULL: loss only),
 * and the loss.
 * @param smoothing 0: labels as they are; else so much of each goes to all classes alike. */
void shoali_softmax_loss(const float *scores, const uint32_t *labels, uint32_t count,
                         uint32_t classes, double smoothing, float weight, float *dscores,
                         double *sum_out, uint32_t *correct_out);
/** The same of max(0, 1 - (score of the label - the largest other one)); smoothing is not read.
 * What is no number makes its sample's slopes none. */
void shoali_hinge_loss(const float *scores, const uint32_t *labels, uint32_t count,
                       uint32_t classes, double smoothing, float weight, float *dscores,
                       double *sum_out, uint32_t *correct_out);
typedef void shoali_class_loss(const float *, const uint32_t *, uint32_t, uint32_t, double, float,
                               float *, double *, uint32_t *);
static inline shoali_class_loss *shoali_class_loss_of(const shoal_model *model)
{
    return model->hinge ? shoali_hinge_loss : shoali_softmax_loss;
}

#endif
