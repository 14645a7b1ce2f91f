/* SPDX-License-Identifier: Apache-2.0 */
/* eden with AVX2: eight registers hold a tile of 64 elements, or 64 elements a stride apart, so
 * that a transform of 8 is twelve sums and twelve differences of whole registers. */
#include <immintrin.h>
#include <string.h>

#include "codec/eden.h"

enum { TILE = SHOALI_EDEN_TILE };

#define INLINE static inline __attribute__((always_inline))

INLINE void butterfly(__m256 *a, __m256 *b)
{
    __m256 sum = _mm256_add_ps(*a, *b);
    *b = _mm256_sub_ps(*a, *b);
    *a = sum;
}

/* A transform of 8 across registers, lowest bit first. */
INLINE void across(__m256 v[8])
{
    butterfly(&v[0], &v[1]), butterfly(&v[2], &v[3]);
    butterfly(&v[4], &v[5]), butterfly(&v[6], &v[7]);
    butterfly(&v[0], &v[2]), butterfly(&v[1], &v[3]);
    butterfly(&v[4], &v[6]), butterfly(&v[5], &v[7]);
    butterfly(&v[0], &v[4]), butterfly(&v[1], &v[5]);
    butterfly(&v[2], &v[6]), butterfly(&v[3], &v[7]);
}

/* Written out: gcc -O2 leaves short loops over registers as loops over memory. */
INLINE void transpose(__m256 v[8])
{
    __m256 a = _mm256_unpacklo_ps(v[0], v[1]), b = _mm256_unpackhi_ps(v[0], v[1]);
    __m256 c = _mm256_unpacklo_ps(v[2], v[3]), d = _mm256_unpackhi_ps(v[2], v[3]);
    __m256 e = _mm256_unpacklo_ps(v[4], v[5]), f = _mm256_unpackhi_ps(v[4], v[5]);
    __m256 g = _mm256_unpacklo_ps(v[6], v[7]), h = _mm256_unpackhi_ps(v[6], v[7]);
    v[0] = _mm256_shuffle_ps(a, c, 0x44), v[1] = _mm256_shuffle_ps(a, c, 0xee);
    v[2] = _mm256_shuffle_ps(b, d, 0x44), v[3] = _mm256_shuffle_ps(b, d, 0xee);
    a = _mm256_shuffle_ps(e, g, 0x44), b = _mm256_shuffle_ps(e, g, 0xee);
    c = _mm256_shuffle_ps(f, h, 0x44), d = _mm256_shuffle_ps(f, h, 0xee);
    v[4] = _mm256_permute2f128_ps(v[0], a, 0x31), v[0] = _mm256_permute2f128_ps(v[0], a, 0x20);
    v[5] = _mm256_permute2f128_ps(v[1], b, 0x31), v[1] = _mm256_permute2f128_ps(v[1], b, 0x20);
    v[6] = _mm256_permute2f128_ps(v[2], c, 0x31), v[2] = _mm256_permute2f128_ps(v[2], c, 0x20);
    v[7] = _mm256_permute2f128_ps(v[3], d, 0x31), v[3] = _mm256_permute2f128_ps(v[3], d, 0x20);
}

/* Negates where the top bit of `bits` is set. */
INLINE __m256 flip8(__m256 v, __m256i bits)
{
    __m256i sign = _mm256_and_si256(bits, _mm256_set1_epi32((int)0x80000000));
    return _mm256_xor_ps(v, _mm256_castsi256_ps(sign));
}

/* Negate elements whose bit is set; byte i of the word belongs to register i. */
INLINE void flip(__m256 v[8], uint64_t word)
{
    const __m256i low = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    __m256i bits = _mm256_set1_epi32((int)(uint32_t)word);
    v[0] = flip8(v[0], _mm256_sllv_epi32(bits, low));
    v[1] = flip8(v[1], _mm256_sllv_epi32(_mm256_srli_epi32(bits, 8), low));
    v[2] = flip8(v[2], _mm256_sllv_epi32(_mm256_srli_epi32(bits, 16), low));
    v[3] = flip8(v[3], _mm256_sllv_epi32(_mm256_srli_epi32(bits, 24), low));
    bits = _mm256_set1_epi32((int)(uint32_t)(word >> 32));
    v[4] = flip8(v[4], _mm256_sllv_epi32(bits, low));
    v[5] = flip8(v[5], _mm256_sllv_epi32(_mm256_srli_epi32(bits, 8), low));
    v[6] = flip8(v[6], _mm256_sllv_epi32(_mm256_srli_epi32(bits, 16), low));
    v[7] = flip8(v[7], _mm256_sllv_epi32(_mm256_srli_epi32(bits, 24), low));
}

INLINE void load(__m256 v[8], const float *z, size_t stride)
{
    v[0] = _mm256_load_ps(z), v[1] = _mm256_load_ps(z + stride);
    v[2] = _mm256_load_ps(z + 2 * stride), v[3] = _mm256_load_ps(z + 3 * stride);
    v[4] = _mm256_load_ps(z + 4 * stride), v[5] = _mm256_load_ps(z + 5 * stride);
    v[6] = _mm256_load_ps(z + 6 * stride), v[7] = _mm256_load_ps(z + 7 * stride);
}

INLINE void store(const __m256 v[8], float *z, size_t stride)
{
    _mm256_store_ps(z, v[0]), _mm256_store_ps(z + stride, v[1]);
    _mm256_store_ps(z + 2 * stride, v[2]), _mm256_store_ps(z + 3 * stride, v[3]);
    _mm256_store_ps(z + 4 * stride, v[4]), _mm256_store_ps(z + 5 * stride, v[5]);
    _mm256_store_ps(z + 6 * stride, v[6]), _mm256_store_ps(z + 7 * stride, v[7]);
}

INLINE void scale(__m256 v[8], __m256 by)
{
    v[0] = _mm256_mul_ps(v[0], by), v[1] = _mm256_mul_ps(v[1], by);
    v[2] = _mm256_mul_ps(v[2], by), v[3] = _mm256_mul_ps(v[3], by);
    v[4] = _mm256_mul_ps(v[4], by), v[5] = _mm256_mul_ps(v[5], by);
    v[6] = _mm256_mul_ps(v[6], by), v[7] = _mm256_mul_ps(v[7], by);
}

INLINE void transform_tile(__m256 v[8])
{
    across(v);
    transpose(v);
    across(v);
}

/* Index bits from 6 on: three at a time, then one. */
static void transform_above(float *z, size_t d)
{
    size_t h = TILE;
    __m256 v[8];
    for (; 8 * h <= d; h *= 8)
        for (size_t i = 0; i < d; i += 8 * h)
            for (size_t j = i; j < i + h; j += 8) {
                load(v, z + j, h);
                across(v);
                store(v, z + j, h);
            }
    for (; h < d; h *= 2)
        for (size_t i = 0; i < d; i += 2 * h)
            for (size_t j = i; j < i + h; j += 8) {
                __m256 a = _mm256_load_ps(z + j), b = _mm256_load_ps(z + j + h);
                butterfly(&a, &b);
                _mm256_store_ps(z + j, a);
                _mm256_store_ps(z + j + h, b);
            }
}

static void rotate(float *z, size_t d, uint64_t key, float power)
{
    const __m256 factor = _mm256_set1_ps(power);
    for (size_t t = 0; t < d / TILE; t++) {
        __m256 v[8];
        load(v, z + t * TILE, 8);
        scale(v, factor);
        flip(v, shoali_eden_signs(key, 2 * t));
        across(v);
        flip(v, shoali_eden_signs(key, 2 * t + 1));
        transform_tile(v);
        store(v, z + t * TILE, 8);
    }
    transform_above(z, d);
}

static void unrotate(float *z, size_t d, uint64_t key)
{
    transform_above(z, d);
    for (size_t t = 0; t < d / TILE; t++) {
        __m256 v[8];
        load(v, z + t * TILE, 8);
        transform_tile(v);
        flip(v, shoali_eden_signs(key, 2 * t + 1));
        across(v);
        flip(v, shoali_eden_signs(key, 2 * t));
        store(v, z + t * TILE, 8);
    }
}

static void square(const float *z, size_t d, float sums[SHOALI_EDEN_LANES])
{
    __m256 s[4];
    for (int i = 0; i < 4; i++)
        s[i] = _mm256_setzero_ps();
    for (size_t k = 0; k < d; k += SHOALI_EDEN_LANES)
        for (size_t i = 0; i < 4; i++) {
            __m256 x = _mm256_loadu_ps(z + k + 8 * i);
            s[i] = _mm256_add_ps(s[i], _mm256_mul_ps(x, x));
        }
    for (size_t i = 0; i < 4; i++)
        _mm256_storeu_ps(sums + 8 * i, s[i]);
}

/* Index of the level of eight magnitudes: how many thresholds they exceed. */
INLINE __m256i index_of(__m256 magnitude, const __m256 *threshold, unsigned thresholds)
{
    __m256i index = _mm256_setzero_si256();
    for (unsigned t = 0; t < thresholds; t++) {
        __m256 above = _mm256_cmp_ps(magnitude, threshold[t], _CMP_GT_OQ);
        index = _mm256_sub_epi32(index, _mm256_castps_si256(above));
    }
    return index;
}

INLINE uint8_t mask_of(__m256i v)
{
    return (uint8_t)_mm256_movemask_ps(_mm256_castsi256_ps(v));
}

INLINE void quantise_bits(const shoali_eden_levels *levels, unsigned bits, float rms,
                          const float *z, size_t d, uint8_t *planes, float sums[SHOALI_EDEN_LANES])
{
    const __m256 table = _mm256_loadu_ps(levels->level), sign = _mm256_set1_ps(-0.0f);
    const unsigned thresholds = (1u << (bits - 1)) - 1;
    __m256 threshold[7], s[4];
    for (unsigned t = 0; t < thresholds; t++)
        threshold[t] = _mm256_mul_ps(_mm256_set1_ps(levels->threshold[t]), _mm256_set1_ps(rms));
    for (int i = 0; i < 4; i++)
        s[i] = _mm256_setzero_ps();
    for (size_t k = 0; k < d; k += SHOALI_EDEN_LANES)
        for (size_t i = 0; i < 4; i++) {
            __m256 x = _mm256_load_ps(z + k + 8 * i), magnitude = _mm256_andnot_ps(sign, x);
            __m256i index = index_of(magnitude, threshold, thresholds);
            uint8_t *at = planes + (k + 8 * i) / 8;
            at[0] = (uint8_t)_mm256_movemask_ps(x);
            for (unsigned p = 1; p < bits; p++)
                at[p * (d / 8)] = mask_of(_mm256_slli_epi32(index, (int)(32 - p)));
            __m256 level = _mm256_permutevar8x32_ps(table, index);
            s[i] = _mm256_add_ps(s[i], _mm256_mul_ps(magnitude, level));
        }
    for (size_t i = 0; i < 4; i++)
        _mm256_storeu_ps(sums + 8 * i, s[i]);
}

static void quantise(const shoali_eden_levels *levels, float rms, const float *z, size_t d,
                     uint8_t *planes, float sums[SHOALI_EDEN_LANES])
{
    switch (levels->bits) {
    case 1:
        quantise_bits(levels, 1, rms, z, d, planes, sums);
        break;
    case 2:
        quantise_bits(levels, 2, rms, z, d, planes, sums);
        break;
    case 3:
        quantise_bits(levels, 3, rms, z, d, planes, sums);
        break;
    default:
        quantise_bits(levels, 4, rms, z, d, planes, sums);
    }
}

/* Lane i of register k: bit 8 k + i of a word to bit `to`, alone. */
INLINE __m256i bits_at(const uint8_t *plane, size_t k, unsigned to)
{
    const __m256i each = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i bits = _mm256_srlv_epi32(_mm256_set1_epi32(plane[k]), each);
    return _mm256_slli_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(1)), (int)to);
}

INLINE void dequantise_bits(const shoali_eden_levels *levels, unsigned bits, float factor,
                            const uint8_t *planes, size_t d, float *z)
{
    const __m256 table = _mm256_mul_ps(_mm256_loadu_ps(levels->level), _mm256_set1_ps(factor));
    for (size_t k = 0; k < d / 8; k++) {
        __m256i index = _mm256_setzero_si256();
        for (unsigned p = 1; p < bits; p++)
            index = _mm256_or_si256(index, bits_at(planes + p * (d / 8), k, p - 1));
        __m256 value = _mm256_permutevar8x32_ps(table, index);
        __m256 sign = _mm256_castsi256_ps(bits_at(planes, k, 31));
        _mm256_store_ps(z + 8 * k, _mm256_xor_ps(value, sign));
    }
}

static void dequantise(const shoali_eden_levels *levels, float factor, const uint8_t *planes,
                       size_t d, float *z)
{
    switch (levels->bits) {
    case 1:
        dequantise_bits(levels, 1, factor, planes, d, z);
        break;
    case 2:
        dequantise_bits(levels, 2, factor, planes, d, z);
        break;
    case 3:
        dequantise_bits(levels, 3, factor, planes, d, z);
        break;
    default:
        dequantise_bits(levels, 4, factor, planes, d, z);
    }
}

const shoali_eden_loops shoali_eden_avx2 = {rotate, unrotate, square, quantise, dequantise};
