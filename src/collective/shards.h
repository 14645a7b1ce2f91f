/* SPDX-License-Identifier: Apache-2.0 */
/* Who aggregates in collectives with aggregators: all workers, the first `shards` of them, or with
 * `dedicated` the members behind the workers. */
#ifndef SHOALI_COLLECTIVE_SHARDS_H
#define SHOALI_COLLECTIVE_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "shoal/status.h"

/** How many aggregators there are.
 *  @param name of the row, for errors.
 *  @param shards 0: all workers.
 *  @return SHOAL_OK | EINVAL: that many members do not fit these keys. */
SHOAL_MUST_USE shoal_status shoali_shards_count(const char *name, uint32_t shards, bool dedicated,
                                                uint32_t workers, uint32_t members,
                                                uint32_t *shards_out);

#endif
