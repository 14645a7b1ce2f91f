/* SPDX-License-Identifier: Apache-2.0 */
/* What members know of each other's links, and what follows from it: shares of the work, and an
 * order around a ring. Every rank computes both from the same measured values, in integers, so all
 * come to the same result on whatever machine. */
#ifndef SHOALI_COLLECTIVE_RATES_H
#define SHOALI_COLLECTIVE_RATES_H

#include <stdint.h>

#include "base/arena.h"
#include "shoal/status.h"

enum { SHOALI_RATES_SHIFTS_MAX = 31 };

typedef struct shoali_rates {
    uint32_t size;
    uint32_t *percent; /* [size] of a member's link, of the fastest's */
    uint32_t *order;   /* [size] around a ring: slow paths between members are crossed seldom */
} shoali_rates;

/**
 * @param to [shifts * size] bytes per second from member i to member (i + k) % size at
 *        (k - 1) * size + i; 0: not measured
 * @param place [size] the lowest member on the same host: between those no link is used
 * @param rates_out lives as long as the arena
 */
SHOAL_MUST_USE shoal_status shoali_rates_judge(const float *to, uint32_t shifts, uint32_t size,
                                               const uint32_t *place, shoal_arena *arena,
                                               shoali_rates *rates_out);

/**
 * How many of the blocks of a direct exchange each member owns, so that all end as early as can be:
 * with w of B blocks, member i moves (1 + (size - 2) w / B) vectors each way at its rate.
 * @param rates NULL: all equal
 * @param shares_out [size], their sum is the number of blocks, without a common divisor
 */
void shoali_rates_shares(const shoali_rates *rates, uint32_t size, uint32_t *shares_out);

#endif
