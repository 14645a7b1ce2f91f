/* SPDX-License-Identifier: Apache-2.0 */
/* Fast random bits for stochastic rounding: 32 bits at (key, counter), by a keyed integer hash that
 * runs in eight lanes without tables. Counter-based like base/rng.h, and made from the same (seed,
 * stream, index), but weaker: good for rounding, not for drawing samples from.
 *
 * The mixing constants are lowbias32's (Wellons, "Prospecting for hash functions", 2018); two words
 * of key enter between its rounds, so that streams are different functions, not shifted copies of
 * one sequence. */
#ifndef SHOALI_CODEC_NOISE_H
#define SHOALI_CODEC_NOISE_H

#include "base/rng.h"

typedef struct shoali_noise {
    uint32_t first, second; /* key words */
} shoali_noise;

enum { SHOALI_NOISE_MUL_1 = 0x7feb352d };
#define SHOALI_NOISE_MUL_2 0x846ca68bu

/** The key of counters [high 2^32, (high + 1) 2^32) of a stream. */
static inline shoali_noise shoali_noise_key(uint64_t seed, uint64_t stream, uint64_t high)
{
    uint64_t key = shoali_mix(shoali_mix(seed, stream), high);
    return (shoali_noise){(uint32_t)key, (uint32_t)(key >> 32)};
}

/** 32 random bits. */
static inline uint32_t shoali_noise_at(shoali_noise key, uint32_t counter)
{
    uint32_t x = counter ^ key.first;
    x ^= x >> 16;
    x = x * SHOALI_NOISE_MUL_1 + key.second;
    x ^= x >> 15;
    x *= SHOALI_NOISE_MUL_2;
    return x ^ x >> 16;
}

#endif
