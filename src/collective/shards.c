/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/shards.h"

#include "base/error.h"

uint32_t shoali_shards_traits(const shoali_shards_keys *keys)
{
    return SHOALI_COLL_DEDICATED | SHOALI_COLL_FLOW | (keys->dedicated ? SHOALI_COLL_SERVED : 0);
}

shoal_status shoali_shards_count(const char *name, const shoali_shards_keys *keys, uint32_t workers,
                                 uint32_t members, uint32_t *count_out)
{
    const uint32_t extra = members - workers, shards = (uint32_t)keys->shards;
    if (keys->dedicated ? extra == 0 : extra > 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%s: %u members contribute nothing; 'dedicated' lets them aggregate",
                           name, extra);
    if (keys->dedicated ? shards != 0 : shards > workers)
        return shoali_fail(SHOAL_EINVAL, "%s:shards=%u: %u workers, %u dedicated aggregators", name,
                           shards, workers, extra);
    *count_out = keys->dedicated ? extra : shards > 0 ? shards : workers;
    return SHOAL_OK;
}

shoal_status shoali_shards_open(const char *name, const shoali_shards_keys *keys,
                                const shoali_flow_args *args, shoali_shards *shards_out)
{
    uint32_t count;
    if (args->kind != SHOAL_ALL_REDUCE || args->reduce != SHOAL_SUM)
        return shoali_fail(SHOAL_EINVAL, "%s sums, and to all members", name);
    if (args->owner_job)
        return shoali_fail(SHOAL_EINVAL, "%s has no owners that could update weights", name);
    SHOALI_TRY(shoali_shards_count(name, keys, args->contributors, args->size, &count));
    const uint32_t first = keys->dedicated ? args->contributors : 0;
    *shards_out = (shoali_shards){.first = first,
                                  .count = count,
                                  .works = args->me < args->contributors,
                                  .aggregates = args->me >= first && args->me - first < count};
    return SHOAL_OK;
}
