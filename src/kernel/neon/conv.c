/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of 6 rows by 16 values stays in 24 of 32 registers; other heights come from the same code
 * with another constant. */
#include <arm_neon.h>

#include "kernel/conv_kernels.h"

#define INLINE static inline __attribute__((always_inline))
/* Unrolled whatever the optimiser thinks of it: else the sums would be an array in memory. */
#define FOR_ROWS(r) _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
#define FOR_VECTORS(v) _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)

enum { LANES = SHOALI_CONV_LANES, ROWS = SHOALI_CONV_ROWS, WIDTH = 4, VECTORS = 4 };

/* ---------------------------------------------------------------- pixels */

INLINE float32x4_t finished(const shoali_conv_pixels *j, float32x4_t value)
{
    return j->rectify ? vbslq_f32(vcltzq_f32(value), vdupq_n_f32(0), value) : value;
}

/* Four values of a span, or what there is of them. */
INLINE void store_quad(const shoali_conv_pixels *j, float *y, float32x4_t sum, unsigned row,
                       uint32_t count)
{
    float some[WIDTH] = {0};
    for (uint32_t i = 0; i < count && count < WIDTH; i++)
        some[i] = y[i];
    float32x4_t start = vld1q_f32(count < WIDTH ? some : y);
    if (j->bias != NULL)
        start = vdupq_n_f32(j->bias[row]);
    const float32x4_t value = finished(j, vaddq_f32(sum, start));
    if (count >= WIDTH) {
        vst1q_f32(y, value);
        return;
    }
    vst1q_f32(some, value);
    for (uint32_t i = 0; i < count; i++)
        y[i] = some[i];
}

/* Spans are twice four values. */
INLINE void pixel_tile(const shoali_conv_pixels *j, const shoali_conv_span *spans, const int rows,
                       const int vectors)
{
    float32x4_t sums[ROWS][VECTORS];
    const float *x[VECTORS], *w = j->w;
    FOR_VECTORS (v)
        x[v] = j->x + spans[v / 2].in + v % 2 * WIDTH;
    FOR_ROWS (r)
        FOR_VECTORS (v)
            sums[r][v] = vdupq_n_f32(0);
    for (size_t t = 0; t < j->tap_count; t++, w += rows) {
        float32x4_t values[VECTORS];
        FOR_VECTORS (v)
            values[v] = vld1q_f32(x[v] + j->taps[t]);
        FOR_ROWS (r)
            FOR_VECTORS (v)
                sums[r][v] = vfmaq_n_f32(sums[r][v], values[v], w[r]);
    }
    FOR_ROWS (r)
        FOR_VECTORS (v) {
            const shoali_conv_span *span = &spans[v / 2];
            const uint32_t first = (uint32_t)v % 2 * WIDTH;
            if (first < span->count)
                store_quad(j, j->y + (size_t)r * j->plane + span->out + first, sums[r][v],
                           (unsigned)r, span->count - first);
        }
}

INLINE void pixel_rows(const shoali_conv_pixels *j, const int rows)
{
    size_t s = 0;
    for (; s + 2 <= j->span_count; s += 2)
        pixel_tile(j, j->spans + s, rows, VECTORS);
    if (s < j->span_count)
        pixel_tile(j, j->spans + s, rows, 2);
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
    float32x4_t sums[ROWS][VECTORS];
    const float *x[ROWS], *dy = j->dy;
    FOR_ROWS (r)
        x[r] = j->x + j->taps[tap + (size_t)r];
    FOR_ROWS (r)
        FOR_VECTORS (v)
            sums[r][v] = vdupq_n_f32(0);
    for (size_t p = 0; p < j->pixel_count; p++, dy += vectors * WIDTH) {
        float32x4_t slopes[VECTORS];
        FOR_VECTORS (v)
            slopes[v] = vld1q_f32(dy + v * WIDTH);
        FOR_ROWS (r)
            FOR_VECTORS (v)
                sums[r][v] = vfmaq_n_f32(sums[r][v], slopes[v], x[r][j->pixels[p]]);
    }
    FOR_ROWS (r)
        FOR_VECTORS (v) {
            float *dw = j->dw + ((tap + (size_t)r) * (size_t)vectors + (size_t)v) * WIDTH;
            const float32x4_t start = j->add ? vld1q_f32(dw) : vdupq_n_f32(0);
            vst1q_f32(dw, vaddq_f32(sums[r][v], start));
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
        weight_taps(j, 2);
    else
        weight_taps(j, VECTORS);
}

/* ---------------------------------------------------------------- lanes */

static void lanes(const shoali_conv_lanes *j)
{
    shoali_conv_ref.lanes(j);
}

const shoali_conv_kernels shoali_conv_neon = {pixels, weights, lanes};
