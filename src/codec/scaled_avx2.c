/* SPDX-License-Identifier: Apache-2.0 */
/* The scaled formats with AVX2, 32 elements at a time; the plain loops take the rest of a block. */
#include <immintrin.h>
#include <string.h>

#include "codec/noise_avx2.h"
#include "codec/scaled.h"

enum { STRIDE = 32 };

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i in_order(__m256i packed)
{
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Hardware prefetchers stop at the end of a page: see inceptionn_avx2.c. */
INLINE void prefetch(const void *at)
{
    enum { LEAD_BYTES = 2048 };
    _mm_prefetch((const char *)((uintptr_t)at + LEAD_BYTES), _MM_HINT_T0);
}

INLINE shoali_scaled_noise from(const shoali_scaled_noise *noise, size_t i)
{
    shoali_scaled_noise later = *noise;
    later.first += (uint32_t)i;
    return later;
}

INLINE void put8(__m256 value, float *dst, bool add)
{
    if (add)
        value = _mm256_add_ps(_mm256_loadu_ps(dst), value);
    _mm256_storeu_ps(dst, value);
}

/* ---------------------------------------------------------------- integers */

INLINE __m256 unit(__m256i bits16)
{
    __m256 steps = _mm256_add_ps(_mm256_cvtepi32_ps(bits16), _mm256_set1_ps(0.5f));
    return _mm256_mul_ps(steps, _mm256_set1_ps(0x1p-16f));
}

/* Sixteen elements to two registers of integers. */
INLINE void round16(const float *src, __m256 per_scale, const shoali_scaled_noise *noise, size_t i,
                    bool stochastic, __m256i *low, __m256i *high)
{
    __m256 a = _mm256_mul_ps(_mm256_loadu_ps(src + i), per_scale);
    __m256 b = _mm256_mul_ps(_mm256_loadu_ps(src + i + 8), per_scale);
    if (!stochastic) {
        *low = _mm256_cvtps_epi32(a), *high = _mm256_cvtps_epi32(b);
        return;
    }
    __m256i counter = _mm256_add_epi32(_mm256_set1_epi32((int)(noise->first / 2 + i / 2)),
                                       _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i bits = shoali_noise_at8(noise->key, counter);
    a = _mm256_add_ps(a, unit(_mm256_and_si256(bits, _mm256_set1_epi32(0xffff))));
    b = _mm256_add_ps(b, unit(_mm256_srli_epi32(bits, 16)));
    *low = _mm256_cvttps_epi32(_mm256_floor_ps(a));
    *high = _mm256_cvttps_epi32(_mm256_floor_ps(b));
}

/* 32 elements as bytes in order, within +-limit. */
INLINE __m256i round32(const float *src, __m256 per_scale, const shoali_scaled_noise *noise,
                       size_t i, bool stochastic, int limit)
{
    __m256i a, b, c, d;
    round16(src, per_scale, noise, i, stochastic, &a, &b);
    round16(src, per_scale, noise, i + 16, stochastic, &c, &d);
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    bytes = _mm256_min_epi8(bytes, _mm256_set1_epi8((char)limit));
    return in_order(_mm256_max_epi8(bytes, _mm256_set1_epi8((char)-limit)));
}

INLINE void int8_loop(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                      bool stochastic, uint8_t *dst)
{
    const __m256 by = _mm256_set1_ps(per_scale);
    for (size_t i = 0; i < n; i += STRIDE) {
        prefetch(src + i);
        prefetch(src + i + STRIDE / 2);
        __m256i bytes = round32(src, by, noise, i, stochastic, 127);
        _mm256_storeu_si256((__m256i *)(void *)(dst + i), bytes);
    }
}

static void int8_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    size_t whole = n - n % STRIDE;
    if (noise->on)
        int8_loop(src, whole, per_scale, noise, true, dst);
    else
        int8_loop(src, whole, per_scale, noise, false, dst);
    const shoali_scaled_noise rest = from(noise, whole);
    shoali_scaled_ref.int8.put(src + whole, n - whole, per_scale, &rest, dst + whole);
}

INLINE void get_bytes(__m128i bytes, __m256 scale, float *dst, bool add)
{
    put8(_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), scale), dst, add);
    bytes = _mm_unpackhi_epi64(bytes, bytes);
    put8(_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), scale), dst + 8, add);
}

INLINE __m128i load16(const uint8_t *src)
{
    return _mm_loadu_si128((const __m128i *)(const void *)src);
}

static void int8_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    const __m256 by = _mm256_set1_ps(scale);
    size_t whole = n - n % 16;
    if (add)
        for (size_t i = 0; i < whole; i += 16) {
            prefetch(dst + i);
            get_bytes(load16(src + i), by, dst + i, true);
        }
    else
        for (size_t i = 0; i < whole; i += 16)
            get_bytes(load16(src + i), by, dst + i, false);
    shoali_scaled_ref.int8.get(src + whole, n - whole, scale, dst + whole, add);
}

INLINE void int4_loop(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                      bool stochastic, uint8_t *dst)
{
    const __m256 by = _mm256_set1_ps(per_scale);
    const __m128i nibble = _mm_set1_epi8(15);
    for (size_t i = 0; i < n; i += STRIDE) {
        prefetch(src + i);
        prefetch(src + i + STRIDE / 2);
        __m256i bytes = round32(src, by, noise, i, stochastic, 7);
        __m128i low = _mm_and_si128(_mm256_castsi256_si128(bytes), nibble);
        __m128i high = _mm_and_si128(_mm256_extracti128_si256(bytes, 1), nibble);
        _mm_storeu_si128((__m128i *)(void *)(dst + i / 2),
                         _mm_or_si128(low, _mm_slli_epi16(high, 4)));
    }
}

static void int4_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    size_t whole = n - n % STRIDE;
    if (noise->on)
        int4_loop(src, whole, per_scale, noise, true, dst);
    else
        int4_loop(src, whole, per_scale, noise, false, dst);
    const shoali_scaled_noise rest = from(noise, whole);
    shoali_scaled_ref.int4.put(src + whole, n - whole, per_scale, &rest, dst + whole / 2);
}

/* Nibbles of bytes, their sign going on to bit 7. */
INLINE __m128i extend(__m128i nibbles)
{
    const __m128i sign = _mm_set1_epi8(8);
    return _mm_sub_epi8(_mm_xor_si128(_mm_and_si128(nibbles, _mm_set1_epi8(15)), sign), sign);
}

INLINE void int4_get32(const uint8_t *src, __m256 scale, float *dst, bool add)
{
    __m128i bytes = load16(src);
    get_bytes(extend(bytes), scale, dst, add);
    get_bytes(extend(_mm_srli_epi16(bytes, 4)), scale, dst + 16, add);
}

static void int4_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    const __m256 by = _mm256_set1_ps(scale);
    size_t whole = n - n % STRIDE;
    for (size_t i = 0; i < whole; i += STRIDE)
        if (add)
            int4_get32(src + i / 2, by, dst + i, true);
        else
            int4_get32(src + i / 2, by, dst + i, false);
    shoali_scaled_ref.int4.get(src + whole / 2, n - whole, scale, dst + whole, add);
}

/* ---------------------------------------------------------------- 8-bit floats */

/* Eight codes in 32-bit lanes. Small ones are rounded by adding a number whose last place is their
 * step. */
INLINE __m256i float8_of(__m256 x, int fraction, int bias, int largest)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const int drop = 23 - fraction;
    __m256 magnitude = _mm256_andnot_ps(sign, x);
    __m256i bits = _mm256_castps_si256(magnitude);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, drop), _mm256_set1_epi32(1));
    __m256i round = _mm256_add_epi32(odd, _mm256_set1_epi32((1 << (drop - 1)) - 1));
    __m256i normal = _mm256_srli_epi32(_mm256_add_epi32(bits, round), drop);
    normal = _mm256_sub_epi32(normal, _mm256_set1_epi32((127 - bias) << fraction));
    const __m256i anchor = _mm256_set1_epi32((127 + 23 - (bias - 1 + fraction)) << 23);
    __m256 shifted = _mm256_add_ps(magnitude, _mm256_castsi256_ps(anchor));
    __m256i small = _mm256_sub_epi32(_mm256_castps_si256(shifted), anchor);
    __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32((128 - bias) << 23), bits);
    __m256i code = _mm256_blendv_epi8(normal, small, is_small);
    code = _mm256_min_epi32(code, _mm256_set1_epi32(largest));
    __m256i top = _mm256_srli_epi32(_mm256_castps_si256(_mm256_and_ps(x, sign)), 24);
    return _mm256_or_si256(code, top);
}

INLINE void float8_put(const float *src, size_t n, float per_scale, int fraction, int bias,
                       int largest, uint8_t *dst)
{
    const __m256 by = _mm256_set1_ps(per_scale);
    for (size_t i = 0; i < n; i += STRIDE) {
        prefetch(src + i);
        prefetch(src + i + STRIDE / 2);
        __m256i a = float8_of(_mm256_mul_ps(_mm256_loadu_ps(src + i), by), fraction, bias, largest);
        __m256i b = float8_of(_mm256_mul_ps(_mm256_loadu_ps(src + i + 8), by), fraction, bias,
                              largest);
        __m256i c = float8_of(_mm256_mul_ps(_mm256_loadu_ps(src + i + 16), by), fraction, bias,
                              largest);
        __m256i d = float8_of(_mm256_mul_ps(_mm256_loadu_ps(src + i + 24), by), fraction, bias,
                              largest);
        __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
        _mm256_storeu_si256((__m256i *)(void *)(dst + i), in_order(bytes));
    }
}

static void e4m3_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    size_t whole = n - n % STRIDE;
    float8_put(src, whole, per_scale, 3, 7, 0x7e, dst);
    shoali_scaled_ref.e4m3.put(src + whole, n - whole, per_scale, noise, dst + whole);
}

static void e5m2_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    size_t whole = n - n % STRIDE;
    float8_put(src, whole, per_scale, 2, 15, 0x7b, dst);
    shoali_scaled_ref.e5m2.put(src + whole, n - whole, per_scale, noise, dst + whole);
}

/* By way of fp16, whose upper bits have e5m2's exponent, and e4m3's but for a factor of 2^8. */
INLINE __m256 float8_value(const uint8_t *src, int up, int largest, __m256 factor)
{
    __m128i codes = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)src));
    __m128i magnitude = _mm_and_si128(codes, _mm_set1_epi16(0x7f));
    magnitude = _mm_slli_epi16(_mm_min_epi16(magnitude, _mm_set1_epi16((short)largest)), up);
    __m128i sign = _mm_slli_epi16(_mm_and_si128(codes, _mm_set1_epi16(0x80)), 8);
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(magnitude, sign)), factor);
}

INLINE void float8_get(const uint8_t *src, size_t n, float exact, float scale, int up, int largest,
                       float *dst, bool add)
{
    const __m256 power = _mm256_set1_ps(exact), by = _mm256_set1_ps(scale);
    for (size_t i = 0; i < n; i += 8)
        put8(_mm256_mul_ps(float8_value(src + i, up, largest, power), by), dst + i, add);
}

static void e4m3_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    size_t whole = n - n % 8;
    if (add)
        float8_get(src, whole, 0x1p8f, scale, 7, 0x7e, dst, true);
    else
        float8_get(src, whole, 0x1p8f, scale, 7, 0x7e, dst, false);
    shoali_scaled_ref.e4m3.get(src + whole, n - whole, scale, dst + whole, add);
}

static void e5m2_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    size_t whole = n - n % 8;
    if (add)
        float8_get(src, whole, 1, scale, 8, 0x7b, dst, true);
    else
        float8_get(src, whole, 1, scale, 8, 0x7b, dst, false);
    shoali_scaled_ref.e5m2.get(src + whole, n - whole, scale, dst + whole, add);
}

/* ---------------------------------------------------------------- signs */

static void sign_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    size_t whole = n - n % 8;
    for (size_t i = 0; i < whole; i += 8)
        dst[i / 8] = (uint8_t)_mm256_movemask_ps(_mm256_loadu_ps(src + i));
    shoali_scaled_ref.sign.put(src + whole, n - whole, per_scale, noise, dst + whole / 8);
}

INLINE void sign_loop(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    const __m256i up = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    const __m256i top = _mm256_set1_epi32((int)0x80000000);
    const __m256 value = _mm256_set1_ps(scale);
    for (size_t i = 0; i < n; i += 8) {
        __m256i bits = _mm256_sllv_epi32(_mm256_set1_epi32(src[i / 8]), up);
        __m256 sign = _mm256_castsi256_ps(_mm256_and_si256(bits, top));
        put8(_mm256_xor_ps(value, sign), dst + i, add);
    }
}

static void sign_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    size_t whole = n - n % 8;
    if (add)
        sign_loop(src, whole, scale, dst, true);
    else
        sign_loop(src, whole, scale, dst, false);
    shoali_scaled_ref.sign.get(src + whole / 8, n - whole, scale, dst + whole, add);
}

static void sign_sums(const float *src, size_t n, float factor, float sums_out[8])
{
    const __m256 sign = _mm256_set1_ps(-0.0f), by = _mm256_set1_ps(factor);
    __m256 sum = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        prefetch(src + i);
        __m256 magnitude = _mm256_andnot_ps(sign, _mm256_loadu_ps(src + i));
        sum = _mm256_add_ps(sum, _mm256_mul_ps(magnitude, by));
    }
    _mm256_storeu_ps(sums_out, sum);
    for (size_t j = 0; i < n; i++, j++)
        sums_out[j] += (src[i] < 0 ? -src[i] : src[i]) * factor;
}

static uint32_t largest(const float *src, size_t n)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most[4], any;
    size_t i = 0;
    most[0] = most[1] = most[2] = most[3] = _mm256_setzero_si256();
    for (; i + 32 <= n; i += 32)
        for (size_t j = 0; j < 4; j++) {
            prefetch(src + i + 8 * j);
            any = _mm256_loadu_si256((const __m256i *)(const void *)(src + i + 8 * j));
            most[j] = _mm256_max_epi32(most[j], _mm256_and_si256(any, magnitude));
        }
    any = _mm256_max_epi32(_mm256_max_epi32(most[0], most[1]), _mm256_max_epi32(most[2], most[3]));
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(any), _mm256_extracti128_si256(any, 1));
    half = _mm_max_epi32(half, _mm_unpackhi_epi64(half, half));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 1));
    uint32_t whole = (uint32_t)_mm_cvtsi128_si32(half);
    uint32_t rest = i < n ? shoali_scaled_ref.largest(src + i, n - i) : 0;
    return rest > whole ? rest : whole;
}

const shoali_scaled_formats shoali_scaled_avx2 = {
    .int8 = {"int8", 127, 1, 1, int8_put, int8_get, NULL},
    .int4 = {"int4", 7, 32, 16, int4_put, int4_get, NULL},
    .e4m3 = {"fp8", 448, 1, 1, e4m3_put, e4m3_get, NULL},
    .e5m2 = {"fp8", 57344, 1, 1, e5m2_put, e5m2_get, NULL},
    .sign = {"sign", 0, 8, 1, sign_put, sign_get, sign_sums},
    .largest = largest,
};
