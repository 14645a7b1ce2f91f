/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints a run folder holds: OUT/checkpoints/step-N, or step-N-E of members that have
 * begun epoch E by a reform, so that who was expelled writes nowhere into their files. Which of
 * them are whole their files say (checkpoint_load.c). OUT/checkpoints/latest names the newest that
 * all ranks have written, for people and other programs: nothing here depends on it. */
#ifndef SHOALI_FILES_CHECKPOINT_FOLDER_H
#define SHOALI_FILES_CHECKPOINT_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "shoal/status.h"

enum { SHOALI_PATH_BYTES = 4096 };

/** FOLDER/NAME and FOLDER/PREFIX7SUFFIX. EINVAL: longer than a path may be. */
SHOAL_MUST_USE shoal_status shoali_path_join(char out[SHOALI_PATH_BYTES], const char *folder,
                                             const char *name);
SHOAL_MUST_USE shoal_status shoali_path_number(char out[SHOALI_PATH_BYTES], const char *folder,
                                               const char *prefix, uint64_t number,
                                               const char *suffix);
/** The number in a name made of prefix and number. */
bool shoali_number_after(const char *name, const char *prefix, int base, uint64_t *value_out);

/** A file with this text and a newline: it has its name once it is whole and on the disk. One
 * writer at a time: what a killed one has left is replaced. */
SHOAL_MUST_USE shoal_status shoali_write_line(const char *path, const char *text);

/** A checkpoint: steps done, and the members' epoch. Step 0: none. */
typedef struct shoali_checkpoint {
    uint64_t step, epoch;
} shoali_checkpoint;
/** Below 0: a is older than b. */
int shoali_checkpoint_order(shoali_checkpoint a, shoali_checkpoint b);

SHOAL_MUST_USE shoal_status shoali_checkpoint_path(const char *out, shoali_checkpoint which,
                                                   char folder[SHOALI_PATH_BYTES]);
/** Make its folder. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_make(const char *out, shoali_checkpoint which,
                                                   char folder[SHOALI_PATH_BYTES]);
/** All ranks have written it: from now on it is the latest. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_name_latest(const char *out, shoali_checkpoint which);
/** What was the latest is given up: an older one is again, or none (step 0). */
void shoali_checkpoint_name_again(const char *out, shoali_checkpoint older);
/** The one that is named latest; step 0: none is, or it is no name of one that is there. */
shoali_checkpoint shoali_checkpoint_latest(const char *out);
/** The newest whose folder is there, or the newest before another one; step 0: there is none. */
shoali_checkpoint shoali_checkpoint_before(const char *out, const shoali_checkpoint *bound);

/** Whether the run may have been ended, or is, as it wrote this one: `latest` is older or, where
 * this is the first, not there. */
bool shoali_checkpoint_is_unfinished(const char *out, shoali_checkpoint which);

/** Remove what killed processes have left in a checkpoint that ranks below `ranks` are done with.
 */
void shoali_checkpoint_tidy(const char *folder, uint32_t ranks);
/** Remove all that are older than `newest` but one. */
void shoali_checkpoint_keep(const char *out, shoali_checkpoint newest, shoali_checkpoint other);
/** What a run that was ended behind its last checkpoint had still to do: `latest` names it, and of
 * the older ones but the newest stays. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_conclude(const char *out, shoali_checkpoint newest);
/** Remove this one: everything of ours, or the rank's own file. */
void shoali_checkpoint_drop(const char *out, shoali_checkpoint which, uint32_t rank, bool all);
/** Remove all that are newer: steps that were undone. rank 0: everything of ours, else the rank's
 * own file. */
void shoali_checkpoint_undo(const char *out, shoali_checkpoint newest, uint32_t rank);

#endif
