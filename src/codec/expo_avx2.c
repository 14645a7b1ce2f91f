/* SPDX-License-Identifier: Apache-2.0 */
/* expo with AVX2: four registers of eight elements make a block. */
#include <immintrin.h>
#include <string.h>

#include "codec/expo.h"

enum { BLOCK = SHOALI_EXPO_BLOCK, ESCAPE = SHOALI_EXPO_ESCAPE, PLANES = 1, VALUES = 13 };

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load(const float *src, size_t i)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(src + 8 * i));
}

INLINE uint32_t largest(__m256i a)
{
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    h = _mm_max_epi32(h, _mm_unpackhi_epi64(h, h));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}

INLINE __m256i exponents(__m256i bits)
{
    return _mm256_and_si256(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(255));
}

INLINE uint32_t top_bits(__m256i a)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(a));
}

/* Sign and fraction: bits 23 and 0-22. */
INLINE __m256i fractions(__m256i bits)
{
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 8), _mm256_set1_epi32(0x800000));
    return _mm256_or_si256(sign, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffff)));
}

/* Three bytes of each of eight elements; writes eight bytes more. */
INLINE void put_three(__m256i value, uint8_t *dst)
{
    const __m256i squeeze = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
                                             0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1,
                                             -1);
    __m256i bytes = _mm256_shuffle_epi8(value, squeeze);
    _mm_storeu_si128((__m128i *)(void *)dst, _mm256_castsi256_si128(bytes));
    _mm_storeu_si128((__m128i *)(void *)(dst + 12), _mm256_extracti128_si256(bytes, 1));
}

/* The uppermost of three bytes of each of eight elements. */
INLINE void put_one(__m256i value, uint8_t *dst)
{
    __m256i words = _mm256_packus_epi32(_mm256_srli_epi32(value, 16), _mm256_setzero_si256());
    words = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0x08);
    words = _mm256_shuffle_epi32(words, 0x08);
    _mm_storel_epi64((__m128i *)(void *)dst, _mm256_castsi256_si128(words));
}

static size_t put(const float *src, unsigned kept, uint8_t *dst)
{
    __m256i bits[4] = {load(src, 0), load(src, 1), load(src, 2), load(src, 3)};
    __m256i any = _mm256_or_si256(_mm256_or_si256(bits[0], bits[1]),
                                  _mm256_or_si256(bits[2], bits[3]));
    if (_mm256_testz_si256(any, any))
        return 0;
    __m256i most = _mm256_max_epi32(_mm256_max_epi32(exponents(bits[0]), exponents(bits[1])),
                                    _mm256_max_epi32(exponents(bits[2]), exponents(bits[3])));
    const uint32_t top = largest(most);
    const __m256i tops = _mm256_set1_epi32((int)top), escape = _mm256_set1_epi32(ESCAPE);
    uint8_t *escapes = dst + VALUES + BLOCK * kept;
    uint32_t planes[3] = {0}, escaped = 0;
    for (unsigned i = 0; i < 4; i++) {
        __m256i below = _mm256_sub_epi32(tops, exponents(bits[i]));
        below = _mm256_min_epi32(below, escape);
        planes[0] |= top_bits(_mm256_slli_epi32(below, 31)) << 8 * i;
        planes[1] |= top_bits(_mm256_slli_epi32(below, 30)) << 8 * i;
        planes[2] |= top_bits(_mm256_slli_epi32(below, 29)) << 8 * i;
        if (kept == 3)
            put_three(fractions(bits[i]), dst + VALUES + 24 * i);
        else
            put_one(fractions(bits[i]), dst + VALUES + 8 * i);
    }
    for (escaped = planes[0] & planes[1] & planes[2]; escaped != 0; escaped &= escaped - 1) {
        uint32_t one;
        memcpy(&one, src + __builtin_ctz(escaped), sizeof one);
        *escapes++ = (uint8_t)(one >> 23);
    }
    dst[0] = (uint8_t)top;
    memcpy(dst + PLANES, planes, sizeof planes);
    return (size_t)(escapes - dst);
}

/* Reads eight bytes beyond. */
INLINE __m256i get_three(const uint8_t *src)
{
    const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0,
                                            1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    __m128i lower = _mm_loadu_si128((const __m128i *)(const void *)src);
    __m128i upper = _mm_loadu_si128((const __m128i *)(const void *)(src + 12));
    return _mm256_shuffle_epi8(_mm256_set_m128i(upper, lower), spread);
}

INLINE __m256i get_one(const uint8_t *src)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)src);
    return _mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 16);
}

INLINE __m256i bit_of(uint32_t plane, unsigned i, unsigned to)
{
    const __m256i each = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i bits = _mm256_srlv_epi32(_mm256_set1_epi32((int)(plane >> 8 * i)), each);
    return _mm256_slli_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(1)), (int)to);
}

INLINE __m256i floats_of(const uint8_t *src, const uint32_t planes[3], unsigned i, unsigned kept)
{
    __m256i below = _mm256_or_si256(
        bit_of(planes[0], i, 0), _mm256_or_si256(bit_of(planes[1], i, 1), bit_of(planes[2], i, 2)));
    __m256i exponent = _mm256_sub_epi32(_mm256_set1_epi32(src[0]), below);
    __m256i value = kept == 3 ? get_three(src + VALUES + 24 * i) : get_one(src + VALUES + 8 * i);
    __m256i sign = _mm256_slli_epi32(_mm256_and_si256(value, _mm256_set1_epi32(0x800000)), 8);
    __m256i fraction = _mm256_and_si256(value, _mm256_set1_epi32(0x7fffff));
    return _mm256_or_si256(_mm256_or_si256(sign, fraction), _mm256_slli_epi32(exponent, 23));
}

/* Whether an offset reaches below exponent 0, as no encoder makes them. */
INLINE bool below_zero(const uint32_t planes[3], uint8_t top)
{
    if (top >= ESCAPE - 1)
        return false;
    for (unsigned i = 0; i < BLOCK; i++) {
        unsigned below = (planes[0] >> i & 1) | (planes[1] >> i & 1) << 1 |
                         (planes[2] >> i & 1) << 2;
        if (below != ESCAPE && below > top)
            return true;
    }
    return false;
}

static size_t get(const uint8_t *src, size_t len_bytes, unsigned kept, float *dst, bool add)
{
    enum { BEYOND = 8 };
    uint32_t planes[3];
    if (len_bytes < (size_t)VALUES + BLOCK * kept + BEYOND)
        return shoali_expo_get(src, len_bytes, BLOCK, kept, dst, add);
    memcpy(planes, src + PLANES, sizeof planes);
    uint32_t escaped = planes[0] & planes[1] & planes[2];
    size_t bytes = VALUES + BLOCK * (size_t)kept + (size_t)__builtin_popcount(escaped);
    if (bytes > len_bytes || below_zero(planes, src[0]))
        return SHOALI_EXPO_CORRUPT;
    float values[BLOCK];
    for (unsigned i = 0; i < 4; i++) {
        __m256 x = _mm256_castsi256_ps(floats_of(src, planes, i, kept));
        _mm256_storeu_ps(values + 8 * i, x);
    }
    const uint8_t *escape = src + VALUES + BLOCK * kept;
    for (; escaped != 0; escaped &= escaped - 1) {
        uint32_t bits, *at = &bits;
        float *one = &values[__builtin_ctz(escaped)];
        memcpy(at, one, sizeof bits);
        bits = (bits & 0x807fffffu) | (uint32_t)*escape++ << 23;
        memcpy(one, at, sizeof bits);
    }
    for (unsigned i = 0; i < 4; i++) {
        __m256 x = _mm256_loadu_ps(values + 8 * i);
        if (add)
            x = _mm256_add_ps(_mm256_loadu_ps(dst + 8 * i), x);
        _mm256_storeu_ps(dst + 8 * i, x);
    }
    return bytes;
}

const shoali_expo_loops shoali_expo_avx2 = {put, get};
