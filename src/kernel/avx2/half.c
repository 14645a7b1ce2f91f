/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floats with AVX2. fp16 uses the conversion instructions; bf16 is integer arithmetic on 16
 * elements. */
#include <immintrin.h>

#include "kernel/avx2/rows.h"
#include "kernel/ref/rows.h"

enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

/* Hardware prefetchers stop at the end of a page; a lead of 2 KB makes up for it. */
static inline void prefetch(const void *at)
{
    _mm_prefetch((const char *)((uintptr_t)at + 2048), _MM_HINT_T0);
}

/* True if a 16-bit element of `largest` (sign cleared) reached the exponent of infinity. */
static bool all_below(__m256i largest, uint16_t infinity)
{
    __m256i limit = _mm256_set1_epi16((short)(infinity - 1u));
    return _mm256_movemask_epi8(_mm256_cmpgt_epi16(largest, limit)) == 0;
}

static inline __m256i larger(__m256i largest, const uint16_t *src)
{
    const __m256i both = _mm256_loadu_si256((const __m256i *)src);
    return _mm256_max_epi16(largest, _mm256_and_si256(both, _mm256_set1_epi16(0x7fff)));
}

bool shoali_avx2_fp16_encode(uint16_t *dst, const float *src, size_t n)
{
    __m256i largest = _mm256_setzero_si256();
    const __m256i magnitude = _mm256_set1_epi16(0x7fff);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        prefetch(src + i);
        __m128i lo = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), NEAREST);
        __m128i hi = _mm256_cvtps_ph(_mm256_loadu_ps(src + i + 8), NEAREST);
        __m256i both = _mm256_set_m128i(hi, lo);
        largest = _mm256_max_epi16(largest, _mm256_and_si256(both, magnitude));
        _mm256_storeu_si256((__m256i *)(dst + i), both);
    }
    return shoali_ref_fp16_encode(dst + i, src + i, n - i) && all_below(largest, 0x7c00);
}

static __m256 fp16_load(const uint16_t *src)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)src));
}

bool shoali_avx2_fp16_decode(float *dst, const uint16_t *src, size_t n)
{
    __m256i largest = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        prefetch(dst + i);
        largest = larger(largest, src + i);
        _mm256_storeu_ps(dst + i, fp16_load(src + i));
        _mm256_storeu_ps(dst + i + 8, fp16_load(src + i + 8));
    }
    const bool finite = all_below(largest, 0x7c00); /* before the call: it stays in a register */
    return shoali_ref_fp16_decode(dst + i, src + i, n - i) && finite;
}

bool shoali_avx2_fp16_add(float *acc, const uint16_t *src, size_t n)
{
    __m256i largest = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = _mm256_loadu_ps(acc + i), b = _mm256_loadu_ps(acc + i + 8);
        largest = larger(largest, src + i);
        _mm256_storeu_ps(acc + i, _mm256_add_ps(a, fp16_load(src + i)));
        _mm256_storeu_ps(acc + i + 8, _mm256_add_ps(b, fp16_load(src + i + 8)));
    }
    const bool finite = all_below(largest, 0x7c00); /* before the call: it stays in a register */
    return shoali_ref_fp16_add(acc + i, src + i, n - i) && finite;
}

/* Eight floats to their bf16 bits in the low half of each 32-bit lane. */
static __m256i bf16_round(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i lsb = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, lsb), _mm256_set1_epi32(0x7fff));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
}

bool shoali_avx2_bf16_encode(uint16_t *dst, const float *src, size_t n)
{
    __m256i largest = _mm256_setzero_si256();
    const __m256i magnitude = _mm256_set1_epi16(0x7fff);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        prefetch(src + i);
        __m256i lo = bf16_round(_mm256_loadu_ps(src + i));
        __m256i hi = bf16_round(_mm256_loadu_ps(src + i + 8));
        __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
        largest = _mm256_max_epi16(largest, _mm256_and_si256(both, magnitude));
        _mm256_storeu_si256((__m256i *)(dst + i), both);
    }
    return shoali_ref_bf16_encode(dst + i, src + i, n - i) && all_below(largest, 0x7f80);
}

static __m256 bf16_load(const uint16_t *src)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)src));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

bool shoali_avx2_bf16_decode(float *dst, const uint16_t *src, size_t n)
{
    __m256i largest = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        prefetch(dst + i);
        largest = larger(largest, src + i);
        _mm256_storeu_ps(dst + i, bf16_load(src + i));
        _mm256_storeu_ps(dst + i + 8, bf16_load(src + i + 8));
    }
    const bool finite = all_below(largest, 0x7f80); /* before the call: it stays in a register */
    return shoali_ref_bf16_decode(dst + i, src + i, n - i) && finite;
}

bool shoali_avx2_bf16_add(float *acc, const uint16_t *src, size_t n)
{
    __m256i largest = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = _mm256_loadu_ps(acc + i), b = _mm256_loadu_ps(acc + i + 8);
        largest = larger(largest, src + i);
        _mm256_storeu_ps(acc + i, _mm256_add_ps(a, bf16_load(src + i)));
        _mm256_storeu_ps(acc + i + 8, _mm256_add_ps(b, bf16_load(src + i + 8)));
    }
    const bool finite = all_below(largest, 0x7f80); /* before the call: it stays in a register */
    return shoali_ref_bf16_add(acc + i, src + i, n - i) && finite;
}
