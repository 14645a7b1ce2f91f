/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears under its name only when it is whole: written beside it, flushed to the disk,
 * renamed. */
#ifndef SHOALI_BASE_NEW_FILE_H
#define SHOALI_BASE_NEW_FILE_H

#include <stdio.h>

#include "shoal/status.h"

typedef struct shoali_new_file {
    FILE *file;           /* write here; errors may wait until commit, which reports them */
    char *path, *scratch; /* owned */
} shoali_new_file;

/** Ends in commit or discard. The scratch name holds the process id: writers of several processes
 * do not meet. */
SHOAL_MUST_USE shoal_status shoali_new_file_open(const char *path, shoali_new_file *out);
/** Flush, fsync, rename over path; on failure nothing is left but what was there before. */
SHOAL_MUST_USE shoal_status shoali_new_file_commit(shoali_new_file *new_file);
/** Forget it. Allowed after commit (does nothing). */
void shoali_new_file_discard(shoali_new_file *new_file);

#endif
