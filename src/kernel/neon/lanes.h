/* SPDX-License-Identifier: Apache-2.0 */
/* rfft_lanes.h with NEON: vectors of four lanes, twice for the 8 of a group. */
#ifndef SHOALI_KERNEL_NEON_LANES_H
#define SHOALI_KERNEL_NEON_LANES_H

#include <arm_neon.h>

#define SHOALI_FOUR
#define SHOALI_FMA(a, b, c) vfmaq_f32((c), (a), (b))
#define SHOALI_FNMA(a, b, c) vfmsq_f32((c), (a), (b))
#include "kernel/rfft_large.h"

enum { SHOALI_WIDTH = 4, SHOALI_SMALL = 16 /* up to here a transform stays in registers */ };

/* Of 32 and more, in memory: groups of 8 lanes, of which four are used. */
typedef struct shoali_room {
    _Alignas(64) float time[SHOALI_DFT_MAX * SHOALI_LANES];
    _Alignas(64) float work[2 * SHOALI_DFT_MAX * SHOALI_LANES];
    _Alignas(64) float groups[SHOALI_DFT_MAX * SHOALI_LANES];
} shoali_room;

/* k: 2, 4, 8 or 16. */
SHOALI_INLINE void shoali_small(shoali_lanes *out, const shoali_lanes *x, const int k)
{
    if (k == 2) {
        out[0] = x[0] + x[1];
        out[1] = x[0] - x[1];
    } else if (k == 4) {
        shoali_rfft4(out, x, 1);
    } else if (k == 8) {
        shoali_rfft8(out, x, 1);
    } else {
        shoali_rfft16(out, x, 1);
    }
}

SHOALI_INLINE void shoali_small_back(shoali_lanes *x, const shoali_lanes *in, const int k)
{
    if (k == 2) {
        x[0] = in[0] + in[1];
        x[1] = in[0] - in[1];
    } else if (k == 4) {
        shoali_irfft4(x, 1, in);
    } else if (k == 8) {
        shoali_irfft8(x, 1, in);
    } else {
        shoali_irfft16(x, 1, in);
    }
}

#endif
