/* SPDX-License-Identifier: Apache-2.0 */
/* What workers of a run do together beside their steps: they sum, compare, divide the batch, stop,
 * lose each other and go on with others. */
#ifndef SHOALI_TRAIN_TOGETHER_H
#define SHOALI_TRAIN_TOGETHER_H

#include "data/sampler.h"
#include "shoal/train.h"

/* losses.c */
/** Remember who is lost by now: workers that the communicator has lost, or that are no members. */
SHOAL_MUST_USE shoal_status shoali_losses_note(shoal_train *train);
/** The same of one, as a reform tells it; ctx is the training. */
struct shoali_lost_peer;
void shoali_losses_told(void *ctx, uint32_t rank, const struct shoali_lost_peer *what);

/* collect.c: the trainer's own small exchanges among workers; without a comm they do nothing */
SHOAL_MUST_USE shoal_status shoali_train_reduce(shoal_train *train, float *values, size_t count,
                                                shoal_reduce how, const char *label);
/** The same of all ranks, dedicated servers and workers that exchange nothing included. */
SHOAL_MUST_USE shoal_status shoali_train_meet(shoal_train *train, float *values, size_t count,
                                              shoal_reduce how, const char *label);
/** Doubles, split into three floats each so that sums keep more digits than a gradient's. */
SHOAL_MUST_USE shoal_status shoali_train_sum(shoal_train *train, double *values, size_t count,
                                             const char *label);
/** Sixteen bits of a hash per float, and their negatives. */
enum { SHOALI_HASH_PARTS = 8 };
void shoali_hash_parts(uint64_t hash, float parts_out[SHOALI_HASH_PARTS]);
/** Of the largest of all ranks' parts: the largest equals the smallest iff all have one hash. */
bool shoali_hashes_agree(const float most[SHOALI_HASH_PARTS]);
SHOAL_MUST_USE shoal_status shoali_train_check_replicas(shoal_train *train);
/** Losses of the epoch over all workers and, if test is set, of the test split. */
SHOAL_MUST_USE shoal_status shoali_train_evaluate(shoal_train *train, bool test);
/** This worker's replica on the whole test split; percent. */
SHOAL_MUST_USE shoal_status shoali_train_evaluate_alone(shoal_train *train, float *accuracy_out);
/** After shoal_sync_finish: members are those whose parameters made up the result. */
SHOAL_MUST_USE shoal_status shoali_train_drop_lost(shoal_train *train);

/* reform.c */
/** Where a step lies: epoch, and step of it (since these workers began). */
void shoali_train_place(const shoal_train *train, uint64_t step, uint64_t *epoch_out,
                        uint64_t *in_epoch_out);
/** How long the run is for these workers. */
void shoali_train_plan_steps(shoal_train *train);
/** A process that entered a running job takes over its state, with all members. */
SHOAL_MUST_USE shoal_status shoali_train_take_state(shoal_train *train);
/** setup.c: start the protocol, from train->step on. */
SHOAL_MUST_USE shoal_status shoali_train_start_sync(shoal_train *train);

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
