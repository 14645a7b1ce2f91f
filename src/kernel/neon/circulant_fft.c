/* SPDX-License-Identifier: Apache-2.0 */
/* Four blocks at a time: transposed in registers on their way in and out, then rfft_lanes.h. */
#include "kernel/neon/lanes.h"
#include "kernel/neon/rows.h"

SHOALI_INLINE void transpose(const float32x4_t *in, float32x4_t *out)
{
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(in[0], in[1]));
    const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(in[0], in[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(in[2], in[3]));
    const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(in[2], in[3]));
    out[0] = vreinterpretq_f32_f64(vzip1q_f64(a, c));
    out[1] = vreinterpretq_f32_f64(vzip1q_f64(b, d));
    out[2] = vreinterpretq_f32_f64(vzip2q_f64(a, c));
    out[3] = vreinterpretq_f32_f64(vzip2q_f64(b, d));
}

/* 4 floats of 4 lanes to 4 vectors. */
SHOALI_INLINE void load4(const float *src, size_t lane_stride, shoali_lanes *out)
{
    float32x4_t in[4], turned[4];
    SHOALI_UNROLL for (size_t i = 0; i < 4; i++) in[i] = vld1q_f32(src + i * lane_stride);
    transpose(in, turned);
    SHOALI_UNROLL for (size_t i = 0; i < 4; i++) out[i] = turned[i];
}

SHOALI_INLINE void store4(float *dst, size_t lane_stride, const shoali_lanes *in)
{
    float32x4_t rows[4], turned[4];
    SHOALI_UNROLL for (size_t i = 0; i < 4; i++) rows[i] = in[i];
    transpose(rows, turned);
    SHOALI_UNROLL for (size_t i = 0; i < 4; i++) vst1q_f32(dst + i * lane_stride, turned[i]);
}

/* ---------------------------------------------------------------- forth */

SHOALI_INLINE void analyse_small(const float *src, size_t lane_stride, float *dst,
                                 size_t bin_stride, const int k)
{
    shoali_lanes x[SHOALI_SMALL], out[SHOALI_SMALL];
    if (k == 2)
        for (size_t t = 0; t < 2; t++)
            x[t] = (shoali_lanes){src[t], src[lane_stride + t], src[2 * lane_stride + t],
                                  src[3 * lane_stride + t]};
    SHOALI_UNROLL for (int t = 0; t + 4 <= k; t += 4) load4(src + t, lane_stride, x + t);
    shoali_small(out, x, k);
    SHOALI_UNROLL for (int f = 0; f < k / 2; f++)
    {
        *shoali_at(dst + (size_t)f * bin_stride) = out[2 * f];
        *shoali_at(dst + (size_t)f * bin_stride + SHOALI_LANES) = out[2 * f + 1];
    }
}

static void analyse_large(const shoali_dft *dft, const float *src, size_t lane_stride, float *dst,
                          size_t bin_stride)
{
    shoali_room room;
    for (uint32_t t = 0; t < dft->k; t += 4) {
        shoali_lanes rows[4];
        load4(src + t, lane_stride, rows);
        SHOALI_UNROLL for (uint32_t u = 0; u < 4; u++) *
            shoali_at(room.time + (size_t)(t + u) * SHOALI_LANES) = rows[u];
    }
    shoali_rfft_large(dft, dft->k, room.time, room.work, dst, bin_stride);
}

void shoali_neon_analyse(const shoali_dft *dft, const float *src, size_t lane_stride, float *dst,
                         size_t bin_stride)
{
    if (!dft->fast || dft->k < 2) {
        shoali_dft_analyse(dft, src, lane_stride, dst, bin_stride);
        return;
    }
    for (size_t i = 0; i < SHOALI_LANES; i += SHOALI_WIDTH, src += SHOALI_WIDTH * lane_stride)
        if (dft->k == 2)
            analyse_small(src, lane_stride, dst + i, bin_stride, 2);
        else if (dft->k == 4)
            analyse_small(src, lane_stride, dst + i, bin_stride, 4);
        else if (dft->k == 8)
            analyse_small(src, lane_stride, dst + i, bin_stride, 8);
        else if (dft->k == 16)
            analyse_small(src, lane_stride, dst + i, bin_stride, 16);
        else
            analyse_large(dft, src, lane_stride, dst + i, bin_stride);
}

/* ---------------------------------------------------------------- back */

SHOALI_INLINE void synthesise_small(const float *src, size_t bin_stride, float *dst,
                                    size_t lane_stride, const int k)
{
    shoali_lanes in[SHOALI_SMALL], x[SHOALI_SMALL];
    SHOALI_UNROLL for (int f = 0; f < k / 2; f++)
    {
        in[2 * f] = *shoali_in(src + (size_t)f * bin_stride);
        in[2 * f + 1] = *shoali_in(src + (size_t)f * bin_stride + SHOALI_LANES);
    }
    shoali_small_back(x, in, k);
    if (k == 2)
        SHOALI_UNROLL for (int i = 0; i < SHOALI_WIDTH; i++)
        {
            dst[(size_t)i * lane_stride] = x[0][i];
            dst[(size_t)i * lane_stride + 1] = x[1][i];
        }
    SHOALI_UNROLL for (int t = 0; t + 4 <= k; t += 4) store4(dst + t, lane_stride, x + t);
}

static void synthesise_large(const shoali_dft *dft, const float *src, size_t bin_stride, float *dst,
                             size_t lane_stride)
{
    shoali_room room;
    shoali_irfft_large(dft, dft->k, src, bin_stride, room.work, room.time);
    for (uint32_t t = 0; t < dft->k; t += 4) {
        shoali_lanes rows[4];
        SHOALI_UNROLL for (uint32_t u = 0; u < 4; u++)
            rows[u] = *shoali_in(room.time + (size_t)(t + u) * SHOALI_LANES);
        store4(dst + t, lane_stride, rows);
    }
}

void shoali_neon_synthesise(const shoali_dft *dft, const float *src, size_t bin_stride, float *dst,
                            size_t lane_stride)
{
    if (!dft->fast || dft->k < 2) {
        shoali_dft_synthesise(dft, src, bin_stride, dst, lane_stride);
        return;
    }
    for (size_t i = 0; i < SHOALI_LANES; i += SHOALI_WIDTH, dst += SHOALI_WIDTH * lane_stride)
        if (dft->k == 2)
            synthesise_small(src + i, bin_stride, dst, lane_stride, 2);
        else if (dft->k == 4)
            synthesise_small(src + i, bin_stride, dst, lane_stride, 4);
        else if (dft->k == 8)
            synthesise_small(src + i, bin_stride, dst, lane_stride, 8);
        else if (dft->k == 16)
            synthesise_small(src + i, bin_stride, dst, lane_stride, 16);
        else
            synthesise_large(dft, src + i, bin_stride, dst, lane_stride);
}
