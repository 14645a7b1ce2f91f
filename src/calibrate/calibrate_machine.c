/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by size, element-wise arithmetic, memory, codecs. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "calibrate/calibrate.h"
#include "shoal/codec.h"

enum { SIZES = 8, FLOATS = 1 << 20, LARGE = 1 << 24 };
static const int sizes[SIZES] = {768, 512, 384, 256, 128, 64, 32, 16};

/* ---------------------------------------------------------------- arithmetic */

typedef struct product {
    int n;
    float *a, *b, *c;
} product;

static void multiply(void *ctx)
{
    const product *p = ctx;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->n, p->n, p->n, 1, p->a, p->n, p->b,
                p->n, 0, p->c, p->n);
}

/* y += 0.5 x in the cache: two operations per element. */
typedef struct vectors {
    float *x, *y;
    size_t count;
} vectors;

static void accumulate(void *ctx)
{
    const vectors *v = ctx;
    for (size_t i = 0; i < v->count; i++)
        v->y[i] += 0.5f * v->x[i];
}

static void copy(void *ctx)
{
    const vectors *v = ctx;
    memcpy(v->y, v->x, v->count * sizeof(float));
}

static void measure_products(shoal_calibration *c, float *memory, double *rates)
{
    product p = {.a = memory, .b = memory + FLOATS, .c = memory + 2 * (size_t)FLOATS};
    for (int i = 0; i < SIZES; i++) {
        double spread;
        p.n = sizes[i];
        double seconds = shoali_calibrate_time(c, multiply, &p, &spread);
        rates[i] = 2.0 * p.n * p.n * p.n / seconds;
        c->peak = fmax(c->peak, rates[i]);
        if (i < 4)
            c->accelerator.spread = fmin(1, fmax(c->accelerator.spread, spread));
    }
}

shoal_status shoali_calibrate_machine(shoal_calibration *c)
{
    shoali_accelerator *a = &c->accelerator;
    double rates[SIZES], spread;
    float *memory = shoali_alloc_array(2 * (size_t)LARGE, sizeof *memory);
    a->name = shoali_arena_strdup(c->arena, "core");
    a->tables = shoali_arena_array(c->arena, 2, sizeof *a->tables);
    if (memory == NULL || a->name == NULL || a->tables == NULL) {
        shoali_free(memory);
        return SHOAL_ENOMEM;
    }
    for (size_t i = 0; i < 3 * (size_t)FLOATS; i++)
        memory[i] = (float)(i % 17) * 0.01f;
    measure_products(c, memory, rates);
    vectors near = {memory, memory + 8192, 8192}, far = {memory, memory + LARGE, LARGE};
    a->vector_flops = 2.0 * 8192 / shoali_calibrate_time(c, accumulate, &near, &spread);
    a->memory_bytes_per_s = 8.0 * LARGE / shoali_calibrate_time(c, copy, &far, &spread);
    shoali_free(memory);
    a->flops = c->peak;
    a->memory_bytes = INFINITY;
    a->table_count = 1;
    a->tables[0].smooth = true;
    memcpy(a->tables[0].kind, "matrix", 7);
    for (int i = 0; i < SIZES; i++) {
        a->tables[0].step[i].from = 2.0 * sizes[i] * sizes[i] * sizes[i];
        a->tables[0].step[i].share = rates[i] / c->peak;
    }
    a->tables[0].count = SIZES;
    return SHOAL_OK;
}

double shoal_calibrate_probe(void)
{
    shoal_calibration c = {.budget_s = 0.005};
    double spread, rate = 0;
    product p = {.n = 256};
    float *memory = shoali_alloc_array(3 * (size_t)256 * 256, sizeof *memory);
    if (memory == NULL)
        return 0;
    memset(memory, 0, 3 * sizeof *memory * 256 * 256);
    p.a = memory;
    p.b = memory + (size_t)256 * 256;
    p.c = memory + 2 * (size_t)256 * 256;
    for (int i = 0; i < 16; i++) /* the best: what the machine can do now, whoever interrupts */
        rate = fmax(rate, 2.0 * 256 * 256 * 256 / shoali_calibrate_time(&c, multiply, &p, &spread));
    shoali_free(memory);
    return rate;
}

/* ---------------------------------------------------------------- codecs */

typedef struct coding {
    const shoal_codec *codec;
    shoal_codec_at at;
    float *values, *sums;
    uint8_t *bytes;
    size_t capacity, written;
    shoal_status status;
} coding;

static void encode(void *ctx)
{
    coding *c = ctx;
    if (c->status == SHOAL_OK)
        c->status = shoal_codec_encode(c->codec, &c->at, c->values, FLOATS / 16, c->bytes,
                                       c->capacity, &c->written);
}

static void decode(void *ctx)
{
    coding *c = ctx;
    size_t read;
    if (c->status == SHOAL_OK)
        c->status = shoal_codec_decode(c->codec, &c->at, c->bytes, c->written, c->sums, FLOATS / 16,
                                       true, &read);
}

/* Gradients of a network in training are bell-shaped and small: sigma 0.003 (docs/predict.md). */
static void fill_gradients(float *values)
{
    for (size_t i = 0; i < FLOATS / 16; i++) {
        double u = shoali_rng_double(1, 1, i), v = shoali_rng_double(1, 2, i);
        values[i] = (float)(0.003 * sqrt(-2 * log(u + 1e-300)) * cos(6.283185307179586 * v));
    }
}

static shoal_status time_codec(shoal_calibration *c, coding *work)
{
    const size_t count = FLOATS / 16;
    const shoal_tensor tensor = {.key = 1, .count = count, .lr_scale = 1};
    float shared[64] = {0};
    double spread, more;
    fill_gradients(work->values);
    memset(work->sums, 0, count * sizeof(float));
    work->at = (shoal_codec_at){.tensor = &tensor, .parts = 1, .seed = 1, .stream = 1};
    size_t measures = shoal_codec_measure_count(work->codec);
    if (measures > 64)
        return shoali_fail(SHOAL_ENOTSUP, "codec %s shares %zu values of a tensor, at most 64",
                           shoal_codec_spec(work->codec), measures);
    if (measures > 0) {
        SHOALI_TRY(shoal_codec_measure(work->codec, &tensor, work->values, shared));
        work->at.shared = shared;
    }
    double to = shoali_calibrate_time(c, encode, work, &spread);
    double from = shoali_calibrate_time(c, decode, work, &more);
    SHOALI_TRY(work->status);
    shoali_codec_cost *cost = &c->cluster.codecs[c->cluster.codec_count++];
    cost->spec = shoali_arena_strdup(c->arena, shoal_codec_spec(work->codec));
    cost->encode_bytes_per_s = 4.0 * (double)count / to;
    cost->decode_bytes_per_s = 4.0 * (double)count / from;
    cost->ratio = 4.0 * (double)count / fmax(1, (double)work->written);
    cost->spread = fmin(1, fmax(spread, more));
    return cost->spec != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

shoal_status shoali_calibrate_codecs(shoal_calibration *c, const char *spec)
{
    shoal_codec *codec;
    SHOALI_TRY(shoal_codec_open(spec, &codec));
    coding work = {.codec = codec, .capacity = shoal_codec_bound(codec, FLOATS / 16, 1)};
    shoal_status status = SHOAL_OK;
    work.values = shoali_alloc_array(FLOATS / 8, sizeof(float));
    work.bytes = shoali_alloc(work.capacity + 1);
    if (c->cluster.codec_count == 64)
        status = shoali_fail(SHOAL_EINVAL, "more than 64 codecs");
    else if (work.values == NULL || work.bytes == NULL)
        status = SHOAL_ENOMEM;
    if (status == SHOAL_OK) {
        work.sums = work.values + FLOATS / 16;
        status = time_codec(c, &work);
    }
    shoali_free(work.values);
    shoali_free(work.bytes);
    shoal_codec_close(codec);
    return status;
}
