/* SPDX-License-Identifier: Apache-2.0 */
/* What a step and what follows it are made of; users see include/shoal/train.h only. */
#ifndef SHOALI_TRAIN_TRAIN_H
#define SHOALI_TRAIN_TRAIN_H

#include "folder/written.h"

/* pace.c */
void shoali_pace_start(shoali_pace *pace);
/** Read desc.slow_random; NULL: none. */
SHOAL_MUST_USE shoal_status shoali_pace_chance(shoali_pace *pace, const char *text);
/** How slow this worker is in this step. */
void shoali_pace_step(shoali_pace *pace, uint64_t seed, uint32_t worker, uint32_t workers,
                      uint64_t step);
/** A layer's share of the step is done: sleep as long as it should still take. */
void shoali_pace_layer(shoali_pace *pace, double flops_done);

/* batch.c */
SHOAL_MUST_USE shoal_status shoali_train_fit_sequences(const shoal_train *train);
SHOAL_MUST_USE shoal_status shoali_train_fit_pairs(const shoal_train *train);
SHOAL_MUST_USE shoal_status shoali_train_make_batch(shoal_train *train);
/** Samples into x, labels and lengths; crop and first_serial are for images. */
void shoali_train_fill(shoal_train *train, const shoali_split *split, const uint32_t *indices,
                       uint32_t count, uint64_t first_serial, const shoali_crop *crop);
/** Forward and backward pass on a share of the training split; gradients go to train->grads, and
 * when its parts began to train->pass.times. */
SHOAL_MUST_USE shoal_status shoali_train_pass(shoal_train *train, const shoali_share *share,
                                              shoali_grads_ready ready, void *ctx,
                                              shoali_loss *loss_out);

/* trainer.c */
/** By how much a step multiplies these gradients of all parameters: --clip-norm. */
float shoali_train_clip(const shoal_train *train, const float *grads, float grad_scale);

/* setup.c */
/** shoal_train_create, with a model that is described here instead of opened by desc's spec. */
SHOAL_MUST_USE shoal_status shoali_train_create_as(shoal_comm *comm, const shoal_train_desc *desc,
                                                   const char *model_json, shoal_train **train_out);
/** Model, data and optimiser as one of so many workers has them, and nobody to exchange with. */
SHOAL_MUST_USE shoal_status shoali_train_open_alone(const shoal_train_desc *desc, uint32_t workers,
                                                    shoal_train **train_out);
/** Start the protocol, from train->step on. */
SHOAL_MUST_USE shoal_status shoali_train_start_sync(shoal_train *train);

/* straggler.c */
SHOAL_MUST_USE shoal_status shoali_straggler_open(shoal_train *train);
/** Collective, after the last step. */
SHOAL_MUST_USE shoal_status shoali_straggler_collect(shoal_train *train);
/** A step is made; others hear of it. */
void shoali_straggler_step(shoal_train *train, uint64_t step, const shoali_step_times *times);

/* evaluate.c */
SHOAL_MUST_USE shoal_status shoali_train_check_replicas(shoal_train *train);
/** Losses of the epoch over all workers and, if test is set, of the test split. */
SHOAL_MUST_USE shoal_status shoali_train_evaluate(shoal_train *train, bool test);
/** This worker's replica on the whole test split; percent. */
SHOAL_MUST_USE shoal_status shoali_train_evaluate_alone(shoal_train *train, float *accuracy_out);
/** After shoal_sync_finish: members are those whose parameters made up the result. */
SHOAL_MUST_USE shoal_status shoali_train_drop_lost(shoal_train *train);

/* reform.c */
/** A process that entered a running job takes over its state, with all members. */
SHOAL_MUST_USE shoal_status shoali_train_take_state(shoal_train *train);

/* uneven.c */
SHOAL_MUST_USE shoal_status shoali_uneven_create(shoal_train *train);
/** A step from `before` to train->step is done; at some of the first ones all workers meet here. */
SHOAL_MUST_USE shoal_status shoali_uneven_step(shoal_train *train, const shoali_share *share,
                                               double compute_us, uint64_t before);

/* stop.c */
/** EINVAL: this run cannot be stopped early, and why. */
SHOAL_MUST_USE shoal_status shoali_stop_check(const shoal_train *train);
/** Those who are there now will ask each other after the next step. */
void shoali_stop_begin(shoal_train *train);
/** A step that took so long is done: perhaps ask all. */
SHOAL_MUST_USE shoal_status shoali_stop_turn(shoal_train *train, double step_us);

#endif
