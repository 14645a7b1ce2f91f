/* SPDX-License-Identifier: Apache-2.0 */
/* Optimisers and learning-rate schedules, by spec string. State is one arena of `slots` arrays as
 * long as the parameters; a step works on any range, so the owner of a shard can update it alone.
 */
#ifndef SHOALI_NN_OPTIM_H
#define SHOALI_NN_OPTIM_H

#include "base/spec.h"
#include "shoal/model.h"

typedef struct shoali_optim shoali_optim;

/** What an optimiser asks of the job around it. */
enum {
    SHOALI_OPTIM_WHOLE = 1u << 0,    /* steps on whole matrices: no range may cut a tensor */
    SHOALI_OPTIM_AVERAGES = 1u << 1, /* keeps an average of the weights (key ema) */
    SHOALI_OPTIM_REMEMBERS = 1u << 2 /* a step depends on earlier gradients: momentum, squares */
};
/** @return SHOAL_OK | EINVAL: spec is none */
SHOAL_MUST_USE shoal_status shoali_optim_ask(const char *spec, uint32_t *traits_out);

/** What it takes, in bytes. @return SHOAL_OK | EINVAL: spec is none */
SHOAL_MUST_USE shoal_status shoali_optim_bytes(const char *spec, const shoal_tensor *tensors,
                                               uint32_t tensor_count, uint64_t *bytes_out);

/**
 * @param spec    "sgd:momentum=0.9,decay=5e-4,nesterov", "adamw:decay=0.1,...": see
 * shoali_optim_listed.
 * @param tensors of the whole parameter arena (copied): biases and norms are not decayed unless
 * decay_all is set, lr_scale is obeyed.
 */
SHOAL_MUST_USE shoal_status shoali_optim_create(const char *spec, const shoal_tensor *tensors,
                                                uint32_t tensor_count, shoali_optim **optim_out);
void shoali_optim_destroy(shoali_optim *optim);

/** Canonical spec, for checkpoints and logs. */
const char *shoali_optim_spec(const shoali_optim *optim);
/** float32[slots][parameters]: all that a checkpoint has to keep. NULL if slots is 0. slot_name:
 * "momentum", "mean", "square", "average". */
float *shoali_optim_state(shoali_optim *optim, uint32_t *slots_out);
const char *shoali_optim_slot_name(const shoali_optim *optim, uint32_t slot);
#define SHOALI_OPTIM_AVERAGE "average"
/** First weights: the average begins with them. Nothing to do where it has none. */
void shoali_optim_begin(shoali_optim *optim, const float *params);
/** float32[parameters]; NULL: it keeps none. */
float *shoali_optim_average(const shoali_optim *optim);

/** One update of elements [offset, offset + count) of the arena. */
typedef struct shoali_step {
    size_t offset, count;
    const float *params; /* at offset */
    const float *grads;  /* at offset */
    float *params_out;   /* at offset; may be params or grads itself */
    float lr;            /* of this iteration (shoali_lr_at) */
    float grad_scale;   /* gradients are multiplied by this first: 1/N after a sum over N workers */
    uint64_t iteration; /* 0 for the first step (Adam's bias correction) */
} shoali_step;
void shoali_optim_step(shoali_optim *optim, const shoali_step *step);

/** grad_scale, or so much less of it that the norm of all gradients times it is `most` (Pascanu et
 * al., ICML 2013; PyTorch's clip_grad_norm_, its 1e-6 included). */
float shoali_clip_scale(const float *grads, size_t count, float grad_scale, double most);

/** A learning-rate schedule: factor of the base rate over a run. */
typedef struct shoali_lr shoali_lr;
/** @param spec "constant", "cosine:warmup=100", "poly:power=2", "step:at=0.5/0.75,factor=0.1". */
SHOAL_MUST_USE shoal_status shoali_lr_create(const char *spec, shoali_lr **lr_out);
void shoali_lr_destroy(shoali_lr *lr);
/** Rate of an iteration (from 0) in a run of total iterations: base * warm-up * shape. */
double shoali_lr_at(const shoali_lr *lr, double base, uint64_t iteration, uint64_t total);

/** Row i of either table, for listings. @return false beyond the last. */
bool shoali_optim_listed(size_t i, shoali_listed *out);
bool shoali_lr_listed(size_t i, shoali_listed *out);

#endif
