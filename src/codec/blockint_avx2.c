/* SPDX-License-Identifier: Apache-2.0 */
/* blockint with AVX2: 32 integers of up to 16 bits stand in one or two registers of bytes, of which
 * movemask takes a plane at a time. */
#include <immintrin.h>
#include <string.h>

#include "codec/blockint.h"

enum { BLOCK = SHOALI_BLOCKINT_BLOCK, WIDE = SHOALI_BLOCKINT_WIDE };

/* Packing works within halves; this puts the groups of four back into order. */
static inline __m256i in_order(__m256i packed)
{
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static inline uint32_t any_bits(__m256i a)
{
    __m128i h = _mm_or_si128(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    h = _mm_or_si128(h, _mm_unpackhi_epi64(h, h));
    h = _mm_or_si128(h, _mm_shuffle_epi32(h, 1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}

static inline __m256i magnitude(__m256i q)
{
    return _mm256_xor_si256(q, _mm256_srai_epi32(q, 31));
}

static inline __m256i or4(__m256i a, __m256i b, __m256i c, __m256i d)
{
    return _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
}

/* Planes of the lower `count` bits of each byte. */
static inline uint8_t *put_planes(__m256i bytes, unsigned count, uint8_t *dst)
{
    __m256i top = _mm256_sll_epi16(bytes, _mm_cvtsi32_si128((int)(8 - count)));
    for (unsigned j = count; j-- > 0; top = _mm256_add_epi8(top, top)) {
        uint32_t plane = (uint32_t)_mm256_movemask_epi8(top);
        memcpy(dst + 4 * j, &plane, sizeof plane);
    }
    return dst + 4 * count;
}

static inline unsigned width_of(uint32_t magnitudes, uint32_t any)
{
    return magnitudes != 0 ? 33 - (unsigned)__builtin_clz(magnitudes) : any != 0;
}

static size_t put(const shoali_blockint_rule *rule, const float *src, uint8_t *dst,
                  unsigned *code_out)
{
    const __m256 scale = _mm256_set1_ps(rule->steps_per_unit);
    __m256i q[4];
    for (int i = 0; i < 4; i++) /* beyond 2^31, and NaN, become -2^31: width 32 */
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(src + 8 * i), scale));
    uint32_t any = any_bits(or4(q[0], q[1], q[2], q[3]));
    if (any == 0) {
        *code_out = 0;
        return 0;
    }
    unsigned width = width_of(
        any_bits(or4(magnitude(q[0]), magnitude(q[1]), magnitude(q[2]), magnitude(q[3]))), any);
    if (width > 16)
        return shoali_blockint_put(rule, src, BLOCK, dst, code_out);
    __m256i low = _mm256_packs_epi32(q[0], q[1]), high = _mm256_packs_epi32(q[2], q[3]);
    uint8_t *at = dst;
    *code_out = width < WIDE ? width : WIDE;
    if (width >= WIDE)
        *at++ = (uint8_t)width;
    if (width <= 8) {
        at = put_planes(in_order(_mm256_packs_epi16(low, high)), width, at);
    } else {
        const __m256i lower = _mm256_set1_epi16(0xff);
        __m256i bytes = _mm256_packus_epi16(_mm256_and_si256(low, lower),
                                            _mm256_and_si256(high, lower));
        at = put_planes(in_order(bytes), 8, at);
        bytes = _mm256_packs_epi16(_mm256_srai_epi16(low, 8), _mm256_srai_epi16(high, 8));
        at = put_planes(in_order(bytes), width - 8, at);
    }
    return (size_t)(at - dst);
}

/* Bytes of all ones where a plane has a bit. */
static inline __m256i spread(const uint8_t *plane)
{
    int32_t word;
    memcpy(&word, plane, sizeof word);
    const __m256i copies = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                              0x0303030303030303);
    const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i here = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), copies), bits);
    return _mm256_cmpeq_epi8(here, bits);
}

/* Bytes from 1 to 8 planes, the uppermost going on to bit 7. */
static inline __m256i get_planes(const uint8_t *src, unsigned count)
{
    __m256i bytes = _mm256_setzero_si256(), bit = _mm256_set1_epi8(1);
    for (unsigned j = 0; j + 1 < count; j++, bit = _mm256_add_epi8(bit, bit))
        bytes = _mm256_or_si256(bytes, _mm256_and_si256(spread(src + 4 * j), bit));
    __m256i and_above = _mm256_sub_epi8(_mm256_setzero_si256(), bit);
    return _mm256_or_si256(bytes, _mm256_and_si256(spread(src + 4 * (count - 1)), and_above));
}

static inline void put_floats(__m256i q, __m256 step, float *dst, bool add)
{
    __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(q), step);
    if (add)
        value = _mm256_add_ps(_mm256_loadu_ps(dst), value);
    _mm256_storeu_ps(dst, value);
}

static inline void put_bytes(__m128i bytes, __m256 step, float *dst, bool add)
{
    put_floats(_mm256_cvtepi8_epi32(bytes), step, dst, add);
    put_floats(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)), step, dst + 8, add);
}

/* Sixteen integers from their lower and upper bytes. */
static inline void put_words(__m128i lower, __m128i upper, __m256 step, float *dst, bool add)
{
    __m128i first = _mm_unpacklo_epi8(lower, upper), second = _mm_unpackhi_epi8(lower, upper);
    put_floats(_mm256_cvtepi16_epi32(first), step, dst, add);
    put_floats(_mm256_cvtepi16_epi32(second), step, dst + 8, add);
}

static inline void get_block(const uint8_t *src, unsigned width, __m256 step, float *dst, bool add)
{
    __m256i lower = get_planes(src, width < 8 ? width : 8);
    if (width <= 8) {
        put_bytes(_mm256_castsi256_si128(lower), step, dst, add);
        put_bytes(_mm256_extracti128_si256(lower, 1), step, dst + 16, add);
        return;
    }
    __m256i upper = get_planes(src + 32, width - 8);
    put_words(_mm256_castsi256_si128(lower), _mm256_castsi256_si128(upper), step, dst, add);
    put_words(_mm256_extracti128_si256(lower, 1), _mm256_extracti128_si256(upper, 1), step,
              dst + 16, add);
}

static size_t get(const shoali_blockint_rule *rule, unsigned code, const uint8_t *src,
                  size_t len_bytes, float *dst, bool add)
{
    unsigned width;
    if (code == 0) {
        if (!add)
            memset(dst, 0, BLOCK * sizeof *dst);
        return 0;
    }
    size_t bytes = shoali_blockint_size(code, src, len_bytes, BLOCK, &width);
    if (bytes == SHOALI_BLOCKINT_CORRUPT)
        return bytes;
    if (width > 16)
        return shoali_blockint_get(rule, code, src, len_bytes, dst, BLOCK, add);
    const __m256 step = _mm256_set1_ps(rule->step);
    src += code == WIDE;
    if (add)
        get_block(src, width, step, dst, true);
    else
        get_block(src, width, step, dst, false);
    return bytes;
}

const shoali_blockint_loops shoali_blockint_avx2 = {put, get};
