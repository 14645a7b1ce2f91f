/* SPDX-License-Identifier: Apache-2.0 */
/* Writing into a folder where somebody else may have put something first: a symbolic link to a file
 * of ours, or a pipe. A path that the user names is followed wherever it leads (a link to a scratch
 * disk, /dev/stdout); names that we choose below it are not. */
#ifndef SHOALI_BASE_PLAIN_FILE_H
#define SHOALI_BASE_PLAIN_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "shoal/status.h"

/** Make a folder, unless it is there. A symbolic link to one counts if it is this user's or root's.
 * @return SHOAL_OK | EIO, with a text that names path */
SHOAL_MUST_USE shoal_status shoali_plain_folder(const char *path);

/** Open a regular file to write, which may be there already and is then emptied or added to. What
 * others add to it meanwhile is not written over.
 * @return SHOAL_OK | EIO, with a text that names path: also where it is a link or no file */
SHOAL_MUST_USE shoal_status shoali_plain_file(const char *path, bool append, FILE **file_out);

/** Add to a file that was opened to add to, all or nothing: what had room is cut off again, unless
 * somebody has added behind it. False: errno says why. */
bool shoali_append_whole(int fd, const char *bytes, size_t count);

/** A file of our own under a name that is used for a moment: what a killed process left there is
 * removed. NULL: errno says why. */
FILE *shoali_scratch_file(const char *path);

#endif
