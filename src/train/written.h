/* SPDX-License-Identifier: Apache-2.0 */
/* What a run writes, and reads when it goes on: its folder, metrics, checkpoints, gradients. */
#ifndef SHOALI_TRAIN_WRITTEN_H
#define SHOALI_TRAIN_WRITTEN_H

#include <stdio.h>

#include "shoal/train.h"

/** How long a metrics file was, and what it held; bytes 0: not known. */
typedef struct shoali_metrics_at {
    char file[64]; /* its name in OUT */
    uint64_t bytes;
    char sha256[SHOALI_DIGEST_CHARS + 1];
} shoali_metrics_at;

/** A rank's metrics on the disk, and what its checkpoint says of them (metrics_cut.c). */
typedef struct shoali_metrics_marks {
    int file;   /* descriptor + 1; 0: none */
    char *text; /* [bytes] lines that are not in the file yet */
    size_t bytes;
    bool behind, lost;   /* it finds no room: lines wait, or have been given up */
    uint64_t flushed_us; /* when lines were last written, or were to be */
    shoal_error *missed; /* why the last checkpoint is not there; NULL: it is, or is to come */
    const char *path;
    bool common;          /* it is rank 0's, which also has what concerns all */
    shoali_digest digest; /* of its first `hashed` bytes */
    uint64_t hashed;
    shoali_metrics_at at; /* of the newest checkpoint, or of the one that this goes on from */
} shoali_metrics_marks;

/* folder.c */
/** All ranks: OUT is this run's until its last rank ends. EINVAL: another one has it, or it holds
 * another run; the advice says how to go on. EIO: there is none to go on from. */
SHOAL_MUST_USE shoal_status shoali_folder_enter(shoal_train *train);
/** The folder that is resumed is OUT itself. */
bool shoali_folder_goes_on(const shoal_train *train);
/** All ranks, of a run that goes on in its folder: checkpoints of steps that are undone go. */
SHOAL_MUST_USE shoal_status shoali_folder_undo(shoal_train *train);
/** As mkdir -p; what is made lasts. */
SHOAL_MUST_USE shoal_status shoali_make_folders(const char *path);
/** Write into OUT/lock which process tells of this run: rank 0's, or who comes first without it. */
SHOAL_MUST_USE shoal_status shoali_folder_sign(const shoal_train *train);
/** This rank fails before its first step: a folder that was not there before goes with the last
 * rank that holds it. What is not ours keeps it. */
void shoali_folder_give_up(const shoal_train *train);
void shoali_folder_release(shoal_train *train);
/** The same for a run of one process that goes on from nothing: make the folder and hold it.
 * @param fd_out its lock; held until it is closed */
SHOAL_MUST_USE shoal_status shoali_folder_claim(const char *folder, int *fd_out);

/* metrics_cut.c */
/** Write this rank's metrics to the disk and note how far they are in marks.at. */
SHOAL_MUST_USE shoal_status shoali_metrics_mark(shoal_train *train);
/** Cut a metrics file back to a mark of it, or where there is none to whole lines of steps up to
 * `step`. Damage is logged. */
SHOAL_MUST_USE shoal_status shoali_metrics_cut(const char *path, uint64_t step,
                                               const shoali_metrics_at *at);
/** The same by lines of files that no rank below `ranks` writes: of more workers, of reforms. */
SHOAL_MUST_USE shoal_status shoali_metrics_cut_others(const char *folder, uint32_t ranks,
                                                      uint64_t step);

/* checkpoint.c */
SHOAL_MUST_USE shoal_status shoali_checkpoint_save(shoal_train *train);
/** A dedicated server's own file, before it takes up the step after a checkpoint. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_save_owner(shoal_train *train, uint64_t steps_done);
/** The newest checkpoint below desc.resume that is whole on all ranks, which agree on it, into
 * train->saved; step 0 where the run had written none yet. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_choose(shoal_train *train);
/** Go on from train->saved. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_load(shoal_train *train);
bool shoali_checkpoint_due(const shoal_train *train, uint64_t steps_done);
/** Weights of the newest checkpoint below desc.start, projected where this model is block-circulant
 * and that one not. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_start(shoal_train *train);

/* gradients.c */
bool shoali_gradients_due(const shoal_train *train);
/** Write rank 0's gradients of the step under way. */
SHOAL_MUST_USE shoal_status shoali_gradients_dump(const shoal_train *train);
/** Rank 0, before anything is trained: the folder for them, which no other run has or has had. */
SHOAL_MUST_USE shoal_status shoali_gradients_begin(shoal_train *train);
void shoali_gradients_end(shoal_train *train);

/* straggler.c */
SHOAL_MUST_USE shoal_status shoali_straggler_open(shoal_train *train);
/** Collective, after the last step. */
SHOAL_MUST_USE shoal_status shoali_straggler_collect(shoal_train *train);

/* metrics.c */
typedef struct shoali_step_times {
    double step_us, compute_us, update_us, loss, lr;
    double data_us, forward_us, backward_us; /* of compute_us; 0: not told apart (by a plan) */
    uint32_t samples, epoch;                 /* epoch: from 0 */
    uint64_t first, step_first; /* serials of the first sample of this worker, of all of them */
    uint32_t total;             /* samples of all workers */
    bool skipped;
    bool untold; /* there is no loss: a simulation of times alone */
    shoal_sync_stats sync;
} shoali_step_times;
/** straggler.c: a step is made; others hear of it. */
void shoali_straggler_step(shoal_train *train, uint64_t step, const shoali_step_times *times);
SHOAL_MUST_USE shoal_status shoali_metrics_open(shoal_train *train);
/** All lines so far into the file. EIO: there is no room, and they wait. */
SHOAL_MUST_USE shoal_status shoali_metrics_put_out(shoal_train *train);
/** After the last line. EIO: some are not in the file. */
SHOAL_MUST_USE shoal_status shoali_metrics_finish(shoal_train *train);
void shoali_metrics_close(shoal_train *train);
SHOAL_MUST_USE shoal_status shoali_metrics_step(shoal_train *train, const shoali_step_times *times);
/** Its line; at_us: when the step ended. */
void shoali_metrics_put_step(FILE *out, uint64_t step, uint64_t at_us,
                             const shoali_step_times *times);
/** What codec = "auto" measured and chose; probe_us: how long that took. */
SHOAL_MUST_USE shoal_status shoali_metrics_choice(shoal_train *train, double probe_us);
/** What this worker's weights hash to after this step, before the others' are compared with it. */
SHOAL_MUST_USE shoal_status shoali_metrics_replica(shoal_train *train, uint64_t hash);
/** These workers have begun; took_us: since the last step. */
SHOAL_MUST_USE shoal_status shoali_metrics_reform(shoal_train *train, uint64_t took_us);
SHOAL_MUST_USE shoal_status shoali_metrics_epoch(shoal_train *train, uint32_t epoch);

#endif
