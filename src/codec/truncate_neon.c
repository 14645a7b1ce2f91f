/* SPDX-License-Identifier: Apache-2.0 */
/* 16 elements at a time: all loops begin with the upper halves of floats, two bytes each. */
#include <arm_neon.h>
#include <string.h>

#include "codec/truncate.h"

enum { STRIDE = 16 };

#define INLINE static inline __attribute__((always_inline))

INLINE uint32x4_t larger(uint32x4_t most, uint32x4_t bits)
{
    return vmaxq_u32(most, vandq_u32(bits, vdupq_n_u32(0x7fffffff)));
}

/* Where each of four elements has its two bits in a byte. */
INLINE int8x16_t places(void)
{
    return vreinterpretq_s8_u32(vdupq_n_u32(0x06040200));
}

/* ---------------------------------------------------------------- put */

/* 16 numbers of two bits to four bytes. */
INLINE void put_pairs(uint16x8_t low, uint16x8_t high, uint8_t *dst)
{
    const uint8x16_t two = vcombine_u8(vmovn_u16(vshrq_n_u16(low, 6)),
                                       vmovn_u16(vshrq_n_u16(high, 6)));
    uint8x16_t sums = vshlq_u8(vandq_u8(two, vdupq_n_u8(3)), places());
    sums = vpaddq_u8(sums, sums);
    sums = vpaddq_u8(sums, sums);
    const uint32_t pairs = vgetq_lane_u32(vreinterpretq_u32_u8(sums), 0);
    memcpy(dst, &pairs, sizeof pairs);
}

INLINE void put_stride(int32_t bits, uint16x8_t low, uint16x8_t high, size_t i, size_t count,
                       uint8_t *dst)
{
    if (bits == SHOALI_TRUNCATE_16) {
        vst1q_u8(dst + 2 * i, vreinterpretq_u8_u16(low));
        vst1q_u8(dst + 2 * i + 16, vreinterpretq_u8_u16(high));
        return;
    }
    vst1q_u8(dst + i, vcombine_u8(vshrn_n_u16(low, 8), vshrn_n_u16(high, 8)));
    if (bits == SHOALI_TRUNCATE_22)
        put_pairs(low, high, dst + count + i / 4);
}

INLINE size_t put(int32_t bits, const float *src, size_t count, uint8_t *dst, uint32_t *most_out)
{
    uint32x4_t most = vdupq_n_u32(0);
    size_t i = 0;
    for (; i + STRIDE <= count; i += STRIDE) {
        uint16x4_t half[4];
        for (size_t j = 0; j < 4; j++) {
            const uint32x4_t x = vreinterpretq_u32_f32(vld1q_f32(src + i + 4 * j));
            most = larger(most, x);
            half[j] = vshrn_n_u32(x, 16);
        }
        put_stride(bits, vcombine_u16(half[0], half[1]), vcombine_u16(half[2], half[3]), i, count,
                   dst);
    }
    *most_out = vmaxvq_u32(most);
    return i;
}

size_t shoali_truncate_put_neon(int32_t bits, const float *src, size_t count, uint8_t *dst,
                                uint32_t *most_out)
{
    switch (bits) {
    case SHOALI_TRUNCATE_16:
        return put(SHOALI_TRUNCATE_16, src, count, dst, most_out);
    case SHOALI_TRUNCATE_22:
        return put(SHOALI_TRUNCATE_22, src, count, dst, most_out);
    default:
        return put(SHOALI_TRUNCATE_24, src, count, dst, most_out);
    }
}

/* ---------------------------------------------------------------- get */

INLINE uint32x4_t put4(uint16x4_t halves, float *dst, bool add)
{
    const uint32x4_t bits = vshlq_n_u32(vmovl_u16(halves), 16);
    const float32x4_t x = vreinterpretq_f32_u32(bits);
    vst1q_f32(dst, add ? vaddq_f32(vld1q_f32(dst), x) : x);
    return bits;
}

INLINE uint32x4_t put8(uint16x8_t halves, float *dst, bool add, uint32x4_t most)
{
    most = larger(most, put4(vget_low_u16(halves), dst, add));
    return larger(most, put4(vget_high_u16(halves), dst + 4, add));
}

/* Four bytes to 16 numbers of two bits. */
INLINE uint8x16_t pairs_at(const uint8_t *src)
{
    uint32_t pairs;
    memcpy(&pairs, src, sizeof pairs);
    const uint8x8_t each = vreinterpret_u8_u32(vdup_n_u32(pairs));
    const uint8x8_t twice = vzip1_u8(each, each); /* bytes 0 0 1 1 2 2 3 3 */
    const uint8x16_t four = vcombine_u8(vzip1_u8(twice, twice), vzip2_u8(twice, twice));
    return vandq_u8(vshlq_u8(four, vnegq_s8(places())), vdupq_n_u8(3));
}

INLINE uint32x4_t get_stride(int32_t bits, const uint8_t *src, size_t i, size_t count, float *dst,
                             bool add, uint32x4_t most)
{
    if (bits == SHOALI_TRUNCATE_16) {
        most = put8(vreinterpretq_u16_u8(vld1q_u8(src + 2 * i)), dst + i, add, most);
        return put8(vreinterpretq_u16_u8(vld1q_u8(src + 2 * i + 16)), dst + i + 8, add, most);
    }
    const uint8x16_t bytes = vld1q_u8(src + i);
    uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(vdupq_n_u8(0), bytes));
    uint16x8_t high = vreinterpretq_u16_u8(vzip2q_u8(vdupq_n_u8(0), bytes));
    if (bits == SHOALI_TRUNCATE_22) {
        const uint8x16_t two = pairs_at(src + count + i / 4);
        low = vorrq_u16(low, vshll_n_u8(vget_low_u8(two), 6));
        high = vorrq_u16(high, vshll_n_u8(vget_high_u8(two), 6));
    }
    return put8(high, dst + i + 8, add, put8(low, dst + i, add, most));
}

INLINE size_t get(int32_t bits, const uint8_t *src, size_t count, float *dst, bool add,
                  uint32_t *most_out)
{
    uint32x4_t most = vdupq_n_u32(0);
    size_t i = 0;
    for (; i + STRIDE <= count; i += STRIDE)
        most = get_stride(bits, src, i, count, dst, add, most);
    *most_out = vmaxvq_u32(most);
    return i;
}

size_t shoali_truncate_get_neon(int32_t bits, const uint8_t *src, size_t count, float *dst,
                                bool add, uint32_t *most_out)
{
    switch (bits) {
    case SHOALI_TRUNCATE_16:
        return get(SHOALI_TRUNCATE_16, src, count, dst, add, most_out);
    case SHOALI_TRUNCATE_22:
        return get(SHOALI_TRUNCATE_22, src, count, dst, add, most_out);
    default:
        return get(SHOALI_TRUNCATE_24, src, count, dst, add, most_out);
    }
}
