/* SPDX-License-Identifier: Apache-2.0 */
/* Bit planes of 32 bytes, for 64-bit ARM, which has no movemask: bit i of a plane, a little-endian
 * word, is of byte i. */
#ifndef SHOALI_CODEC_PLANES_NEON_H
#define SHOALI_CODEC_PLANES_NEON_H

#include <arm_neon.h>

static inline uint8x16_t shoali_plane_places(void)
{
    return vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
}

/** Where a byte has one of the bits of `of`. */
static inline uint32_t shoali_plane_of(uint8x16x2_t bytes, uint8_t of)
{
    const uint8x16_t bits = vdupq_n_u8(of), places = shoali_plane_places();
    uint8x16_t sums = vpaddq_u8(vandq_u8(vtstq_u8(bytes.val[0], bits), places),
                                vandq_u8(vtstq_u8(bytes.val[1], bits), places));
    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(sums, sums)), 0);
}

/** Bytes of all ones where a plane has a bit. */
static inline uint8x16x2_t shoali_plane_spread(uint32_t plane)
{
    const uint8x16_t places = shoali_plane_places();
    const uint8x16_t word = vreinterpretq_u8_u32(vdupq_n_u32(plane));
    const uint8x16_t lower = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
    const uint8x16_t upper = vcombine_u8(vdup_n_u8(2), vdup_n_u8(3));
    return (uint8x16x2_t){
        {vtstq_u8(vqtbl1q_u8(word, lower), places), vtstq_u8(vqtbl1q_u8(word, upper), places)}};
}

#endif
