/* SPDX-License-Identifier: Apache-2.0 */
/* float32 rows with AVX2 and FMA. Four registers per turn hide the latency of memory and of the
 * adds; the reference finishes the last elements, so both agree on them by construction. */
#include <immintrin.h>

#include "kernel/avx2/rows.h"

enum { WIDTH = 8, TURN = 4 * WIDTH };

static void add(float *acc, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = i; j < i + TURN; j += WIDTH)
            _mm256_storeu_ps(acc + j,
                             _mm256_add_ps(_mm256_loadu_ps(acc + j), _mm256_loadu_ps(x + j)));
    shoali_kernels_ref.add(acc + i, x + i, n - i);
}

/* vmaxps returns its second operand when either is NaN; where acc is NaN it has to be put back. */
static void max(float *acc, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        __m256 a = _mm256_loadu_ps(acc + i), b = _mm256_loadu_ps(x + i);
        __m256 keep = _mm256_or_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q),
                                   _mm256_cmp_ps(a, b, _CMP_GE_OQ));
        _mm256_storeu_ps(acc + i, _mm256_blendv_ps(b, a, keep));
    }
    shoali_kernels_ref.max(acc + i, x + i, n - i);
}

static void scale(float *x, float a, size_t n)
{
    const __m256 factor = _mm256_set1_ps(a);
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = i; j < i + TURN; j += WIDTH)
            _mm256_storeu_ps(x + j, _mm256_mul_ps(_mm256_loadu_ps(x + j), factor));
    shoali_kernels_ref.scale(x + i, a, n - i);
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    const __m256 factor = _mm256_set1_ps(a);
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = i; j < i + TURN; j += WIDTH)
            _mm256_storeu_ps(
                y + j, _mm256_fmadd_ps(factor, _mm256_loadu_ps(x + j), _mm256_loadu_ps(y + j)));
    for (; i + WIDTH <= n; i += WIDTH) /* rows of embeddings are short */
        _mm256_storeu_ps(y + i,
                         _mm256_fmadd_ps(factor, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    shoali_kernels_ref.axpy(y + i, a, x + i, n - i);
}

static __m256d square(__m256d sum, __m128 x)
{
    __m256d wide = _mm256_cvtps_pd(x);
    return _mm256_fmadd_pd(wide, wide, sum);
}

static double sumsq(const float *x, size_t n)
{
    __m256d sum[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(),
                      _mm256_setzero_pd()};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t j = 0; j < 4; j++)
            sum[j] = square(sum[j], _mm_loadu_ps(x + i + 4 * j));
    double part[4];
    _mm256_storeu_pd(part,
                     _mm256_add_pd(_mm256_add_pd(sum[0], sum[1]), _mm256_add_pd(sum[2], sum[3])));
    return part[0] + part[1] + part[2] + part[3] + shoali_kernels_ref.sumsq(x + i, n - i);
}

/* As integers, magnitudes of floats keep their order and NaN lies above infinity. */
static float absmax(const float *x, size_t n)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i largest[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                          _mm256_setzero_si256()};
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = 0; j < 4; j++) {
            __m256i bits = _mm256_loadu_si256((const __m256i *)(x + i + WIDTH * j));
            largest[j] = _mm256_max_epi32(largest[j], _mm256_and_si256(bits, magnitude));
        }
    float parts[TURN + 1];
    for (size_t j = 0; j < 4; j++)
        _mm256_storeu_ps(parts + WIDTH * j, _mm256_castsi256_ps(largest[j]));
    parts[TURN] = shoali_kernels_ref.absmax(x + i, n - i);
    return shoali_kernels_ref.absmax(parts, TURN + 1);
}

static size_t first_nonfinite(const float *x, size_t n)
{
    const __m256i exponent = _mm256_set1_epi32(0x7f800000);
    size_t i = 0;
    for (; i + TURN <= n; i += TURN) {
        __m256i bad = _mm256_setzero_si256();
        for (size_t j = 0; j < TURN; j += WIDTH) {
            __m256i bits = _mm256_loadu_si256((const __m256i *)(x + i + j));
            bad = _mm256_or_si256(bad,
                                  _mm256_cmpeq_epi32(_mm256_and_si256(bits, exponent), exponent));
        }
        if (!_mm256_testz_si256(bad, bad))
            break; /* the reference finds which */
    }
    return i + shoali_kernels_ref.first_nonfinite(x + i, n - i);
}

static uint32_t or_bits(const float *x, size_t n)
{
    __m256i all[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                      _mm256_setzero_si256()};
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = 0; j < 4; j++)
            all[j] = _mm256_or_si256(all[j],
                                     _mm256_loadu_si256((const __m256i *)(x + i + WIDTH * j)));
    uint32_t parts[WIDTH], result = shoali_kernels_ref.or_bits(x + i, n - i);
    _mm256_storeu_si256((__m256i *)parts, _mm256_or_si256(_mm256_or_si256(all[0], all[1]),
                                                          _mm256_or_si256(all[2], all[3])));
    for (size_t j = 0; j < WIDTH; j++)
        result |= parts[j];
    return result;
}

static void copy(float *dst, const float *src, size_t n)
{
    shoali_kernels_ref.copy(dst, src, n); /* memcpy knows the cache sizes; we do not */
}

const shoali_kernels shoali_kernels_avx2 = {
    .name = "avx2",
    .avx2 = true,
    .add = add,
    .max = max,
    .scale = scale,
    .axpy = axpy,
    .copy = copy,
    .fp16_encode = shoali_avx2_fp16_encode,
    .fp16_decode = shoali_avx2_fp16_decode,
    .fp16_add = shoali_avx2_fp16_add,
    .bf16_encode = shoali_avx2_bf16_encode,
    .bf16_decode = shoali_avx2_bf16_decode,
    .bf16_add = shoali_avx2_bf16_add,
    .sumsq = sumsq,
    .absmax = absmax,
    .first_nonfinite = first_nonfinite,
    .circulant = &shoali_circulant_avx2,
    .or_bits = or_bits,
};
