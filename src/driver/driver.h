/* SPDX-License-Identifier: Apache-2.0 */
/* Internal side of shoal_sync for the trainer: the owner job of a parameter server. */
#ifndef SHOALI_DRIVER_DRIVER_H
#define SHOALI_DRIVER_DRIVER_H

#include "shoal/sync.h"
#include "sync/sync.h"

/**
 * Owner job: at the owner of [offset, offset + count), sum_in_weights_out holds the completed
 * gradient sum; update the optimiser state of that range from PARAM (sync's params) and leave the
 * new weights there. Runs on the work thread. scale multiplies the sum (1 / weights summed). Not
 * ABI.
 */
typedef shoal_status (*shoali_owner)(void *user, float *sum_in_weights_out, size_t offset,
                                     size_t count, uint64_t iteration, float scale);
/** Before the first step. Protocols without owner jobs never call it. */
void shoali_sync_set_owner(shoal_sync *sync, shoali_owner owner, void *user);

/** An operation that has ended, with this worker's part in it; times monotonic. */
typedef struct shoali_sync_bucket {
    uint64_t iteration, started_us, ended_us, encode_ns, decode_ns, sent_bytes;
    size_t offset; /* of its first element */
} shoali_sync_bucket;
/** Told of each, on the progress thread, which must not wait for it. Before the first step. */
void shoali_sync_set_watcher(shoal_sync *sync,
                             void (*watcher)(void *user, const shoali_sync_bucket *bucket),
                             void *user);

/** Protocols that weigh workers by their samples (trait SAMPLES): before each after_update, how
 *  many this worker's gradients were the mean of, and the batch of a worker on the mean, the same
 *  on all ranks. Never called: all have equally many. */
bool shoali_sync_by_samples(const shoal_sync *sync);
void shoali_sync_set_samples(shoal_sync *sync, uint32_t samples, uint32_t batch);

/** Replicas are bit-identical after every step (trait EXACT). */
bool shoali_sync_is_exact(const shoal_sync *sync);
/** Between GO of AFTER and BEFORE a worker's parameters are all that it has of it (APART). */
bool shoali_sync_is_apart(const shoal_sync *sync);
/** Replicas differ, and shoal_sync_finish leaves them so: whoever wants one takes their mean. */
bool shoali_sync_stays_apart(const shoal_sync *sync);
/** As shoal_sync_destroy, and leave there what it carries. NULL: nowhere. */
void shoali_sync_end(shoal_sync *sync, float *carried_out);
/** Go on with it: before the first step. */
void shoali_sync_carry(shoal_sync *sync, const float *carried);

/**
 * Use another codec from the next step on: before the first step, or between after_update and the
 * next ready. All ranks do it in the same step.
 * @return SHOAL_OK | EINVAL (spec, or a protocol whose operations may be under way between steps,
 *         or that codes for owners) | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_sync_set_codec(shoal_sync *sync, const char *spec);

/** After shoal_sync_finish: the endpoints whose parameters were averaged, ascending, to out (room
 *  for all workers); all workers if there was no average. */
uint32_t shoali_sync_final_members(const shoal_sync *sync, uint32_t *out);

/** As shoal_sync_create, but residuals that are there stay: those of a checkpoint, say. row: one
 * that is not in the table (tests and examples), or NULL. */
SHOAL_MUST_USE shoal_status shoali_sync_create_row(shoal_comm *comm, const shoal_sync_desc *desc,
                                                   const shoali_sync_row *row,
                                                   shoal_sync **sync_out);

/** The name on the wire of a protocol's operation: the same in every driver, so random choices of
 *  codecs are, too. instance tells protocols apart that follow each other on one comm. */
static inline shoal_op_id shoali_sync_op_id(uint64_t instance, uint64_t id)
{
    return (shoal_op_id){.group = UINT64_C(1) << 63 | instance, .sequence = id, .round = 1};
}

#endif
