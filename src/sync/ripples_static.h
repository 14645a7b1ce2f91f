/* SPDX-License-Identifier: Apache-2.0 */
/* The rule-based schedule of Ripples: every worker knows its group of every step by itself. */
#ifndef SHOALI_SYNC_RIPPLES_STATIC_H
#define SHOALI_SYNC_RIPPLES_STATIC_H

#include "sync/sync.h"

/**
 * The group of a step, me included.
 * @param order    workers host by host (shoali_host_order).
 * @param absent   [workers] takes no part in this step; not me.
 * @param members_out room for one per worker; ascending.
 * @return how many; 1: no synchronisation in this step.
 */
uint32_t shoali_static_group(const shoali_world *world, const uint32_t *order,
                             const uint8_t *absent, uint64_t step, uint32_t *members_out);

#endif
