/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model on float32: forward, loss, backward. Parameters are one contiguous arena, gradients
 * another; layers are views of them. All memory is taken at creation: training allocates nothing.
 *
 * Every result depends only on (model, parameters, batch, seed), never on time or threads: one net
 * computes on the thread that calls it. Different nets may run on different threads. */
#ifndef SHOALI_NN_NN_H
#define SHOALI_NN_NN_H

#include "shoal/model.h"

typedef struct shoali_net shoali_net;

/**
 * Make a net with first weights drawn from (seed, tensor key): the same on every rank.
 * @param model     borrowed until shoali_net_destroy; must end in a vector (its elements are the
 * classes).
 * @param batch_max largest number of samples per call; memory grows with it.
 * @return SHOAL_OK | EINVAL (model has no parameters, does not end in a vector) | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_net_create(const shoal_model *model, uint32_t batch_max,
                                              uint64_t seed, shoali_net **net_out);
void shoali_net_destroy(shoali_net *net);

/** What it takes, without what oneDNN keeps. */
size_t shoali_net_bytes(const shoali_net *net);

/** Whether a net can be made of a model. @return SHOAL_OK | ENOTSUP: the layer that nothing runs */
SHOAL_MUST_USE shoal_status shoali_net_runs(const shoal_model *model);

/** Samples that the net of a training with this batch is made for: the test takes as many at once
 * as are quick, in at most 16 MiB of outputs, but never fewer than the batch. */
uint32_t shoali_net_samples(const shoal_model *model, uint32_t batch);

/** Whether this CPU multiplies no bfloat16, which products of the model ask for: they are made in
 * float32 of rounded operands, and take longer. */
bool shoali_net_rounds_slowly(const shoal_model *model);

/** Labels in training: so much of each goes to all classes alike [0].
 * @return SHOAL_OK | EINVAL: the model's loss has no labels to smooth (CTC, hinge) */
SHOAL_MUST_USE shoal_status shoali_net_smooth(shoali_net *net, double smoothing);

/** float32[shoali_net_count]: weights, and their gradients, in the order of shoal_model_tensors. */
float *shoali_net_params(shoali_net *net);
float *shoali_net_grads(shoali_net *net);
/** Index of the first gradient that is no number, shoali_net_count if all are. */
size_t shoali_net_first_nonfinite(const shoali_net *net);
size_t shoali_net_count(const shoali_net *net);
/** Running statistics of batch norm: belongs into a checkpoint, is no gradient. NULL, 0 if the
 * model has none. */
float *shoali_net_state(shoali_net *net, size_t *count_out);

/** Samples for one call; borrowed during it. */
typedef struct shoali_batch {
    const float *x;         /* float32[count][input elements] */
    const uint32_t *labels; /* uint32[count], each below classes; of sequences [count][frames] */
    uint32_t count;         /* <= batch_max; 0 is a batch: its gradients are zero */
    uint64_t
        first_serial; /* number of sample 0 in the whole run, all workers counted; keys dropout */
    float weight;     /* N n_i / B (DESIGN 4a): 1 when all workers' batches are equal */
    const uint32_t *lengths; /* uint32[count]: frames that a sequence has, 1 .. the model's; NULL:
                                all. x is 0 behind them */
} shoali_batch;

typedef struct shoali_loss {
    double sum;       /* of the samples' losses, in nats, not weighted: cross-entropy, its mean over
                         a sequence's frames, or CTC's divided by the frames */
    uint32_t correct; /* labels whose score is the largest (the first one, if equal) */
    uint32_t count;   /* samples */
    uint32_t labels;  /* samples, or frames of all sequences */
    uint32_t
        symbols;    /* of sequences: runs of equal labels other than 0, and how far from them are */
    uint32_t edits; /* the runs of the largest scores: insertions, deletions, substitutions */
} shoali_loss;

/** Gradient range [offset, offset + count) is final: whole tensors, back to front. Another status
 * ends the call. */
typedef shoal_status (*shoali_grads_ready)(void *ctx, size_t offset, size_t count);

/**
 * One training pass: gradients of weight * mean loss overwrite the gradient arena. Parameters do
 * not change. Scores and losses that are not finite are no error here: the exchange finds them in
 * the gradients and names them.
 * @param ready NULL or called once per layer with parameters, as soon as its backward is done, in
 * the backward order.
 */
SHOAL_MUST_USE shoal_status shoali_net_train(shoali_net *net, const shoali_batch *batch,
                                             shoali_grads_ready ready, void *ctx,
                                             shoali_loss *loss_out);

/** Called in each training pass that has samples, once its forward pass and the loss are done. */
typedef void (*shoali_net_turn)(void *ctx);
void shoali_net_at_turn(shoali_net *net, shoali_net_turn turn, void *ctx);

/** Rows of the gradient at this offset (a layer's with one tensor) that the last training pass may
 * have made other than zero, ascending, valid until the next; NULL: any. */
const uint32_t *shoali_net_rows(const shoali_net *net, size_t offset, size_t *count_out);

/** Forward only: no dropout, batch norm by its running statistics. weight and first_serial are not
 * read. */
SHOAL_MUST_USE shoal_status shoali_net_evaluate(shoali_net *net, const shoali_batch *batch,
                                                shoali_loss *loss_out);

/** Scores of one sequence that grows, without a loss. What layers keep of its frames (keys and
 * values) is used again where all of them can: then only the new frames are computed.
 * @param x      float32[input elements]: its frames; what lies behind `count` is not read
 * @param from   frames that are what they were in the last such call
 * @param count  frames, 1 .. the model's; shoali_net_scores has those from `from` on, at least */
void shoali_net_continue(shoali_net *net, const float *x, uint32_t from, uint32_t count);

/** Largest magnitudes of a forward pass without training: float32[layers + 1], of the input and of
 * each layer's output; what is there already stays if it is larger. A layer whose output the next
 * one overwrites (max(y, 0) in place) has what is left of it. */
SHOAL_MUST_USE shoal_status shoali_net_magnitudes(shoali_net *net, const shoali_batch *batch,
                                                  float *most);

/** Loss and errors of scores that were computed elsewhere: float32[count][classes], of sequences
 * [count][frames][classes]. */
SHOAL_MUST_USE shoal_status shoali_net_judge(shoali_net *net, const shoali_batch *batch,
                                             const float *scores, shoali_loss *loss_out);

/* ---------------------------------------------------------------- parts of a model
 *
 * Where layers are divided among workers, activations leave the net between them: each worker has
 * a net per stage, and worker/hybrid.c moves what goes from one to the next. Only kinds that act on
 * samples and channels one by one may be in a part: no dropout, no batch norm. */

/** A net of layers that need not end in scores.
 * @param params, grads float32[model->param_count], of the caller, who fills them; they outlive the
 * net. */
SHOAL_MUST_USE shoal_status shoali_net_create_part(const shoal_model *model, uint32_t batch_max,
                                                   float *params, float *grads,
                                                   shoali_net **net_out);
/** Output float32[count][output elements] for count <= batch_max samples: x itself if no layer
 * computes, else valid until the next call. */
const float *shoali_net_forward(shoali_net *net, const float *x, uint32_t count);
/** Where the gradient of that output is to be put: float32[batch_max][output elements]. */
float *shoali_net_slope(shoali_net *net);
/** Gradients of the parameters, from the slope; x as given to forward.
 * @return the gradient of x, valid until the next call; NULL unless need_dx. */
float *shoali_net_backward(shoali_net *net, const float *x, uint32_t count, bool need_dx);

/** Class scores of the last call: float32[its count][classes], valid until the next. */
const float *shoali_net_scores(const shoali_net *net);

#endif
