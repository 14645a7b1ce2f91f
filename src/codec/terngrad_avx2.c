/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of terngrad in vectors; the same codes as terngrad_ref.c, which also takes the ends.
 *
 * 32 elements a to d (eight each) are compared as 16-bit numbers. Packing two registers of eight
 * 32-bit lanes to 16 bits, and those to bytes, leaves fours of neighbours in this order:
 *
 *     a0-3 b0-3 c0-3 d0-3 | a4-7 b4-7 c4-7 d4-7        ("woven")
 *
 * 16 random bits decide all but the elements whose chance has just these as its first 16: one of
 * 65536, whose 32 the plain loop does once more. */
#include <immintrin.h>

#include "codec/noise_avx2.h"
#include "codec/terngrad.h"

#define INLINE static inline __attribute__((always_inline))

/* Ask for a cache line well ahead of its use: one stream of loads alone does not fill the memory's
 * queue. Beyond the end it does nothing. */
INLINE void ahead(const float *x)
{
    _mm_prefetch((const char *)(x + 512), _MM_HINT_T0);
}

typedef struct context {
    const shoali_tern_rule *rule;
    shoali_noise noise;
    __m256 factor;  /* 65536 / s */
    __m256i finite; /* running maximum of the floats' bits without sign */
} context;

static context context_of(const shoali_tern_rule *rule)
{
    return (context){rule, rule->noise, _mm256_set1_ps(rule->inverse * 65536),
                     _mm256_setzero_si256()};
}

INLINE __m256i magnitude_bits(__m256 x)
{
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

INLINE void note(__m256i *finite, __m256 x)
{
    *finite = _mm256_max_epi32(*finite, magnitude_bits(x));
}

static bool all_finite(__m256i finite)
{
    __m256i bad = _mm256_cmpgt_epi32(finite, _mm256_set1_epi32(0x7f7fffff));
    return _mm256_testz_si256(bad, bad) != 0;
}

INLINE __m256i threshold(const context *c, __m256 x)
{
    __m256 level = _mm256_mul_ps(_mm256_castsi256_ps(magnitude_bits(x)), c->factor);
    return _mm256_cvttps_epi32(_mm256_min_ps(level, _mm256_set1_ps(65535)));
}

/* Random halves for the 16 elements from `first` on, woven like packed thresholds. A draw serves
 * elements 2d and 2d + 1, so an odd start needs halves of neighbouring draws. */
INLINE __m256i chances(const context *c, uint64_t first, bool odd)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i counter = _mm256_add_epi32(_mm256_set1_epi32((int)(uint32_t)(first / 2)), lanes);
    __m256i bits = shoali_noise_at8(c->noise, counter);
    if (odd) {
        counter = _mm256_add_epi32(counter, _mm256_set1_epi32(1));
        __m256i next = shoali_noise_at8(c->noise, counter);
        bits = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_slli_epi32(next, 16));
    }
    return _mm256_permute4x64_epi64(bits, 0xd8);
}

/* -1 where one of 16 elements does not survive; not 0 in *open where 16 bits do not say. */
INLINE __m256i dropped(const context *c, __m256 x, __m256 y, uint64_t first, bool odd,
                       __m256i *open)
{
    __m256i limit = _mm256_packus_epi32(threshold(c, x), threshold(c, y));
    __m256i chance = chances(c, first, odd);
    *open = _mm256_or_si256(*open, _mm256_cmpeq_epi16(chance, limit));
    return _mm256_cmpeq_epi16(_mm256_max_epu16(chance, limit), chance);
}

/* Codes of 32 elements, woven; not 0 in *open: to be drawn once more. */
INLINE __m256i draw_32(context *c, uint64_t first, const float *src, bool odd, __m256i *open)
{
    __m256 x0 = _mm256_loadu_ps(src), x1 = _mm256_loadu_ps(src + 8);
    __m256 x2 = _mm256_loadu_ps(src + 16), x3 = _mm256_loadu_ps(src + 24);
    note(&c->finite, x0);
    note(&c->finite, x1);
    note(&c->finite, x2);
    note(&c->finite, x3);
    *open = _mm256_setzero_si256();
    __m256i drop = _mm256_packs_epi16(dropped(c, x0, x1, first, odd, open),
                                      dropped(c, x2, x3, first + 16, odd, open));
    __m256i sign = _mm256_packs_epi16(
        _mm256_packs_epi32(_mm256_castps_si256(x0), _mm256_castps_si256(x1)),
        _mm256_packs_epi32(_mm256_castps_si256(x2), _mm256_castps_si256(x3)));
    const __m256i one = _mm256_set1_epi8(1);
    __m256i step = _mm256_or_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), sign), one);
    return _mm256_add_epi8(one, _mm256_andnot_si256(drop, step));
}

static __attribute__((noinline, cold)) void plain_codes(const context *c, uint64_t first,
                                                        const float *src, uint8_t *codes)
{
    (void)shoali_tern_ref.draw(c->rule, first, src, 32, codes);
}

INLINE size_t draw_loop(context *c, uint64_t first, const float *src, size_t count, uint8_t *codes,
                        bool odd)
{
    const __m256i unweave = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        ahead(src + i);
        ahead(src + i + 16);
        __m256i open, woven = draw_32(c, first + i, src + i, odd, &open);
        _mm256_storeu_si256((__m256i *)(void *)(codes + i),
                            _mm256_permutevar8x32_epi32(woven, unweave));
        if (!_mm256_testz_si256(open, open))
            plain_codes(c, first + i, src + i, codes + i);
    }
    return i;
}

static bool draw(const shoali_tern_rule *rule, uint64_t first, const float *src, size_t count,
                 uint8_t *codes)
{
    context c = context_of(rule);
    size_t i = first % 2 != 0 ? draw_loop(&c, first, src, count, codes, true)
                              : draw_loop(&c, first, src, count, codes, false);
    bool rest = shoali_tern_ref.draw(rule, first + i, src + i, count - i, codes + i);
    return all_finite(c.finite) && rest;
}

/* Four woven codes to one byte in each 32-bit lane. */
INLINE __m256i four_to_byte(__m256i woven)
{
    __m256i pairs = _mm256_maddubs_epi16(woven, _mm256_set1_epi16(0x0401));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00100001));
}

static __attribute__((noinline, cold)) void plain_packed(const context *c, uint64_t first,
                                                         const float *src, const __m256i open[4],
                                                         uint8_t *packed)
{
    for (size_t k = 0; k < 4; k++)
        if (!_mm256_testz_si256(open[k], open[k]))
            (void)shoali_tern_ref.draw_packed(c->rule, first + 32 * k, src + 32 * k, 32,
                                              packed + 8 * k);
}

/* 128 elements to 32 bytes. The bytes of even fours meet in the lower lane, of odd ones above. */
INLINE void draw_128(context *c, uint64_t first, const float *src, uint8_t *packed, bool odd)
{
    __m256i o0, o1, o2, o3;
    __m256i b0 = four_to_byte(draw_32(c, first, src, odd, &o0));
    __m256i b1 = four_to_byte(draw_32(c, first + 32, src + 32, odd, &o1));
    __m256i b2 = four_to_byte(draw_32(c, first + 64, src + 64, odd, &o2));
    __m256i b3 = four_to_byte(draw_32(c, first + 96, src + 96, odd, &o3));
    __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(b0, b1), _mm256_packs_epi32(b2, b3));
    __m128i even = _mm256_castsi256_si128(bytes), uneven = _mm256_extracti128_si256(bytes, 1);
    _mm_storeu_si128((__m128i *)(void *)packed, _mm_unpacklo_epi8(even, uneven));
    _mm_storeu_si128((__m128i *)(void *)(packed + 16), _mm_unpackhi_epi8(even, uneven));
    __m256i any = _mm256_or_si256(_mm256_or_si256(o0, o1), _mm256_or_si256(o2, o3));
    if (!_mm256_testz_si256(any, any))
        plain_packed(c, first, src, (const __m256i[]){o0, o1, o2, o3}, packed);
}

INLINE size_t packed_loop(context *c, uint64_t first, const float *src, size_t count,
                          uint8_t *packed, bool odd)
{
    size_t i = 0;
    for (; i + 128 <= count; i += 128) {
        for (size_t line = 0; line < 128; line += 16)
            ahead(src + i + line);
        draw_128(c, first + i, src + i, packed + i / 4, odd);
    }
    return i;
}

static bool draw_packed(const shoali_tern_rule *rule, uint64_t first, const float *src,
                        size_t count, uint8_t *packed)
{
    context c = context_of(rule);
    size_t i = first % 2 != 0 ? packed_loop(&c, first, src, count, packed, true)
                              : packed_loop(&c, first, src, count, packed, false);
    bool rest = shoali_tern_ref.draw_packed(rule, first + i, src + i, count - i, packed + i / 4);
    return all_finite(c.finite) && rest;
}

/* ---------------------------------------------------------------- sums */

INLINE __m256i nearest_8(const float *src, __m256 inverse, __m256 most, __m256i *finite)
{
    __m256 x = _mm256_loadu_ps(src);
    note(finite, x);
    __m256 steps = _mm256_min_ps(_mm256_mul_ps(x, inverse), most);
    steps = _mm256_max_ps(steps, _mm256_sub_ps(_mm256_setzero_ps(), most));
    return _mm256_cvtps_epi32(steps);
}

static bool nearest(const shoali_tern_rule *rule, const float *src, size_t count, uint8_t *codes)
{
    const __m256i unweave = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256 inverse = _mm256_set1_ps(rule->inverse), most = _mm256_set1_ps((float)rule->most);
    __m256i finite = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i q0 = nearest_8(src + i, inverse, most, &finite);
        __m256i q1 = nearest_8(src + i + 8, inverse, most, &finite);
        __m256i q2 = nearest_8(src + i + 16, inverse, most, &finite);
        __m256i q3 = nearest_8(src + i + 24, inverse, most, &finite);
        __m256i woven = _mm256_packs_epi16(_mm256_packs_epi32(q0, q1), _mm256_packs_epi32(q2, q3));
        woven = _mm256_add_epi8(woven, _mm256_set1_epi8((char)rule->most));
        _mm256_storeu_si256((__m256i *)(void *)(codes + i),
                            _mm256_permutevar8x32_epi32(woven, unweave));
    }
    return shoali_tern_ref.nearest(rule, src + i, count - i, codes + i) && all_finite(finite);
}

/* ---------------------------------------------------------------- back to floats */

INLINE void put(float *dst, __m256 x, bool add)
{
    _mm256_storeu_ps(dst, add ? _mm256_add_ps(_mm256_loadu_ps(dst), x) : x);
}

INLINE size_t expand_loop(const shoali_tern_rule *rule, const uint8_t *codes, size_t count,
                          float *dst, bool add, __m256i *worst)
{
    const __m256i middle = _mm256_set1_epi32((int)rule->most);
    const __m256 scale = _mm256_set1_ps(rule->scale);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)(codes + i));
        __m256i code = _mm256_cvtepu8_epi32(eight);
        *worst = _mm256_max_epi32(*worst, code);
        __m256 steps = _mm256_cvtepi32_ps(_mm256_sub_epi32(code, middle));
        put(dst + i, _mm256_mul_ps(steps, scale), add);
    }
    return i;
}

static bool expand(const shoali_tern_rule *rule, const uint8_t *codes, size_t count, float *dst,
                   bool add)
{
    __m256i worst = _mm256_setzero_si256();
    size_t i = add ? expand_loop(rule, codes, count, dst, true, &worst)
                   : expand_loop(rule, codes, count, dst, false, &worst);
    worst = _mm256_cmpgt_epi32(worst, _mm256_set1_epi32(2 * (int)rule->most));
    return shoali_tern_ref.expand(rule, codes + i, count - i, dst + i, add) &&
           _mm256_testz_si256(worst, worst) != 0;
}

/* 16 elements from 32 bits: vpermilps looks at the lowest two bits of each lane. */
INLINE size_t expand_packed_loop(__m256 values, const uint8_t *packed, size_t count, float *dst,
                                 bool add, uint32_t *bad)
{
    const __m256i low = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const __m256i high = _mm256_setr_epi32(16, 18, 20, 22, 24, 26, 28, 30);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        uint32_t word;
        __builtin_memcpy(&word, packed + i / 4, sizeof word);
        *bad |= word & word >> 1;
        __m256i codes = _mm256_set1_epi32((int)word);
        put(dst + i, _mm256_permutevar_ps(values, _mm256_srlv_epi32(codes, low)), add);
        put(dst + i + 8, _mm256_permutevar_ps(values, _mm256_srlv_epi32(codes, high)), add);
    }
    return i;
}

static bool expand_packed(const shoali_tern_rule *rule, const uint8_t *packed, size_t count,
                          float *dst, bool add)
{
    const float s = rule->scale;
    const __m256 values = _mm256_setr_ps(-s, 0, s, 0, -s, 0, s, 0);
    uint32_t bad = 0;
    size_t i = add ? expand_packed_loop(values, packed, count, dst, true, &bad)
                   : expand_packed_loop(values, packed, count, dst, false, &bad);
    return shoali_tern_ref.expand_packed(rule, packed + i / 4, count - i, dst + i, add) &&
           (bad & 0x55555555) == 0;
}

/* ---------------------------------------------------------------- measuring */

static void moments(const float *x, size_t n, double sums_out[2])
{
    __m256d sum0 = _mm256_setzero_pd(), sum1 = sum0, squares0 = sum0, squares1 = sum0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        if (i % 16 == 0)
            ahead(x + i);
        __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
        __m256d b = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4));
        sum0 = _mm256_add_pd(sum0, a);
        sum1 = _mm256_add_pd(sum1, b);
        squares0 = _mm256_add_pd(squares0, _mm256_mul_pd(a, a));
        squares1 = _mm256_add_pd(squares1, _mm256_mul_pd(b, b));
    }
    double sum[8], squares[8];
    _mm256_storeu_pd(sum, sum0);
    _mm256_storeu_pd(sum + 4, sum1);
    _mm256_storeu_pd(squares, squares0);
    _mm256_storeu_pd(squares + 4, squares1);
    for (; i < n; i++) {
        sum[i % 8] += (double)x[i];
        squares[i % 8] += (double)x[i] * (double)x[i];
    }
    sums_out[0] = sums_out[1] = 0;
    for (int lane = 0; lane < 8; lane++) {
        sums_out[0] += sum[lane];
        sums_out[1] += squares[lane];
    }
}

const shoali_tern_loops shoali_tern_avx2 = {draw,   draw_packed,   nearest,
                                            expand, expand_packed, moments};
