/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random numbers: a value depends on (seed, stream, index) and on nothing else, so
 * chunking, retries and threads cannot change a result. Philox4x32-10 (Salmon et al., SC 2011). */
#ifndef SHOALI_BASE_RNG_H
#define SHOALI_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/** One Philox4x32-10 block: counter (index lo, index hi, stream lo, stream hi), key = seed. */
void shoali_philox(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);

/** 64 random bits at (seed, stream, index). */
uint64_t shoali_rng_u64(uint64_t seed, uint64_t stream, uint64_t index);
/** Uniform in [0, bound), bias below 2^-32 for bound < 2^32; bound > 0. */
uint64_t shoali_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound);
/** Uniform in [0, 1): 24 bits (float), 53 bits (double). */
float shoali_rng_float(uint64_t seed, uint64_t stream, uint64_t index);
double shoali_rng_double(uint64_t seed, uint64_t stream, uint64_t index);
/** Standard normal by Box-Muller. */
double shoali_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);

/** Mix of words for making streams: shoali_mix(shoali_mix(a, b), c). Two rounds of splitmix64. */
uint64_t shoali_mix(uint64_t a, uint64_t b);
/** FNV-1a of bytes, for keys and hashes that are not security. start 0: the standard basis;
 * starting from the hash of a first part gives the hash of both parts together. */
uint64_t shoali_hash(const void *bytes, size_t len_bytes, uint64_t start);

/** Cursor for code that draws one after the other. */
typedef struct shoali_rng {
    uint64_t seed, stream, index;
} shoali_rng;
uint64_t shoali_rng_next(shoali_rng *rng);
double shoali_rng_next_double(shoali_rng *rng);
double shoali_rng_next_normal(shoali_rng *rng);

#endif
