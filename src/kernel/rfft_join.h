/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the large real FFT (rfft_large.h), forth and back: two spectra to one, four to one.
 *
 * With A0, A2, A1, A3 the spectra of every fourth sample from 0, 2, 1, 3 on and w = exp(-2 pi i /
 * n):  a, b = A0[f] +- w^2f A2[f],   c, d = w^f A1[f] +- w^3f A3[f],   0 < f < n/8:
 *     X[f] = a + c,  X[n/4 + f] = b - i d,  X[n/4 - f] = conj(b + i d),  X[n/2 - f] = conj(a - c)
 * Group 0 of a spectrum holds two real numbers, as kernel/circulant.h says: they make groups 0,
 * n/4, n/8 and 3n/8. */
#ifndef SHOALI_KERNEL_RFFT_JOIN_H
#define SHOALI_KERNEL_RFFT_JOIN_H

#include "kernel/rfft_lanes.h"

/* ---------------------------------------------------------------- two */

/* Spectra of n / 2 at e and o (groups side by side) to one of n: its groups lie stride apart. */
SHOALI_INLINE void shoali_combine(const shoali_dft *dft, uint32_t n, const float *e, const float *o,
                                  float *out, size_t stride)
{
    const uint32_t step = dft->k / n * dft->stride;
    float *middle = out + n / 4 * stride;
    *shoali_at(out) = *shoali_in(e) + *shoali_in(o);
    *shoali_at(out + 8) = *shoali_in(e) - *shoali_in(o);
    *shoali_at(middle) = *shoali_in(e + 8);
    *shoali_at(middle + 8) = -*shoali_in(o + 8);
    for (uint32_t f = 1; f < n / 4; f++) {
        const shoali_lanes c = shoali_lanes_of(dft->cos[(size_t)f * step]);
        const shoali_lanes s = shoali_lanes_of(dft->sin[(size_t)f * step]);
        const shoali_lanes er = *shoali_in(e + f * SHOALI_GROUP);
        const shoali_lanes ei = *shoali_in(e + f * SHOALI_GROUP + 8);
        const shoali_lanes or = *shoali_in(o + f * SHOALI_GROUP);
        const shoali_lanes oi = *shoali_in(o + f * SHOALI_GROUP + 8);
        const shoali_lanes tr = SHOALI_FMA(c, or, s * oi), ti = SHOALI_FNMA(s, or, c * oi);
        float *low = out + f * stride, *high = out + (n / 2 - f) * stride;
        *shoali_at(low) = er + tr;
        *shoali_at(low + 8) = ei + ti;
        *shoali_at(high) = er - tr;
        *shoali_at(high + 8) = ti - ei;
    }
}

SHOALI_INLINE void shoali_divide(const shoali_dft *dft, uint32_t n, const float *in, size_t stride,
                                 float *e, float *o)
{
    const uint32_t step = dft->k / n * dft->stride;
    const float *middle = in + n / 4 * stride;
    const shoali_lanes ny_e = *shoali_in(middle), ny_o = *shoali_in(middle + 8);
    const shoali_lanes dc = *shoali_in(in), ny = *shoali_in(in + 8);
    *shoali_at(e) = dc + ny;
    *shoali_at(o) = dc - ny;
    *shoali_at(e + 8) = ny_e + ny_e;
    *shoali_at(o + 8) = -(ny_o + ny_o);
    for (uint32_t f = 1; f < n / 4; f++) {
        const shoali_lanes c = shoali_lanes_of(dft->cos[(size_t)f * step]);
        const shoali_lanes s = shoali_lanes_of(dft->sin[(size_t)f * step]);
        const float *low = in + f * stride, *high = in + (n / 2 - f) * stride;
        const shoali_lanes ar = *shoali_in(low), ai = *shoali_in(low + 8);
        const shoali_lanes br = *shoali_in(high), bi = *shoali_in(high + 8);
        const shoali_lanes dr = ar - br, di = ai + bi;
        *shoali_at(e + f * SHOALI_GROUP) = ar + br;
        *shoali_at(e + f * SHOALI_GROUP + 8) = ai - bi;
        *shoali_at(o + f * SHOALI_GROUP) = SHOALI_FNMA(s, di, c * dr);
        *shoali_at(o + f * SHOALI_GROUP + 8) = SHOALI_FMA(s, dr, c * di);
    }
}

/* ---------------------------------------------------------------- four */

typedef struct shoali_complex {
    shoali_lanes re, im;
} shoali_complex;

SHOALI_INLINE shoali_complex shoali_get(const float *group)
{
    return (shoali_complex){*shoali_in(group), *shoali_in(group + 8)};
}

SHOALI_INLINE void shoali_put(float *group, shoali_lanes re, shoali_lanes im)
{
    *shoali_at(group) = re;
    *shoali_at(group + 8) = im;
}

/* v w^at, or v / w^at. */
SHOALI_INLINE shoali_complex shoali_turn(const shoali_dft *dft, size_t at, const shoali_complex v,
                                         const bool back)
{
    const shoali_lanes c = shoali_lanes_of(dft->cos[at]), s = shoali_lanes_of(dft->sin[at]);
    if (back)
        return (shoali_complex){SHOALI_FNMA(s, v.im, c * v.re), SHOALI_FMA(s, v.re, c * v.im)};
    return (shoali_complex){SHOALI_FMA(s, v.im, c * v.re), SHOALI_FNMA(s, v.re, c * v.im)};
}

/* Spectra of n / 4 at `in`, one behind the other (A0, A2, A1, A3), to one of n: its groups lie
 * stride apart. */
SHOALI_INLINE void shoali_combine4(const shoali_dft *dft, uint32_t n, const float *in, float *out,
                                   size_t stride)
{
    const size_t step = dft->k / n * dft->stride, part = (size_t)n / 4 * SHOALI_LANES;
    const shoali_lanes root = shoali_lanes_of(SHOALI_HALF_ROOT);
    const shoali_complex n0 = shoali_get(in), n2 = shoali_get(in + part),
                         n1 = shoali_get(in + 2 * part), n3 = shoali_get(in + 3 * part);
    const shoali_lanes even = n0.re + n2.re, odd = n1.re + n3.re;
    const shoali_lanes less = n1.im - n3.im, more = n1.im + n3.im;
    shoali_put(out, even + odd, even - odd);
    shoali_put(out + n / 4 * stride, n0.re - n2.re, n3.re - n1.re);
    shoali_put(out + n / 8 * stride, SHOALI_FMA(root, less, n0.im), -SHOALI_FMA(root, more, n2.im));
    shoali_put(out + (n / 4 + n / 8) * stride, SHOALI_FNMA(root, less, n0.im),
               SHOALI_FNMA(root, more, n2.im));
    SHOALI_UNROLL for (size_t f = 1; f < n / 8; f++)
    {
        const float *group = in + f * SHOALI_GROUP;
        const shoali_complex v0 = shoali_get(group);
        const shoali_complex v2 = shoali_turn(dft, 2 * f * step, shoali_get(group + part), false);
        const shoali_complex v1 = shoali_turn(dft, f * step, shoali_get(group + 2 * part), false);
        const shoali_complex v3 = shoali_turn(dft, 3 * f * step, shoali_get(group + 3 * part),
                                              false);
        const shoali_complex a = {v0.re + v2.re, v0.im + v2.im}, b = {v0.re - v2.re, v0.im - v2.im};
        const shoali_complex c = {v1.re + v3.re, v1.im + v3.im}, d = {v1.re - v3.re, v1.im - v3.im};
        shoali_put(out + f * stride, a.re + c.re, a.im + c.im);
        shoali_put(out + (n / 4 + f) * stride, b.re + d.im, b.im - d.re);
        shoali_put(out + (n / 4 - f) * stride, b.re - d.im, -b.im - d.re);
        shoali_put(out + (n / 2 - f) * stride, a.re - c.re, c.im - a.im);
    }
}

/* The way back, times 4. */
SHOALI_INLINE void shoali_divide4(const shoali_dft *dft, uint32_t n, const float *in, size_t stride,
                                  float *out)
{
    const size_t step = dft->k / n * dft->stride, part = (size_t)n / 4 * SHOALI_LANES;
    const shoali_lanes root = shoali_lanes_of(2 * SHOALI_HALF_ROOT);
    const shoali_complex ends = shoali_get(in), middle = shoali_get(in + n / 4 * stride);
    const shoali_complex low = shoali_get(in + n / 8 * stride),
                         high = shoali_get(in + (n / 4 + n / 8) * stride);
    const shoali_lanes even = ends.re + ends.im, odd = ends.re - ends.im;
    const shoali_lanes less = low.re - high.re, more = low.im + high.im;
    const shoali_lanes n0 = low.re + high.re, n2 = high.im - low.im;
    shoali_put(out, even + 2 * middle.re, n0 + n0);
    shoali_put(out + part, even - 2 * middle.re, n2 + n2);
    shoali_put(out + 2 * part, odd - 2 * middle.im, root * (less - more));
    shoali_put(out + 3 * part, odd + 2 * middle.im, -root * (less + more));
    SHOALI_UNROLL for (size_t f = 1; f < n / 8; f++)
    {
        const shoali_complex p = shoali_get(in + f * stride),
                             q = shoali_get(in + (n / 2 - f) * stride);
        const shoali_complex r = shoali_get(in + (n / 4 + f) * stride),
                             s = shoali_get(in + (n / 4 - f) * stride);
        const shoali_complex a = {p.re + q.re, p.im - q.im}, c = {p.re - q.re, p.im + q.im};
        const shoali_complex b = {r.re + s.re, r.im - s.im}, d = {-r.im - s.im, r.re - s.re};
        float *group = out + f * SHOALI_GROUP;
        shoali_put(group, a.re + b.re, a.im + b.im);
        const shoali_complex v2 = {a.re - b.re, a.im - b.im}, v1 = {c.re + d.re, c.im + d.im},
                             v3 = {c.re - d.re, c.im - d.im};
        const shoali_complex a2 = shoali_turn(dft, 2 * f * step, v2, true);
        const shoali_complex a1 = shoali_turn(dft, f * step, v1, true);
        const shoali_complex a3 = shoali_turn(dft, 3 * f * step, v3, true);
        shoali_put(group + part, a2.re, a2.im);
        shoali_put(group + 2 * part, a1.re, a1.im);
        shoali_put(group + 3 * part, a3.re, a3.im);
    }
}

#endif
