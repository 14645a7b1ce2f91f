/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms over the channels of an image, 4 pixels at a time: rfft_lanes.h on rows of planes. */
#include <string.h>

#include "kernel/neon/lanes.h"
#include "kernel/neon/rows.h"

/* The pixels that are left, up to four. */
SHOALI_INLINE shoali_lanes load(const float *from, size_t left)
{
    float some[SHOALI_WIDTH] = {0};
    if (left >= SHOALI_WIDTH)
        return vld1q_f32(from);
    memcpy(some, from, left * sizeof *some);
    return vld1q_f32(some);
}

SHOALI_INLINE void store(float *to, shoali_lanes value, size_t left)
{
    float some[SHOALI_WIDTH];
    if (left >= SHOALI_WIDTH) {
        vst1q_f32(to, value);
        return;
    }
    vst1q_f32(some, value);
    memcpy(to, some, left * sizeof *some);
}

/* Channel t of what is analysed. */
SHOALI_INLINE shoali_lanes take(const shoali_planes *p, const float *from, size_t t, size_t left)
{
    return t < p->known ? load(from + t * p->plane, left) : shoali_lanes_of(0);
}

/* Channel t of the result. The reference's comparison: a NaN stays, and so does -0. */
SHOALI_INLINE void give(const shoali_planes *p, float *channels, size_t t, shoali_lanes value,
                        size_t left)
{
    if (t >= p->known)
        return;
    if (p->bias != NULL)
        value += shoali_lanes_of(p->bias[t]);
    if (p->rectify)
        value = vbslq_f32(vcltzq_f32(value), vdupq_n_f32(0), value);
    store(channels + t * p->plane, value, left);
}

/* ---------------------------------------------------------------- up to 16, in registers */

SHOALI_INLINE void analyse_small(const shoali_planes *p, const float *from, float *to, size_t left,
                                 const int k)
{
    shoali_lanes x[SHOALI_SMALL], out[SHOALI_SMALL];
    SHOALI_UNROLL for (int t = 0; t < k; t++) x[t] = take(p, from, (size_t)t, left);
    shoali_small(out, x, k);
    SHOALI_UNROLL for (int f = 0; f < k / 2; f++)
    {
        store(to + (size_t)f * p->bin, out[2 * f], left);
        store(to + (size_t)f * p->bin + p->imaginary, out[2 * f + 1], left);
    }
}

SHOALI_INLINE void synthesise_small(const shoali_planes *p, const float *from, float *to,
                                    size_t left, const int k)
{
    shoali_lanes in[SHOALI_SMALL], x[SHOALI_SMALL];
    SHOALI_UNROLL for (int f = 0; f < k / 2; f++)
    {
        in[2 * f] = load(from + (size_t)f * p->bin, left);
        in[2 * f + 1] = load(from + (size_t)f * p->bin + p->imaginary, left);
    }
    shoali_small_back(x, in, k);
    SHOALI_UNROLL for (int t = 0; t < k; t++) give(p, to, (size_t)t, x[t], left);
}

SHOALI_INLINE void small(const shoali_planes *p, const float *from, float *to, const int k,
                         const bool back)
{
    for (size_t at = 0; at < p->pixels; at += SHOALI_WIDTH)
        if (back)
            synthesise_small(p, from + at, to + at, p->pixels - at, k);
        else
            analyse_small(p, from + at, to + at, p->pixels - at, k);
}

/* False: k is neither 2, 4, 8 nor 16. */
SHOALI_INLINE bool try_small(const shoali_dft *dft, const shoali_planes *p, const float *from,
                             float *to, const bool back)
{
    if (dft->k == 2)
        small(p, from, to, 2, back);
    else if (dft->k == 4)
        small(p, from, to, 4, back);
    else if (dft->k == 8)
        small(p, from, to, 8, back);
    else if (dft->k == 16)
        small(p, from, to, 16, back);
    else
        return false;
    return true;
}

/* ---------------------------------------------------------------- larger, in memory */

static void analyse_large(const shoali_dft *dft, const shoali_planes *p, const float *from,
                          float *to)
{
    shoali_room room;
    for (size_t at = 0; at < p->pixels; at += SHOALI_WIDTH) {
        const size_t left = p->pixels - at;
        for (size_t t = 0; t < dft->k; t++)
            *shoali_at(room.time + t * SHOALI_LANES) = take(p, from + at, t, left);
        shoali_rfft_large(dft, dft->k, room.time, room.work, room.groups, SHOALI_GROUP);
        for (size_t f = 0; f < dft->k / 2; f++) {
            const float *group = room.groups + f * SHOALI_GROUP;
            float *bin = to + f * p->bin + at;
            store(bin, *shoali_in(group), left);
            store(bin + p->imaginary, *shoali_in(group + SHOALI_LANES), left);
        }
    }
}

static void synthesise_large(const shoali_dft *dft, const shoali_planes *p, const float *from,
                             float *to)
{
    shoali_room room;
    for (size_t at = 0; at < p->pixels; at += SHOALI_WIDTH) {
        const size_t left = p->pixels - at;
        for (size_t f = 0; f < dft->k / 2; f++) {
            const float *bin = from + f * p->bin + at;
            float *group = room.groups + f * SHOALI_GROUP;
            *shoali_at(group) = load(bin, left);
            *shoali_at(group + SHOALI_LANES) = load(bin + p->imaginary, left);
        }
        shoali_irfft_large(dft, dft->k, room.groups, SHOALI_GROUP, room.work, room.time);
        for (size_t t = 0; t < dft->k; t++)
            give(p, to + at, t, *shoali_in(room.time + t * SHOALI_LANES), left);
    }
}

/* ---------------------------------------------------------------- rows */

void shoali_neon_analyse_planes(const shoali_dft *dft, const shoali_planes *p,
                                const float *channels, float *spectrum)
{
    if (!dft->fast || dft->k < 2)
        shoali_dft_analyse_planes(dft, p, channels, spectrum);
    else if (!try_small(dft, p, channels, spectrum, false))
        analyse_large(dft, p, channels, spectrum);
}

void shoali_neon_synthesise_planes(const shoali_dft *dft, const shoali_planes *p,
                                   const float *spectrum, float *channels)
{
    if (!dft->fast || dft->k < 2)
        shoali_dft_synthesise_planes(dft, p, spectrum, channels);
    else if (!try_small(dft, p, spectrum, channels, true))
        synthesise_large(dft, p, spectrum, channels);
}
