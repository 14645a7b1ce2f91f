/* SPDX-License-Identifier: Apache-2.0 */
/* What both layouts of the inceptionn vector loops share: 32 elements at a time become 16-bit words
 * and two bitmaps; tables say how a shuffle squeezes bytes together and spreads them again.
 *
 * A stride's words stand in two registers, eight elements to a lane: {0-7, 16-23} and {8-15, 24-31}.
 * So narrowing to bytes gives 0-31 in order, and no instruction has to cross lanes. */
#ifndef SHOALI_CODEC_INCEPTIONN_AVX2_H
#define SHOALI_CODEC_INCEPTIONN_AVX2_H

#include <immintrin.h>

#include "codec/inceptionn.h"

/** Shuffle controls for the lower and the upper eight bytes of a register. */
typedef struct shoali_inc_shuffle {
    uint64_t lower[256], upper[256];
} shoali_inc_shuffle;

/** Filled once before the first loop runs. */
typedef struct shoali_inc_tables {
    /* by 8 bits of a bitmap: bytes whose bit is set to the front, and back */
    shoali_inc_shuffle squeeze, spread;
    /* by the tags of four elements: four words to their payload, and back */
    shoali_inc_shuffle pack, unpack;
    uint8_t pack_bytes[256];
    /* by 8 bits of a bitmap: the bits two apart, as in a tag word */
    uint16_t apart[256];
} shoali_inc_tables;
extern shoali_inc_tables shoali_inc_avx2_tables;

/** 32 elements. RAW is low without high; a RAW element's word means nothing. */
typedef struct shoali_inc_stride {
    __m256i word[2];
    uint32_t high, low;
} shoali_inc_stride;

static inline __m256 shoali_inc_load(const float *src)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src)), _mm_loadu_ps(src + 16),
                                1);
}

/* Bitmap of two registers of 16-bit masks. */
static inline uint32_t shoali_inc_bits(__m256i a, __m256i b)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(a, b));
}

static inline uint32_t shoali_inc_raw_bits(const shoali_inc_rule *rule, const __m256 x[4])
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    const __m256i below = _mm256_set1_epi32((int)rule->raw_from - 1);
    __m256i raw[4];
    for (int i = 0; i < 4; i++)
        raw[i] = _mm256_cmpgt_epi32(_mm256_and_si256(_mm256_castps_si256(x[i]), magnitude), below);
    return shoali_inc_bits(_mm256_packs_epi32(raw[0], raw[1]), _mm256_packs_epi32(raw[2], raw[3]));
}

static inline shoali_inc_stride shoali_inc_stride_load(const shoali_inc_rule *rule,
                                                       const float *src)
{
    const __m256 scale = _mm256_castsi256_ps(
        _mm256_set1_epi32((int)((127 + 15 + rule->power) << 23)));
    __m256 x[4];
    __m256i word[2], magnitude[2], high[2], not_low[2];
    shoali_inc_stride s;
    for (int i = 0; i < 4; i++)
        x[i] = shoali_inc_load(src + 4 * i);
    for (int i = 0; i < 2; i++) {
        word[i] = _mm256_packs_epi32(_mm256_cvttps_epi32(_mm256_mul_ps(x[2 * i], scale)),
                                     _mm256_cvttps_epi32(_mm256_mul_ps(x[2 * i + 1], scale)));
        magnitude[i] = _mm256_abs_epi16(word[i]);
        high[i] = _mm256_cmpgt_epi16(magnitude[i], _mm256_set1_epi16((short)(rule->byte_bits - 1)));
        __m256i kept = _mm256_and_si256(magnitude[i], _mm256_set1_epi16((short)rule->word_bits));
        not_low[i] = _mm256_cmpeq_epi16(kept, _mm256_setzero_si256());
        /* A byte of magnitude 0 has no sign; in strict mode there is none, and small words have one. */
        __m256i signs = _mm256_cmpgt_epi16(magnitude[i],
                                           _mm256_set1_epi16(rule->strict ? 0 : 0xff));
        signs = _mm256_and_si256(_mm256_and_si256(signs, word[i]),
                                 _mm256_set1_epi16((short)0x8000));
        s.word[i] = _mm256_or_si256(magnitude[i], signs);
    }
    s.high = shoali_inc_bits(high[0], high[1]);
    s.low = ~shoali_inc_bits(not_low[0], not_low[1]) & s.high;
    /* Conversion and packing saturate: RAW elements, and few others, have 0x7fff or 0x8000 here. */
    __m256i largest = _mm256_max_epu16(magnitude[0], magnitude[1]);
    __m256i suspect = _mm256_subs_epu16(largest, _mm256_set1_epi16(0x7ffe));
    if (__builtin_expect(!_mm256_testz_si256(suspect, suspect), 0)) {
        uint32_t raw = shoali_inc_raw_bits(rule, x);
        s.high &= ~raw;
        s.low = (s.low & ~raw) | raw;
    }
    return s;
}

static inline uint64_t shoali_inc_u64(const uint8_t *src)
{
    uint64_t value;
    __builtin_memcpy(&value, src, sizeof value);
    return value;
}

/** Two 8-byte halves from memory. */
static inline __m128i shoali_inc_halves(const void *lower, const void *upper)
{
    __m128i low = _mm_loadl_epi64((const __m128i *)lower);
    return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(low), (const __m64 *)upper));
}

static inline void shoali_inc_store_upper(uint8_t *dst, __m128i value)
{
    _mm_storeh_pi((__m64 *)(void *)dst, _mm_castsi128_ps(value));
}

/** Words to 32 floats, element i at dst[i]; with add, onto what is there. */
static inline void shoali_inc_put(__m256i word0, __m256i word1, __m256 unit, float *dst, bool add)
{
    const __m256i magnitude = _mm256_set1_epi16(0x7fff);
    __m256i a = _mm256_sign_epi16(_mm256_and_si256(word0, magnitude), word0);
    __m256i b = _mm256_sign_epi16(_mm256_and_si256(word1, magnitude), word1);
    __m128i eight[4] = {_mm256_castsi256_si128(a), _mm256_castsi256_si128(b),
                        _mm256_extracti128_si256(a, 1), _mm256_extracti128_si256(b, 1)};
    for (int i = 0; i < 4; i++) {
        __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(eight[i])), unit);
        if (add)
            value = _mm256_add_ps(_mm256_loadu_ps(dst + 8 * i), value);
        _mm256_storeu_ps(dst + 8 * i, value);
    }
}

static inline __m256 shoali_inc_unit(const shoali_inc_rule *rule)
{
    return _mm256_castsi256_ps(_mm256_set1_epi32((int)((127 - 15 - rule->power) << 23)));
}

#endif
