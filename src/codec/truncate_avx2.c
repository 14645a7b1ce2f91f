/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "codec/truncate.h"

enum { STRIDE = 32 };

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load(const float *src)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)src);
}

INLINE void store(uint8_t *dst, __m256i bytes)
{
    _mm256_storeu_si256((__m256i *)(void *)dst, bytes);
}

/* Four registers of small numbers to bytes in order. */
INLINE __m256i narrow(__m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

INLINE __m256i low2(__m256i x)
{
    return _mm256_and_si256(_mm256_srli_epi32(x, 22), _mm256_set1_epi32(3));
}

/* 32 numbers of two bits to eight bytes. */
INLINE uint64_t pairs_of(__m256i bytes)
{
    __m256i fours = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x0401)); /* 1 and 4 */
    fours = _mm256_madd_epi16(fours, _mm256_set1_epi32(0x00100001));        /* 1 and 16 */
    fours = _mm256_packus_epi32(fours, fours);
    fours = _mm256_packus_epi16(fours, fours);
    return (uint32_t)_mm256_extract_epi32(fours, 0) |
           (uint64_t)(uint32_t)_mm256_extract_epi32(fours, 4) << 32;
}

INLINE void put_stride(int32_t bits, const __m256i x[4], size_t i, size_t count, uint8_t *dst)
{
    if (bits == SHOALI_TRUNCATE_16) {
        for (size_t j = 0; j < 4; j += 2) {
            __m256i words = _mm256_packus_epi32(_mm256_srli_epi32(x[j], 16),
                                                _mm256_srli_epi32(x[j + 1], 16));
            store(dst + 2 * i + 16 * j, _mm256_permute4x64_epi64(words, 0xd8));
        }
        return;
    }
    store(dst + i, narrow(_mm256_srli_epi32(x[0], 24), _mm256_srli_epi32(x[1], 24),
                          _mm256_srli_epi32(x[2], 24), _mm256_srli_epi32(x[3], 24)));
    if (bits == SHOALI_TRUNCATE_22) {
        uint64_t pairs = pairs_of(narrow(low2(x[0]), low2(x[1]), low2(x[2]), low2(x[3])));
        memcpy(dst + count + i / 4, &pairs, sizeof pairs);
    }
}

INLINE uint32_t largest(__m256i a)
{
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    h = _mm_max_epi32(h, _mm_unpackhi_epi64(h, h));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}

INLINE size_t put(int32_t bits, const float *src, size_t count, uint8_t *dst, uint32_t *most_out)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + STRIDE <= count; i += STRIDE) {
        __m256i x[4] = {load(src + i), load(src + i + 8), load(src + i + 16), load(src + i + 24)};
        __m256i a = _mm256_max_epi32(_mm256_and_si256(x[0], magnitude),
                                     _mm256_and_si256(x[1], magnitude));
        __m256i b = _mm256_max_epi32(_mm256_and_si256(x[2], magnitude),
                                     _mm256_and_si256(x[3], magnitude));
        most = _mm256_max_epi32(most, _mm256_max_epi32(a, b));
        put_stride(bits, x, i, count, dst);
    }
    *most_out = largest(most);
    return i;
}

size_t shoali_truncate_put_avx2(int32_t bits, const float *src, size_t count, uint8_t *dst,
                                uint32_t *most_out)
{
    switch (bits) {
    case SHOALI_TRUNCATE_16:
        return put(SHOALI_TRUNCATE_16, src, count, dst, most_out);
    case SHOALI_TRUNCATE_22:
        return put(SHOALI_TRUNCATE_22, src, count, dst, most_out);
    default:
        return put(SHOALI_TRUNCATE_24, src, count, dst, most_out);
    }
}

INLINE void put8(__m256i bits, float *dst, bool add)
{
    __m256 value = _mm256_castsi256_ps(bits);
    if (add)
        value = _mm256_add_ps(_mm256_loadu_ps(dst), value);
    _mm256_storeu_ps(dst, value);
}

/* Two bits of each of eight elements, as bits 22 and 23. */
INLINE __m256i pairs_at(const uint8_t *src)
{
    uint16_t pairs;
    memcpy(&pairs, src, sizeof pairs);
    const __m256i each = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    __m256i two = _mm256_srlv_epi32(_mm256_set1_epi32(pairs), each);
    return _mm256_slli_epi32(_mm256_and_si256(two, _mm256_set1_epi32(3)), 22);
}

INLINE __m256i eight(int32_t bits, const uint8_t *src, size_t i, size_t count)
{
    if (bits == SHOALI_TRUNCATE_16) {
        __m128i words = _mm_loadu_si128((const __m128i *)(const void *)(src + 2 * i));
        return _mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16);
    }
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(src + i));
    __m256i x = _mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 24);
    return bits == SHOALI_TRUNCATE_22 ? _mm256_or_si256(x, pairs_at(src + count + i / 4)) : x;
}

INLINE size_t get(int32_t bits, const uint8_t *src, size_t count, float *dst, bool add,
                  uint32_t *most_out)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + STRIDE <= count; i += STRIDE)
        for (size_t j = i; j < i + STRIDE; j += 8) {
            const __m256i x = eight(bits, src, j, count);
            most = _mm256_max_epi32(most, _mm256_and_si256(x, magnitude));
            put8(x, dst + j, add);
        }
    *most_out = largest(most);
    return i;
}

size_t shoali_truncate_get_avx2(int32_t bits, const uint8_t *src, size_t count, float *dst,
                                bool add, uint32_t *most_out)
{
    switch (bits) {
    case SHOALI_TRUNCATE_16:
        return add ? get(SHOALI_TRUNCATE_16, src, count, dst, true, most_out)
                   : get(SHOALI_TRUNCATE_16, src, count, dst, false, most_out);
    case SHOALI_TRUNCATE_22:
        return add ? get(SHOALI_TRUNCATE_22, src, count, dst, true, most_out)
                   : get(SHOALI_TRUNCATE_22, src, count, dst, false, most_out);
    default:
        return add ? get(SHOALI_TRUNCATE_24, src, count, dst, true, most_out)
                   : get(SHOALI_TRUNCATE_24, src, count, dst, false, most_out);
    }
}
