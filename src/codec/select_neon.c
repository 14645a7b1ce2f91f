/* SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>

#include "codec/select.h"

enum { WIDTH = 4, TURN = 4 * WIDTH };

static uint32x4_t magnitudes(const float *x)
{
    return vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x)));
}

/* Few are above: sixteen at a time are looked at together, and mostly left behind. */
size_t shoali_select_reaching_neon(const float *x, size_t first, size_t end, uint32_t low,
                                   uint16_t *at, size_t *count)
{
    size_t i = first, found = *count;
    for (; i + TURN <= end; i += TURN) {
        uint32x4_t m[4], most;
        for (size_t k = 0; k < 4; k++)
            m[k] = magnitudes(x + i + WIDTH * k);
        most = vmaxq_u32(vmaxq_u32(m[0], m[1]), vmaxq_u32(m[2], m[3]));
        if (vmaxvq_u32(most) < low)
            continue;
        uint32_t bits[TURN];
        for (size_t k = 0; k < 4; k++)
            vst1q_u32(bits + WIDTH * k, m[k]);
        for (size_t k = 0; k < TURN; k++) {
            at[found] = (uint16_t)(i + k);
            found += bits[k] >= low;
        }
    }
    *count = found;
    return i;
}
