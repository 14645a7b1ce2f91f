/* SPDX-License-Identifier: Apache-2.0 */
/* An event file as TensorBoard reads it: records of a length, its checksum, a protobuf Event, its
 * checksum (TFRecord, masked crc32c). */
#ifndef SHOAL_CLI_EVENT_FILE_H
#define SHOAL_CLI_EVENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct event_file event_file;

typedef struct event_scalar {
    const char *tag;
    double value; /* not finite: left out */
} event_scalar;

/** Make a file of a name of its own in a folder that is there. first_step > 0: what earlier files
 * in it say of later steps is void. NULL: errno says why. */
event_file *event_file_create(const char *folder, uint64_t first_step);
/** Scalars of one step; they reach the disk once a second. */
void event_file_add(event_file *file, uint64_t step, const event_scalar *scalars, size_t count);
/** False: not all could be written; errno says why. NULL is allowed, and all is well. */
bool event_file_close(event_file *file);

#endif
