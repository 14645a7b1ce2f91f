/* SPDX-License-Identifier: Apache-2.0 */
/* Who aggregates in collectives with aggregators: all workers, the first `shards` of them, or with
 * `dedicated` the members behind the workers. */
#ifndef SHOALI_COLLECTIVE_SHARDS_H
#define SHOALI_COLLECTIVE_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "collective/flow.h"

/** The keys of it, as a field of a row's params. */
typedef struct shoali_shards_keys {
    int64_t shards;
    bool dedicated;
} shoali_shards_keys;

#define SHOALI_SHARDS_KEYS(params, field)                                                   \
    {"shards",                                                                              \
     SHOALI_KEY_INT,                                                                        \
     offsetof(params, field.shards),                                                        \
     0,                                                                                     \
     SHOALI_MEMBERS_MAX,                                                                    \
     NULL,                                                                                  \
     "0",                                                                                   \
     "workers that aggregate, the first ones; 0: all"},                                     \
    {                                                                                       \
        "dedicated", SHOALI_KEY_FLAG, offsetof(params, field.dedicated), 0, 0, NULL, "off", \
            "the members beyond the contributors aggregate, instead of the workers"         \
    }

/** One operation, as a member of it sees it: members first .. first + count - 1 aggregate. */
typedef struct shoali_shards {
    uint32_t first, count;
    bool works, aggregates; /* this member */
} shoali_shards;

/** Traits of a row with these keys. */
uint32_t shoali_shards_traits(const shoali_shards_keys *keys);
/** Such collectives sum, and to all members; then who aggregates.
 *  @param name of the row, for errors.
 *  @return SHOAL_OK | EINVAL: another operation, or members that do not fit these keys. */
SHOAL_MUST_USE shoal_status shoali_shards_open(const char *name, const shoali_shards_keys *keys,
                                               const shoali_flow_args *args,
                                               shoali_shards *shards_out);
/** How many aggregators there are.
 *  @return SHOAL_OK | EINVAL: that many members do not fit these keys. */
SHOAL_MUST_USE shoal_status shoali_shards_count(const char *name, const shoali_shards_keys *keys,
                                                uint32_t workers, uint32_t members,
                                                uint32_t *count_out);

#endif
