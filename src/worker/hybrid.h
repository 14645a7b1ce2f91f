/* SPDX-License-Identifier: Apache-2.0 */
/* Training by a plan (`shoal partition`): layers divided by data or by model at each cut, a net per
 * stage, borders between them. One step, on each worker:
 *
 *     shares of its rows -> stage 0 -> border -> stage 1 -> ... -> border -> loss of its own share
 *                           dW <-      border <-         <- ... <- border <-
 *
 * A stage ends with a layer that has weights and, if that is by data at every cut, what follows
 * it; sums of a layer by model must be complete first, so what follows begins the next stage. The
 * gradient of a stage is summed among the workers that have the same part of its weights, while
 * earlier stages compute. */
#ifndef SHOALI_WORKER_HYBRID_H
#define SHOALI_WORKER_HYBRID_H

#include "plan/partition.h"
#include "worker/exchange.h"
#include "worker/worker.h"

typedef struct shoali_stage {
    shoal_model *model; /* NULL: no layer, only the loss */
    shoali_net *net;
    shoali_border border; /* in front of this stage; stage 0 has none */
    float *x;             /* its input, if the border is not open */
    const float *input;   /* of this step */
    uint32_t split;       /* bits of worker numbers at which it is divided by model */
    uint32_t samples;     /* share << |split| */
    size_t offset, count; /* in the local parameters */
    size_t bias_offset, bias_count;
    float *bias;                         /* kept while a partial sum is computed without it */
    uint32_t first_tensor, tensor_count; /* local */
    uint32_t whole_tensor;               /* the first one's index in the whole model */
    shoal_op *op;                        /* its gradient, under way */
} shoali_stage;

struct shoali_hybrid {
    shoal_partition *plan;
    shoali_stage *stages;             /* one per layer with weights, then the loss */
    uint32_t stage_count, part_count; /* with the loss; without */
    shoal_tensor *tensors;            /* local parts, whole model's keys */
    uint32_t tensor_count;
    uint32_t share;                     /* samples of one worker's share: batch */
    float *image;                       /* one share of whole samples */
    uint32_t *labels, *order, *members; /* [2 share]: own ones, others'; [share]; [workers] */
    float *slope;                       /* of the loss, where its stage has no net */
    shoali_traffic traffic;
};

/** Which part of the channels a rank has where it is split: its bits there, pushed together. */
uint32_t shoali_hybrid_part(uint32_t rank, uint32_t split);
/** Sizes are checked against the plan; sets train->params and train->grads to the local parts and
 * draws the weights as one worker would. */
SHOAL_MUST_USE shoal_status shoali_hybrid_create(shoal_train *train);
void shoali_hybrid_destroy(shoal_train *train);
/** Gradients of one step, summed and averaged over all samples; loss of this worker's share. */
SHOAL_MUST_USE shoal_status shoali_hybrid_compute(shoal_train *train, uint64_t epoch, uint64_t step,
                                                  shoali_step_times *times);
/** Losses of this worker's shares of the test split: sum, correct, count. */
SHOAL_MUST_USE shoal_status shoali_hybrid_evaluate(shoal_train *train, double sums[3]);
/** All workers call it: rank 0 gets the whole model's parameters, to be freed with shoali_free;
 * the others NULL. */
SHOAL_MUST_USE shoal_status shoali_hybrid_collect(shoal_train *train, float **params_out);
/** Set this worker's part of a tensor from the whole. */
void shoali_hybrid_set(shoal_train *train, uint32_t tensor, const float *whole);
/** Elements of the largest tensor of the whole model. */
size_t shoali_hybrid_largest(const shoal_train *train);

#endif
