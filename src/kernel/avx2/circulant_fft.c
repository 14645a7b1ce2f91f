/* SPDX-License-Identifier: Apache-2.0 */
/* 8 blocks at a time: transposed in registers on their way in and out, then rfft_lanes.h. */
#include <immintrin.h>

#define SHOALI_FMA(a, b, c) _mm256_fmadd_ps((a), (b), (c))
#define SHOALI_FNMA(a, b, c) _mm256_fnmadd_ps((a), (b), (c))
#include "kernel/avx2/rows.h"
#include "kernel/rfft_large.h"

/* The right half of a 8 x 8 transpose: rows are already paired across the halves of a register. */
SHOALI_INLINE void transpose_halves(const __m256 a, const __m256 b, const __m256 c, const __m256 d,
                                    __m256 *out)
{
    __m256 ab_low = _mm256_unpacklo_ps(a, b), ab_high = _mm256_unpackhi_ps(a, b);
    __m256 cd_low = _mm256_unpacklo_ps(c, d), cd_high = _mm256_unpackhi_ps(c, d);
    out[0] = _mm256_shuffle_ps(ab_low, cd_low, 0x44);
    out[1] = _mm256_shuffle_ps(ab_low, cd_low, 0xee);
    out[2] = _mm256_shuffle_ps(ab_high, cd_high, 0x44);
    out[3] = _mm256_shuffle_ps(ab_high, cd_high, 0xee);
}

/* Lanes l and l + 4 side by side: 4 floats of each. */
SHOALI_INLINE __m256 load_pair(const float *src, size_t lane_stride, size_t lane)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src + lane * lane_stride)),
                                _mm_loadu_ps(src + (lane + 4) * lane_stride), 1);
}

/* 4 floats of 8 lanes to 4 vectors. */
SHOALI_INLINE void load4(const float *src, size_t lane_stride, __m256 *out)
{
    transpose_halves(load_pair(src, lane_stride, 0), load_pair(src, lane_stride, 1),
                     load_pair(src, lane_stride, 2), load_pair(src, lane_stride, 3), out);
}

SHOALI_INLINE void store4(float *dst, size_t lane_stride, const __m256 *in)
{
    __m256 rows[4];
    transpose_halves(in[0], in[1], in[2], in[3], rows);
    SHOALI_UNROLL for (size_t lane = 0; lane < 4; lane++)
    {
        _mm_storeu_ps(dst + lane * lane_stride, _mm256_castps256_ps128(rows[lane]));
        _mm_storeu_ps(dst + (lane + 4) * lane_stride, _mm256_extractf128_ps(rows[lane], 1));
    }
}

SHOALI_INLINE void store_bins(float *dst, size_t bin_stride, const __m256 *rows, const int bins)
{
    SHOALI_UNROLL for (int f = 0; f < bins; f++)
    {
        _mm256_store_ps(dst + (size_t)f * bin_stride, rows[2 * f]);
        _mm256_store_ps(dst + (size_t)f * bin_stride + 8, rows[2 * f + 1]);
    }
}

SHOALI_INLINE void load_bins(const float *src, size_t bin_stride, __m256 *rows, const int bins)
{
    SHOALI_UNROLL for (int f = 0; f < bins; f++)
    {
        rows[2 * f] = _mm256_load_ps(src + (size_t)f * bin_stride);
        rows[2 * f + 1] = _mm256_load_ps(src + (size_t)f * bin_stride + 8);
    }
}

static void analyse2(const float *src, size_t lane_stride, float *dst)
{
    for (size_t lane = 0; lane < SHOALI_LANES; lane++) {
        float a = src[lane * lane_stride], b = src[lane * lane_stride + 1];
        dst[lane] = a + b;
        dst[lane + SHOALI_LANES] = a - b;
    }
}

static void synthesise2(const float *src, float *dst, size_t lane_stride)
{
    for (size_t lane = 0; lane < SHOALI_LANES; lane++) {
        float a = src[lane], b = src[lane + SHOALI_LANES];
        dst[lane * lane_stride] = a + b;
        dst[lane * lane_stride + 1] = a - b;
    }
}

/* 32 and more. A k that the compiler knows is worth a third of the time. */
SHOALI_INLINE void analyse_large(const shoali_dft *dft, const uint32_t k, const float *src,
                                 size_t lane_stride, float *dst, size_t bin_stride)
{
    _Alignas(64) float time[SHOALI_DFT_MAX * SHOALI_LANES];
    _Alignas(64) float work[2 * SHOALI_DFT_MAX * SHOALI_LANES];
    for (uint32_t t = 0; t < k; t += 4) {
        __m256 rows[4];
        load4(src + t, lane_stride, rows);
        SHOALI_UNROLL for (uint32_t u = 0; u < 4; u++)
            _mm256_store_ps(time + (size_t)(t + u) * SHOALI_LANES, rows[u]);
    }
    shoali_rfft_large(dft, k, time, work, dst, bin_stride);
}

SHOALI_INLINE void synthesise_large(const shoali_dft *dft, const uint32_t k, const float *src,
                                    size_t bin_stride, float *dst, size_t lane_stride)
{
    _Alignas(64) float time[SHOALI_DFT_MAX * SHOALI_LANES];
    _Alignas(64) float work[2 * SHOALI_DFT_MAX * SHOALI_LANES];
    shoali_irfft_large(dft, k, src, bin_stride, work, time);
    for (uint32_t t = 0; t < k; t += 4) {
        __m256 rows[4];
        SHOALI_UNROLL for (uint32_t u = 0; u < 4; u++)
            rows[u] = _mm256_load_ps(time + (size_t)(t + u) * SHOALI_LANES);
        store4(dst + t, lane_stride, rows);
    }
}

void shoali_avx2_analyse(const shoali_dft *dft, const float *src, size_t lane_stride, float *dst,
                         size_t bin_stride)
{
    __m256 x[16], out[16];
    if (!dft->fast || dft->k < 2) {
        shoali_dft_analyse(dft, src, lane_stride, dst, bin_stride);
    } else if (dft->k == 2) {
        analyse2(src, lane_stride, dst);
    } else if (dft->k == 4) {
        load4(src, lane_stride, x);
        shoali_rfft4((shoali_lanes *)out, (shoali_lanes *)x, 1);
        store_bins(dst, bin_stride, out, 2);
    } else if (dft->k == 8) {
        load4(src, lane_stride, x);
        load4(src + 4, lane_stride, x + 4);
        shoali_rfft8((shoali_lanes *)out, (shoali_lanes *)x, 1);
        store_bins(dst, bin_stride, out, 4);
    } else if (dft->k == 16) {
        SHOALI_UNROLL for (int t = 0; t < 16; t += 4) load4(src + t, lane_stride, x + t);
        shoali_rfft16((shoali_lanes *)out, (shoali_lanes *)x, 1);
        store_bins(dst, bin_stride, out, 8);
    } else if (dft->k == 32) {
        analyse_large(dft, 32, src, lane_stride, dst, bin_stride);
    } else if (dft->k == 64) {
        analyse_large(dft, 64, src, lane_stride, dst, bin_stride);
    } else {
        analyse_large(dft, dft->k, src, lane_stride, dst, bin_stride);
    }
}

void shoali_avx2_synthesise(const shoali_dft *dft, const float *src, size_t bin_stride, float *dst,
                            size_t lane_stride)
{
    __m256 in[16], x[16];
    if (!dft->fast || dft->k < 2) {
        shoali_dft_synthesise(dft, src, bin_stride, dst, lane_stride);
    } else if (dft->k == 2) {
        synthesise2(src, dst, lane_stride);
    } else if (dft->k == 4) {
        load_bins(src, bin_stride, in, 2);
        shoali_irfft4((shoali_lanes *)x, 1, (shoali_lanes *)in);
        store4(dst, lane_stride, x);
    } else if (dft->k == 8) {
        load_bins(src, bin_stride, in, 4);
        shoali_irfft8((shoali_lanes *)x, 1, (shoali_lanes *)in);
        store4(dst, lane_stride, x);
        store4(dst + 4, lane_stride, x + 4);
    } else if (dft->k == 16) {
        load_bins(src, bin_stride, in, 8);
        shoali_irfft16((shoali_lanes *)x, 1, (shoali_lanes *)in);
        SHOALI_UNROLL for (int t = 0; t < 16; t += 4) store4(dst + t, lane_stride, x + t);
    } else if (dft->k == 32) {
        synthesise_large(dft, 32, src, bin_stride, dst, lane_stride);
    } else if (dft->k == 64) {
        synthesise_large(dft, 64, src, bin_stride, dst, lane_stride);
    } else {
        synthesise_large(dft, dft->k, src, bin_stride, dst, lane_stride);
    }
}
