/* SPDX-License-Identifier: Apache-2.0 */
/* Real FFT of up to 16, of 8 blocks at once, one per lane: every butterfly is a vector operation,
 * no lane ever meets another; rfft_large.h has larger ones. Included by a row's source, which
 * defines SHOALI_FMA(a, b, c) = a * b + c and SHOALI_FNMA(a, b, c) = c - a * b; and, where its
 * vectors have four lanes, SHOALI_FOUR: groups keep their 8 lanes, of which each call does four.
 *
 * Decimation in time on real data (half the work of a complex FFT): with E and O the spectra of the
 * even and the odd samples, w = exp(-2 pi i / n),
 *     X[f] = E[f] + w^f O[f],   X[n/2 - f] = conj(E[f] - w^f O[f]),   0 < f < n/4
 *     X[0] = E[0] + O[0],  X[n/2] = E[0] - O[0],  X[n/4] = E[n/4] - i O[n/4]
 * in groups as kernel/circulant.h says; the inverse undoes it and leaves out the halves. */
#ifndef SHOALI_KERNEL_RFFT_LANES_H
#define SHOALI_KERNEL_RFFT_LANES_H

#include "kernel/circulant.h"

#define SHOALI_INLINE static inline __attribute__((always_inline))
#define SHOALI_UNROLL _Pragma("GCC unroll 16")

#if defined(SHOALI_FOUR)
typedef float shoali_lanes __attribute__((vector_size(16), may_alias));
#define SHOALI_EACH(v) (v), (v), (v), (v)
#else
typedef float shoali_lanes __attribute__((vector_size(32), may_alias));
#define SHOALI_EACH(v) (v), (v), (v), (v), (v), (v), (v), (v)
#endif

SHOALI_INLINE shoali_lanes *shoali_at(float *p)
{
    return (shoali_lanes *)__builtin_assume_aligned(p, sizeof(shoali_lanes));
}

SHOALI_INLINE const shoali_lanes *shoali_in(const float *p)
{
    return (const shoali_lanes *)__builtin_assume_aligned(p, sizeof(shoali_lanes));
}

SHOALI_INLINE shoali_lanes shoali_lanes_of(const float v)
{
    return (shoali_lanes){SHOALI_EACH(v)};
}

/* out: (DC, Nyquist), (re, im). */
SHOALI_INLINE void shoali_rfft4(shoali_lanes *out, const shoali_lanes *x, const int s)
{
    shoali_lanes a = x[0] + x[2 * s], b = x[s] + x[3 * s];
    out[0] = a + b;
    out[1] = a - b;
    out[2] = x[0] - x[2 * s];
    out[3] = x[3 * s] - x[s];
}

SHOALI_INLINE void shoali_irfft4(shoali_lanes *x, const int s, const shoali_lanes *in)
{
    shoali_lanes e = in[0] + in[1], o = in[0] - in[1], re = in[2] + in[2], im = in[3] + in[3];
    x[0] = e + re;
    x[2 * s] = e - re;
    x[s] = o - im;
    x[3 * s] = o + im;
}

#define SHOALI_HALF_ROOT 0.70710678118654752440f

SHOALI_INLINE void shoali_rfft8(shoali_lanes *out, const shoali_lanes *x, const int s)
{
    shoali_lanes e[4], o[4];
    shoali_rfft4(e, x, 2 * s);
    shoali_rfft4(o, x + s, 2 * s);
    const shoali_lanes root = shoali_lanes_of(SHOALI_HALF_ROOT);
    shoali_lanes re = o[2] + o[3], im = o[3] - o[2];
    out[0] = e[0] + o[0];
    out[1] = e[0] - o[0];
    out[2] = SHOALI_FMA(root, re, e[2]);
    out[3] = SHOALI_FMA(root, im, e[3]);
    out[4] = e[1];
    out[5] = -o[1];
    out[6] = SHOALI_FNMA(root, re, e[2]);
    out[7] = root * im - e[3];
}

SHOALI_INLINE void shoali_irfft8(shoali_lanes *x, const int s, const shoali_lanes *in)
{
    const shoali_lanes root = shoali_lanes_of(SHOALI_HALF_ROOT);
    shoali_lanes e[4] = {in[0] + in[1], in[4] + in[4], in[2] + in[6], in[3] - in[7]};
    shoali_lanes re = in[2] - in[6], im = in[3] + in[7];
    shoali_lanes o[4] = {in[0] - in[1], -(in[5] + in[5]), root * (re - im), root * (re + im)};
    shoali_irfft4(x, 2 * s, e);
    shoali_irfft4(x + s, 2 * s, o);
}

/* cos(pi / 8), sin(pi / 8) */
#define SHOALI_COS_8TH 0.92387953251128675613f
#define SHOALI_SIN_8TH 0.38268343236508977173f

/* Group f of the even and of the odd samples' spectra to groups f and 8 - f; w^f = c - i s. */
SHOALI_INLINE void shoali_butterfly(shoali_lanes *out, const shoali_lanes *e, const shoali_lanes *o,
                                    const int f, const float c, const float s)
{
    const shoali_lanes cs = shoali_lanes_of(c), sn = shoali_lanes_of(s);
    const shoali_lanes re = o[2 * f], im = o[2 * f + 1];
    const shoali_lanes tr = SHOALI_FMA(cs, re, sn * im), ti = SHOALI_FNMA(sn, re, cs * im);
    out[2 * f] = e[2 * f] + tr;
    out[2 * f + 1] = e[2 * f + 1] + ti;
    out[2 * (8 - f)] = e[2 * f] - tr;
    out[2 * (8 - f) + 1] = ti - e[2 * f + 1];
}

SHOALI_INLINE void shoali_rfft16(shoali_lanes *out, const shoali_lanes *x, const int s)
{
    shoali_lanes e[8], o[8];
    shoali_rfft8(e, x, 2 * s);
    shoali_rfft8(o, x + s, 2 * s);
    out[0] = e[0] + o[0];
    out[1] = e[0] - o[0];
    out[8] = e[1];
    out[9] = -o[1];
    shoali_butterfly(out, e, o, 1, SHOALI_COS_8TH, SHOALI_SIN_8TH);
    shoali_butterfly(out, e, o, 2, SHOALI_HALF_ROOT, SHOALI_HALF_ROOT);
    shoali_butterfly(out, e, o, 3, SHOALI_SIN_8TH, SHOALI_COS_8TH);
}

/* The way back, without the halves. */
SHOALI_INLINE void shoali_unbutterfly(const shoali_lanes *in, shoali_lanes *e, shoali_lanes *o,
                                      const int f, const float c, const float s)
{
    const shoali_lanes cs = shoali_lanes_of(c), sn = shoali_lanes_of(s);
    const shoali_lanes dr = in[2 * f] - in[2 * (8 - f)], di = in[2 * f + 1] + in[2 * (8 - f) + 1];
    e[2 * f] = in[2 * f] + in[2 * (8 - f)];
    e[2 * f + 1] = in[2 * f + 1] - in[2 * (8 - f) + 1];
    o[2 * f] = SHOALI_FNMA(sn, di, cs * dr);
    o[2 * f + 1] = SHOALI_FMA(sn, dr, cs * di);
}

SHOALI_INLINE void shoali_irfft16(shoali_lanes *x, const int s, const shoali_lanes *in)
{
    shoali_lanes e[8], o[8];
    e[0] = in[0] + in[1];
    o[0] = in[0] - in[1];
    e[1] = in[8] + in[8];
    o[1] = -(in[9] + in[9]);
    shoali_unbutterfly(in, e, o, 1, SHOALI_COS_8TH, SHOALI_SIN_8TH);
    shoali_unbutterfly(in, e, o, 2, SHOALI_HALF_ROOT, SHOALI_HALF_ROOT);
    shoali_unbutterfly(in, e, o, 3, SHOALI_SIN_8TH, SHOALI_COS_8TH);
    shoali_irfft8(x, 2 * s, e);
    shoali_irfft8(x + s, 2 * s, o);
}

#endif
