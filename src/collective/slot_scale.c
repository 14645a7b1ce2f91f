/* SPDX-License-Identifier: Apache-2.0 */
/* Block floating point. With 2^e > |x| <= 2^e (1 - 2^-24), |x| scale <= (2^31 - 1)/n - 128/n, and
 * rounding adds at most 1/2: n such integers sum to less than 2^31 as long as n < 256. */
#include <arpa/inet.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "collective/slot.h"
#include "kernel/kernel.h"

shoal_status shoali_slot_lay_out(size_t count, uint32_t block, uint32_t slots, uint32_t workers,
                                 bool sparse, shoali_slot_share *share_out)
{
    if (workers == 0 || workers > SHOALI_PACKET_WORKERS_MAX)
        return shoali_fail(SHOAL_EINVAL,
                           "%u workers: sums of int32 are exact for %d, and packets number no more",
                           workers, SHOALI_PACKET_WORKERS_MAX);
    if (block == 0 || block > SHOALI_PACKET_VALUES_MAX || slots == 0 ||
        slots > SHOALI_PACKET_SLOTS_MAX)
        return shoali_fail(SHOAL_EINVAL, "blocks of %u elements in %u slots: at most %d and %d",
                           block, slots, SHOALI_PACKET_VALUES_MAX, SHOALI_PACKET_SLOTS_MAX);
    const size_t blocks = count / block + (count % block != 0);
    if (blocks >= SHOALI_PACKET_NONE)
        return shoali_fail(SHOAL_EINVAL, "%zu elements are more blocks of %u than have numbers",
                           count, block);
    *share_out = (shoali_slot_share){.count = count,
                                     .block = block,
                                     .blocks = (uint32_t)blocks,
                                     .slots = blocks < slots ? (uint32_t)blocks : slots,
                                     .workers = workers,
                                     .sparse = sparse};
    return SHOAL_OK;
}

size_t shoali_slot_packet_bytes(const shoali_slot_share *share)
{
    const size_t values = 4 * (size_t)share->block;
    return SHOALI_PACKET_BYTES +
           (values > SHOALI_PACKET_MISSING_BYTES ? values : SHOALI_PACKET_MISSING_BYTES);
}

int16_t shoali_slot_exponent(const float *x, size_t n)
{
    const float most = shoali_kernel()->absmax(x, n);
    int e;
    if (most == 0)
        return SHOALI_EXPONENT_ZERO;
    if (!isfinite(most))
        return SHOALI_EXPONENT_NOT_FINITE;
    (void)frexpf(most, &e); /* [1/2, 1) times 2^e */
    return (int16_t)e;
}

double shoali_slot_scale(int16_t exponent, uint32_t workers)
{
    if (exponent == SHOALI_EXPONENT_ZERO || exponent == SHOALI_EXPONENT_NOT_FINITE)
        return 0; /* there are no integers */
    return ldexp((double)INT32_MAX / workers, -exponent);
}

double shoali_slot_share_scale(const shoali_slot_share *share, int16_t exponent)
{
    const double scale = shoali_slot_scale(exponent, share->workers);
    return share->whole && scale > 0 ? ldexp(1, ilogb(scale)) : scale;
}

/* A double this large has no bits below one: adding it rounds to nearest, and leaves the integer
 * in the low bits, in two's complement. Compilers make vectors of it, but none of rint(). */
static uint32_t rounded(double value)
{
    const double shifted = value + 0x1.8p52;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return (uint32_t)bits;
}

void shoali_slot_quantise(const float *x, size_t n, double scale, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t word = htonl(rounded(x[i] * scale));
        memcpy(out + 4 * i, &word, sizeof word);
    }
}

void shoali_slot_dequantise(const uint8_t *in, size_t n, double scale, float *x_out)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, in + 4 * i, sizeof word);
        x_out[i] = (float)((int32_t)ntohl(word) / scale);
    }
}

void shoali_slot_set(int32_t *acc, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, in + 4 * i, sizeof word);
        acc[i] = (int32_t)ntohl(word);
    }
}

void shoali_slot_add(int32_t *acc, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, in + 4 * i, sizeof word);
        acc[i] = (int32_t)((uint32_t)acc[i] + ntohl(word));
    }
}

void shoali_slot_put(const int32_t *acc, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t word = htonl((uint32_t)acc[i]);
        memcpy(out + 4 * i, &word, sizeof word);
    }
}
