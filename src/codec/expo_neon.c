/* SPDX-License-Identifier: Apache-2.0 */
/* expo with NEON: eight registers of four elements make a block. */
#include <arm_neon.h>
#include <string.h>

#include "codec/expo.h"
#include "codec/planes_neon.h"

enum { BLOCK = SHOALI_EXPO_BLOCK, ESCAPE = SHOALI_EXPO_ESCAPE, PLANES = 1, VALUES = 13 };
enum { FOURS = BLOCK / 4, NONE = 255 };

#define INLINE static inline __attribute__((always_inline))

/* ---------------------------------------------------------------- writing */

/* A byte of each of 32 numbers below 256. */
INLINE uint8x16x2_t bytes_of(const uint32x4_t words[FOURS])
{
    uint8x8_t eight[4];
    for (size_t i = 0; i < 4; i++)
        eight[i] = vmovn_u16(vcombine_u16(vmovn_u32(words[2 * i]), vmovn_u32(words[2 * i + 1])));
    return (uint8x16x2_t){{vcombine_u8(eight[0], eight[1]), vcombine_u8(eight[2], eight[3])}};
}

INLINE uint32x4_t exponents(uint32x4_t bits)
{
    return vandq_u32(vshrq_n_u32(bits, 23), vdupq_n_u32(255));
}

/* Sign and fraction: bits 23 and 0-22. */
INLINE uint32x4_t fractions(uint32x4_t bits)
{
    return vbslq_u32(vdupq_n_u32(0x7fffff), bits, vshrq_n_u32(bits, 8));
}

/* Three bytes of each element; writes four bytes more. */
INLINE void put_threes(const uint32x4_t bits[FOURS], uint8_t *dst)
{
    static const uint8_t squeeze[16] = {0,  1,  2,  4,  5,    6,    8,    9,
                                        10, 12, 13, 14, NONE, NONE, NONE, NONE};
    for (size_t i = 0; i < FOURS; i++) {
        const uint8x16_t value = vreinterpretq_u8_u32(fractions(bits[i]));
        vst1q_u8(dst + 12 * i, vqtbl1q_u8(value, vld1q_u8(squeeze)));
    }
}

/* The uppermost of the three. */
INLINE void put_ones(const uint32x4_t bits[FOURS], uint8_t *dst)
{
    uint32x4_t tops[FOURS];
    for (size_t i = 0; i < FOURS; i++)
        tops[i] = vandq_u32(vshrq_n_u32(fractions(bits[i]), 16), vdupq_n_u32(255));
    const uint8x16x2_t bytes = bytes_of(tops);
    vst1q_u8(dst, bytes.val[0]);
    vst1q_u8(dst + 16, bytes.val[1]);
}

static size_t put(const float *src, unsigned kept, uint8_t *dst)
{
    uint32x4_t bits[FOURS], below[FOURS], any = vdupq_n_u32(0), most = any;
    for (size_t i = 0; i < FOURS; i++) {
        bits[i] = vreinterpretq_u32_f32(vld1q_f32(src + 4 * i));
        any = vorrq_u32(any, bits[i]);
        most = vmaxq_u32(most, exponents(bits[i]));
    }
    if (vmaxvq_u32(any) == 0)
        return 0;
    const uint32_t top = vmaxvq_u32(most);
    for (size_t i = 0; i < FOURS; i++)
        below[i] = vminq_u32(vsubq_u32(vdupq_n_u32(top), exponents(bits[i])), vdupq_n_u32(ESCAPE));
    const uint8x16x2_t codes = bytes_of(below);
    const uint32_t planes[3] = {shoali_plane_of(codes, 1), shoali_plane_of(codes, 2),
                                shoali_plane_of(codes, 4)};
    dst[0] = (uint8_t)top;
    memcpy(dst + PLANES, planes, sizeof planes);
    if (kept == 3)
        put_threes(bits, dst + VALUES);
    else
        put_ones(bits, dst + VALUES);
    uint8_t *escapes = dst + VALUES + BLOCK * kept;
    for (uint32_t left = planes[0] & planes[1] & planes[2]; left != 0; left &= left - 1) {
        uint32_t one;
        memcpy(&one, src + __builtin_ctz(left), sizeof one);
        *escapes++ = (uint8_t)(one >> 23);
    }
    return (size_t)(escapes - dst);
}

/* ---------------------------------------------------------------- reading */

/* How far each exponent is below the block's; 7: further. */
INLINE uint8x16x2_t codes_of(const uint32_t planes[3])
{
    uint8x16x2_t codes = {{vdupq_n_u8(0), vdupq_n_u8(0)}};
    for (size_t p = 0; p < 3; p++) {
        const uint8x16x2_t here = shoali_plane_spread(planes[p]);
        const uint8x16_t bit = vdupq_n_u8((uint8_t)(1u << p));
        codes.val[0] = vorrq_u8(codes.val[0], vandq_u8(here.val[0], bit));
        codes.val[1] = vorrq_u8(codes.val[1], vandq_u8(here.val[1], bit));
    }
    return codes;
}

/* Whether an offset reaches below exponent 0, as no encoder makes them. */
INLINE bool below_zero(uint8x16_t codes, uint8_t top)
{
    const uint8x16_t far = vcgtq_u8(codes, vdupq_n_u8(top));
    return vmaxvq_u8(vbicq_u8(far, vceqq_u8(codes, vdupq_n_u8(ESCAPE)))) != 0;
}

/* Four elements' sign and fraction; of three bytes each it reads four bytes beyond. */
INLINE uint32x4_t get_four(const uint8_t *values, unsigned kept, size_t i)
{
    static const uint8_t spread[16] = {0, 1, 2, NONE, 3, 4,  5,  NONE,
                                       6, 7, 8, NONE, 9, 10, 11, NONE};
    if (kept == 3)
        return vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(values + 12 * i), vld1q_u8(spread)));
    uint32_t four;
    memcpy(&four, values + 4 * i, sizeof four);
    const uint16x8_t words = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
    return vshlq_n_u32(vmovl_u16(vget_low_u16(words)), 16);
}

INLINE uint32x4_t join(uint32x4_t value, uint32x4_t exponent)
{
    const uint32x4_t ends = vbslq_u32(vdupq_n_u32(0x7fffff), value, vshlq_n_u32(value, 8));
    return vorrq_u32(vandq_u32(ends, vdupq_n_u32(0x807fffff)), vshlq_n_u32(exponent, 23));
}

/* A block's floats as bits; an exponent that is further off is wrong, and put right afterwards. */
INLINE void get_bits(const uint8_t *src, uint8x16x2_t codes, unsigned kept, uint32_t bits[BLOCK])
{
    const uint8_t *values = src + VALUES;
    for (size_t i = 0; i < FOURS; i += 2) {
        const uint8x16_t e = vsubq_u8(vdupq_n_u8(src[0]), codes.val[i / 4]);
        const uint16x8_t eight = vmovl_u8(i % 4 == 0 ? vget_low_u8(e) : vget_high_u8(e));
        const uint32x4_t low = vmovl_u16(vget_low_u16(eight)), high = vmovl_high_u16(eight);
        vst1q_u32(bits + 4 * i, join(get_four(values, kept, i), low));
        vst1q_u32(bits + 4 * i + 4, join(get_four(values, kept, i + 1), high));
    }
}

static size_t get(const uint8_t *src, size_t len_bytes, unsigned kept, float *dst, bool add)
{
    enum { BEYOND = 4 };
    uint32_t planes[3], bits[BLOCK];
    if (len_bytes < (size_t)VALUES + BLOCK * kept + BEYOND)
        return shoali_expo_get(src, len_bytes, BLOCK, kept, dst, add);
    memcpy(planes, src + PLANES, sizeof planes);
    uint32_t escaped = planes[0] & planes[1] & planes[2];
    const size_t bytes = VALUES + BLOCK * (size_t)kept + (size_t)__builtin_popcount(escaped);
    const uint8x16x2_t codes = codes_of(planes);
    if (bytes > len_bytes || below_zero(codes.val[0], src[0]) || below_zero(codes.val[1], src[0]))
        return SHOALI_EXPO_CORRUPT;
    get_bits(src, codes, kept, bits);
    const uint8_t *escape = src + VALUES + BLOCK * kept;
    for (; escaped != 0; escaped &= escaped - 1) {
        uint32_t *one = &bits[__builtin_ctz(escaped)];
        *one = (*one & 0x807fffffu) | (uint32_t)*escape++ << 23;
    }
    for (size_t i = 0; i < BLOCK; i += 4) {
        const float32x4_t x = vreinterpretq_f32_u32(vld1q_u32(bits + i));
        vst1q_f32(dst + i, add ? vaddq_f32(vld1q_f32(dst + i), x) : x);
    }
    return bytes;
}

const shoali_expo_loops shoali_expo_neon = {put, get};
