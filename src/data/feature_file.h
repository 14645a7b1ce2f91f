/* SPDX-License-Identifier: Apache-2.0 */
/* One utterance's frames as other programs write them: Kaldi's binary matrices (float, double,
 * compressed: FM, DM, CM, CM2, CM3) and HTK's parameter files (plain and compressed). */
#ifndef SHOALI_DATA_FEATURE_FILE_H
#define SHOALI_DATA_FEATURE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "shoal/status.h"

typedef struct shoali_feature_matrix {
    uint32_t frames, values;
    float *x; /* [frames][values], finite */
} shoali_feature_matrix;

/**
 * What starts at bytes + offset; Kaldi's if it starts with 0 'B', else HTK's. Bytes are hostile.
 * @param what names the file in errors.
 * @return SHOAL_OK | ECORRUPT (file, byte, reason) | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_feature_matrix_read(const char *what, const uint8_t *bytes,
                                                       size_t len_bytes, size_t offset,
                                                       shoal_arena *arena,
                                                       shoali_feature_matrix *matrix_out);

#endif
