/* SPDX-License-Identifier: Apache-2.0 */
/* Dense: the usual way by matrix products. Images have their channels innermost there, so that a
 * window's rows are copied whole; some images at a time make a matrix [pixels][window] that stays
 * in the second cache, and one product with the weights [out][window] does them. Ours keeps planes
 * of channels. Both do forward, and forward with both gradients; of each the median counts. */
#include "bench_convolution.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "bench_time.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/circulant.h"

enum { ROUNDS_MOST = 99, UNROLLED_FLOATS = 1 << 18 };
enum { DENSE, OURS, TRAIN_DENSE, TRAIN_OURS, OPERATIONS };

static const bench_convolution usual[] = {
    {32, 14, 14, 64, 5, 0},   {64, 16, 16, 64, 5, 2}, {64, 32, 32, 64, 3, 1},
    {128, 16, 16, 128, 3, 1}, {256, 8, 8, 256, 3, 1}, {512, 4, 4, 512, 3, 1},
    {512, 2, 2, 512, 3, 1},
};

size_t bench_convolution_usual(const bench_convolution **list_out)
{
    *list_out = usual;
    return sizeof usual / sizeof *usual;
}

bool bench_convolution_parse(const char *text, bench_convolution *out)
{
    int64_t *fields[] = {&out->in, &out->height, &out->width, &out->out, &out->kernel, &out->pad};
    char copy[80];
    snprintf(copy, sizeof copy, "%s", text);
    char *rest = copy;
    for (size_t i = 0; i < 6; i++) {
        char *field = strsep(&rest, ",");
        if (field == NULL || !cli_parse_int(field, i < 5, 65536, fields[i]))
            return false;
    }
    return rest == NULL;
}

typedef struct job {
    const bench_convolution *c;
    const bench_blas *blas;
    size_t batch, k, out_height, out_width, pixels, window, in_elems, out_elems, some;
    float *dense, *w, *x, *y, *dx, *dw, *unrolled;
    void *memory;
    shoal_circulant_conv *layer;
    double times[OPERATIONS][ROUNDS_MOST];
} job;

/* ------------------------------------------------------------------ dense */

/* Windows of some images to unrolled[image, pixel][ky, kx, channel], or (back) added to images. */
static void unroll(const job *j, float *x, size_t images, bool back)
{
    const bench_convolution *c = j->c;
    const size_t in = (size_t)c->in, kernel = (size_t)c->kernel;
    float *to = j->unrolled;
    for (size_t at = 0; at < images * j->pixels; at++)
        for (size_t tap = 0; tap < kernel * kernel; tap++, to += in) {
            const size_t pixel = at % j->pixels;
            const int64_t y = (int64_t)(pixel / j->out_width + tap / kernel) - c->pad,
                          col = (int64_t)(pixel % j->out_width + tap % kernel) - c->pad;
            const bool inside = y >= 0 && col >= 0 && y < c->height && col < c->width;
            float *from = inside
                              ? x + at / j->pixels * j->in_elems + (size_t)(y * c->width + col) * in
                              : NULL;
            if (!back && inside)
                memcpy(to, from, in * sizeof *to);
            else if (!back)
                memset(to, 0, in * sizeof *to);
            for (size_t i = 0; back && inside && i < in; i++)
                from[i] += to[i];
        }
}

static void dense_forward(void *ctx)
{
    const job *j = ctx;
    const int out = (int)j->c->out, window = (int)j->window;
    for (size_t n = 0; n < j->batch; n += j->some) {
        const size_t images = j->batch - n < j->some ? j->batch - n : j->some;
        unroll(j, j->x + n * j->in_elems, images, false);
        j->blas->gemm(BENCH_ROWS, BENCH_PLAIN, BENCH_TRANS, (int)(images * j->pixels), out, window,
                      1, j->unrolled, window, j->dense, window, 0, j->y + n * j->out_elems, out);
    }
}

/* The output stands in for its gradient. */
static void dense_training(void *ctx)
{
    const job *j = ctx;
    const int out = (int)j->c->out, window = (int)j->window;
    dense_forward(ctx);
    memset(j->dx, 0, j->batch * j->in_elems * sizeof *j->dx);
    for (size_t n = 0; n < j->batch; n += j->some) {
        const size_t images = j->batch - n < j->some ? j->batch - n : j->some;
        const int rows = (int)(images * j->pixels);
        const float *dy = j->y + n * j->out_elems;
        unroll(j, j->x + n * j->in_elems, images, false);
        j->blas->gemm(BENCH_ROWS, BENCH_TRANS, BENCH_PLAIN, out, window, rows, 1, dy, out,
                      j->unrolled, window, n > 0, j->dw, window);
        j->blas->gemm(BENCH_ROWS, BENCH_PLAIN, BENCH_PLAIN, rows, window, out, 1, dy, out, j->dense,
                      window, 0, j->unrolled, window);
        unroll(j, j->dx + n * j->in_elems, images, true);
    }
}

/* ------------------------------------------------------------------ ours */

static void our_forward(void *ctx)
{
    const job *j = ctx;
    shoal_circulant_conv_forward(j->layer, j->x, j->batch, NULL, j->y);
}

/* New weights every step: their transforms are part of it. */
static void our_training(void *ctx)
{
    const job *j = ctx;
    shoal_circulant_conv_set_weights(j->layer, j->w);
    our_forward(ctx);
    shoal_circulant_conv_backward(j->layer, j->x, j->y, j->batch, j->dx, j->dw);
}

/* ------------------------------------------------------------------ one row */

/* Our weight of (tap, out, in). */
static double weight(const job *j, size_t tap, size_t o, size_t i)
{
    const size_t k = j->k, p = ((size_t)j->c->out + k - 1) / k, q = ((size_t)j->c->in + k - 1) / k;
    return (double)j->w[((tap * p + o / k) * q + i / k) * k + (o % k + k - i % k) % k];
}

/* Some outputs of the first image against sums in double; planes of channels. */
static double relative_error(job *j)
{
    enum { SAMPLES = 997 };
    const bench_convolution *c = j->c;
    double error = 0, norm = 0;
    our_forward(j);
    for (size_t at = 0; at < j->out_elems; at += 1 + j->out_elems / SAMPLES) {
        const size_t o = at / j->pixels, pixel = at % j->pixels, kernel = (size_t)c->kernel;
        double sum = 0;
        for (size_t tap = 0; tap < kernel * kernel; tap++) {
            const int64_t y = (int64_t)(pixel / j->out_width + tap / kernel) - c->pad,
                          col = (int64_t)(pixel % j->out_width + tap % kernel) - c->pad;
            for (size_t i = 0;
                 y >= 0 && col >= 0 && y < c->height && col < c->width && i < (size_t)c->in; i++)
                sum += weight(j, tap, o, i) *
                       (double)j->x[((int64_t)i * c->height + y) * c->width + col];
        }
        error += pow(sum - (double)j->y[at], 2);
        norm += sum * sum;
    }
    return sqrt(error / norm);
}

static shoal_status make(job *j)
{
    const bench_convolution *c = j->c;
    shoal_circulant_conv_desc desc = SHOAL_CIRCULANT_CONV_DESC_INIT;
    size_t bytes = 0;
    desc.in = (uint32_t)c->in, desc.out = (uint32_t)c->out;
    desc.height = (uint32_t)c->height, desc.width = (uint32_t)c->width;
    desc.kernel = (uint32_t)c->kernel, desc.pad = (uint32_t)c->pad;
    desc.block = (uint32_t)j->k;
    desc.training = true;
    shoal_status status = shoal_circulant_conv_bytes(&desc, &bytes);
    if (status != SHOAL_OK)
        return status;
    j->out_height = (size_t)(c->height + 2 * c->pad - c->kernel + 1);
    j->out_width = (size_t)(c->width + 2 * c->pad - c->kernel + 1);
    j->pixels = j->out_height * j->out_width;
    j->window = (size_t)(c->in * c->kernel * c->kernel);
    j->in_elems = (size_t)(c->in * c->height * c->width);
    j->out_elems = (size_t)c->out * j->pixels;
    j->some = UNROLLED_FLOATS / (j->pixels * j->window);
    j->some = j->some < 1 ? 1 : j->some < j->batch ? j->some : j->batch;
    j->w = bench_floats(shoal_circulant_conv_weights(&desc));
    j->dense = bench_floats((size_t)c->out * j->window);
    j->x = bench_floats(j->batch * j->in_elems);
    j->y = bench_floats(j->batch * j->out_elems);
    j->dx = bench_floats(j->batch * j->in_elems);
    const size_t dense = (size_t)c->out * j->window, own = shoal_circulant_conv_weights(&desc);
    j->dw = bench_floats(dense > own ? dense : own);
    j->unrolled = bench_floats(j->some * j->pixels * j->window);
    j->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (j->w == NULL || j->dense == NULL || j->x == NULL || j->y == NULL || j->dx == NULL ||
        j->dw == NULL || j->unrolled == NULL || j->memory == NULL)
        return SHOAL_ENOMEM;
    status = shoal_circulant_conv_init(&desc, j->memory, &j->layer);
    if (status == SHOAL_OK)
        shoal_circulant_conv_set_weights(j->layer, j->w);
    return status;
}

/* Multiplications and additions of the products per bin, and 2.5 k log2 k per transform. */
static double our_flops(const job *j)
{
    const bench_convolution *c = j->c;
    const double k = (double)j->k, p = ceil((double)c->out / k), q = ceil((double)c->in / k);
    const double products = 8 * (ceil(k / 2) - 1) + (j->k % 2 == 0 ? 4 : 2);
    const double taps = (double)(c->kernel * c->kernel), pixels = (double)j->pixels;
    return (double)j->batch *
           (taps * p * q * products * pixels +
            2.5 * k * log2(k) * (q * (double)(c->height * c->width) + p * pixels));
}

void bench_convolution_header(const bench_convolution_job *b)
{
    if (b->rows == NULL)
        printf("# %26s %5s %4s %10s %7s %10s %8s %7s %10s %10s %8s %8s %8s\n", "convolution",
               "batch", "k", "dense us", "GF/s", "ours us", "ratio", "peak", "train us", "ours us",
               "ratio", "weights", "rel.L2");
}

static void print_row(const bench_convolution_job *b, job *j, double error)
{
    const bench_convolution *c = j->c;
    double us[OPERATIONS];
    for (size_t i = 0; i < OPERATIONS; i++)
        us[i] = 1e6 * bench_median(j->times[i], (size_t)b->rounds);
    const double dense = (double)c->out * (double)j->window;
    const double gf = 2e-3 * dense * (double)(j->pixels * j->batch) / us[DENSE];
    const double peak = our_flops(j) / us[OURS] / (b->peak_gf * 1e3);
    const double k = (double)j->k, taps = (double)(c->kernel * c->kernel);
    const double weights = taps * ceil((double)c->out / k) * ceil((double)c->in / k) * k;
    if (b->rows == NULL) {
        printf("  %4dx%-3dx%-3d %4d  %2dx%-2d pad %d", (int)c->in, (int)c->height, (int)c->width,
               (int)c->out, (int)c->kernel, (int)c->kernel, (int)c->pad);
        printf(" %5zu %4zu %10.1f %7.1f %10.1f %7.2fx %6.1f%% %10.1f %10.1f %7.2fx %7.1fk %8.1e\n",
               j->batch, j->k, us[DENSE], gf, us[OURS], us[DENSE] / us[OURS], 100 * peak,
               us[TRAIN_DENSE], us[TRAIN_OURS], us[TRAIN_DENSE] / us[TRAIN_OURS], weights / 1e3,
               error);
        fflush(stdout);
        return;
    }
    json_t *row = json_object();
    answer_set_number(row, "in", (double)c->in);
    answer_set_number(row, "height", (double)c->height);
    answer_set_number(row, "width", (double)c->width);
    answer_set_number(row, "out", (double)c->out);
    answer_set_number(row, "kernel", (double)c->kernel);
    answer_set_number(row, "pad", (double)c->pad);
    answer_set_count(row, "batch", j->batch);
    answer_set_count(row, "k", j->k);
    bench_set(row, "dense_us", us[DENSE]);
    bench_set(row, "dense_gflops", gf);
    bench_set(row, "ours_us", us[OURS]);
    bench_set(row, "speedup", us[DENSE] / us[OURS]);
    bench_set(row, "layer_of_peak", peak);
    bench_set(row, "train_dense_us", us[TRAIN_DENSE]);
    bench_set(row, "train_ours_us", us[TRAIN_OURS]);
    bench_set(row, "train_speedup", us[TRAIN_DENSE] / us[TRAIN_OURS]);
    bench_set(row, "weights", weights);
    bench_set(row, "storage_ratio", dense / weights);
    bench_set(row, "rel_l2", error);
    json_array_append_new(b->rows, row);
}

static void measure(const bench_convolution_job *b, job *j)
{
    static void (*const operations[OPERATIONS])(void *) = {
        [DENSE] = dense_forward,
        [OURS] = our_forward,
        [TRAIN_DENSE] = dense_training,
        [TRAIN_OURS] = our_training,
    };
    for (int64_t round = -1; round < b->rounds; round++) /* the first one warms up */
        for (size_t i = 0; i < OPERATIONS; i++)
            j->times[i][round < 0 ? 0 : round] = bench_time(operations[i], j);
}

int bench_convolution_run(bench_convolution_job *b, const bench_convolution *shape, size_t batch,
                          size_t k)
{
    job *j = calloc(1, sizeof *j);
    if (j == NULL)
        return CLI_FAILED;
    *j = (job){.c = shape, .blas = b->blas, .batch = batch, .k = k};
    const shoal_status status = make(j);
    if (status == SHOAL_OK) {
        const double error = relative_error(j);
        measure(b, j);
        progress_aside();
        print_row(b, j, error);
    }
    free(j->dense), free(j->w), free(j->x), free(j->y), free(j->dx), free(j->dw);
    free(j->unrolled), free(j->memory);
    free(j);
    if (status == SHOAL_ENOMEM)
        fprintf(stderr, "shoal bench: no memory for this convolution\n");
    return status == SHOAL_OK ? CLI_OK : status == SHOAL_ENOMEM ? CLI_FAILED : cli_report("bench");
}
