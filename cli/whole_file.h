/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is written at once when all that goes into it is known, and is there whole or not at
 * all: what failed, or was interrupted, leaves what was there before. */
#ifndef SHOAL_CLI_WHOLE_FILE_H
#define SHOAL_CLI_WHOLE_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct whole_file {
    FILE *out; /* write here */
    const char *path;
    char *text;
    size_t bytes;
    bool inside;
} whole_file;

/** What the user has named: a file, a link to one, a device, a pipe that somebody reads. False:
 * no memory, or nothing can be written there (errno). path is to live until the end. */
bool whole_file_begin(whole_file *file, const char *path);
/** A file inside a folder that the user has named: a link, a device or a pipe that somebody has put
 * there is not followed. */
bool whole_file_begin_inside(whole_file *file, const char *path);
/** Write it; good: what went into it is. False: errno says why not. */
bool whole_file_end(whole_file *file, bool good);

#endif
