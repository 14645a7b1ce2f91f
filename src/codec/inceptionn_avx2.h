/* SPDX-License-Identifier: Apache-2.0 */
/* What both layouts of the inceptionn vector loops share: 32 elements at a time become 16-bit words
 * and two bitmaps; tables say how a shuffle squeezes bytes together and spreads them again. */
#ifndef SHOALI_CODEC_INCEPTIONN_AVX2_H
#define SHOALI_CODEC_INCEPTIONN_AVX2_H

#include <immintrin.h>

#include "codec/inceptionn.h"

/* These loops are worth nothing unless the constants of their callers reach them. */
#define SHOALI_INC_INLINE static inline __attribute__((always_inline))

/** Filled once before the first loop runs. Controls are rows of 8 bytes. */
typedef struct shoali_inc_tables {
    /* by 8 bits of a bitmap: bytes whose bit is set to the front of their half, and back */
    uint64_t squeeze[256], spread[256];
    /* by the tags of four elements: four words to their payload, and back */
    uint64_t pack[256], unpack[256];
    uint8_t pack_bytes[256];
    /* by 8 bits of a bitmap: the bits two apart, as in a tag word */
    uint16_t apart[256];
} shoali_inc_tables;
extern shoali_inc_tables shoali_inc_avx2_tables;

/** 32 elements, 16 to a register of words. RAW is low without high; the word of a RAW element means
 * nothing. Elements stand either in the order of the layout `planes` (see shoali_inc_element),
 * which costs nothing, or in groups of eight: 0-7 and 16-23 in the first register, the rest in the
 * second, so that both narrow to bytes in order. */
typedef struct shoali_inc_stride {
    __m256i word0, word1;
    uint32_t high, low;
} shoali_inc_stride;

/** Eight elements for one of four registers. */
SHOALI_INC_INLINE __m256 shoali_inc_load(const float *src, int i, bool in_groups)
{
    if (!in_groups)
        return _mm256_loadu_ps(src + 8 * i);
    __m128 lower = _mm_loadu_ps(src + 4 * i), upper = _mm_loadu_ps(src + 4 * i + 16);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(lower), upper, 1);
}

/** The rule in registers. */
typedef struct shoali_inc_lanes {
    __m256 scale;       /* to units of 2^-15 after the prescale */
    __m256i below_byte; /* largest magnitude that is ZERO */
    __m256i word_bits;
    __m256i below_sign; /* largest magnitude whose sign is not sent */
    __m256i below_raw;  /* largest float bits that are not RAW */
} shoali_inc_lanes;

SHOALI_INC_INLINE shoali_inc_lanes shoali_inc_lanes_make(const shoali_inc_rule *rule)
{
    return (shoali_inc_lanes){
        .scale = _mm256_castsi256_ps(_mm256_set1_epi32((int)((127 + 15 + rule->power) << 23))),
        .below_byte = _mm256_set1_epi16((short)(rule->byte_bits - 1)),
        .word_bits = _mm256_set1_epi16((short)rule->word_bits),
        /* A BYTE of magnitude 0 has no sign. Strict mode makes none, but WORDs that small. */
        .below_sign = _mm256_set1_epi16(rule->strict ? 0 : 0xff),
        .below_raw = _mm256_set1_epi32((int)rule->raw_from - 1),
    };
}

/* Bitmap of two registers of 16-bit masks. */
SHOALI_INC_INLINE uint32_t shoali_inc_bits(__m256i a, __m256i b)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(a, b));
}

SHOALI_INC_INLINE __m256i shoali_inc_is_raw(__m256 x, __m256i below_raw)
{
    __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
    return _mm256_cmpgt_epi32(magnitude, below_raw);
}

SHOALI_INC_INLINE uint32_t shoali_inc_raw_bits(const float *src, bool in_groups, __m256i below_raw)
{
    __m256i a = shoali_inc_is_raw(shoali_inc_load(src, 0, in_groups), below_raw);
    __m256i b = shoali_inc_is_raw(shoali_inc_load(src, 1, in_groups), below_raw);
    __m256i c = shoali_inc_is_raw(shoali_inc_load(src, 2, in_groups), below_raw);
    __m256i d = shoali_inc_is_raw(shoali_inc_load(src, 3, in_groups), below_raw);
    return shoali_inc_bits(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

/* 16 elements truncated to words in two's complement. */
SHOALI_INC_INLINE __m256i shoali_inc_truncate(__m256 a, __m256 b, __m256 scale)
{
    return _mm256_packs_epi32(_mm256_cvttps_epi32(_mm256_mul_ps(a, scale)),
                              _mm256_cvttps_epi32(_mm256_mul_ps(b, scale)));
}

SHOALI_INC_INLINE __m256i shoali_inc_signed(__m256i word, __m256i magnitude, __m256i below_sign)
{
    __m256i sign = _mm256_and_si256(_mm256_cmpgt_epi16(magnitude, below_sign), word);
    return _mm256_or_si256(magnitude, _mm256_and_si256(sign, _mm256_set1_epi16((short)0x8000)));
}

SHOALI_INC_INLINE __m256i shoali_inc_lacks(__m256i magnitude, __m256i bits)
{
    return _mm256_cmpeq_epi16(_mm256_and_si256(magnitude, bits), _mm256_setzero_si256());
}

SHOALI_INC_INLINE shoali_inc_stride shoali_inc_stride_load(const shoali_inc_lanes *r,
                                                           const float *src, bool in_groups)
{
    shoali_inc_stride s;
    __m256i word0 = shoali_inc_truncate(shoali_inc_load(src, 0, in_groups),
                                        shoali_inc_load(src, 1, in_groups), r->scale);
    __m256i word1 = shoali_inc_truncate(shoali_inc_load(src, 2, in_groups),
                                        shoali_inc_load(src, 3, in_groups), r->scale);
    __m256i magnitude0 = _mm256_abs_epi16(word0), magnitude1 = _mm256_abs_epi16(word1);
    s.high = shoali_inc_bits(_mm256_cmpgt_epi16(magnitude0, r->below_byte),
                             _mm256_cmpgt_epi16(magnitude1, r->below_byte));
    s.low = ~shoali_inc_bits(shoali_inc_lacks(magnitude0, r->word_bits),
                             shoali_inc_lacks(magnitude1, r->word_bits)) &
            s.high;
    s.word0 = shoali_inc_signed(word0, magnitude0, r->below_sign);
    s.word1 = shoali_inc_signed(word1, magnitude1, r->below_sign);
    /* Conversion and packing saturate: RAW elements, and few others, have 0x7fff or 0x8000 here. */
    __m256i suspect = _mm256_subs_epu16(_mm256_max_epu16(magnitude0, magnitude1),
                                        _mm256_set1_epi16(0x7ffe));
    if (__builtin_expect(!_mm256_testz_si256(suspect, suspect), 0)) {
        uint32_t raw = shoali_inc_raw_bits(src, in_groups, r->below_raw);
        s.high &= ~raw;
        s.low = (s.low & ~raw) | raw;
    }
    return s;
}

/** A control from two rows of a table, for the lower and the upper half. Broadcasts and blends
 * spare the one port that shuffles. */
SHOALI_INC_INLINE __m128i shoali_inc_control(const uint64_t table[256], uint32_t lower,
                                             uint32_t upper)
{
    __m128i low = _mm_loadl_epi64((const __m128i *)(const void *)&table[lower]);
    return _mm_blend_epi32(low, _mm_set1_epi64x((long long)table[upper]), 0xc);
}

/** The lower half of `lower`, then 8 bytes from memory. */
SHOALI_INC_INLINE __m128i shoali_inc_join(__m128i lower, const uint8_t *upper)
{
    return _mm_castps_si128(
        _mm_loadh_pi(_mm_castsi128_ps(lower), (const __m64 *)(const void *)upper));
}

SHOALI_INC_INLINE void shoali_inc_store_upper(uint8_t *dst, __m128i value)
{
    _mm_storeh_pi((__m64 *)(void *)dst, _mm_castsi128_ps(value));
}

/** What a word shifted left by `shift` counts. */
SHOALI_INC_INLINE __m256 shoali_inc_unit(const shoali_inc_rule *rule, uint32_t shift)
{
    return _mm256_castsi256_ps(_mm256_set1_epi32((int)((127 - 15 - rule->power - shift) << 23)));
}

#endif
