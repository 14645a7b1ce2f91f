/* SPDX-License-Identifier: Apache-2.0 */
/* What a run writes, and reads when it goes on: its folder, metrics, checkpoints, gradients. */
#ifndef SHOALI_FOLDER_WRITTEN_H
#define SHOALI_FOLDER_WRITTEN_H

#include "worker/together.h"

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
/** A dedicated server's own file, before it takes up the step after a checkpoint. No room: as of
 * the others (shoali_checkpoint_missed), and the checkpoint goes. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_save_owner(shoal_train *train, uint64_t steps_done);
/** The newest checkpoint below desc.resume that is whole on all ranks, which agree on it, into
 * train->folder.saved; step 0 where the run had written none yet. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_choose(shoal_train *train);
/** Go on from train->folder.saved. */
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

/* metrics.c */
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
/** What its check found in this step; broken: it fell back. */
SHOAL_MUST_USE shoal_status shoali_metrics_codec_check(shoal_train *train, bool broken);
/** What this worker's weights hash to after this step, before the others' are compared with it. */
SHOAL_MUST_USE shoal_status shoali_metrics_replica(shoal_train *train, uint64_t hash);
/** These workers have begun; took_us: since the last step. */
SHOAL_MUST_USE shoal_status shoali_metrics_reform(shoal_train *train, uint64_t took_us);
SHOAL_MUST_USE shoal_status shoali_metrics_epoch(shoal_train *train, uint32_t epoch);

#endif
