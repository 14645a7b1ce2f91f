/* SPDX-License-Identifier: Apache-2.0 */
/* Plan files: read or refused with a reason; what was read has the counts that it says. */
#include <stdint.h>
#include <stdlib.h>

#include "plan/partition.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static void check(const shoal_partition *p)
{
    uint64_t sum = 0;
    if (p->levels > SHOAL_PARTITION_LEVELS_MAX || p->layer_count == 0)
        abort();
    for (uint32_t level = 1; level <= p->levels; level++)
        sum += shoali_partition_level_scaled(p, level) << (level - 1);
    if (p->levels > 0 && sum != shoali_partition_elements(p) << p->levels)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoal_partition *p = NULL;
    shoal_status status = shoali_partition_parse("fuzz", (const char *)bytes, len_bytes, &p);
    if (status == SHOAL_OK)
        check(p);
    else if (p != NULL || shoal_last_error()->status != status)
        abort();
    shoal_partition_destroy(p);
    return 0;
}
