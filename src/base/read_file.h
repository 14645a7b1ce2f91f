/* SPDX-License-Identifier: Apache-2.0 */
/* Files that somebody else wrote: regular ones, as a pipe may never say anything, and bounded. */
#ifndef SHOALI_BASE_READ_FILE_H
#define SHOALI_BASE_READ_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shoal/status.h"

/** Open a regular file to read. Never waits. @return SHOAL_OK | EIO, with a text that names path */
SHOAL_MUST_USE shoal_status shoali_open_file(const char *path, FILE **file_out);

/**
 * Read a regular file of at most max_bytes.
 * @param bytes_out owned by the caller (shoali_free); a NUL follows the last byte.
 * @return SHOAL_OK | EIO (cannot be opened or read, not a regular file) | ECORRUPT (larger) |
 *         ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_read_file(const char *path, size_t max_bytes, char **bytes_out,
                                             size_t *len_bytes_out);

#endif
