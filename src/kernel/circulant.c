/* SPDX-License-Identifier: Apache-2.0 */
/* A block-circulant layer in memory of its caller: transforms, bins, transforms back.
 *
 * Spectra of samples: [bin][sample][group]; of weights: [bin][group of outputs][block of inputs].
 * So within a bin everything is read in order, and batch 1 streams the weights once. Rows of
 * samples and of bins are longer than needed by one group: powers of two would meet in the same
 * cache sets. The factor 1 / k is in the weights' spectra. */
#include "shoal/circulant.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "kernel/circulant_shape.h"
#include "kernel/kernel.h"

struct shoal_circulant {
    shoali_circulant_shape shape;
    shoali_circulant_layout layout;
    const shoali_circulant_kernels *kernels;
    shoali_dft dft;
    float *w, *wt;   /* spectra of the matrix, and of its transpose for the way back */
    float *xs, *ys;  /* spectra of inputs and outputs, or of their gradients */
    float *pad;      /* float32[8][k]: blocks at the edge, filled up with zeros */
    float *products; /* spectra of weight gradients: [bin][columns] groups */
};

_Static_assert(sizeof(struct shoal_circulant) <= SHOALI_CIRCULANT_HEAD, "make the head larger");

/* ---------------------------------------------------------------- tables */

static float cosines[SHOALI_DFT_MAX], sines[SHOALI_DFT_MAX];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* Computed in double, rounded once. */
static void fill_table(float *cosine, float *sine, uint32_t k)
{
    const double turn = 6.283185307179586476925286766559;
    for (uint32_t i = 0; i < k; i++) {
        cosine[i] = (float)cos(turn * i / k);
        sine[i] = (float)sin(turn * i / k);
    }
}

static void fill_tables(void)
{
    fill_table(cosines, sines, SHOALI_DFT_MAX);
}

shoali_dft shoali_dft_make(uint32_t k, float *own)
{
    pthread_once(&tables_once, fill_tables);
    if ((k & (k - 1)) == 0)
        return (shoali_dft){k, true, SHOALI_DFT_MAX / k, cosines, sines};
    fill_table(own, own + k, k);
    return (shoali_dft){k, false, 1, own, own + k};
}

/* ---------------------------------------------------------------- making */

/* Bins lie far apart: with pages of 4 KB nearly every line that a transform touches is another
 * page's. Only a hint, before anything is touched; systems without large pages ignore it. */
static void want_large_pages(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)1 << 21, start = (uintptr_t)memory;
    const uintptr_t from = (start + page - 1) & ~(page - 1), to = (start + bytes) & ~(page - 1);
    if (from < to)
        (void)madvise((char *)memory + (from - start), to - from, MADV_HUGEPAGE);
}

shoal_status shoal_circulant_init(const shoal_circulant_desc *desc, void *memory,
                                  shoal_circulant **layer_out)
{
    size_t bytes = 0;
    SHOALI_TRY(shoal_circulant_bytes(desc, &bytes));
    if (memory == NULL || (uintptr_t)memory % 64 != 0)
        return shoali_fail(SHOAL_EINVAL, "a circulant layer needs %zu bytes, aligned to 64", bytes);
    want_large_pages(memory, bytes);
    memset(memory, 0, bytes);
    shoal_circulant *layer = memory;
    shoali_circulant_shape_of(desc, &layer->shape);
    shoali_circulant_layout_of(&layer->shape, SHOALI_CIRCULANT_HEAD, &layer->layout);
    const shoali_circulant_layout *at = &layer->layout;
    float *floats = memory;
    layer->kernels = shoali_kernel()->circulant;
    layer->dft = shoali_dft_make(layer->shape.k, floats + at->tables);
    layer->w = floats + at->w;
    layer->wt = floats + at->wt;
    layer->xs = floats + at->xs;
    layer->ys = floats + at->ys;
    layer->pad = floats + at->pad;
    layer->products = floats + at->products;
    *layer_out = layer;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- weights */

/* Of one matrix: `rows` by `columns` blocks, the next row row_stride floats on, the next column
 * column_stride. */
typedef struct blocks {
    const float *w;
    size_t rows, columns, row_stride, column_stride;
    bool conjugate;
    float *spectra;
    size_t bin;
} blocks;

static void scale_group(float *group, float re, float im)
{
    for (size_t lane = 0; lane < SHOALI_LANES; lane++)
        group[lane] *= re;
    for (size_t lane = SHOALI_LANES; lane < SHOALI_GROUP; lane++)
        group[lane] *= im;
}

/* `lanes` blocks, stride floats apart, to pad, which is filled up with zeros. */
static const float *padded(shoal_circulant *layer, const float *src, size_t stride, size_t lanes)
{
    const size_t k = layer->shape.k;
    for (size_t lane = 0; lane < lanes; lane++)
        memcpy(layer->pad + lane * k, src + lane * stride, k * sizeof *src);
    memset(layer->pad + lanes * k, 0, (SHOALI_LANES - lanes) * k * sizeof *src);
    return layer->pad;
}

static void transform_blocks(shoal_circulant *layer, const blocks *m)
{
    const size_t k = layer->shape.k;
    const float scale = 1.0f / (float)k;
    for (size_t row = 0; row < m->rows; row += SHOALI_LANES)
        for (size_t column = 0; column < m->columns; column++) {
            const float *src = m->w + row * m->row_stride + column * m->column_stride;
            size_t lanes = m->rows - row, stride = m->row_stride;
            if (lanes < SHOALI_LANES) {
                src = padded(layer, src, stride, lanes);
                stride = k;
            }
            float *dst = m->spectra + (row / SHOALI_LANES * m->columns + column) * SHOALI_GROUP;
            layer->kernels->analyse(&layer->dft, src, stride, dst, m->bin);
            for (size_t f = 0; f < layer->shape.bins; f++)
                scale_group(dst + f * m->bin, scale, f > 0 && m->conjugate ? -scale : scale);
        }
}

void shoal_circulant_set_weights(shoal_circulant *layer, const float *w)
{
    const shoali_circulant_shape *s = &layer->shape;
    const size_t k = s->k;
    const blocks forward = {w, s->p,         s->q,     s->q * k,
                            k, s->first_row, layer->w, layer->layout.w_bin};
    transform_blocks(layer, &forward);
    if (!s->training)
        return;
    const blocks back = {w,        s->q,          s->p,      k,
                         s->q * k, !s->first_row, layer->wt, layer->layout.wt_bin};
    transform_blocks(layer, &back);
}

/* ---------------------------------------------------------------- samples */

/* One side of a product: vectors of `features` floats and their spectra. */
typedef struct side {
    float *spectra;
    size_t features, tiles, stride, bin;
} side;

static side inputs(const shoal_circulant *layer)
{
    const shoali_circulant_layout *at = &layer->layout;
    return (side){layer->xs, layer->shape.in, layer->shape.q_tiles, at->x_stride, at->x_bin};
}

static side outputs(const shoal_circulant *layer)
{
    const shoali_circulant_layout *at = &layer->layout;
    return (side){layer->ys, layer->shape.out, layer->shape.p_tiles, at->y_stride, at->y_bin};
}

static void analyse_samples(shoal_circulant *layer, const side *s, const float *x, size_t count)
{
    const size_t k = layer->shape.k, whole = k * SHOALI_LANES;
    for (size_t b = 0; b < count; b++, x += s->features)
        for (size_t tile = 0; tile < s->tiles; tile++) {
            const float *src = x + tile * whole;
            size_t left = s->features - tile * whole;
            if (left < whole) {
                memcpy(layer->pad, src, left * sizeof *src);
                memset(layer->pad + left, 0, (whole - left) * sizeof *src);
                src = layer->pad;
            }
            layer->kernels->analyse(&layer->dft, src, k,
                                    s->spectra + b * s->stride + tile * SHOALI_GROUP, s->bin);
        }
}

static void synthesise_samples(shoal_circulant *layer, const side *s, const float *bias, float *y,
                               size_t count)
{
    const size_t k = layer->shape.k, whole = k * SHOALI_LANES;
    for (size_t b = 0; b < count; b++, y += s->features) {
        for (size_t tile = 0; tile < s->tiles; tile++) {
            const float *src = s->spectra + b * s->stride + tile * SHOALI_GROUP;
            size_t left = s->features - tile * whole;
            float *dst = left < whole ? layer->pad : y + tile * whole;
            layer->kernels->synthesise(&layer->dft, src, s->bin, dst, k);
            if (left < whole)
                memcpy(y + tile * whole, layer->pad, left * sizeof *y);
        }
        if (bias != NULL)
            shoali_kernel()->add(y, bias, s->features);
    }
}

static void apply_bins(const shoal_circulant *layer, const float *w, size_t w_bin, const side *from,
                       const side *to, size_t columns, size_t count)
{
    for (size_t f = 0; f<layer->shape.bins; f += f> 0 ? layer->shape.bins : 1) {
        const shoali_apply job = {.w = w + f * w_bin,
                                  .tiles = to->tiles,
                                  .columns = columns,
                                  .x = from->spectra + f * from->bin,
                                  .x_stride = from->stride,
                                  .count = count,
                                  .y = to->spectra + f * to->bin,
                                  .y_stride = to->stride,
                                  .real = f == 0,
                                  .bins = f == 0 ? 1 : layer->shape.bins - 1,
                                  .w_bin = w_bin,
                                  .x_bin = from->bin,
                                  .y_bin = to->bin};
        layer->kernels->apply(&job);
    }
}

void shoal_circulant_multiply(shoal_circulant *layer, size_t count)
{
    const side in = inputs(layer), out = outputs(layer);
    apply_bins(layer, layer->w, layer->layout.w_bin, &in, &out, layer->shape.q, count);
}

/* One sample reads its weights once, mostly from memory. What comes first starts on its way while
 * the input is transformed; the products fetch the rest ahead of themselves. Weights stand right
 * behind the head, so none of this waits for the head itself to arrive. */
static void fetch_first(const shoal_circulant *layer)
{
    const float *w = (const float *)layer + SHOALI_CIRCULANT_HEAD / sizeof(float);
    for (size_t i = 0; i < SHOALI_FETCHED; i += SHOALI_GROUP)
        __builtin_prefetch(w + i, 0, 2);
}

enum { OWN_ROOM = 16384 }; /* floats */

/* One sample whose spectra nobody asks for again: on the stack, which other layers have used a
 * moment ago, they cost no memory traffic. */
static void forward_one(shoal_circulant *layer, const float *x, const float *bias, float *y)
{
    _Alignas(64) float room[OWN_ROOM];
    side in = inputs(layer), out = outputs(layer);
    in.stride = in.bin = in.tiles * SHOALI_GROUP;
    out.stride = out.bin = out.tiles * SHOALI_GROUP;
    in.spectra = room;
    out.spectra = room + layer->shape.bins * in.bin;
    analyse_samples(layer, &in, x, 1);
    apply_bins(layer, layer->w, layer->layout.w_bin, &in, &out, layer->shape.q, 1);
    synthesise_samples(layer, &out, bias, y, 1);
}

void shoal_circulant_forward(shoal_circulant *layer, const float *x, size_t count,
                             const float *bias, float *y)
{
    if (count == 1)
        fetch_first(layer);
    const shoali_circulant_shape *s = &layer->shape;
    const side in = inputs(layer), out = outputs(layer);
    if (count == 1 && !s->training &&
        s->bins * ((size_t)s->p_tiles + s->q_tiles) * SHOALI_GROUP <= OWN_ROOM) {
        forward_one(layer, x, bias, y);
        return;
    }
    analyse_samples(layer, &in, x, count);
    shoal_circulant_multiply(layer, count);
    synthesise_samples(layer, &out, bias, y, count);
}

/* ---------------------------------------------------------------- gradients */

/* Products of spectra: of 8 rows of blocks, `tile`, and some columns; bins lie `bin` floats apart.
 */
typedef struct products {
    size_t bin, tile, first, columns;
} products;

/* One bin of weight gradients. */
static void correlate_bin(const shoal_circulant *layer, const products *to, size_t f, size_t count,
                          bool add, float *groups)
{
    const shoali_circulant_shape *s = &layer->shape;
    const shoali_circulant_layout *at = &layer->layout;
    const float scale = 1.0f / (float)s->k;
    const shoali_correlate job = {.g = layer->ys + f * at->y_bin + to->tile * SHOALI_GROUP,
                                  .g_stride = at->y_stride,
                                  .x = layer->xs + f * at->x_bin,
                                  .x_stride = at->x_stride,
                                  .count = count,
                                  .first = to->first,
                                  .columns = to->columns,
                                  .dw = groups + f * to->bin,
                                  .scale_re = scale,
                                  .scale_im = f > 0 && s->first_row ? -scale : scale,
                                  .real = f == 0,
                                  .add = add};
    layer->kernels->correlate(&job);
}

/* Groups of a tile back to weights. */
static void synthesise_products(const shoal_circulant *layer, const products *at,
                                const float *groups, float *dw)
{
    const shoali_circulant_shape *s = &layer->shape;
    const size_t row = at->tile * SHOALI_LANES, stride = (size_t)s->q * s->k;
    const size_t lanes = s->p - row < SHOALI_LANES ? s->p - row : SHOALI_LANES;
    const bool whole = lanes == SHOALI_LANES;
    for (size_t c = 0; c < at->columns; c++) {
        const float *src = groups + c * SHOALI_GROUP;
        float *dst = dw + row * stride + (at->first + c) * s->k;
        layer->kernels->synthesise(&layer->dft, src, at->bin, whole ? dst : layer->pad,
                                   whole ? stride : s->k);
        for (size_t lane = 0; !whole && lane < lanes; lane++)
            memcpy(dst + lane * stride, layer->pad + lane * s->k, s->k * sizeof *dw);
    }
}

/* 8 rows of blocks and some columns: all bins while they are in the cache. */
static void correlate_tile(const shoal_circulant *layer, size_t tile, size_t first, size_t columns,
                           size_t count, float *dw)
{
    const products some = {layer->layout.columns * SHOALI_GROUP, tile, first, columns};
    for (size_t f = 0; f < layer->shape.bins; f++)
        correlate_bin(layer, &some, f, count, false, layer->products);
    synthesise_products(layer, &some, layer->products, dw);
}

void shoal_circulant_backward(shoal_circulant *layer, const float *dy, size_t count, float *dx,
                              float *dw)
{
    const side in = inputs(layer), out = outputs(layer);
    const shoali_circulant_shape *s = &layer->shape;
    analyse_samples(layer, &out, dy, count);
    for (size_t first = 0; dw != NULL && first < s->q; first += layer->layout.columns) {
        size_t columns = s->q - first;
        columns = columns < layer->layout.columns ? columns : layer->layout.columns;
        for (size_t tile = 0; tile < s->p_tiles; tile++)
            correlate_tile(layer, tile, first, columns, count, dw);
    }
    if (dx == NULL)
        return;
    apply_bins(layer, layer->wt, layer->layout.wt_bin, &out, &in, s->p, count);
    synthesise_samples(layer, &in, NULL, dx, count);
}

/* ---------------------------------------------------------------- gradients over many calls */

/* Sums are laid out as the weights' spectra are. */
static products all_columns(const shoal_circulant *layer, size_t tile)
{
    return (products){layer->layout.w_bin, tile, 0, layer->shape.q};
}

static size_t tile_at(const shoal_circulant *layer, size_t tile)
{
    return tile * layer->shape.q * SHOALI_GROUP;
}

void shoal_circulant_learn(shoal_circulant *layer, const float *x, const float *dy, size_t count,
                           float *sums)
{
    const side in = inputs(layer), out = outputs(layer);
    analyse_samples(layer, &in, x, count);
    analyse_samples(layer, &out, dy, count);
    for (size_t f = 0; f < layer->shape.bins; f++)
        for (size_t tile = 0; tile < layer->shape.p_tiles; tile++) {
            const products row = all_columns(layer, tile);
            correlate_bin(layer, &row, f, count, true, sums + tile_at(layer, tile));
        }
}

void shoal_circulant_learned(shoal_circulant *layer, const float *sums, float *dw)
{
    for (size_t tile = 0; tile < layer->shape.p_tiles; tile++) {
        const products row = all_columns(layer, tile);
        synthesise_products(layer, &row, sums + tile_at(layer, tile), dw);
    }
}
