/* SPDX-License-Identifier: Apache-2.0 */
/* What needs no spectra: sizes, the matrix itself, its projection, conventions. */
#include "kernel/circulant_shape.h"

#include <string.h>

#include "base/error.h"

enum { MOST_FEATURES = 1 << 24, MOST_SAMPLES = 1 << 20 };

static uint32_t parts(uint32_t whole, uint32_t part)
{
    return whole / part + (whole % part != 0);
}

void shoali_circulant_shape_of(const shoal_circulant_desc *desc, shoali_circulant_shape *shape_out)
{
    const uint32_t k = desc->block, p = parts(desc->out, k), q = parts(desc->in, k);
    *shape_out = (shoali_circulant_shape){.in = desc->in,
                                          .out = desc->out,
                                          .k = k,
                                          .batch = desc->batch_max,
                                          .p = p,
                                          .q = q,
                                          .p_tiles = parts(p, SHOALI_LANES),
                                          .q_tiles = parts(q, SHOALI_LANES),
                                          .bins = parts(k, 2),
                                          .training = desc->training,
                                          .first_row = desc->first_row};
}

/* Sections start at multiples of a group, as all strides are. */
static size_t take(size_t *end, size_t floats)
{
    size_t at = *end;
    *end += (floats + SHOALI_GROUP - 1) / SHOALI_GROUP * SHOALI_GROUP;
    return at;
}

/* Powers of two of groups would meet in the same cache sets, where there are more of them than the
 * first cache holds; fewer are fetched the faster for lying side by side. */
static size_t weights_bin(size_t groups, size_t bins)
{
    enum { CACHED = 512 };
    return (groups + (groups * bins > CACHED)) * SHOALI_GROUP;
}

void shoali_circulant_layout_of(const shoali_circulant_shape *s, size_t head_bytes,
                                shoali_circulant_layout *layout_out)
{
    shoali_circulant_layout l = {.end = 0};
    const size_t bins = s->bins, most = 16384 / (bins * s->batch) / SHOALI_CORR_COLUMNS;
    l.columns = SHOALI_CORR_COLUMNS * (most < 1 ? 1 : most > 8 ? 8 : most);
    l.w_bin = weights_bin((size_t)s->p_tiles * s->q, bins);
    l.wt_bin = weights_bin((size_t)s->q_tiles * s->p, bins);
    l.x_stride = ((size_t)s->q_tiles + 1) * SHOALI_GROUP;
    l.y_stride = ((size_t)s->p_tiles + 1) * SHOALI_GROUP;
    l.x_bin = l.x_stride * s->batch + SHOALI_GROUP;
    l.y_bin = l.y_stride * s->batch + SHOALI_GROUP;
    take(&l.end, head_bytes / sizeof(float));
    l.w = take(&l.end, bins * l.w_bin);
    l.tables = take(&l.end, 2 * (size_t)s->k);
    l.pad = take(&l.end, (size_t)s->k * SHOALI_LANES);
    l.wt = take(&l.end, s->training ? bins * l.wt_bin : 0);
    l.xs = take(&l.end, bins * l.x_bin);
    l.ys = take(&l.end, bins * l.y_bin);
    l.products = take(&l.end, s->training ? bins * l.columns * SHOALI_GROUP : 0);
    *layout_out = l;
}

size_t shoal_circulant_weights(const shoal_circulant_desc *desc)
{
    if (desc->block == 0)
        return 0;
    return (size_t)parts(desc->out, desc->block) * parts(desc->in, desc->block) * desc->block;
}

shoal_status shoal_circulant_bytes(const shoal_circulant_desc *desc, size_t *bytes_out)
{
    if (desc->size != sizeof *desc)
        return shoali_fail(SHOAL_EINVAL, "shoal_circulant_desc.size is %zu, this library's is %zu",
                           desc->size, sizeof *desc);
    if (desc->in < 1 || desc->in > MOST_FEATURES || desc->out < 1 || desc->out > MOST_FEATURES)
        return shoali_fail(SHOAL_EINVAL, "a circulant matrix of %u x %u; sides are 1 .. %d",
                           desc->out, desc->in, MOST_FEATURES);
    if (desc->block < 1 || desc->block > SHOALI_DFT_MAX)
        return shoali_fail(SHOAL_EINVAL, "circulant blocks of %u; they are 1 .. %d", desc->block,
                           SHOALI_DFT_MAX);
    if (desc->batch_max < 1 || desc->batch_max > MOST_SAMPLES)
        return shoali_fail(SHOAL_EINVAL, "a batch of %u samples; it must be 1 .. %d",
                           desc->batch_max, MOST_SAMPLES);
    shoali_circulant_shape shape;
    shoali_circulant_layout layout;
    shoali_circulant_shape_of(desc, &shape);
    shoali_circulant_layout_of(&shape, SHOALI_CIRCULANT_HEAD, &layout);
    if (layout.end > (size_t)1 << 38)
        return shoali_fail(SHOAL_EINVAL, "a circulant layer of %zu bytes is too large",
                           layout.end * sizeof(float));
    *bytes_out = layout.end * sizeof(float);
    return SHOAL_OK;
}

size_t shoal_circulant_sums(const shoal_circulant_desc *desc)
{
    shoali_circulant_shape shape;
    shoali_circulant_layout layout;
    shoali_circulant_shape_of(desc, &shape);
    shoali_circulant_layout_of(&shape, SHOALI_CIRCULANT_HEAD, &layout);
    return shape.bins * layout.w_bin;
}

/* ---------------------------------------------------------------- the matrix itself */

/* Which weight stands at (row, column). */
static size_t place(const shoali_circulant_shape *s, uint32_t row, uint32_t column)
{
    const uint32_t a = row % s->k, b = column % s->k;
    const uint32_t t = s->first_row ? (b + s->k - a) % s->k : (a + s->k - b) % s->k;
    return ((size_t)(row / s->k) * s->q + column / s->k) * s->k + t;
}

void shoal_circulant_expand(const shoal_circulant_desc *desc, const float *w, float *dense)
{
    shoali_circulant_shape s;
    shoali_circulant_shape_of(desc, &s);
    for (uint32_t row = 0; row < s.out; row++)
        for (uint32_t column = 0; column < s.in; column++)
            dense[(size_t)row * s.in + column] = w[place(&s, row, column)];
}

/* Along one wrapped diagonal of block (i, j). */
static float mean(const shoali_circulant_shape *s, const float *dense, uint32_t i, uint32_t j,
                  uint32_t t)
{
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t a = 0; a < s->k; a++) {
        uint64_t row = (uint64_t)i * s->k + a;
        uint32_t b = s->first_row ? (a + t) % s->k : (a + s->k - t) % s->k;
        uint64_t column = (uint64_t)j * s->k + b;
        if (row >= s->out || column >= s->in)
            continue;
        sum += (double)dense[row * s->in + column];
        count++;
    }
    return count > 0 ? (float)(sum / count) : 0.0f;
}

void shoal_circulant_project(const shoal_circulant_desc *desc, const float *dense, float *w)
{
    shoali_circulant_shape s;
    shoali_circulant_shape_of(desc, &s);
    for (uint32_t i = 0; i < s.p; i++)
        for (uint32_t j = 0; j < s.q; j++)
            for (uint32_t t = 0; t < s.k; t++)
                w[((size_t)i * s.q + j) * s.k + t] = mean(&s, dense, i, j, t);
}

void shoal_circulant_convert(const shoal_circulant_desc *desc, float *w)
{
    const size_t k = desc->block, count = shoal_circulant_weights(desc);
    for (size_t at = 0; at < count; at += k)
        for (size_t t = 1; 2 * t < k; t++) {
            float low = w[at + t];
            w[at + t] = w[at + k - t];
            w[at + k - t] = low;
        }
}
