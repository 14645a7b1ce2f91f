/* SPDX-License-Identifier: Apache-2.0 */
/* The scaled formats with NEON, 16 elements at a time; the plain loops take the rest of a block. */
#include <arm_neon.h>

#include "codec/noise_neon.h"
#include "codec/scaled.h"

enum { STRIDE = 16 };

#define INLINE static inline __attribute__((always_inline))

INLINE shoali_scaled_noise from(const shoali_scaled_noise *noise, size_t i)
{
    shoali_scaled_noise later = *noise;
    later.first += (uint32_t)i;
    return later;
}

INLINE void put4(float32x4_t value, float *dst, bool add)
{
    vst1q_f32(dst, add ? vaddq_f32(vld1q_f32(dst), value) : value);
}

INLINE void put8(int16x8_t steps, float scale, float *dst, bool add)
{
    put4(vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(steps))), scale), dst, add);
    put4(vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(steps)), scale), dst + 4, add);
}

INLINE void put16(int8x16_t steps, float scale, float *dst, bool add)
{
    put8(vmovl_s8(vget_low_s8(steps)), scale, dst, add);
    put8(vmovl_high_s8(steps), scale, dst + 8, add);
}

/* ---------------------------------------------------------------- integers */

INLINE float32x4_t unit(uint32x4_t bits16)
{
    return vmulq_n_f32(vaddq_f32(vcvtq_f32_u32(bits16), vdupq_n_f32(0.5f)), 0x1p-16f);
}

/* Sixteen elements as bytes in order, within +-limit. */
INLINE int8x16_t round16(const float *src, float per_scale, const shoali_scaled_noise *noise,
                         size_t i, bool stochastic, int8_t limit)
{
    int32x4_t q[4];
    for (unsigned j = 0; j < 4; j++) {
        const float32x4_t x = vmulq_n_f32(vld1q_f32(src + i + 4 * (size_t)j), per_scale);
        if (!stochastic) {
            q[j] = vcvtnq_s32_f32(x);
            continue;
        }
        const uint32_t counter = noise->first / 2 + (uint32_t)(i / 2) + j % 2 * 4;
        const uint32x4_t bits = shoali_noise_at4(noise->key, counter);
        const uint32x4_t half = j < 2 ? vandq_u32(bits, vdupq_n_u32(0xffff))
                                      : vshrq_n_u32(bits, 16);
        q[j] = vcvtmq_s32_f32(vaddq_f32(x, unit(half)));
    }
    const int16x8_t low = vcombine_s16(vqmovn_s32(q[0]), vqmovn_s32(q[1]));
    const int16x8_t high = vcombine_s16(vqmovn_s32(q[2]), vqmovn_s32(q[3]));
    const int8x16_t bytes = vcombine_s8(vqmovn_s16(low), vqmovn_s16(high));
    return vmaxq_s8(vminq_s8(bytes, vdupq_n_s8(limit)), vdupq_n_s8((int8_t)-limit));
}

INLINE void int8_loop(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                      bool stochastic, uint8_t *dst)
{
    for (size_t i = 0; i < n; i += STRIDE)
        vst1q_u8(dst + i, vreinterpretq_u8_s8(round16(src, per_scale, noise, i, stochastic, 127)));
}

static void int8_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    const size_t whole = n - n % STRIDE;
    if (noise->on)
        int8_loop(src, whole, per_scale, noise, true, dst);
    else
        int8_loop(src, whole, per_scale, noise, false, dst);
    const shoali_scaled_noise rest = from(noise, whole);
    shoali_scaled_ref.int8.put(src + whole, n - whole, per_scale, &rest, dst + whole);
}

static void int8_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    const size_t whole = n - n % STRIDE;
    for (size_t i = 0; i < whole; i += STRIDE)
        put16(vreinterpretq_s8_u8(vld1q_u8(src + i)), scale, dst + i, add);
    shoali_scaled_ref.int8.get(src + whole, n - whole, scale, dst + whole, add);
}

INLINE void int4_loop(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                      bool stochastic, uint8_t *dst)
{
    for (size_t i = 0; i < n; i += 2 * STRIDE) {
        const uint8x16_t low = vreinterpretq_u8_s8(
            round16(src, per_scale, noise, i, stochastic, 7));
        const uint8x16_t high = vreinterpretq_u8_s8(
            round16(src, per_scale, noise, i + STRIDE, stochastic, 7));
        vst1q_u8(dst + i / 2, vsliq_n_u8(low, high, 4));
    }
}

static void int4_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    const size_t whole = n - n % (2 * STRIDE);
    if (noise->on)
        int4_loop(src, whole, per_scale, noise, true, dst);
    else
        int4_loop(src, whole, per_scale, noise, false, dst);
    const shoali_scaled_noise rest = from(noise, whole);
    shoali_scaled_ref.int4.put(src + whole, n - whole, per_scale, &rest, dst + whole / 2);
}

static void int4_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    const size_t whole = n - n % (2 * STRIDE);
    for (size_t i = 0; i < whole; i += 2 * STRIDE) {
        const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(src + i / 2));
        put16(vshrq_n_s8(vshlq_n_s8(bytes, 4), 4), scale, dst + i, add);
        put16(vshrq_n_s8(bytes, 4), scale, dst + i + STRIDE, add);
    }
    shoali_scaled_ref.int4.get(src + whole / 2, n - whole, scale, dst + whole, add);
}

/* ---------------------------------------------------------------- 8-bit floats */

/* Four codes in 32-bit lanes. Small ones are rounded by adding a number whose last place is their
 * step. */
INLINE uint32x4_t float8_of(float32x4_t x, int fraction, int bias, uint32_t largest)
{
    const int drop = 23 - fraction;
    const int32x4_t down = vdupq_n_s32(-drop);
    const uint32x4_t bits = vreinterpretq_u32_f32(vabsq_f32(x));
    const uint32x4_t odd = vandq_u32(vshlq_u32(bits, down), vdupq_n_u32(1));
    const uint32x4_t round = vaddq_u32(odd, vdupq_n_u32((1u << (drop - 1)) - 1));
    const uint32x4_t normal = vsubq_u32(vshlq_u32(vaddq_u32(bits, round), down),
                                        vdupq_n_u32((uint32_t)(127 - bias) << fraction));
    const uint32x4_t anchor = vdupq_n_u32((uint32_t)(127 + 23 - (bias - 1 + fraction)) << 23);
    const float32x4_t shifted = vaddq_f32(vabsq_f32(x), vreinterpretq_f32_u32(anchor));
    const uint32x4_t small = vsubq_u32(vreinterpretq_u32_f32(shifted), anchor);
    const uint32x4_t is_small = vcltq_u32(bits, vdupq_n_u32((uint32_t)(128 - bias) << 23));
    const uint32x4_t code = vminq_u32(vbslq_u32(is_small, small, normal), vdupq_n_u32(largest));
    const uint32x4_t sign = vshrq_n_u32(vreinterpretq_u32_f32(x), 31);
    return vsliq_n_u32(code, sign, 7);
}

INLINE void float8_put(const float *src, size_t n, float per_scale, int fraction, int bias,
                       uint32_t largest, uint8_t *dst)
{
    for (size_t i = 0; i < n; i += STRIDE) {
        uint16x4_t four[4];
        for (size_t j = 0; j < 4; j++) {
            const float32x4_t x = vmulq_n_f32(vld1q_f32(src + i + 4 * j), per_scale);
            four[j] = vmovn_u32(float8_of(x, fraction, bias, largest));
        }
        const uint8x8_t low = vmovn_u16(vcombine_u16(four[0], four[1]));
        vst1q_u8(dst + i, vcombine_u8(low, vmovn_u16(vcombine_u16(four[2], four[3]))));
    }
}

static void e4m3_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    const size_t whole = n - n % STRIDE;
    float8_put(src, whole, per_scale, 3, 7, 0x7e, dst);
    shoali_scaled_ref.e4m3.put(src + whole, n - whole, per_scale, noise, dst + whole);
}

static void e5m2_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    const size_t whole = n - n % STRIDE;
    float8_put(src, whole, per_scale, 2, 15, 0x7b, dst);
    shoali_scaled_ref.e5m2.put(src + whole, n - whole, per_scale, noise, dst + whole);
}

/* By way of fp16, whose upper bits have e5m2's exponent, and e4m3's but for a factor of 2^8. */
INLINE void float8_get(const uint8_t *src, size_t n, float exact, float scale, int16_t up,
                       uint16_t largest, float *dst, bool add)
{
    for (size_t i = 0; i < n; i += 8) {
        const uint16x8_t codes = vmovl_u8(vld1_u8(src + i));
        uint16x8_t halves = vminq_u16(vandq_u16(codes, vdupq_n_u16(0x7f)), vdupq_n_u16(largest));
        halves = vshlq_u16(halves, vdupq_n_s16(up));
        halves = vorrq_u16(halves, vshlq_n_u16(vshrq_n_u16(codes, 7), 15));
        const float16x8_t values = vreinterpretq_f16_u16(halves);
        const float32x4_t low = vcvt_f32_f16(vget_low_f16(values));
        put4(vmulq_n_f32(vmulq_n_f32(low, exact), scale), dst + i, add);
        put4(vmulq_n_f32(vmulq_n_f32(vcvt_high_f32_f16(values), exact), scale), dst + i + 4, add);
    }
}

static void e4m3_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    const size_t whole = n - n % 8;
    float8_get(src, whole, 0x1p8f, scale, 7, 0x7e, dst, add);
    shoali_scaled_ref.e4m3.get(src + whole, n - whole, scale, dst + whole, add);
}

static void e5m2_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    const size_t whole = n - n % 8;
    float8_get(src, whole, 1, scale, 8, 0x7b, dst, add);
    shoali_scaled_ref.e5m2.get(src + whole, n - whole, scale, dst + whole, add);
}

/* ---------------------------------------------------------------- signs */

static void sign_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    const uint32_t place[4] = {1, 2, 4, 8};
    const size_t whole = n - n % 8;
    for (size_t i = 0; i < whole; i += 8) {
        const int32x4_t a = vshrq_n_s32(vreinterpretq_s32_f32(vld1q_f32(src + i)), 31);
        const int32x4_t b = vshrq_n_s32(vreinterpretq_s32_f32(vld1q_f32(src + i + 4)), 31);
        const uint32x4_t low = vandq_u32(vreinterpretq_u32_s32(a), vld1q_u32(place));
        const uint32x4_t high = vandq_u32(vreinterpretq_u32_s32(b), vld1q_u32(place));
        dst[i / 8] = (uint8_t)vaddvq_u32(vaddq_u32(low, vshlq_n_u32(high, 4)));
    }
    shoali_scaled_ref.sign.put(src + whole, n - whole, per_scale, noise, dst + whole / 8);
}

static void sign_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    const int32_t up[8] = {31, 30, 29, 28, 27, 26, 25, 24};
    const uint32x4_t top = vdupq_n_u32(0x80000000u);
    const uint32x4_t value = vreinterpretq_u32_f32(vdupq_n_f32(scale));
    const size_t whole = n - n % 8;
    for (size_t i = 0; i < whole; i += 8)
        for (size_t j = 0; j < 8; j += 4) {
            const uint32x4_t bits = vshlq_u32(vdupq_n_u32(src[i / 8]), vld1q_s32(up + j));
            const uint32x4_t one = veorq_u32(value, vandq_u32(bits, top));
            put4(vreinterpretq_f32_u32(one), dst + i + j, add);
        }
    shoali_scaled_ref.sign.get(src + whole / 8, n - whole, scale, dst + whole, add);
}

static void sign_sums(const float *src, size_t n, float factor, float sums_out[8])
{
    float32x4_t low = vdupq_n_f32(0), high = low;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        low = vaddq_f32(low, vmulq_n_f32(vabsq_f32(vld1q_f32(src + i)), factor));
        high = vaddq_f32(high, vmulq_n_f32(vabsq_f32(vld1q_f32(src + i + 4)), factor));
    }
    vst1q_f32(sums_out, low);
    vst1q_f32(sums_out + 4, high);
    for (size_t j = 0; i < n; i++, j++)
        sums_out[j] += (src[i] < 0 ? -src[i] : src[i]) * factor;
}

static uint32_t largest(const float *src, size_t n)
{
    uint32x4_t most[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
    size_t i = 0;
    for (; i + STRIDE <= n; i += STRIDE)
        for (size_t j = 0; j < 4; j++) {
            const float32x4_t x = vabsq_f32(vld1q_f32(src + i + 4 * j));
            most[j] = vmaxq_u32(most[j], vreinterpretq_u32_f32(x));
        }
    const uint32_t whole = vmaxvq_u32(
        vmaxq_u32(vmaxq_u32(most[0], most[1]), vmaxq_u32(most[2], most[3])));
    const uint32_t rest = shoali_scaled_ref.largest(src + i, n - i);
    return rest > whole ? rest : whole;
}

const shoali_scaled_formats shoali_scaled_neon = {
    .int8 = {"int8", 127, 1, 1, int8_put, int8_get, NULL},
    .int4 = {"int4", 7, 32, 16, int4_put, int4_get, NULL},
    .e4m3 = {"fp8", 448, 1, 1, e4m3_put, e4m3_get, NULL},
    .e5m2 = {"fp8", 57344, 1, 1, e5m2_put, e5m2_get, NULL},
    .sign = {"sign", 0, 8, 1, sign_put, sign_get, sign_sums},
    .largest = largest,
};
