/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's files: .npy, an array with a head, and .npz, a ZIP archive of them. Whole numbers only;
 * bytes are hostile. */
#ifndef SHOALI_DATA_ARRAY_FILE_H
#define SHOALI_DATA_ARRAY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "shoal/status.h"

enum { SHOALI_ARRAY_DIMS_MAX = 4, SHOALI_ARRAYS_MAX = 16 };

typedef struct shoali_array {
    char name[64]; /* in its archive, without .npy */
    uint32_t dims;
    uint64_t sizes[SHOALI_ARRAY_DIMS_MAX], count;
    uint32_t value_bytes; /* 1, 2, 4, 8, little-endian */
    bool is_signed;
    const uint8_t *values; /* borrowed from the bytes or the arena */
} shoali_array;

/** @param what names the file in errors. @return SHOAL_OK | ECORRUPT (file and reason) */
SHOAL_MUST_USE shoal_status shoali_array_read(const char *what, const uint8_t *bytes,
                                              size_t len_bytes, shoali_array *array_out);
/** Value i. */
int64_t shoali_array_at(const shoali_array *array, uint64_t i);

/** All arrays of an archive, at most SHOALI_ARRAYS_MAX.
 * @return SHOAL_OK | ECORRUPT (file, member and reason) | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_arrays_read(const char *what, const uint8_t *bytes,
                                               size_t len_bytes, shoal_arena *arena,
                                               shoali_array *arrays_out, uint32_t *count_out);

#endif
