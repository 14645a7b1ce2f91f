/* SPDX-License-Identifier: Apache-2.0 */
/* Block-circulant convolutions: planes of channels to planes of bins, per bin a convolution of real
 * numbers, planes back.
 *
 * With W = U + iV a bin's complex matrix per tap, the product with X = A + iB is the real one
 *
 *     [U -V] [A]
 *     [V  U] [B]      2q planes in, 2p planes out
 *
 * which the inner loops of ordinary convolutions do without knowing of it: 4 multiplications per
 * complex one, as many as there are. The gradient of the input takes its transpose, and that of the
 * weights is read off the real matrix' gradient. Bin 0 is two real convolutions, of sums and of
 * alternating sums, q planes to p. Spectra of images: [bin][image][part][block][pixel]. */
#include <string.h>

#include "base/error.h"
#include "kernel/circulant.h"
#include "kernel/conv_sweep.h"
#include "kernel/kernel.h"
#include "shoal/circulant.h"

/* One side: images and their spectra. */
typedef struct side {
    size_t channels, blocks, pixels;
    float *spectra;
} side;

/* A set of weights for one convolution of real numbers: of bin 0 two, of every other one. */
typedef struct set {
    shoali_conv_sweep ahead, back;
    shoali_conv_gather gather;
    unsigned rows, columns; /* output and input planes */
    size_t matrix, sums;    /* floats of its matrix and of its gradient */
} set;

struct shoal_circulant_conv {
    size_t k, bins, taps, blocks; /* blocks: of the weights, all taps */
    size_t group;                 /* images at a time in backward */
    unsigned height, width, out_height, out_width, kernel;
    bool training, rectify, direct;
    const shoali_circulant_kernels *kernels;
    shoali_dft dft;
    shoali_conv_image x_image, dy_image;
    side x, y;
    set real, whole;      /* of bin 0, of others */
    float *ahead, *back;  /* panels of all sets */
    float *spectra;       /* of the weights or their gradient: [bin][part][blocks] */
    float *matrix, *sums; /* of one set; gradients of all */
    float *tables;        /* for shoali_dft_make */
    size_t end;           /* bytes */
};

enum { LANES = SHOALI_LANES, SIDE_MAX = 1 << 16, WINDOW_MAX = 255 };

static size_t parts(size_t whole, size_t part)
{
    return whole / part + (whole % part != 0);
}

static size_t rounded(size_t value)
{
    return parts(value, LANES) * LANES;
}

/* ---------------------------------------------------------------- places in memory */

static void place_set(const shoal_circulant_conv *l, shoali_conv_room *room, set *s)
{
    const size_t pixels = l->y.pixels;
    s->rows = 2 * (unsigned)l->y.blocks;
    s->columns = 2 * (unsigned)l->x.blocks;
    s->ahead = shoali_conv_sweep_place(room, &l->x_image, l->kernel, s->rows, l->out_height,
                                       l->out_width);
    if (l->training) {
        s->back = shoali_conv_sweep_place(room, &l->dy_image, l->kernel, s->columns, l->height,
                                          l->width);
        s->gather = shoali_conv_gather_place(room, &l->x_image, l->kernel, s->rows, pixels);
    }
    s->matrix = (size_t)s->rows * s->columns * l->taps;
    s->sums = shoali_conv_gather_floats(&s->gather);
}

/* The same tables serve half as many planes. */
static set half_of(const set *whole)
{
    set s = *whole;
    s.rows /= 2;
    s.columns /= 2;
    s.ahead.tap_count /= 2, s.ahead.rows /= 2;
    s.back.tap_count /= 2, s.back.rows /= 2;
    s.gather.tap_count /= 2, s.gather.out /= 2;
    s.matrix = whole->matrix / 4;
    s.sums = shoali_conv_gather_floats(&s.gather);
    return s;
}

static float *take(shoali_conv_room *room, size_t floats)
{
    return shoali_conv_take(room, floats, sizeof(float));
}

/* All sizes were checked. With base NULL the places are only counted. */
static void place(const shoal_circulant_conv_desc *d, void *base, shoal_circulant_conv *l)
{
    shoali_conv_room room = {(uintptr_t)base, 0};
    const size_t k = d->block;
    *l = (shoal_circulant_conv){.k = k,
                                .bins = parts(k, 2),
                                .taps = (size_t)d->kernel * d->kernel,
                                .height = d->height,
                                .width = d->width,
                                .out_height = (d->height + 2 * d->pad - d->kernel) / d->stride + 1,
                                .out_width = (d->width + 2 * d->pad - d->kernel) / d->stride + 1,
                                .kernel = d->kernel,
                                .training = d->training,
                                .rectify = d->rectify};
    const size_t pixels = (size_t)l->out_height * l->out_width;
    l->x = (side){d->in, parts(d->in, k), (size_t)d->height * d->width, NULL};
    l->y = (side){d->out, parts(d->out, k), pixels, NULL};
    l->blocks = l->taps * l->x.blocks * l->y.blocks;
    l->direct = d->pad == 0 && d->stride == 1 && l->out_width % LANES == 0;
    l->group = d->training ? shoali_conv_group(pixels) : 1;
    l->x_image = shoali_conv_image_make(2 * (unsigned)l->x.blocks, d->height, d->width,
                                        d->height + 2 * d->pad, d->width + 2 * d->pad, d->pad,
                                        d->stride, 1);
    l->dy_image = shoali_conv_image_make(2 * (unsigned)l->y.blocks, l->out_height, l->out_width,
                                         d->height + d->kernel - 1, d->width + d->kernel - 1,
                                         d->kernel - 1 - d->pad, 1, d->stride);
    (void)shoali_conv_take(&room, 1, sizeof *l);
    l->tables = take(&room, 2 * k);
    place_set(l, &room, &l->whole);
    l->real = half_of(&l->whole);
    const size_t matrices = 2 * l->real.matrix + (l->bins - 1) * l->whole.matrix;
    l->ahead = take(&room, matrices);
    l->back = take(&room, d->training ? matrices : 0);
    l->sums = take(&room, 2 * l->real.sums + (l->bins - 1) * l->whole.sums);
    l->matrix = take(&room, l->whole.matrix);
    l->spectra = take(&room, 2 * l->bins * rounded(l->blocks));
    l->x.spectra = take(&room, 2 * l->bins * l->group * l->x.blocks * l->x.pixels + LANES);
    l->y.spectra = take(&room, 2 * l->bins * l->group * l->y.blocks * l->y.pixels + LANES);
    l->end = room.used;
}

/* ---------------------------------------------------------------- making */

static bool within(uint32_t value, uint32_t least, uint32_t most)
{
    return value >= least && value <= most;
}

/* Offsets are int32: images with their borders, as many as go at once, and all weights. */
static bool fits(const shoal_circulant_conv_desc *d)
{
    const double p = (double)parts(d->out, d->block), q = (double)parts(d->in, d->block),
                 border = 2.0 * d->kernel + d->stride, taps = (double)d->kernel * d->kernel,
                 plane = (d->height + border) * (d->width + border), most = 0x1p31;
    const size_t height = (d->height + 2 * d->pad - d->kernel) / d->stride + 1,
                 width = (d->width + 2 * d->pad - d->kernel) / d->stride + 1;
    const double images = shoali_conv_group(height * width);
    return 2 * (p > q ? p : q) * plane * images < most && 4 * p * q * taps * d->block < most;
}

static shoal_status check(const shoal_circulant_conv_desc *d)
{
    if (d->size != sizeof *d)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_circulant_conv_desc.size is %zu, this library's is %zu", d->size,
                           sizeof *d);
    if (!within(d->in, 1, SIDE_MAX) || !within(d->out, 1, SIDE_MAX) ||
        !within(d->height, 1, SIDE_MAX) || !within(d->width, 1, SIDE_MAX))
        return shoali_fail(SHOAL_EINVAL,
                           "a circulant convolution of %u x %u x %u to %u channels; "
                           "all are 1 .. %d",
                           d->in, d->height, d->width, d->out, SIDE_MAX);
    if (!within(d->block, 1, SHOALI_DFT_MAX))
        return shoali_fail(SHOAL_EINVAL, "circulant blocks of %u; they are 1 .. %d", d->block,
                           SHOALI_DFT_MAX);
    if (!within(d->kernel, 1, WINDOW_MAX) || !within(d->stride, 1, WINDOW_MAX) ||
        d->pad >= d->kernel || d->height + 2 * d->pad < d->kernel ||
        d->width + 2 * d->pad < d->kernel)
        return shoali_fail(SHOAL_EINVAL,
                           "a window of %u (step %u) does not fit into %u x %u padded by %u",
                           d->kernel, d->stride, d->height, d->width, d->pad);
    if (!fits(d))
        return shoali_fail(SHOAL_EINVAL,
                           "a circulant convolution of %u x %u x %u to %u channels "
                           "is too large",
                           d->in, d->height, d->width, d->out);
    return SHOAL_OK;
}

size_t shoal_circulant_conv_weights(const shoal_circulant_conv_desc *d)
{
    if (d->block == 0)
        return 0;
    return (size_t)d->kernel * d->kernel * parts(d->in, d->block) * parts(d->out, d->block) *
           d->block;
}

shoal_status shoal_circulant_conv_bytes(const shoal_circulant_conv_desc *d, size_t *bytes_out)
{
    shoal_circulant_conv l;
    SHOALI_TRY(check(d));
    place(d, NULL, &l);
    *bytes_out = l.end;
    return SHOAL_OK;
}

static void init_set(const shoal_circulant_conv *l, const set *s)
{
    shoali_conv_sweep_init(&s->ahead, &l->x_image, l->kernel, l->out_height, l->out_width);
    if (!l->training)
        return;
    shoali_conv_sweep_init(&s->back, &l->dy_image, l->kernel, l->height, l->width);
    shoali_conv_gather_init(&s->gather, &l->x_image, l->kernel, l->out_height, l->out_width);
}

shoal_status shoal_circulant_conv_init(const shoal_circulant_conv_desc *d, void *memory,
                                       shoal_circulant_conv **layer_out)
{
    size_t bytes = 0;
    SHOALI_TRY(shoal_circulant_conv_bytes(d, &bytes));
    if (memory == NULL || (uintptr_t)memory % 64 != 0)
        return shoali_fail(SHOAL_EINVAL, "a circulant convolution needs %zu bytes, aligned to 64",
                           bytes);
    memset(memory, 0, bytes);
    shoal_circulant_conv *l = memory;
    place(d, memory, l);
    l->kernels = shoali_kernel()->circulant;
    l->dft = shoali_dft_make((uint32_t)l->k, l->tables);
    init_set(l, &l->whole);
    *layer_out = l;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- weights */

/* Number i: of bin 0 two, then one per bin. */
static const set *set_of(const shoal_circulant_conv *l, size_t i)
{
    return i < 2 ? &l->real : &l->whole;
}

static size_t set_count(const shoal_circulant_conv *l)
{
    return l->bins + 1;
}

static size_t matrix_at(const shoal_circulant_conv *l, size_t i)
{
    return i < 2 ? i * l->real.matrix : 2 * l->real.matrix + (i - 2) * l->whole.matrix;
}

static size_t sums_at(const shoal_circulant_conv *l, size_t i)
{
    return i < 2 ? i * l->real.sums : 2 * l->real.sums + (i - 2) * l->whole.sums;
}

/* Parts of a set in l->spectra: of bin 0 one each. */
static float *part_of(const shoal_circulant_conv *l, size_t i, bool imaginary)
{
    const size_t part = i < 2 ? i : 2 * (i - 1) + imaginary;
    return l->spectra + part * rounded(l->blocks);
}

/* 8 blocks at a time between w and spectra; blocks lie side by side in both. */
static void analyse_weights(shoal_circulant_conv *l, const float *w)
{
    float pad[LANES * SHOALI_DFT_MAX];
    _Alignas(64) float groups[LANES * (SHOALI_DFT_MAX + 1)];
    const float scale = 1.0f / (float)l->k;
    for (size_t b = 0; b < l->blocks; b += LANES) {
        const float *src = w + b * l->k;
        if (l->blocks - b < LANES) {
            memset(pad, 0, LANES * l->k * sizeof *pad);
            memcpy(pad, src, (l->blocks - b) * l->k * sizeof *pad);
            src = pad;
        }
        l->kernels->analyse(&l->dft, src, l->k, groups, SHOALI_GROUP);
        for (size_t part = 0; part < 2 * l->bins; part++)
            for (size_t lane = 0; lane < LANES; lane++)
                l->spectra[part * rounded(l->blocks) + b + lane] = groups[part * LANES + lane] *
                                                                   scale;
    }
}

static void synthesise_weights(shoal_circulant_conv *l, float *w)
{
    float pad[LANES * SHOALI_DFT_MAX];
    _Alignas(64) float groups[LANES * (SHOALI_DFT_MAX + 1)];
    const float scale = 1.0f / (float)l->k;
    for (size_t b = 0; b < l->blocks; b += LANES) {
        for (size_t part = 0; part < 2 * l->bins; part++)
            for (size_t lane = 0; lane < LANES; lane++)
                groups[part * LANES + lane] = l->spectra[part * rounded(l->blocks) + b + lane] *
                                              scale;
        const bool all = l->blocks - b >= LANES;
        l->kernels->synthesise(&l->dft, groups, SHOALI_GROUP, all ? w + b * l->k : pad, l->k);
        if (!all)
            memcpy(w + b * l->k, pad, (l->blocks - b) * l->k * sizeof *w);
    }
}

/* Row by row of a set's matrix of real numbers, [row][column][tap]. */
static void write_matrix(const shoal_circulant_conv *l, size_t i)
{
    const size_t p = l->y.blocks, q = l->x.blocks, taps = l->taps;
    const set *s = set_of(l, i);
    float *to = l->matrix;
    for (size_t row = 0; row < s->rows; row++)
        for (size_t column = 0; column < s->columns; column++) {
            const bool low = row >= p, right = column >= q;
            const float *part = part_of(l, i, low != right);
            const float sign = right && !low ? -1.0f : 1.0f;
            for (size_t t = 0; t < taps; t++)
                *to++ = sign *
                        part[(t * p + (low ? row - p : row)) * q + (right ? column - q : column)];
        }
}

void shoal_circulant_conv_set_weights(shoal_circulant_conv *l, const float *w)
{
    analyse_weights(l, w);
    for (size_t i = 0; i < set_count(l); i++) {
        const set *s = set_of(l, i);
        write_matrix(l, i);
        shoali_conv_pack_forward(l->matrix, s->rows, s->columns, (unsigned)l->taps,
                                 l->ahead + matrix_at(l, i));
        if (l->training)
            shoali_conv_pack_backward(l->matrix, s->rows, s->columns, (unsigned)l->taps,
                                      l->back + matrix_at(l, i));
    }
}

/* What write_matrix' transpose makes of the gradient of a set's matrix. */
static void read_sums(const shoal_circulant_conv *l, size_t i)
{
    const size_t p = l->y.blocks, q = l->x.blocks, taps = l->taps;
    const set *s = set_of(l, i);
    const float *sums = l->sums + sums_at(l, i);
    memset(part_of(l, i, false), 0, rounded(l->blocks) * sizeof *sums);
    if (i >= 2)
        memset(part_of(l, i, true), 0, rounded(l->blocks) * sizeof *sums);
    for (size_t row = 0; row < s->rows; row++) {
        const size_t first = shoali_conv_gather_at(&s->gather, (unsigned)row, 0),
                     step = shoali_conv_gather_at(&s->gather, (unsigned)row, 1) - first;
        const float *from = sums + first;
        for (size_t column = 0; column < s->columns; column++) {
            const bool low = row >= p, right = column >= q;
            float *part = part_of(l, i, low != right);
            const float sign = right && !low ? -1.0f : 1.0f;
            for (size_t t = 0; t < taps; t++, from += step)
                part[(t * p + (low ? row - p : row)) * q + (right ? column - q : column)] += sign *
                                                                                             *from;
        }
    }
}

/* ---------------------------------------------------------------- images */

static size_t plane_step(const side *s)
{
    return s->blocks * s->pixels; /* of one part of one image */
}

/* Spectra of image n of a group, bin f. */
static float *image_of(const shoal_circulant_conv *l, const side *s, size_t f, size_t n)
{
    return s->spectra + (f * l->group + n) * 2 * plane_step(s);
}

static shoali_planes planes_of(const shoal_circulant_conv *l, const side *s, size_t block)
{
    const size_t left = s->channels - block * l->k;
    return (shoali_planes){.pixels = s->pixels,
                           .plane = s->pixels,
                           .known = left < l->k ? left : l->k,
                           .bin = l->group * 2 * plane_step(s),
                           .imaginary = plane_step(s)};
}

static void analyse_image(const shoal_circulant_conv *l, const side *s, const float *x, size_t n)
{
    for (size_t j = 0; j < s->blocks; j++) {
        const shoali_planes p = planes_of(l, s, j);
        l->kernels->analyse_planes(&l->dft, &p, x + j * l->k * s->pixels,
                                   image_of(l, s, 0, n) + j * s->pixels);
    }
}

static void synthesise_image(const shoal_circulant_conv *l, const side *s, size_t n,
                             const float *bias, bool rectify, float *y)
{
    for (size_t j = 0; j < s->blocks; j++) {
        shoali_planes p = planes_of(l, s, j);
        p.bias = bias != NULL ? bias + j * l->k : NULL;
        p.rectify = rectify;
        l->kernels->synthesise_planes(&l->dft, &p, image_of(l, s, 0, n) + j * s->pixels,
                                      y + j * l->k * s->pixels);
    }
}

/* Sets of bin f, [first, end): the second of bin 0 only where there is an alternating sum. */
static size_t first_set(size_t f)
{
    return f == 0 ? 0 : f + 1;
}

static size_t end_set(const shoal_circulant_conv *l, size_t f)
{
    return f > 0 ? f + 2 : l->k % 2 == 0 ? 2 : 1;
}

/* ---------------------------------------------------------------- forward */

static void forward_bin(const shoal_circulant_conv *l, size_t f)
{
    const float *x = image_of(l, &l->x, f, 0);
    size_t plane = l->x.pixels;
    if (!l->direct) {
        shoali_conv_image_fill(&l->x_image, x, l->whole.ahead.padded);
        x = l->whole.ahead.padded;
        plane = l->x_image.plane;
    }
    for (size_t i = first_set(f); i < end_set(l, f); i++) {
        const size_t part = f == 0 ? i : 0;
        const shoali_conv_io io = {.x = x + part * l->x.blocks * plane,
                                   .panels = l->ahead + matrix_at(l, i),
                                   .y = image_of(l, &l->y, f, 0) + part * plane_step(&l->y),
                                   .plane = l->y.pixels};
        shoali_conv_sweep_run(&set_of(l, i)->ahead, &io);
    }
}

void shoal_circulant_conv_forward(shoal_circulant_conv *l, const float *x, size_t count,
                                  const float *bias, float *y)
{
    for (size_t n = 0; n < count; n++) {
        analyse_image(l, &l->x, x + n * l->x.channels * l->x.pixels, 0);
        for (size_t f = 0; f < l->bins; f++)
            forward_bin(l, f);
        synthesise_image(l, &l->y, 0, bias, l->rectify, y + n * l->y.channels * l->y.pixels);
    }
}

/* ---------------------------------------------------------------- backward */

static void learn_bin(const shoal_circulant_conv *l, size_t f, size_t images, bool add)
{
    const shoali_conv_image *image = &l->x_image;
    float *padded = l->whole.gather.padded;
    for (size_t n = 0; n < images; n++)
        shoali_conv_image_fill(image, image_of(l, &l->x, f, n), padded + n * image->elems);
    for (size_t i = first_set(f); i < end_set(l, f); i++) {
        const size_t part = f == 0 ? i : 0;
        shoali_conv_gather_run(&set_of(l, i)->gather, padded + part * l->x.blocks * image->plane,
                               image_of(l, &l->y, f, 0) + part * plane_step(&l->y),
                               2 * plane_step(&l->y), (unsigned)images, add,
                               l->sums + sums_at(l, i), NULL);
    }
}

/* Over the spectra of x, which are not needed any more. */
static void back_bin(const shoal_circulant_conv *l, size_t f, size_t n)
{
    const shoali_conv_image *image = &l->dy_image;
    float *padded = l->whole.back.padded;
    shoali_conv_image_fill(image, image_of(l, &l->y, f, n), padded);
    for (size_t i = first_set(f); i < end_set(l, f); i++) {
        const size_t part = f == 0 ? i : 0;
        const shoali_conv_io io = {.x = padded + part * l->y.blocks * image->plane,
                                   .panels = l->back + matrix_at(l, i),
                                   .y = image_of(l, &l->x, f, n) + part * plane_step(&l->x),
                                   .plane = l->x.pixels};
        shoali_conv_sweep_run(&set_of(l, i)->back, &io);
    }
}

/* At most a group of images, from the first on. */
static void backward_group(const shoal_circulant_conv *l, const float *x, const float *dy,
                           size_t images, bool first, float *dx, bool learns)
{
    const size_t in = l->x.channels * l->x.pixels, out = l->y.channels * l->y.pixels;
    for (size_t n = 0; n < images; n++) {
        analyse_image(l, &l->y, dy + n * out, n);
        if (learns)
            analyse_image(l, &l->x, x + n * in, n);
    }
    for (size_t f = 0; f < l->bins; f++) {
        if (learns)
            learn_bin(l, f, images, !first);
        for (size_t n = 0; dx != NULL && n < images; n++)
            back_bin(l, f, n);
    }
    for (size_t n = 0; dx != NULL && n < images; n++)
        synthesise_image(l, &l->x, n, NULL, false, dx + n * in);
}

void shoal_circulant_conv_backward(shoal_circulant_conv *l, const float *x, const float *dy,
                                   size_t count, float *dx, float *dw)
{
    const size_t in = l->x.channels * l->x.pixels, out = l->y.channels * l->y.pixels;
    for (size_t n = 0; n < count; n += l->group) {
        const size_t images = count - n < l->group ? count - n : l->group;
        backward_group(l, x + n * in, dy + n * out, images, n == 0, dx != NULL ? dx + n * in : NULL,
                       dw != NULL);
    }
    if (dw == NULL)
        return;
    if (count == 0) {
        memset(dw, 0, l->blocks * l->k * sizeof *dw);
        return;
    }
    for (size_t i = 0; i < set_count(l); i++)
        read_sums(l, i);
    synthesise_weights(l, dw);
}
