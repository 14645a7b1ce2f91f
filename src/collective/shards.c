/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/shards.h"

#include "base/error.h"

shoal_status shoali_shards_count(const char *name, uint32_t shards, bool dedicated,
                                 uint32_t workers, uint32_t members, uint32_t *shards_out)
{
    const uint32_t extra = members - workers;
    if (dedicated ? extra == 0 : extra > 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%s: %u members contribute nothing; 'dedicated' lets them aggregate",
                           name, extra);
    if (dedicated ? shards != 0 : shards > workers)
        return shoali_fail(SHOAL_EINVAL, "%s:shards=%u: %u workers, %u dedicated aggregators", name,
                           shards, workers, extra);
    *shards_out = dedicated ? extra : shards > 0 ? shards : workers;
    return SHOAL_OK;
}
