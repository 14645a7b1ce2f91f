/* SPDX-License-Identifier: Apache-2.0 */
/* Products of one sample: each weight is read once, mostly from memory or a far cache. Four groups
 * of outputs share what is broadcast; of fewer, columns take turns at four sums, or each would wait
 * for the addition of the one before. */
#include <immintrin.h>

#include "kernel/avx2/rows.h"
#include "kernel/circulant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum { SUMS = 4, AHEAD = 16 /* columns of each of four groups */ };

INLINE void step(__m256 *re, __m256 *im, const float *w, const float *x, const bool real)
{
    const __m256 wr = _mm256_load_ps(w), wi = _mm256_load_ps(w + 8);
    const __m256 xr = _mm256_broadcast_ss(x), xi = _mm256_broadcast_ss(x + 8);
    *re = _mm256_fmadd_ps(wr, xr, *re);
    *im = _mm256_fmadd_ps(real ? wi : wr, xi, *im);
    if (!real) {
        *re = _mm256_fnmadd_ps(wi, xi, *re);
        *im = _mm256_fmadd_ps(wi, xr, *im);
    }
}

/* One group of outputs; weights are fetched in the order in which they lie. What lies behind `last`
 * is not: it would take the place of what is needed. */
INLINE void group(const shoali_apply *job, const float *w, const float *x, float *y,
                  const float *last, const bool real)
{
    __m256 re[SUMS], im[SUMS];
    UNROLL for (int i = 0; i < SUMS; i++) re[i] = im[i] = _mm256_setzero_ps();
    size_t left = job->columns;
    for (; left >= SHOALI_LANES; left -= SHOALI_LANES, x += SHOALI_GROUP)
        UNROLL for (size_t c = 0; c < SHOALI_LANES; c++, w += SHOALI_GROUP)
        {
            const float *ahead = w + SHOALI_FETCHED;
            _mm_prefetch((const char *)(ahead < last ? ahead : last), _MM_HINT_T1);
            step(&re[c % SUMS], &im[c % SUMS], w, x + c, real);
        }
    for (size_t c = 0; c < left; c++, w += SHOALI_GROUP)
        step(&re[0], &im[0], w, x + c, real);
    _mm256_store_ps(y, _mm256_add_ps(_mm256_add_ps(re[0], re[1]), _mm256_add_ps(re[2], re[3])));
    _mm256_store_ps(y + 8, _mm256_add_ps(_mm256_add_ps(im[0], im[1]), _mm256_add_ps(im[2], im[3])));
}

/* Four groups of outputs. At the end of their rows the next four are fetched. */
INLINE void four_groups(const shoali_apply *job, const float *w, const float *x, float *y,
                        const bool real)
{
    const size_t row = job->columns * SHOALI_GROUP;
    __m256 re[4], im[4];
    UNROLL for (int r = 0; r < 4; r++) re[r] = im[r] = _mm256_setzero_ps();
    size_t left = job->columns;
    for (; left >= SHOALI_LANES; left -= SHOALI_LANES, x += SHOALI_GROUP) {
        const float *ahead = w + AHEAD * SHOALI_GROUP + (left > AHEAD ? 0 : 3 * row);
        UNROLL for (size_t c = 0; c < SHOALI_LANES; c++, w += SHOALI_GROUP, ahead += SHOALI_GROUP)
            UNROLL for (size_t r = 0; r < 4; r++)
        {
            _mm_prefetch((const char *)(ahead + r * row), _MM_HINT_T0);
            step(&re[r], &im[r], w + r * row, x + c, real);
        }
    }
    for (size_t c = 0; c < left; c++, w += SHOALI_GROUP)
        UNROLL for (size_t r = 0; r < 4; r++) step(&re[r], &im[r], w + r * row, x + c, real);
    UNROLL for (int r = 0; r < 4; r++)
    {
        _mm256_store_ps(y + r * SHOALI_GROUP, re[r]);
        _mm256_store_ps(y + r * SHOALI_GROUP + 8, im[r]);
    }
}

INLINE void all_groups(const shoali_apply *job, const float *last, const bool real)
{
    for (size_t f = 0; f < job->bins; f++) {
        const float *w = job->w + f * job->w_bin, *x = job->x + f * job->x_bin;
        float *y = job->y + f * job->y_bin;
        size_t tile = 0;
        for (; tile + 4 <= job->tiles; tile += 4)
            four_groups(job, w + tile * job->columns * SHOALI_GROUP, x, y + tile * SHOALI_GROUP,
                        real);
        for (; tile < job->tiles; tile++)
            group(job, w + tile * job->columns * SHOALI_GROUP, x, y + tile * SHOALI_GROUP, last,
                  real);
    }
}

void shoali_avx2_apply_one(const shoali_apply *job)
{
    const float *end = job->w + job->bins * job->w_bin;
    if (job->real) /* the other bins follow */
        all_groups(job, end + SHOALI_FETCHED, true);
    else
        all_groups(job, end - SHOALI_GROUP, false);
}
