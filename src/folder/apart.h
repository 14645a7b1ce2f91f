/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints where replicas differ until the end (apart.c). All but shoali_apart_mean do nothing
 * where the protocol is none of those whose workers can go on from their own replicas (APART). */
#ifndef SHOALI_FOLDER_APART_H
#define SHOALI_FOLDER_APART_H

#include "worker/worker.h"

/** This worker's file of a checkpoint that is due; nobody is waited for. Once somebody is lost:
 * none. */
SHOAL_MUST_USE shoal_status shoali_apart_save(shoal_train *train);
/** Behind each step, and behind the average at the end: place 0 completes what all have written by
 * now. */
SHOAL_MUST_USE shoal_status shoali_apart_settle(shoal_train *train, bool end);
/** Other members: what these had begun to write will not be whole any more. */
void shoali_apart_forget(shoal_train *train);

/** The mean of the replicas in ranks' files. Weights, then the optimiser's slots, then batch norm's
 * state: room for all of them. */
SHOAL_MUST_USE shoal_status shoali_apart_mean(const shoal_train *train, const char *folder,
                                              float *mean_out);
/** Floats of that. */
size_t shoali_apart_floats(const shoal_train *train);

#endif
