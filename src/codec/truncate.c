/* SPDX-License-Identifier: Apache-2.0 */
/* truncate: floats without their 16, 22 or 24 low bits, the naive baseline of INCEPTIONN's
 * evaluation. 16 keeps two bytes per element; 24 one, the sign and seven of eight exponent bits; 22
 * that byte for all elements, then the two bits below it, four elements to a byte. Towards zero,
 * hence biased; with 24 a value may halve. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "codec/codec.h"

enum { DROP16, DROP22, DROP24 };

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

/* The largest magnitude among them as bits: from 0x7f800000 on one is not finite. */
static uint32_t put_bytes(const float *src, size_t count, uint8_t *dst)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_of(src + i), magnitude = bits & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
        dst[i] = (uint8_t)(bits >> 24);
    }
    return most;
}

static uint32_t put_words(const float *src, size_t count, uint8_t *dst)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_of(src + i), magnitude = bits & 0x7fffffffu;
        uint16_t word = (uint16_t)(bits >> 16);
        most = magnitude > most ? magnitude : most;
        memcpy(dst + 2 * i, &word, sizeof word);
    }
    return most;
}

static void put_pairs(const float *src, size_t count, uint8_t *dst)
{
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        dst[i / 4] = (uint8_t)((bits_of(src + i) >> 22 & 3) | (bits_of(src + i + 1) >> 20 & 12) |
                               (bits_of(src + i + 2) >> 18 & 48) |
                               (bits_of(src + i + 3) >> 16 & 192));
    if (i < count)
        dst[i / 4] = 0;
    for (; i < count; i++)
        dst[i / 4] |= (uint8_t)((bits_of(src + i) >> 22 & 3) << i % 4 * 2);
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const truncate_params *p = params;
    (void)capacity;
    uint32_t most = p->bits == DROP16 ? put_words(src, count, dst) : put_bytes(src, count, dst);
    if (most >= 0x7f800000u)
        return shoali_fail(SHOAL_ENOTFINITE, "truncate: an element from %zu on is not finite",
                           at->first);
    if (p->bits == DROP22)
        put_pairs(src, count, dst + count);
    *written_out = bound(params, count, 1);
    return SHOAL_OK;
}

static inline void put_float(float *dst, uint32_t bits, bool add)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    *dst = add ? *dst + x : x;
}

static inline void get_words(const uint8_t *src, size_t count, float *dst, bool add)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t word;
        memcpy(&word, src + 2 * i, sizeof word);
        put_float(&dst[i], (uint32_t)word << 16, add);
    }
}

static inline void get_bytes(const uint8_t *src, size_t count, float *dst, bool add)
{
    for (size_t i = 0; i < count; i++)
        put_float(&dst[i], (uint32_t)src[i] << 24, add);
}

static inline void get_pairs(const uint8_t *src, size_t count, float *dst, bool add)
{
    const uint8_t *pairs = src + count;
    for (size_t i = 0; i < count; i++)
        put_float(&dst[i], (uint32_t)src[i] << 24 | (pairs[i / 4] >> i % 4 * 2 & 3u) << 22, add);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const truncate_params *p = params;
    const size_t bytes = bound(params, count, 1);
    (void)at;
    if (len_bytes < bytes)
        return shoali_fail(SHOAL_ECORRUPT, "truncate: %zu bytes for %zu elements", len_bytes,
                           count);
    if (p->bits == DROP16)
        get_words(src, count, dst, add);
    else if (p->bits == DROP22)
        get_pairs(src, count, dst, add);
    else
        get_bytes(src, count, dst, add);
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
