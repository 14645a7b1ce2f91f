/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of Kaldi or HTK: read within their bounds and finite, or refused with a reason. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/feature_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_feature_matrix m = {0};
    shoal_status status = shoali_feature_matrix_read("input", bytes, len_bytes, 0, arena, &m);
    if (status != SHOAL_OK && shoal_last_error()->status != status)
        abort();
    size_t count = status == SHOAL_OK ? (size_t)m.frames * m.values : 0;
    if (status == SHOAL_OK && (count == 0 || count > len_bytes))
        abort();
    for (size_t i = 0; i < count; i++)
        if (!isfinite(m.x[i]))
            abort();
    shoali_arena_destroy(arena);
    return 0;
}
