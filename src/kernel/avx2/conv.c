/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of 6 rows by 2 vectors stays in 12 registers; per tap 2 loads, 6 broadcasts, 12
 * multiply-adds, so the two multipliers are the limit. Other heights come from the same code with
 * another constant. */
#include <immintrin.h>

#include "kernel/conv_kernels.h"

#define INLINE static inline __attribute__((always_inline))
/* Unrolled whatever the optimiser thinks of it: else the sums would be an array in memory. */
#define FOR_ROWS(r) _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
#define FOR_VECTORS(v) _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++)

enum { LANES = SHOALI_CONV_LANES, ROWS = SHOALI_CONV_ROWS, VECTORS = 2 };

/* ---------------------------------------------------------------- pixels */

/* The end of a row: fewer than LANES values. */
static void store_part(const shoali_conv_pixels *j, float *y, __m256 sum, unsigned row,
                       uint32_t count)
{
    float values[LANES];
    _mm256_storeu_ps(values, sum);
    for (uint32_t i = 0; i < count; i++) {
        float value = values[i] + (j->bias != NULL ? j->bias[row] : y[i]);
        y[i] = j->rectify && value < 0.0f ? 0.0f : value;
    }
}

INLINE void store_span(const shoali_conv_pixels *j, const shoali_conv_span *span, __m256 sum,
                       unsigned row)
{
    float *y = j->y + row * j->plane + span->out;
    if (span->count != LANES) {
        store_part(j, y, sum, row, span->count);
        return;
    }
    __m256 start = j->bias != NULL ? _mm256_broadcast_ss(j->bias + row) : _mm256_loadu_ps(y);
    __m256 value = _mm256_add_ps(sum, start);
    if (j->rectify)
        value = _mm256_max_ps(_mm256_setzero_ps(), value); /* of a NaN, max takes its second */
    _mm256_storeu_ps(y, value);
}

INLINE void pixel_tile(const shoali_conv_pixels *j, const shoali_conv_span *spans, const int rows,
                       const int vectors)
{
    __m256 sums[ROWS][VECTORS];
    const float *x[VECTORS], *w = j->w;
    FOR_VECTORS (v)
        x[v] = j->x + spans[v].in;
    FOR_ROWS (r)
        FOR_VECTORS (v)
            sums[r][v] = _mm256_setzero_ps();
    for (size_t t = 0; t < j->tap_count; t++, w += rows) {
        __m256 values[VECTORS];
        FOR_VECTORS (v)
            values[v] = _mm256_loadu_ps(x[v] + j->taps[t]);
        FOR_ROWS (r)
            FOR_VECTORS (v)
                sums[r][v] = _mm256_fmadd_ps(_mm256_broadcast_ss(w + r), values[v], sums[r][v]);
    }
    FOR_ROWS (r)
        FOR_VECTORS (v)
            store_span(j, &spans[v], sums[r][v], (unsigned)r);
}

INLINE void pixel_rows(const shoali_conv_pixels *j, const int rows)
{
    size_t s = 0;
    for (; s + VECTORS <= j->span_count; s += VECTORS)
        pixel_tile(j, j->spans + s, rows, VECTORS);
    if (s < j->span_count)
        pixel_tile(j, j->spans + s, rows, 1);
}

static void pixels(const shoali_conv_pixels *j)
{
    switch (j->rows) {
    case 1:
        pixel_rows(j, 1);
        break;
    case 2:
        pixel_rows(j, 2);
        break;
    case 3:
        pixel_rows(j, 3);
        break;
    case 4:
        pixel_rows(j, 4);
        break;
    case 5:
        pixel_rows(j, 5);
        break;
    default:
        pixel_rows(j, ROWS);
        break;
    }
}

/* ---------------------------------------------------------------- weights */

INLINE void weight_tile(const shoali_conv_weights *j, size_t tap, const int rows, const int vectors)
{
    __m256 sums[ROWS][VECTORS];
    const float *x[ROWS], *dy = j->dy;
    FOR_ROWS (r) {
        x[r] = j->x + j->taps[tap + (size_t)r];
        __asm__("" : "+r"(x[r])); /* else gcc keeps the differences and adds them anew per pixel */
    }
    FOR_ROWS (r)
        FOR_VECTORS (v)
            sums[r][v] = _mm256_setzero_ps();
    for (size_t p = 0; p < j->pixel_count; p++, dy += vectors * LANES) {
        __m256 slopes[VECTORS];
        int32_t pixel = j->pixels[p];
        FOR_VECTORS (v)
            slopes[v] = _mm256_load_ps(dy + v * LANES);
        FOR_ROWS (r)
            FOR_VECTORS (v)
                sums[r][v] = _mm256_fmadd_ps(_mm256_broadcast_ss(x[r] + pixel), slopes[v],
                                             sums[r][v]);
    }
    FOR_ROWS (r)
        FOR_VECTORS (v) {
            float *dw = j->dw + ((tap + (size_t)r) * (size_t)vectors + (size_t)v) * LANES;
            __m256 start = j->add ? _mm256_load_ps(dw) : _mm256_setzero_ps();
            _mm256_store_ps(dw, _mm256_add_ps(sums[r][v], start));
        }
}

INLINE void weight_taps(const shoali_conv_weights *j, const int vectors)
{
    size_t t = 0;
    for (; t + ROWS <= j->tap_count; t += ROWS)
        weight_tile(j, t, ROWS, vectors);
    for (; t + 2 <= j->tap_count; t += 2)
        weight_tile(j, t, 2, vectors);
    if (t < j->tap_count)
        weight_tile(j, t, 1, vectors);
}

static void weights(const shoali_conv_weights *j)
{
    if (j->vectors == 1)
        weight_taps(j, 1);
    else
        weight_taps(j, VECTORS);
}

/* ---------------------------------------------------------------- lanes */

/* 8 x 8 values: pairs of rows, then of pairs, then of halves. */
INLINE void transpose(const float *from, size_t pitch, float *to, size_t step)
{
    __m256 values[LANES], pairs[LANES], fours[LANES];
    for (size_t i = 0; i < LANES; i++)
        values[i] = _mm256_loadu_ps(from + i * pitch);
    for (size_t i = 0; i < LANES; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(values[i], values[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(values[i], values[i + 1]);
    }
    for (size_t i = 0; i < LANES; i += 4)
        for (size_t k = 0; k < 2; k++) {
            fours[i + 2 * k] = _mm256_shuffle_ps(pairs[i + k], pairs[i + k + 2], 0x44);
            fours[i + 2 * k + 1] = _mm256_shuffle_ps(pairs[i + k], pairs[i + k + 2], 0xEE);
        }
    for (size_t i = 0; i < 4; i++) {
        _mm256_store_ps(to + i * step, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
        _mm256_store_ps(to + (i + 4) * step, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
    }
}

/* In squares, if they fit. */
static void lanes(const shoali_conv_lanes *j)
{
    size_t step = (size_t)j->vectors * LANES;
    if (j->known < step || j->pixels % LANES != 0) {
        shoali_conv_ref.lanes(j);
        return;
    }
    for (size_t p = 0; p < j->pixels; p += LANES)
        for (size_t v = 0; v < j->vectors; v++)
            transpose(j->from + v * LANES * j->pixels + p, j->pixels, j->to + p * step + v * LANES,
                      step);
}

const shoali_conv_kernels shoali_conv_avx2 = {pixels, weights, lanes};
