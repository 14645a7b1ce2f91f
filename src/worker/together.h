/* SPDX-License-Identifier: Apache-2.0 */
/* What workers of a run do together beside their steps: they sum, compare, lose each other. */
#ifndef SHOALI_WORKER_TOGETHER_H
#define SHOALI_WORKER_TOGETHER_H

#include "worker/worker.h"

/* losses.c */
/** Remember who is lost by now: workers that the communicator has lost, or that are no members. */
SHOAL_MUST_USE shoal_status shoali_losses_note(shoal_train *train);
/** The same of one, as a reform tells it; ctx is the training. */
struct shoali_lost_peer;
void shoali_losses_told(void *ctx, uint32_t rank, const struct shoali_lost_peer *what);

/* collect.c: the trainer's own small exchanges among workers; without a comm they do nothing */
/** Without an exchange each worker trains, and is evaluated, for itself. */
bool shoali_train_exchanges(const shoal_train *train);
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

/* place.c */
/** Where a step lies: epoch, and step of it (since these workers began). */
void shoali_train_place(const shoal_train *train, uint64_t step, uint64_t *epoch_out,
                        uint64_t *in_epoch_out);
/** How long the run is for these workers. */
void shoali_train_plan_steps(shoal_train *train);

#endif
