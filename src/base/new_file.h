/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears under its name only when it is whole: written without a name where the file
 * system can (whoever is killed leaves nothing), else beside it, flushed to the disk, renamed. */
#ifndef SHOALI_BASE_NEW_FILE_H
#define SHOALI_BASE_NEW_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "shoal/status.h"

typedef struct shoali_new_file {
    FILE *file;           /* write here; errors may wait until commit, which reports them */
    char *path, *scratch; /* owned */
    bool nameless;        /* the scratch name comes with commit */
    bool as_it_is;        /* a device or a pipe, without a scratch name */
} shoali_new_file;

/** Ends in commit or discard. The scratch name holds the process id: writers of several processes
 * do not meet. */
SHOAL_MUST_USE shoal_status shoali_new_file_open(const char *path, shoali_new_file *out);
/** The same where the user names it: links are followed, and what is there and no regular file, a
 * device or a pipe that somebody reads, is written as it is. */
SHOAL_MUST_USE shoal_status shoali_new_file_open_named(const char *path, shoali_new_file *out);
/** The regular file, there or yet to be made, that a path leads to: target_out[PATH_MAX]. */
SHOAL_MUST_USE shoal_status shoali_new_file_target(const char *path, char *target_out);
/** Whether shoali_new_file_open_named would go now, for who writes after a long time; nothing is
 * left of the attempt. */
SHOAL_MUST_USE shoal_status shoali_new_file_may(const char *path);
/** Whether all that was written so far has gone to the file; who fails discards it. */
SHOAL_MUST_USE shoal_status shoali_new_file_flush(shoali_new_file *new_file);
/** Flush, fsync, rename over path; on failure nothing is left but what was there before. */
SHOAL_MUST_USE shoal_status shoali_new_file_commit(shoali_new_file *new_file);
/** Forget it. Allowed after commit (does nothing). */
void shoali_new_file_discard(shoali_new_file *new_file);

#endif
