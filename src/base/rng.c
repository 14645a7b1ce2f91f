/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011, section 3.3. Multipliers and Weyl increments are the paper's. */
#include "base/rng.h"

#include <math.h>

__extension__ typedef unsigned __int128 u128;

void shoali_philox(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * 0xD2511F53u;
        uint64_t p1 = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t shoali_rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t out[4];
    shoali_philox(seed, stream, index, out);
    return (uint64_t)out[1] << 32 | out[0];
}

uint64_t shoali_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound)
{
    return (uint64_t)((u128)shoali_rng_u64(seed, stream, index) * bound >> 64);
}

static double unit_double(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

float shoali_rng_float(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (float)(shoali_rng_u64(seed, stream, index) >> 40) * 0x1p-24f;
}

double shoali_rng_double(uint64_t seed, uint64_t stream, uint64_t index)
{
    return unit_double(shoali_rng_u64(seed, stream, index));
}

double shoali_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t out[4];
    shoali_philox(seed, stream, index, out);
    /* in (0, 1], so the logarithm is finite */
    double radius = 1.0 - unit_double((uint64_t)out[1] << 32 | out[0]);
    double angle = unit_double((uint64_t)out[3] << 32 | out[2]);
    return sqrt(-2.0 * log(radius)) * cos(2.0 * M_PI * angle);
}

/* Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (constants:
 * Stafford's mix 13). */
static uint64_t splitmix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

uint64_t shoali_mix(uint64_t a, uint64_t b)
{
    return splitmix(splitmix(a) ^ b);
}

uint64_t shoali_hash(const void *bytes, size_t len_bytes, uint64_t start)
{
    const uint8_t *at = bytes;
    uint64_t hash = start != 0 ? start : 0xCBF29CE484222325u;
    for (size_t i = 0; i < len_bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001B3u;
    return hash;
}

uint64_t shoali_rng_next(shoali_rng *rng)
{
    return shoali_rng_u64(rng->seed, rng->stream, rng->index++);
}

double shoali_rng_next_double(shoali_rng *rng)
{
    return shoali_rng_double(rng->seed, rng->stream, rng->index++);
}

double shoali_rng_next_normal(shoali_rng *rng)
{
    return shoali_rng_normal(rng->seed, rng->stream, rng->index++);
}
