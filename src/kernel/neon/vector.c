/* SPDX-License-Identifier: Apache-2.0 */
/* float32 rows with NEON, which every 64-bit ARM has. Four registers per turn, as in avx2/; the
 * reference finishes the last elements. */
#include <arm_neon.h>

#include "kernel/circulant.h"
#include "kernel/neon/rows.h"

enum { WIDTH = 4, TURN = 4 * WIDTH };

static void add(float *acc, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = i; j < i + TURN; j += WIDTH)
            vst1q_f32(acc + j, vaddq_f32(vld1q_f32(acc + j), vld1q_f32(x + j)));
    shoali_kernels_ref.add(acc + i, x + i, n - i);
}

/* fmax would give a quiet NaN of its own and +0 of two zeros: the reference's comparisons. */
static void max(float *acc, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        const float32x4_t a = vld1q_f32(acc + i), b = vld1q_f32(x + i);
        const uint32x4_t take = vorrq_u32(vcgtq_f32(b, a), vmvnq_u32(vceqq_f32(b, b)));
        vst1q_f32(acc + i, vbslq_f32(take, b, a));
    }
    shoali_kernels_ref.max(acc + i, x + i, n - i);
}

static void scale(float *x, float a, size_t n)
{
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = i; j < i + TURN; j += WIDTH)
            vst1q_f32(x + j, vmulq_n_f32(vld1q_f32(x + j), a));
    shoali_kernels_ref.scale(x + i, a, n - i);
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = i; j < i + TURN; j += WIDTH)
            vst1q_f32(y + j, vfmaq_n_f32(vld1q_f32(y + j), vld1q_f32(x + j), a));
    shoali_kernels_ref.axpy(y + i, a, x + i, n - i);
}

static void copy(float *dst, const float *src, size_t n)
{
    shoali_kernels_ref.copy(dst, src, n);
}

static double sumsq(const float *x, size_t n)
{
    float64x2_t low[2] = {vdupq_n_f64(0), vdupq_n_f64(0)}, high[2] = {low[0], low[0]};
    size_t i = 0;
    for (; i + 2 * WIDTH <= n; i += 2 * WIDTH)
        for (size_t j = 0; j < 2; j++) {
            const float32x4_t four = vld1q_f32(x + i + WIDTH * j);
            const float64x2_t a = vcvt_f64_f32(vget_low_f32(four)), b = vcvt_high_f64_f32(four);
            low[j] = vfmaq_f64(low[j], a, a);
            high[j] = vfmaq_f64(high[j], b, b);
        }
    return vaddvq_f64(vaddq_f64(vaddq_f64(low[0], high[0]), vaddq_f64(low[1], high[1]))) +
           shoali_kernels_ref.sumsq(x + i, n - i);
}

static uint32x4_t magnitude(const float *x)
{
    return vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x)), vdupq_n_u32(0x7fffffff));
}

/* As integers, magnitudes of floats keep their order and NaN lies above infinity. */
static float absmax(const float *x, size_t n)
{
    uint32x4_t largest[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = 0; j < 4; j++)
            largest[j] = vmaxq_u32(largest[j], magnitude(x + i + WIDTH * j));
    float parts[TURN + 1];
    for (size_t j = 0; j < 4; j++)
        vst1q_f32(parts + WIDTH * j, vreinterpretq_f32_u32(largest[j]));
    parts[TURN] = shoali_kernels_ref.absmax(x + i, n - i);
    return shoali_kernels_ref.absmax(parts, TURN + 1);
}

static size_t first_nonfinite(const float *x, size_t n)
{
    size_t i = 0;
    for (; i + TURN <= n; i += TURN) {
        const uint32x4_t a = vmaxq_u32(magnitude(x + i), magnitude(x + i + WIDTH));
        const uint32x4_t b = vmaxq_u32(magnitude(x + i + 2 * WIDTH), magnitude(x + i + 3 * WIDTH));
        if (vmaxvq_u32(vmaxq_u32(a, b)) >= 0x7f800000u)
            break; /* the reference finds which */
    }
    return i + shoali_kernels_ref.first_nonfinite(x + i, n - i);
}

static uint32_t or_bits(const float *x, size_t n)
{
    uint32x4_t all[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
    size_t i = 0;
    for (; i + TURN <= n; i += TURN)
        for (size_t j = 0; j < 4; j++)
            all[j] = vorrq_u32(all[j], vreinterpretq_u32_f32(vld1q_f32(x + i + WIDTH * j)));
    const uint32x4_t four = vorrq_u32(vorrq_u32(all[0], all[1]), vorrq_u32(all[2], all[3]));
    const uint32x2_t two = vorr_u32(vget_low_u32(four), vget_high_u32(four));
    return vget_lane_u32(two, 0) | vget_lane_u32(two, 1) | shoali_kernels_ref.or_bits(x + i, n - i);
}

const shoali_kernels shoali_kernels_neon = {
    .name = "neon",
    .neon = true,
    .add = add,
    .max = max,
    .scale = scale,
    .axpy = axpy,
    .copy = copy,
    .fp16_encode = shoali_neon_fp16_encode,
    .fp16_decode = shoali_neon_fp16_decode,
    .fp16_add = shoali_neon_fp16_add,
    .bf16_encode = shoali_neon_bf16_encode,
    .bf16_decode = shoali_neon_bf16_decode,
    .bf16_add = shoali_neon_bf16_add,
    .sumsq = sumsq,
    .absmax = absmax,
    .first_nonfinite = first_nonfinite,
    .circulant = &shoali_circulant_neon,
    .or_bits = or_bits,
};
