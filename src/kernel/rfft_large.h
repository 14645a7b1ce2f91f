/* SPDX-License-Identifier: Apache-2.0 */
/* Real FFT of 32 and more, of 8 blocks at once: leaves of 16 (rfft_lanes.h), put together four at a
 * time (rfft_join.h), in memory. An odd power of two begins with pairs. */
#ifndef SHOALI_KERNEL_RFFT_LARGE_H
#define SHOALI_KERNEL_RFFT_LARGE_H

#include "kernel/rfft_join.h"
#include "kernel/rfft_lanes.h"

enum { SHOALI_LEAF = 16 };

/* The leaf at place l of `leaves` takes every leaves-th sample from here on: l with its bits in
 * reverse. */
static inline uint32_t shoali_reversed(uint32_t l, uint32_t leaves)
{
    uint32_t r = 0;
    for (uint32_t bit = 1; bit < leaves; bit <<= 1, l >>= 1)
        r = r << 1 | (l & 1u);
    return r;
}

/* 32, 128 and 512 are no power of four times a leaf. */
static inline bool shoali_in_pairs(uint32_t k)
{
    return (k / SHOALI_LEAF & 0x55555555u) == 0;
}

/* time: [k][8], k >= 32; work: [2][k][8]. Both aligned to 32. */
SHOALI_INLINE void shoali_rfft_large(const shoali_dft *dft, const uint32_t k, const float *time,
                                     float *work, float *dst, size_t bin_stride)
{
    const uint32_t leaves = k / SHOALI_LEAF;
    float *from = work, *to = work + (size_t)k * SHOALI_LANES;
    for (uint32_t l = 0; l < leaves; l++) {
        const float *x = time + (size_t)shoali_reversed(l, leaves) * SHOALI_LANES;
        shoali_lanes in[SHOALI_LEAF], out[SHOALI_LEAF];
        SHOALI_UNROLL for (uint32_t u = 0; u < SHOALI_LEAF; u++)
            in[u] = *shoali_in(x + (size_t)u * leaves * SHOALI_LANES);
        shoali_rfft16(out, in, 1);
        SHOALI_UNROLL for (uint32_t u = 0; u < SHOALI_LEAF; u++) *
            shoali_at(from + ((size_t)l * SHOALI_LEAF + u) * SHOALI_LANES) = out[u];
    }
    uint32_t n = SHOALI_LEAF;
    if (shoali_in_pairs(k)) {
        n *= 2;
        for (uint32_t at = 0; at < k; at += n) {
            const float *e = from + (size_t)at * SHOALI_LANES;
            const bool last = n == k;
            shoali_combine(dft, n, e, e + (size_t)n / 2 * SHOALI_LANES,
                           last ? dst : to + (size_t)at * SHOALI_LANES,
                           last ? bin_stride : SHOALI_GROUP);
        }
        from = to, to = work;
    }
    for (n *= 4; n <= k; n *= 4) {
        for (uint32_t at = 0; at < k; at += n)
            shoali_combine4(dft, n, from + (size_t)at * SHOALI_LANES,
                            n == k ? dst : to + (size_t)at * SHOALI_LANES,
                            n == k ? bin_stride : SHOALI_GROUP);
        float *swap = from;
        from = to;
        to = swap;
    }
}

SHOALI_INLINE void shoali_irfft_large(const shoali_dft *dft, const uint32_t k, const float *src,
                                      size_t bin_stride, float *work, float *time)
{
    const uint32_t leaves = k / SHOALI_LEAF;
    float *to = work, *other = work + (size_t)k * SHOALI_LANES;
    const float *from = src;
    uint32_t n = k;
    size_t stride = bin_stride;
    for (; n / 4 >= SHOALI_LEAF; n /= 4, stride = SHOALI_GROUP) {
        for (uint32_t at = 0; at < k; at += n)
            shoali_divide4(dft, n, from + (size_t)at * SHOALI_LANES, stride,
                           to + (size_t)at * SHOALI_LANES);
        float *filled = to;
        from = filled, to = other, other = filled;
    }
    if (n > SHOALI_LEAF) {
        for (uint32_t at = 0; at < k; at += n)
            shoali_divide(dft, n, from + (size_t)at * SHOALI_LANES, stride,
                          to + (size_t)at * SHOALI_LANES, to + (size_t)(at + n / 2) * SHOALI_LANES);
        from = to;
    }
    for (uint32_t l = 0; l < leaves; l++) {
        float *x = time + (size_t)shoali_reversed(l, leaves) * SHOALI_LANES;
        shoali_lanes in[SHOALI_LEAF], out[SHOALI_LEAF];
        SHOALI_UNROLL for (uint32_t u = 0; u < SHOALI_LEAF; u++)
            in[u] = *shoali_in(from + ((size_t)l * SHOALI_LEAF + u) * SHOALI_LANES);
        shoali_irfft16(out, 1, in);
        SHOALI_UNROLL for (uint32_t u = 0; u < SHOALI_LEAF; u++) *
            shoali_at(x + (size_t)u * leaves * SHOALI_LANES) = out[u];
    }
}

#endif
