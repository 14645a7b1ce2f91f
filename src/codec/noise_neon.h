/* SPDX-License-Identifier: Apache-2.0 */
/* noise.h in four lanes; for 64-bit ARM. */
#ifndef SHOALI_CODEC_NOISE_NEON_H
#define SHOALI_CODEC_NOISE_NEON_H

#include <arm_neon.h>

#include "codec/noise.h"

/** shoali_noise_at of counter to counter + 3. */
static inline uint32x4_t shoali_noise_at4(shoali_noise key, uint32_t counter)
{
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    uint32x4_t x = veorq_u32(vaddq_u32(vdupq_n_u32(counter), vld1q_u32(lanes)),
                             vdupq_n_u32(key.first));
    x = veorq_u32(x, vshrq_n_u32(x, 16));
    x = vaddq_u32(vmulq_n_u32(x, SHOALI_NOISE_MUL_1), vdupq_n_u32(key.second));
    x = veorq_u32(x, vshrq_n_u32(x, 15));
    x = vmulq_n_u32(x, SHOALI_NOISE_MUL_2);
    return veorq_u32(x, vshrq_n_u32(x, 16));
}

#endif
