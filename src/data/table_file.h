/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of images in CSV, as Kaggle has them: a row per image, its class in one column, its pixels
 * (0 .. 255) in the others. Bytes are hostile. */
#ifndef SHOALI_DATA_TABLE_FILE_H
#define SHOALI_DATA_TABLE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "shoal/status.h"

typedef struct shoali_table {
    uint32_t rows, values; /* values: pixels of a row */
    uint16_t *labels;      /* [rows] */
    uint8_t *pixels;       /* [rows][values] */
} shoali_table;

/**
 * A first row that is not numbers has names: the class is in the column "label", "class", "target"
 * or "y"; without such names it is in the first column.
 * @param text ends in a zero byte. @param what names the file in errors.
 * @return SHOAL_OK | ECORRUPT (file, row, column, what it should have been) | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_table_read(const char *what, const char *text, size_t len_bytes,
                                              shoal_arena *arena, shoali_table *table_out);

#endif
