/* SPDX-License-Identifier: Apache-2.0 */
/* The two kinds of file of a checkpoint, for those who write it together (checkpoint.c) and for
 * those who write it each at its own time (apart.c). */
#ifndef SHOALI_FOLDER_CHECKPOINT_H
#define SHOALI_FOLDER_CHECKPOINT_H

#include "files/safetensors.h"
#include "worker/worker.h"

/** In front of a tensor's name in a rank's file: the weights of this worker alone. */
#define SHOALI_REPLICA_PREFIX "replica."

/** What the common file holds. NULL: this worker's own. */
typedef struct shoali_replica {
    const float *params; /* never NULL */
    const float *state, *optimiser;
    bool mean; /* of replicas, which ranks' files hold: the metadata say "replicas": "apart" */
} shoali_replica;

SHOAL_MUST_USE shoal_status shoali_checkpoint_write_common(const shoal_train *train,
                                                           const char *folder, uint64_t steps_done,
                                                           const shoali_replica *of);
/** replica: with this worker's weights and optimiser. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_write_rank(const shoal_train *train,
                                                         const char *folder, uint64_t steps_done,
                                                         bool replica);
/** All have written it: `latest` names it, older ones go, events.jsonl tells. Of those who share a
 * checkpoint the one with place 0 does that; the others only know. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_announce(shoal_train *train, shoali_checkpoint which,
                                                       const char *folder, uint64_t began_us);
/** EIO, which is last_error's: a warning, and of the run's last step a mark that the result is to
 * tell it (train->folder.marks.missed); the training goes on. Other statuses come back as they
 * are. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_missed(shoal_train *train, uint64_t step,
                                                     shoal_status status);
/** Weights whose names have that prefix in a file. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_read_weights(const shoal_train *train,
                                                           const shoali_safetensors *file,
                                                           const char *prefix, float *params_out);

/* checkpoint_load.c */
/** A path of a checkpoint's file, not of a run folder. */
bool shoali_checkpoint_is_file(const char *from);
/** An ONNX file. */
bool shoali_checkpoint_is_onnx(const char *from);
/** The common file of a folder's newest checkpoint, or that file. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_open(const char *from, shoali_safetensors **file_out);

#endif
