/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms over the channels of an image, 8 pixels at a time: rfft_lanes.h on rows of planes. */
#include <immintrin.h>

#define SHOALI_FMA(a, b, c) _mm256_fmadd_ps((a), (b), (c))
#define SHOALI_FNMA(a, b, c) _mm256_fnmadd_ps((a), (b), (c))
#include "kernel/avx2/rows.h"
#include "kernel/rfft_large.h"

/* Lanes of the pixels that are left. */
static __m256i mask_of(size_t left)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), lane);
}

SHOALI_INLINE __m256 load(const float *from, __m256i mask, const bool whole)
{
    return whole ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, mask);
}

SHOALI_INLINE void store(float *to, __m256i mask, __m256 value, const bool whole)
{
    if (whole)
        _mm256_storeu_ps(to, value);
    else
        _mm256_maskstore_ps(to, mask, value);
}

/* Channel t of the result. */
SHOALI_INLINE void give(const shoali_planes *p, float *channels, size_t t, __m256i mask,
                        __m256 value, const bool whole)
{
    if (t >= p->known)
        return;
    if (p->bias != NULL)
        value = _mm256_add_ps(value, _mm256_broadcast_ss(p->bias + t));
    if (p->rectify)
        value = _mm256_max_ps(_mm256_setzero_ps(), value); /* of a NaN, max takes its second */
    store(channels + t * p->plane, mask, value, whole);
}

/* ---------------------------------------------------------------- up to 16, in registers */

SHOALI_INLINE void analyse_small(const shoali_planes *p, const float *from, float *to, __m256i mask,
                                 const int k, const bool whole)
{
    __m256 x[16], out[16];
    SHOALI_UNROLL for (int t = 0; t < k; t++)
        x[t] = (size_t)t < p->known ? load(from + (size_t)t * p->plane, mask, whole)
                                    : _mm256_setzero_ps();
    if (k == 2) {
        out[0] = _mm256_add_ps(x[0], x[1]);
        out[1] = _mm256_sub_ps(x[0], x[1]);
    } else if (k == 4) {
        shoali_rfft4((shoali_lanes *)out, (shoali_lanes *)x, 1);
    } else if (k == 8) {
        shoali_rfft8((shoali_lanes *)out, (shoali_lanes *)x, 1);
    } else {
        shoali_rfft16((shoali_lanes *)out, (shoali_lanes *)x, 1);
    }
    SHOALI_UNROLL for (int f = 0; f < k / 2; f++)
    {
        store(to + (size_t)f * p->bin, mask, out[2 * f], whole);
        store(to + (size_t)f * p->bin + p->imaginary, mask, out[2 * f + 1], whole);
    }
}

SHOALI_INLINE void synthesise_small(const shoali_planes *p, const float *from, float *to,
                                    __m256i mask, const int k, const bool whole)
{
    __m256 in[16], x[16];
    SHOALI_UNROLL for (int f = 0; f < k / 2; f++)
    {
        in[2 * f] = load(from + (size_t)f * p->bin, mask, whole);
        in[2 * f + 1] = load(from + (size_t)f * p->bin + p->imaginary, mask, whole);
    }
    if (k == 2) {
        x[0] = _mm256_add_ps(in[0], in[1]);
        x[1] = _mm256_sub_ps(in[0], in[1]);
    } else if (k == 4) {
        shoali_irfft4((shoali_lanes *)x, 1, (shoali_lanes *)in);
    } else if (k == 8) {
        shoali_irfft8((shoali_lanes *)x, 1, (shoali_lanes *)in);
    } else {
        shoali_irfft16((shoali_lanes *)x, 1, (shoali_lanes *)in);
    }
    SHOALI_UNROLL for (int t = 0; t < k; t++) give(p, to, (size_t)t, mask, x[t], whole);
}

SHOALI_INLINE void small(const shoali_planes *p, const float *from, float *to, const int k,
                         const bool back)
{
    const __m256i mask = mask_of(p->pixels % SHOALI_LANES);
    size_t at = 0;
    for (; at + SHOALI_LANES <= p->pixels; at += SHOALI_LANES)
        if (back)
            synthesise_small(p, from + at, to + at, mask, k, true);
        else
            analyse_small(p, from + at, to + at, mask, k, true);
    if (at < p->pixels && back)
        synthesise_small(p, from + at, to + at, mask, k, false);
    else if (at < p->pixels)
        analyse_small(p, from + at, to + at, mask, k, false);
}

/* ---------------------------------------------------------------- larger, in memory */

/* Room for 8 pixels. */
typedef struct large {
    _Alignas(64) float time[SHOALI_DFT_MAX * SHOALI_LANES];
    _Alignas(64) float work[2 * SHOALI_DFT_MAX * SHOALI_LANES];
    _Alignas(64) float groups[SHOALI_DFT_MAX * SHOALI_LANES];
} large;

static void analyse_large(const shoali_dft *dft, const shoali_planes *p, const float *from,
                          float *to, large *room)
{
    for (size_t at = 0; at < p->pixels; at += SHOALI_LANES) {
        const size_t left = p->pixels - at;
        const __m256i mask = mask_of(left < SHOALI_LANES ? left : SHOALI_LANES);
        for (size_t t = 0; t < dft->k; t++)
            _mm256_store_ps(room->time + t * SHOALI_LANES,
                            t < p->known ? load(from + t * p->plane + at, mask, false)
                                         : _mm256_setzero_ps());
        shoali_rfft_large(dft, dft->k, room->time, room->work, room->groups, SHOALI_GROUP);
        for (size_t f = 0; f < dft->k / 2; f++) {
            const float *group = room->groups + f * SHOALI_GROUP;
            float *bin = to + f * p->bin + at;
            store(bin, mask, _mm256_load_ps(group), false);
            store(bin + p->imaginary, mask, _mm256_load_ps(group + SHOALI_LANES), false);
        }
    }
}

static void synthesise_large(const shoali_dft *dft, const shoali_planes *p, const float *from,
                             float *to, large *room)
{
    for (size_t at = 0; at < p->pixels; at += SHOALI_LANES) {
        const size_t left = p->pixels - at;
        const __m256i mask = mask_of(left < SHOALI_LANES ? left : SHOALI_LANES);
        for (size_t f = 0; f < dft->k / 2; f++) {
            float *group = room->groups + f * SHOALI_GROUP;
            const float *bin = from + f * p->bin + at;
            _mm256_store_ps(group, load(bin, mask, false));
            _mm256_store_ps(group + SHOALI_LANES, load(bin + p->imaginary, mask, false));
        }
        shoali_irfft_large(dft, dft->k, room->groups, SHOALI_GROUP, room->work, room->time);
        for (size_t t = 0; t < dft->k; t++)
            give(p, to + at, t, mask, _mm256_load_ps(room->time + t * SHOALI_LANES), false);
    }
}

/* ---------------------------------------------------------------- rows */

/* False: k is neither 2, 4, 8 nor 16. */
SHOALI_INLINE bool try_small(const shoali_dft *dft, const shoali_planes *p, const float *from,
                             float *to, const bool back)
{
    if (!dft->fast)
        return false;
    if (dft->k == 2)
        small(p, from, to, 2, back);
    else if (dft->k == 4)
        small(p, from, to, 4, back);
    else if (dft->k == 8)
        small(p, from, to, 8, back);
    else if (dft->k == 16)
        small(p, from, to, 16, back);
    return dft->k >= 2 && dft->k <= 16;
}

void shoali_avx2_analyse_planes(const shoali_dft *dft, const shoali_planes *p,
                                const float *channels, float *spectrum)
{
    large room;
    if (try_small(dft, p, channels, spectrum, false))
        return;
    if (!dft->fast || dft->k < 2)
        shoali_dft_analyse_planes(dft, p, channels, spectrum);
    else
        analyse_large(dft, p, channels, spectrum, &room);
}

void shoali_avx2_synthesise_planes(const shoali_dft *dft, const shoali_planes *p,
                                   const float *spectrum, float *channels)
{
    large room;
    if (try_small(dft, p, spectrum, channels, true))
        return;
    if (!dft->fast || dft->k < 2)
        shoali_dft_synthesise_planes(dft, p, spectrum, channels);
    else
        synthesise_large(dft, p, spectrum, channels, &room);
}
