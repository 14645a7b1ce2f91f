/* SPDX-License-Identifier: Apache-2.0 */
/* Complex multiply-accumulate per bin. Sums stay in registers, of which there are 32: a tile has up
 * to 16 of them and 4 of weights, and takes the other side as a lane of a multiply-add. Columns
 * come in order, so a sample's bits do not depend on how many samples there are. */
#include <arm_neon.h>

#include "kernel/neon/rows.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum { WIDTH = 4, SAMPLES = 4, COLUMNS = 4 };

/* Four outputs of a group. */
typedef struct half {
    float32x4_t re, im;
} half;

INLINE half load(const float *group)
{
    return (half){vld1q_f32(group), vld1q_f32(group + SHOALI_LANES)};
}

INLINE void store(float *group, half h)
{
    vst1q_f32(group, h.re);
    vst1q_f32(group + SHOALI_LANES, h.im);
}

/* ---------------------------------------------------------------- apply */

/* sum + w x; of bin 0 each part by itself. */
INLINE half step(half sum, half w, const float *x, const bool real)
{
    const float re = x[0], im = x[SHOALI_LANES];
    sum.re = vfmaq_n_f32(sum.re, w.re, re);
    sum.im = vfmaq_n_f32(sum.im, real ? w.im : w.re, im);
    if (!real) {
        sum.re = vfmsq_n_f32(sum.re, w.im, im);
        sum.im = vfmaq_n_f32(sum.im, w.im, re);
    }
    return sum;
}

/* `halves` of one or two groups of outputs, for some samples. */
INLINE void tile(const shoali_apply *job, const float *w, const float *x, float *y,
                 const int halves, const int samples, const bool real)
{
    const size_t row = job->columns * SHOALI_GROUP;
    half sum[4][SAMPLES];
    UNROLL for (int h = 0; h < halves; h++) UNROLL for (int s = 0; s < samples; s++)
        sum[h][s] = (half){vdupq_n_f32(0), vdupq_n_f32(0)};
    for (size_t j = 0; j < job->columns; j++, w += SHOALI_GROUP) {
        const float *at = x + shoali_column(j);
        UNROLL for (int h = 0; h < halves; h++)
        {
            const half weights = load(w + (size_t)(h / 2) * row + (size_t)(h % 2) * WIDTH);
            UNROLL for (int s = 0; s < samples; s++)
                sum[h][s] = step(sum[h][s], weights, at + (size_t)s * job->x_stride, real);
        }
    }
    UNROLL for (int h = 0; h < halves; h++) UNROLL for (int s = 0; s < samples; s++)
        store(y + (size_t)s * job->y_stride + h / 2 * SHOALI_GROUP + h % 2 * WIDTH, sum[h][s]);
}

INLINE void tiles(const shoali_apply *job, size_t f, const bool real)
{
    const size_t row = job->columns * SHOALI_GROUP;
    for (size_t t = 0; t < job->tiles; t++) {
        const float *w = job->w + f * job->w_bin + t * row;
        const float *x = job->x + f * job->x_bin;
        float *y = job->y + f * job->y_bin + t * SHOALI_GROUP;
        size_t left = job->count;
        for (; left >= SAMPLES; left -= SAMPLES) {
            tile(job, w, x, y, 2, SAMPLES, real);
            x += SAMPLES * job->x_stride;
            y += SAMPLES * job->y_stride;
        }
        if (left == 3)
            tile(job, w, x, y, 2, 3, real);
        else if (left == 2)
            tile(job, w, x, y, 2, 2, real);
        else if (left == 1)
            tile(job, w, x, y, 2, 1, real);
    }
}

/* One sample: two groups of outputs at a time, or each sum would wait for the one before. */
INLINE void one(const shoali_apply *job, size_t f, const bool real)
{
    const size_t row = job->columns * SHOALI_GROUP;
    const float *w = job->w + f * job->w_bin, *x = job->x + f * job->x_bin;
    float *y = job->y + f * job->y_bin;
    size_t t = 0;
    for (; t + 2 <= job->tiles; t += 2)
        tile(job, w + t * row, x, y + t * SHOALI_GROUP, 4, 1, real);
    if (t < job->tiles)
        tile(job, w + t * row, x, y + t * SHOALI_GROUP, 2, 1, real);
}

void shoali_neon_apply(const shoali_apply *job)
{
    for (size_t f = 0; f < job->bins; f++)
        if (job->count == 1 && job->real)
            one(job, f, true);
        else if (job->count == 1)
            one(job, f, false);
        else if (job->real)
            tiles(job, f, true);
        else
            tiles(job, f, false);
}

/* ---------------------------------------------------------------- correlate */

/* sum + g conj(x); of bin 0 each part by itself. */
INLINE half conjugate_step(half sum, half g, const float *x, const bool real)
{
    const float re = x[0], im = x[SHOALI_LANES];
    sum.re = vfmaq_n_f32(sum.re, g.re, re);
    if (real) {
        sum.im = vfmaq_n_f32(sum.im, g.im, im);
    } else {
        sum.im = vfmaq_n_f32(sum.im, g.im, re);
        sum.re = vfmaq_n_f32(sum.re, g.im, im);
        sum.im = vfmsq_n_f32(sum.im, g.re, im);
    }
    return sum;
}

/* Columns from j on. */
INLINE void correlate_tile(const shoali_correlate *job, size_t j, const int columns,
                           const bool real)
{
    half sum[COLUMNS][2];
    UNROLL for (int c = 0; c < columns; c++)
        sum[c][0] = sum[c][1] = (half){vdupq_n_f32(0), vdupq_n_f32(0)};
    for (size_t b = 0; b < job->count; b++) {
        const float *x = job->x + b * job->x_stride, *g = job->g + b * job->g_stride;
        const half low = load(g), high = load(g + WIDTH);
        UNROLL for (int c = 0; c < columns; c++)
        {
            const float *at = x + shoali_column(job->first + j + (size_t)c);
            sum[c][0] = conjugate_step(sum[c][0], low, at, real);
            sum[c][1] = conjugate_step(sum[c][1], high, at, real);
        }
    }
    UNROLL for (int c = 0; c < columns; c++) UNROLL for (int h = 0; h < 2; h++)
    {
        float *to = job->dw + (j + (size_t)c) * SHOALI_GROUP + h * WIDTH;
        half old = {vdupq_n_f32(0), vdupq_n_f32(0)};
        if (job->add)
            old = load(to);
        store(to, (half){vfmaq_n_f32(old.re, sum[c][h].re, job->scale_re),
                         vfmaq_n_f32(old.im, sum[c][h].im, job->scale_im)});
    }
}

INLINE void correlate(const shoali_correlate *job, const bool real)
{
    size_t j = 0;
    for (; j + COLUMNS <= job->columns; j += COLUMNS)
        correlate_tile(job, j, COLUMNS, real);
    for (; j < job->columns; j++)
        correlate_tile(job, j, 1, real);
}

void shoali_neon_correlate(const shoali_correlate *job)
{
    if (job->real)
        correlate(job, true);
    else
        correlate(job, false);
}

const shoali_circulant_kernels shoali_circulant_neon = {
    .analyse = shoali_neon_analyse,
    .synthesise = shoali_neon_synthesise,
    .apply = shoali_neon_apply,
    .correlate = shoali_neon_correlate,
    .analyse_planes = shoali_neon_analyse_planes,
    .synthesise_planes = shoali_neon_synthesise_planes};
