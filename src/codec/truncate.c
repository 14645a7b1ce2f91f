/* SPDX-License-Identifier: Apache-2.0 */
/* truncate: floats without their 16, 22 or 24 low bits, the naive baseline of INCEPTIONN's
 * evaluation. 16 keeps two bytes per element; 24 one, the sign and seven of eight exponent bits; 22
 * that byte for all elements, then the two bits below it, four elements to a byte. Towards zero,
 * hence biased; with 24 a value may halve. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/truncate.h"
#include "kernel/kernel.h"

enum { DROP16 = SHOALI_TRUNCATE_16, DROP22 = SHOALI_TRUNCATE_22, DROP24 = SHOALI_TRUNCATE_24 };

typedef struct truncate_params {
    int32_t bits;
    bool ef;
} truncate_params;

static const shoali_key keys[] = {
    {"bits", SHOALI_KEY_CHOICE, offsetof(truncate_params, bits), 0, 0, "16|22|24", "16",
     "how many low bits are dropped"},
    SHOALI_CODEC_KEY_EF(truncate_params, "off"),
};

static uint16_t wire_id(const void *params)
{
    return (uint16_t)(49 + ((const truncate_params *)params)->bits);
}

/* One unit of what is kept, below 1. */
static double error_bound(const void *params)
{
    static const double units[] = {0x1p-8, 0.25, 0.5};
    return units[((const truncate_params *)params)->bits];
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)parts;
    switch (((const truncate_params *)params)->bits) {
    case DROP16:
        return 2 * count;
    case DROP22:
        return count + (count + 3) / 4;
    default:
        return count;
    }
}

static uint32_t bits_of(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits;
}

static void put_one(int32_t drop, uint32_t bits, size_t i, size_t count, uint8_t *dst)
{
    const uint16_t word = (uint16_t)(bits >> 16);
    if (drop == DROP16) {
        memcpy(dst + 2 * i, &word, sizeof word);
        return;
    }
    dst[i] = (uint8_t)(bits >> 24);
    if (drop == DROP22) {
        uint8_t *pairs = dst + count + i / 4;
        *pairs = (uint8_t)((i % 4 == 0 ? 0 : *pairs) | (bits >> 22 & 3) << i % 4 * 2);
    }
}

static uint32_t kept(int32_t drop, const uint8_t *src, size_t i, size_t count)
{
    uint16_t word;
    if (drop == DROP16) {
        memcpy(&word, src + 2 * i, sizeof word);
        return (uint32_t)word << 16;
    }
    uint32_t bits = (uint32_t)src[i] << 24;
    if (drop == DROP22)
        bits |= (src[count + i / 4] >> i % 4 * 2 & 3u) << 22;
    return bits;
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const int32_t drop = ((const truncate_params *)params)->bits;
    uint32_t most = 0;
    size_t i = 0;
    (void)capacity;
#if defined(__x86_64__)
    if (shoali_kernel()->avx2)
        i = shoali_truncate_put_avx2(drop, src, count, dst, &most);
#elif defined(__aarch64__)
    if (shoali_kernel()->neon)
        i = shoali_truncate_put_neon(drop, src, count, dst, &most);
#endif
    for (; i < count; i++) {
        uint32_t bits = bits_of(src + i), magnitude = bits & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
        put_one(drop, bits, i, count, dst);
    }
    if (most >= 0x7f800000u)
        return shoali_fail(SHOAL_ENOTFINITE, "truncate: an element from %zu on is not finite",
                           at->first);
    *written_out = bound(params, count, 1);
    return SHOAL_OK;
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const int32_t drop = ((const truncate_params *)params)->bits;
    const size_t bytes = bound(params, count, 1);
    uint32_t most = 0;
    size_t i = 0;
    (void)at;
    if (len_bytes < bytes)
        return shoali_fail(SHOAL_ECORRUPT, "truncate: %zu bytes for %zu elements", len_bytes,
                           count);
#if defined(__x86_64__)
    if (shoali_kernel()->avx2)
        i = shoali_truncate_get_avx2(drop, src, count, dst, add, &most);
#elif defined(__aarch64__)
    if (shoali_kernel()->neon)
        i = shoali_truncate_get_neon(drop, src, count, dst, add, &most);
#endif
    for (; i < count; i++) {
        uint32_t bits = kept(drop, src, i, count), magnitude = bits & 0x7fffffffu;
        float x;
        most = magnitude > most ? magnitude : most;
        memcpy(&x, &bits, sizeof x);
        dst[i] = add ? dst[i] + x : x;
    }
    if (most >= 0x7f800000u)
        return shoali_fail(SHOAL_ECORRUPT, "truncate: NaN or infinity among %zu coded elements",
                           count);
    *read_out = bytes;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_truncate = {
    .name = "truncate",
    .paper = "the baselines 16b-T, 22b-T and 24b-T of Li et al., MICRO 2018",
    .traits = SHOAL_CODEC_FIXED_RATE,
    .bytes_per_elem = 2,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(truncate_params)},
    .wire_id = wire_id,
    .error_bound = error_bound,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
