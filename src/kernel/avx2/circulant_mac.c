/* SPDX-License-Identifier: Apache-2.0 */
/* Complex multiply-accumulate per bin. A tile keeps up to 12 sums in registers; per column it loads
 * a group of 8 outputs once (real and imaginary parts), and broadcasts the other side twice per
 * sample: 24 multiply-adds to 14 loads. Columns are taken in strips whose weights and inputs fit
 * the first cache together; samples in slabs whose strip fits the second. */
#include <immintrin.h>

#include "kernel/avx2/rows.h"
#include "kernel/circulant.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum {
    STRIP = 256, /* columns: 16 KB of weights, 12 KB of inputs for 6 samples */
    SLAB = 128,  /* samples: 256 KB of inputs */
    SAMPLES = 6,
};

/* ---------------------------------------------------------------- apply */

/* Turns of samples at a strip of columns, all of the same number of them. fetch: lines of each row
 * of `next`, the weights that are needed after these, to set on their way per 8 columns. Every turn
 * fetches its share: all of it in the first would be more than memory gives. */
typedef struct strip {
    const float *w; /* the first tile's */
    size_t w_stride;
    const float *next, *next_end;
    size_t fetch;
    const float *x;
    float *y;
    size_t columns, turns;
    bool add;
} strip;

/* One column: sums += w x, for `rows` groups of outputs and `samples` inputs. */
INLINE void step(__m256 re[][SAMPLES], __m256 im[][SAMPLES], const float *w, size_t w_stride,
                 const float *x, size_t x_stride, const int rows, const int samples,
                 const bool real)
{
    __m256 wr[2], wi[2];
    UNROLL for (int r = 0; r < rows; r++)
    {
        wr[r] = _mm256_load_ps(w + (size_t)r * w_stride);
        wi[r] = _mm256_load_ps(w + (size_t)r * w_stride + 8);
    }
    UNROLL for (int s = 0; s < samples; s++)
    {
        __m256 xr = _mm256_broadcast_ss(x + (size_t)s * x_stride);
        UNROLL for (int r = 0; r < rows; r++)
        {
            re[r][s] = _mm256_fmadd_ps(wr[r], xr, re[r][s]);
            if (!real)
                im[r][s] = _mm256_fmadd_ps(wi[r], xr, im[r][s]);
        }
        __m256 xi = _mm256_broadcast_ss(x + (size_t)s * x_stride + 8);
        UNROLL for (int r = 0; r < rows; r++)
        {
            im[r][s] = _mm256_fmadd_ps(real ? wi[r] : wr[r], xi, im[r][s]);
            if (!real)
                re[r][s] = _mm256_fnmadd_ps(wi[r], xi, re[r][s]);
        }
    }
}

INLINE const float *fetch_next(const strip *s, const float *next, const int rows)
{
    for (size_t i = 0; i < s->fetch; i++, next += SHOALI_GROUP)
        UNROLL for (int r = 0; r < rows; r++)
            _mm_prefetch((const char *)(next + (size_t)r * s->w_stride), _MM_HINT_T1);
    return next;
}

INLINE void tile(const shoali_apply *job, const strip *s, const int rows, const int samples,
                 const bool real)
{
    __m256 re[2][SAMPLES], im[2][SAMPLES];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int i = 0; i < samples; i++)
    {
        const float *y = s->y + (size_t)i * job->y_stride + (size_t)r * SHOALI_GROUP;
        re[r][i] = s->add ? _mm256_load_ps(y) : _mm256_setzero_ps();
        im[r][i] = s->add ? _mm256_load_ps(y + 8) : _mm256_setzero_ps();
    }
    const float *w = s->w, *x = s->x, *next = s->next;
    size_t left = s->columns;
    for (; left >= SHOALI_LANES; left -= SHOALI_LANES, x += SHOALI_GROUP) {
        next = fetch_next(s, next, rows);
        UNROLL for (size_t c = 0; c < SHOALI_LANES; c++, w += SHOALI_GROUP)
            step(re, im, w, s->w_stride, x + c, job->x_stride, rows, samples, real);
    }
    for (size_t c = 0; c < left; c++, w += SHOALI_GROUP)
        step(re, im, w, s->w_stride, x + c, job->x_stride, rows, samples, real);
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int i = 0; i < samples; i++)
    {
        float *y = s->y + (size_t)i * job->y_stride + (size_t)r * SHOALI_GROUP;
        _mm256_store_ps(y, re[r][i]);
        _mm256_store_ps(y + 8, im[r][i]);
    }
}

/* To the next turn. */
INLINE void advance(const shoali_apply *job, strip *s, const int samples)
{
    s->x += (size_t)samples * job->x_stride;
    s->y += (size_t)samples * job->y_stride;
    s->next += s->columns / SHOALI_LANES * s->fetch * SHOALI_GROUP;
    s->fetch = s->next < s->next_end ? s->fetch : 0;
}

INLINE void tile_of(const shoali_apply *job, strip s, const int rows, const int samples)
{
    for (; s.turns > 0; s.turns--, advance(job, &s, samples))
        if (job->real)
            tile(job, &s, rows, samples, true);
        else
            tile(job, &s, rows, samples, false);
}

INLINE void real_step(__m256 sum[][SAMPLES], const float *w, size_t w_stride, const float *x,
                      size_t x_stride, const int samples)
{
    const __m256 w0 = _mm256_load_ps(w), w1 = _mm256_load_ps(w + w_stride);
    UNROLL for (int i = 0; i < samples; i++)
    {
        const __m256 xi = _mm256_broadcast_ss(x + (size_t)i * x_stride);
        sum[0][i] = _mm256_fmadd_ps(w0, xi, sum[0][i]);
        sum[1][i] = _mm256_fmadd_ps(w1, xi, sum[1][i]);
    }
}

/* Bin 0 is two products of real numbers: part 0 of real parts, part 8 of imaginary ones. Each alone
 * has registers for two groups of outputs: 12 multiply-adds to 8 loads, not to 14. */
INLINE void real_part(const shoali_apply *job, const strip *s, const int part, const int samples)
{
    __m256 sum[2][SAMPLES];
    UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < samples; i++)
    {
        const float *y = s->y + (size_t)i * job->y_stride + r * SHOALI_GROUP + part;
        sum[r][i] = s->add ? _mm256_load_ps(y) : _mm256_setzero_ps();
    }
    const float *w = s->w + part, *x = s->x + part;
    const float *next = s->next + (part > 0 ? s->w_stride : 0);
    size_t left = s->columns;
    for (; left >= SHOALI_LANES; left -= SHOALI_LANES, x += SHOALI_GROUP) {
        next = fetch_next(s, next, 1);
        UNROLL for (size_t c = 0; c < SHOALI_LANES; c++, w += SHOALI_GROUP)
            real_step(sum, w, s->w_stride, x + c, job->x_stride, samples);
    }
    for (size_t c = 0; c < left; c++, w += SHOALI_GROUP)
        real_step(sum, w, s->w_stride, x + c, job->x_stride, samples);
    UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < samples; i++)
        _mm256_store_ps(s->y + (size_t)i * job->y_stride + r * SHOALI_GROUP + part, sum[r][i]);
}

INLINE void real_parts(const shoali_apply *job, strip s, const int samples)
{
    for (; s.turns > 0; s.turns--, advance(job, &s, samples)) {
        real_part(job, &s, 0, samples);
        real_part(job, &s, SHOALI_LANES, samples);
    }
}

/* 3 to 6 samples against two groups of outputs. */
static void two_real_rows(const shoali_apply *job, const strip *s, size_t samples)
{
    switch (samples) {
    case 3:
        real_parts(job, *s, 3);
        break;
    case 4:
        real_parts(job, *s, 4);
        break;
    case 5:
        real_parts(job, *s, 5);
        break;
    default:
        real_parts(job, *s, 6);
    }
}

/* Up to 6 samples against one group of outputs. */
static void one_row(const shoali_apply *job, const strip *s, size_t samples)
{
    switch (samples) {
    case 1:
        tile_of(job, *s, 1, 1);
        break;
    case 2:
        tile_of(job, *s, 1, 2);
        break;
    case 3:
        tile_of(job, *s, 1, 3);
        break;
    case 4:
        tile_of(job, *s, 1, 4);
        break;
    case 5:
        tile_of(job, *s, 1, 5);
        break;
    default:
        tile_of(job, *s, 1, 6);
    }
}

/* As many groups of outputs as the registers hold. Turns that follow each other have numbers of
 * samples for which it is the same. */
static size_t rows_of(const shoali_apply *job, size_t samples, size_t left)
{
    return left >= 2 && (samples == 2 || (job->real && samples > 2)) ? 2 : 1;
}

static void some_rows(const shoali_apply *job, const strip *s, size_t samples, size_t rows)
{
    if (rows == 2 && samples == 2)
        tile_of(job, *s, 2, 2);
    else if (rows == 2)
        two_real_rows(job, s, samples);
    else
        one_row(job, s, samples);
}

/* The weights that are needed once the rows before `row` are done. */
static const float *after(const shoali_apply *job, size_t row, size_t first)
{
    if (row < job->tiles)
        return job->w + (row * job->columns + first) * SHOALI_GROUP;
    return job->w + (first + STRIP < job->columns ? (first + STRIP) * SHOALI_GROUP : job->w_bin);
}

/* All turns at some rows: those of one sample more come first. */
static void all_turns(const shoali_apply *job, strip *s, size_t count, size_t rows)
{
    const size_t turns = (count + SAMPLES - 1) / SAMPLES, least = count / turns;
    const size_t longer = count - least * turns;
    s->fetch = (SHOALI_LANES + turns - 1) / turns;
    s->turns = longer; /* or none */
    some_rows(job, s, least + 1, rows);
    s->x += longer * (least + 1) * job->x_stride;
    s->y += longer * (least + 1) * job->y_stride;
    s->next += longer * (s->columns / SHOALI_LANES * s->fetch * SHOALI_GROUP);
    s->fetch = s->next < s->next_end ? s->fetch : 0;
    s->turns = turns - longer;
    some_rows(job, s, least, rows);
}

static void apply_slab(const shoali_apply *job, size_t from, size_t count, size_t first)
{
    const size_t left = job->columns - first, turns = (count + SAMPLES - 1) / SAMPLES;
    strip s = {.w_stride = job->columns * SHOALI_GROUP,
               .columns = left < STRIP ? left : STRIP,
               .add = first > 0};
    for (size_t row = 0, rows = 1; row < job->tiles; row += rows) {
        rows = rows_of(job, (count + turns - 1) / turns, job->tiles - row);
        s.w = job->w + row * s.w_stride + first * SHOALI_GROUP;
        s.next = after(job, row + rows, first);
        s.next_end = s.next + s.columns * SHOALI_GROUP;
        s.x = job->x + from * job->x_stride + first / SHOALI_LANES * SHOALI_GROUP;
        s.y = job->y + from * job->y_stride + row * SHOALI_GROUP;
        all_turns(job, &s, count, rows);
    }
}

static void apply_bin(const shoali_apply *job)
{
    for (size_t from = 0; from < job->count; from += SLAB)
        for (size_t first = 0; first < job->columns; first += STRIP) {
            size_t count = job->count - from;
            apply_slab(job, from, count < SLAB ? count : SLAB, first);
        }
}

void shoali_avx2_apply(const shoali_apply *job)
{
    if (job->count == 1) {
        shoali_avx2_apply_one(job);
        return;
    }
    shoali_apply one = *job;
    for (size_t f = 0; f < job->bins; f++) {
        apply_bin(&one);
        one.w += job->w_bin;
        one.x += job->x_bin;
        one.y += job->y_bin;
    }
}

/* ---------------------------------------------------------------- correlate */

INLINE void corr_tile(const shoali_correlate *job, const float *const *x, float *dw,
                      const int columns, const bool real)
{
    __m256 re[SHOALI_CORR_COLUMNS], im[SHOALI_CORR_COLUMNS];
    UNROLL for (int c = 0; c < columns; c++) re[c] = im[c] = _mm256_setzero_ps();
    const float *g = job->g;
    for (size_t b = 0, at = 0; b < job->count; b++, at += job->x_stride, g += job->g_stride) {
        __m256 gr = _mm256_load_ps(g), gi = _mm256_load_ps(g + 8);
        UNROLL for (int c = 0; c < columns; c++)
        {
            __m256 xr = _mm256_broadcast_ss(x[c] + at);
            re[c] = _mm256_fmadd_ps(gr, xr, re[c]);
            if (!real)
                im[c] = _mm256_fmadd_ps(gi, xr, im[c]);
            __m256 xi = _mm256_broadcast_ss(x[c] + at + 8);
            im[c] = real ? _mm256_fmadd_ps(gi, xi, im[c]) : _mm256_fnmadd_ps(gr, xi, im[c]);
            if (!real)
                re[c] = _mm256_fmadd_ps(gi, xi, re[c]);
        }
    }
    const __m256 scale_re = _mm256_set1_ps(job->scale_re), scale_im = _mm256_set1_ps(job->scale_im);
    UNROLL for (int c = 0; c < columns; c++)
    {
        float *to = dw + c * SHOALI_GROUP;
        const __m256 old_re = job->add ? _mm256_load_ps(to) : _mm256_setzero_ps();
        const __m256 old_im = job->add ? _mm256_load_ps(to + 8) : _mm256_setzero_ps();
        _mm256_store_ps(to, _mm256_fmadd_ps(re[c], scale_re, old_re));
        _mm256_store_ps(to + 8, _mm256_fmadd_ps(im[c], scale_im, old_im));
    }
}

static void corr_few(const shoali_correlate *job, const float *const *x, float *dw, size_t columns)
{
    for (size_t c = 0; c < columns; c++)
        if (job->real)
            corr_tile(job, x + c, dw + c * SHOALI_GROUP, 1, true);
        else
            corr_tile(job, x + c, dw + c * SHOALI_GROUP, 1, false);
}

void shoali_avx2_correlate(const shoali_correlate *job)
{
    for (size_t j = 0; j < job->columns; j += SHOALI_CORR_COLUMNS) {
        const float *x[SHOALI_CORR_COLUMNS] = {NULL};
        size_t columns = job->columns - j;
        columns = columns < SHOALI_CORR_COLUMNS ? columns : SHOALI_CORR_COLUMNS;
        for (size_t c = 0; c < columns; c++)
            x[c] = job->x + shoali_column(job->first + j + c);
        float *dw = job->dw + j * SHOALI_GROUP;
        if (columns < SHOALI_CORR_COLUMNS)
            corr_few(job, x, dw, columns);
        else if (job->real)
            corr_tile(job, x, dw, SHOALI_CORR_COLUMNS, true);
        else
            corr_tile(job, x, dw, SHOALI_CORR_COLUMNS, false);
    }
}

const shoali_circulant_kernels shoali_circulant_avx2 = {
    .analyse = shoali_avx2_analyse,
    .synthesise = shoali_avx2_synthesise,
    .apply = shoali_avx2_apply,
    .correlate = shoali_avx2_correlate,
    .analyse_planes = shoali_avx2_analyse_planes,
    .synthesise_planes = shoali_avx2_synthesise_planes};
