/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floats with NEON. fp16 uses the conversion instructions of ARMv8, which keep a NaN's
 * payload as F16C does; bf16 is integer arithmetic, since its instructions came later. */
#include <arm_neon.h>

#include "kernel/neon/rows.h"
#include "kernel/ref/rows.h"

enum { TURN = 8 };

static uint16x8_t larger(uint16x8_t largest, uint16x8_t halves)
{
    return vmaxq_u16(largest, vandq_u16(halves, vdupq_n_u16(0x7fff)));
}

/* True if no element (sign cleared) reached the exponent of infinity. */
static bool all_below(uint16x8_t largest, uint16_t infinity)
{
    return vmaxvq_u16(largest) < infinity;
}

static uint16x8_t fp16_round(const float *src)
{
    const float16x4_t low = vcvt_f16_f32(vld1q_f32(src));
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(src + 4)));
}

static float32x4x2_t fp16_widen(uint16x8_t halves)
{
    const float16x8_t h = vreinterpretq_f16_u16(halves);
    return (float32x4x2_t){{vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)}};
}

bool shoali_neon_fp16_encode(uint16_t *dst, const float *src, size_t n)
{
    uint16x8_t largest = vdupq_n_u16(0);
    size_t i = 0;
    for (; i + TURN <= n; i += TURN) {
        const uint16x8_t halves = fp16_round(src + i);
        largest = larger(largest, halves);
        vst1q_u16(dst + i, halves);
    }
    return shoali_ref_fp16_encode(dst + i, src + i, n - i) && all_below(largest, 0x7c00);
}

bool shoali_neon_fp16_decode(float *dst, const uint16_t *src, size_t n)
{
    uint16x8_t largest = vdupq_n_u16(0);
    size_t i = 0;
    for (; i + TURN <= n; i += TURN) {
        const uint16x8_t halves = vld1q_u16(src + i);
        const float32x4x2_t x = fp16_widen(halves);
        largest = larger(largest, halves);
        vst1q_f32(dst + i, x.val[0]);
        vst1q_f32(dst + i + 4, x.val[1]);
    }
    return shoali_ref_fp16_decode(dst + i, src + i, n - i) && all_below(largest, 0x7c00);
}

bool shoali_neon_fp16_add(float *acc, const uint16_t *src, size_t n)
{
    uint16x8_t largest = vdupq_n_u16(0);
    size_t i = 0;
    for (; i + TURN <= n; i += TURN) {
        const uint16x8_t halves = vld1q_u16(src + i);
        const float32x4x2_t x = fp16_widen(halves);
        largest = larger(largest, halves);
        vst1q_f32(acc + i, vaddq_f32(vld1q_f32(acc + i), x.val[0]));
        vst1q_f32(acc + i + 4, vaddq_f32(vld1q_f32(acc + i + 4), x.val[1]));
    }
    return shoali_ref_fp16_add(acc + i, src + i, n - i) && all_below(largest, 0x7c00);
}

/* Four floats to bf16: to nearest even, and NaN stays one. */
static uint16x4_t bf16_round(float32x4_t x)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(vaddq_u32(bits, odd), vdupq_n_u32(0x7fff));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), up, quiet), 16);
}

static float32x4x2_t bf16_widen(uint16x8_t halves)
{
    const uint32x4_t low = vmovl_u16(vget_low_u16(halves)), high = vmovl_high_u16(halves);
    return (float32x4x2_t){{vreinterpretq_f32_u32(vshlq_n_u32(low, 16)),
                            vreinterpretq_f32_u32(vshlq_n_u32(high, 16))}};
}

bool shoali_neon_bf16_encode(uint16_t *dst, const float *src, size_t n)
{
    uint16x8_t largest = vdupq_n_u16(0);
    size_t i = 0;
    for (; i + TURN <= n; i += TURN) {
        const uint16x8_t halves = vcombine_u16(bf16_round(vld1q_f32(src + i)),
                                               bf16_round(vld1q_f32(src + i + 4)));
        largest = larger(largest, halves);
        vst1q_u16(dst + i, halves);
    }
    return shoali_ref_bf16_encode(dst + i, src + i, n - i) && all_below(largest, 0x7f80);
}

bool shoali_neon_bf16_decode(float *dst, const uint16_t *src, size_t n)
{
    uint16x8_t largest = vdupq_n_u16(0);
    size_t i = 0;
    for (; i + TURN <= n; i += TURN) {
        const uint16x8_t halves = vld1q_u16(src + i);
        const float32x4x2_t x = bf16_widen(halves);
        largest = larger(largest, halves);
        vst1q_f32(dst + i, x.val[0]);
        vst1q_f32(dst + i + 4, x.val[1]);
    }
    return shoali_ref_bf16_decode(dst + i, src + i, n - i) && all_below(largest, 0x7f80);
}

bool shoali_neon_bf16_add(float *acc, const uint16_t *src, size_t n)
{
    uint16x8_t largest = vdupq_n_u16(0);
    size_t i = 0;
    for (; i + TURN <= n; i += TURN) {
        const uint16x8_t halves = vld1q_u16(src + i);
        const float32x4x2_t x = bf16_widen(halves);
        largest = larger(largest, halves);
        vst1q_f32(acc + i, vaddq_f32(vld1q_f32(acc + i), x.val[0]));
        vst1q_f32(acc + i + 4, vaddq_f32(vld1q_f32(acc + i + 4), x.val[1]));
    }
    return shoali_ref_bf16_add(acc + i, src + i, n - i) && all_below(largest, 0x7f80);
}
