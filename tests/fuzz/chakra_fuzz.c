/* SPDX-License-Identifier: Apache-2.0 */
/* Chakra traces: read or refused with a reason. */
#include <stdint.h>
#include <stdlib.h>

#include "model/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoal_arena *arena = shoali_arena_create(1024);
    shoali_workload w;
    shoal_status status = shoali_chakra_parse("fuzz", bytes, len_bytes, arena, &w);
    if (status != SHOAL_OK && shoal_last_error()->status != status)
        abort();
    for (uint32_t i = 0; status == SHOAL_OK && i < w.row_count * SHOALI_PHASES; i++) {
        const shoali_phase *phase = &w.rows[i / SHOALI_PHASES].phase[i % SHOALI_PHASES];
        if (!(phase->bytes >= 0 && phase->bytes < 1e15 && phase->compute_ns >= 0))
            abort();
    }
    shoali_arena_destroy(arena);
    return 0;
}
