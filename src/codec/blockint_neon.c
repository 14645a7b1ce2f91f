/* SPDX-License-Identifier: Apache-2.0 */
/* blockint with NEON: 32 integers of up to 16 bits stand in one or two pairs of registers of
 * bytes, of which planes_neon.h takes a plane at a time. */
#include <arm_neon.h>
#include <string.h>

#include "codec/blockint.h"
#include "codec/planes_neon.h"

enum { BLOCK = SHOALI_BLOCKINT_BLOCK, WIDE = SHOALI_BLOCKINT_WIDE, FOURS = BLOCK / 4 };

#define INLINE static inline __attribute__((always_inline))

/* Steps of a block; not true: some are 2^30 or more, or no numbers. */
INLINE bool quantise(const shoali_blockint_rule *rule, const float *src, int32x4_t q[FOURS])
{
    uint32x4_t most = vdupq_n_u32(0);
    for (size_t i = 0; i < FOURS; i++) {
        const float32x4_t steps = vmulq_n_f32(vld1q_f32(src + 4 * i), rule->steps_per_unit);
        most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(steps)));
        q[i] = vcvtnq_s32_f32(steps);
    }
    return vmaxvq_u32(most) < (uint32_t)(127 + 30) << 23;
}

INLINE uint32_t any_bits(int32x4_t a)
{
    const uint32x4_t bits = vreinterpretq_u32_s32(a);
    const uint32x2_t two = vorr_u32(vget_low_u32(bits), vget_high_u32(bits));
    return vget_lane_u32(two, 0) | vget_lane_u32(two, 1);
}

INLINE unsigned width_of(const int32x4_t q[FOURS])
{
    int32x4_t any = vdupq_n_s32(0), magnitudes = any;
    for (size_t i = 0; i < FOURS; i++) {
        any = vorrq_s32(any, q[i]);
        magnitudes = vorrq_s32(magnitudes, veorq_s32(q[i], vshrq_n_s32(q[i], 31)));
    }
    const uint32_t bits = any_bits(magnitudes);
    return bits != 0 ? 33 - (unsigned)__builtin_clz(bits) : any_bits(any) != 0;
}

INLINE uint8_t *put_planes(uint8x16x2_t bytes, unsigned count, uint8_t *dst)
{
    for (unsigned j = 0; j < count; j++, dst += 4) {
        const uint32_t plane = shoali_plane_of(bytes, (uint8_t)(1u << j));
        memcpy(dst, &plane, sizeof plane);
    }
    return dst;
}

INLINE uint8x16_t narrow(uint16x8_t a, uint16x8_t b)
{
    return vcombine_u8(vmovn_u16(a), vmovn_u16(b));
}

static size_t put(const shoali_blockint_rule *rule, const float *src, uint8_t *dst,
                  unsigned *code_out)
{
    int32x4_t q[FOURS];
    unsigned width;
    if (!quantise(rule, src, q) || (width = width_of(q)) > 16)
        return shoali_blockint_put(rule, src, BLOCK, dst, code_out);
    uint8_t *at = dst;
    *code_out = width < WIDE ? width : WIDE;
    if (width == 0)
        return 0;
    if (width >= WIDE)
        *at++ = (uint8_t)width;
    uint16x8_t words[4];
    for (size_t i = 0; i < 4; i++)
        words[i] = vreinterpretq_u16_s16(
            vcombine_s16(vmovn_s32(q[2 * i]), vmovn_s32(q[2 * i + 1])));
    const uint8x16x2_t lower = {{narrow(words[0], words[1]), narrow(words[2], words[3])}};
    at = put_planes(lower, width < 8 ? width : 8, at);
    if (width > 8) {
        for (size_t i = 0; i < 4; i++)
            words[i] = vshrq_n_u16(words[i], 8);
        const uint8x16x2_t upper = {{narrow(words[0], words[1]), narrow(words[2], words[3])}};
        at = put_planes(upper, width - 8, at);
    }
    return (size_t)(at - dst);
}

/* Bytes from 1 to 8 planes, the uppermost going on to bit 7. */
INLINE uint8x16x2_t get_planes(const uint8_t *src, unsigned count)
{
    uint8x16x2_t bytes = {{vdupq_n_u8(0), vdupq_n_u8(0)}};
    for (unsigned j = 0; j < count; j++, src += 4) {
        uint32_t plane;
        memcpy(&plane, src, sizeof plane);
        const uint8x16x2_t here = shoali_plane_spread(plane);
        const unsigned bit = 1u << j;
        const uint8x16_t bits = vdupq_n_u8((uint8_t)(j + 1 < count ? bit : 0 - bit));
        bytes.val[0] = vorrq_u8(bytes.val[0], vandq_u8(here.val[0], bits));
        bytes.val[1] = vorrq_u8(bytes.val[1], vandq_u8(here.val[1], bits));
    }
    return bytes;
}

INLINE void put_floats(int32x4_t q, float step, float *dst, bool add)
{
    const float32x4_t value = vmulq_n_f32(vcvtq_f32_s32(q), step);
    vst1q_f32(dst, add ? vaddq_f32(vld1q_f32(dst), value) : value);
}

INLINE void put_words(int16x8_t q, float step, float *dst, bool add)
{
    put_floats(vmovl_s16(vget_low_s16(q)), step, dst, add);
    put_floats(vmovl_high_s16(q), step, dst + 4, add);
}

INLINE void get_block(const uint8_t *src, unsigned width, float step, float *dst, bool add)
{
    const uint8x16x2_t lower = get_planes(src, width < 8 ? width : 8);
    uint8x16x2_t upper;
    if (width > 8)
        upper = get_planes(src + 32, width - 8);
    for (size_t i = 0; i < 2; i++, dst += 16) {
        if (width <= 8) { /* goes on with its sign */
            const int8x16_t sign = vshrq_n_s8(vreinterpretq_s8_u8(lower.val[i]), 7);
            upper.val[i] = vreinterpretq_u8_s8(sign);
        }
        const uint8x16_t first = vzip1q_u8(lower.val[i], upper.val[i]);
        const uint8x16_t second = vzip2q_u8(lower.val[i], upper.val[i]);
        put_words(vreinterpretq_s16_u8(first), step, dst, add);
        put_words(vreinterpretq_s16_u8(second), step, dst + 8, add);
    }
}

static size_t get(const shoali_blockint_rule *rule, unsigned code, const uint8_t *src,
                  size_t len_bytes, float *dst, bool add)
{
    unsigned width;
    const size_t bytes = shoali_blockint_size(code, src, len_bytes, BLOCK, &width);
    if (bytes == SHOALI_BLOCKINT_CORRUPT)
        return bytes;
    if (width == 0 || width > 16)
        return shoali_blockint_get(rule, code, src, len_bytes, dst, BLOCK, add);
    src += code == WIDE;
    if (add)
        get_block(src, width, rule->step, dst, true);
    else
        get_block(src, width, rule->step, dst, false);
    return bytes;
}

const shoali_blockint_loops shoali_blockint_neon = {put, get};
