/* SPDX-License-Identifier: Apache-2.0 */
/* Products and gradients of block-circulant layers, by every row of kernels, against a plain dense
 * product in double of the matrix written out from its definition; sizes that the block does not
 * divide, both conventions, blocks from 1 to 1024. Transforms against sums in double. */
#include "support/check.h"

#include <math.h>

#include "base/arena.h"
#include "kernel/circulant.h"
#include "kernel/kernel.h"
#include "shoal/circulant.h"

typedef struct shape {
    uint32_t out, in, k, count;
} shape;

static const shape shapes[] = {
    {5, 7, 1, 3},       {16, 16, 2, 1},     {33, 30, 2, 7},      {64, 64, 4, 64},
    {40, 36, 4, 5},     {512, 512, 8, 6},   {70, 100, 8, 13},    {130, 70, 8, 1},
    {96, 80, 16, 4},    {17, 300, 16, 2},   {30, 20, 3, 4},      {41, 29, 5, 3},
    {64, 48, 12, 8},    {50, 60, 7, 1},     {256, 128, 32, 9},   {100, 140, 64, 3},
    {300, 300, 128, 2}, {520, 513, 256, 2}, {600, 1030, 512, 2}, {1024, 2048, 1024, 2},
    {64, 2200, 8, 131}, {100, 64, 100, 2},  {600, 400, 8, 1},    {48, 40, 4, 129},
};

static shoal_circulant_desc desc_of(const shape *s, bool first_row)
{
    shoal_circulant_desc desc = SHOAL_CIRCULANT_DESC_INIT;
    desc.in = s->in;
    desc.out = s->out;
    desc.block = s->k;
    desc.batch_max = s->count;
    desc.training = true;
    desc.first_row = first_row;
    return desc;
}

/* C[row][column], from the header's definition. */
static double entry(const shoal_circulant_desc *d, const float *w, uint32_t row, uint32_t column)
{
    const uint32_t k = d->block, q = (d->in + k - 1) / k;
    int a = (int)(row % k), b = (int)(column % k), t = d->first_row ? b - a : a - b;
    return (double)w[((size_t)(row / k) * q + column / k) * k + (size_t)(t < 0 ? t + (int)k : t)];
}

typedef struct deviation {
    double error, norm, largest, most; /* squared L2s; largest difference, largest value */
} deviation;

static void note(deviation *d, double got, double want)
{
    d->error += (got - want) * (got - want);
    d->norm += want * want;
    d->largest = fmax(d->largest, fabs(got - want));
    d->most = fmax(d->most, fabs(want));
}

static void assert_close(const deviation *d, const shape *s, const char *what)
{
    double relative = sqrt(d->error / d->norm);
    if (!(relative <= 2e-6) || !(d->largest <= 1e-5 * d->most))
        fail_msg("%s of %u x %u, k=%u, batch %u: relative L2 error %g, largest %g", what, s->out,
                 s->in, s->k, s->count, relative, d->largest / d->most);
}

typedef struct layer_case {
    const shape *s;
    shoal_circulant_desc desc;
    float *w, *x, *bias, *y, *dy, *dx, *dw;
} layer_case;

static void check_forward(const layer_case *c)
{
    deviation d = {0};
    for (uint32_t b = 0; b < c->s->count; b++)
        for (uint32_t o = 0; o < c->s->out; o++) {
            double sum = (double)c->bias[o];
            for (uint32_t i = 0; i < c->s->in; i++)
                sum += entry(&c->desc, c->w, o, i) * (double)c->x[(size_t)b * c->s->in + i];
            note(&d, (double)c->y[(size_t)b * c->s->out + o], sum);
        }
    assert_close(&d, c->s, "forward");
}

static void check_dx(const layer_case *c)
{
    deviation d = {0};
    for (uint32_t b = 0; b < c->s->count; b++)
        for (uint32_t i = 0; i < c->s->in; i++) {
            double sum = 0;
            for (uint32_t o = 0; o < c->s->out; o++)
                sum += entry(&c->desc, c->w, o, i) * (double)c->dy[(size_t)b * c->s->out + o];
            note(&d, (double)c->dx[(size_t)b * c->s->in + i], sum);
        }
    assert_close(&d, c->s, "input gradient");
}

/* dL/dw[i][j][t]: the dense gradient summed over the entries that the weight stands for. */
static void check_dw(const layer_case *c)
{
    const shape *s = c->s;
    const uint32_t k = s->k, q = (s->in + k - 1) / k, p = (s->out + k - 1) / k;
    double *sums = shoali_alloc_array((size_t)p * q * k, sizeof *sums);
    assert_non_null(sums);
    for (uint32_t o = 0; o < s->out; o++)
        for (uint32_t i = 0; i < s->in; i++) {
            uint32_t a = o % k, b = i % k, t = (c->desc.first_row ? b + k - a : a + k - b) % k;
            double *sum = sums + ((size_t)(o / k) * q + i / k) * k + t;
            for (uint32_t n = 0; n < s->count; n++)
                *sum += (double)c->dy[(size_t)n * s->out + o] * (double)c->x[(size_t)n * s->in + i];
        }
    deviation d = {0};
    for (size_t at = 0; at < (size_t)p * q * k; at++)
        note(&d, (double)c->dw[at], sums[at]);
    assert_close(&d, s, "weight gradient");
    shoali_free(sums);
}

static shoal_circulant *make_layer(const shoal_circulant_desc *desc, void **memory_out)
{
    size_t bytes = 0;
    shoal_circulant *layer = NULL;
    assert_ok(shoal_circulant_bytes(desc, &bytes));
    *memory_out = shoali_alloc(bytes);
    assert_non_null(*memory_out);
    assert_ok(shoal_circulant_init(desc, *memory_out, &layer));
    return layer;
}

static void run_case(const shape *s, bool first_row)
{
    layer_case c = {.s = s, .desc = desc_of(s, first_row)};
    const size_t weights = shoal_circulant_weights(&c.desc);
    c.w = check_floats(weights, 1);
    c.x = check_floats((size_t)s->count * s->in, 2);
    c.bias = check_floats(s->out, 3);
    c.dy = check_floats((size_t)s->count * s->out, 4);
    c.y = check_floats((size_t)s->count * s->out, 5);
    c.dx = check_floats((size_t)s->count * s->in, 5);
    c.dw = check_floats(weights, 5);
    void *memory = NULL;
    shoal_circulant *layer = make_layer(&c.desc, &memory);
    shoal_circulant_set_weights(layer, c.w);
    shoal_circulant_forward(layer, c.x, s->count, c.bias, c.y);
    shoal_circulant_backward(layer, c.dy, s->count, c.dx, c.dw);
    check_forward(&c);
    check_dx(&c);
    check_dw(&c);
    float *all[] = {c.w, c.x, c.bias, c.y, c.dy, c.dx, c.dw};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        shoali_free(all[i]);
    shoali_free(memory);
}

static void test_against_dense(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        run_case(&shapes[i], i % 2 == 1);
}

/* A smaller batch than the layer was made for; the batch does not change a sample's bits. */
static void test_small_batches(void **state)
{
    (void)state;
    const shape s = {200, 136, 8, 64};
    const shoal_circulant_desc desc = desc_of(&s, false);
    void *memory = NULL;
    shoal_circulant *layer = make_layer(&desc, &memory);
    float *w = check_floats(shoal_circulant_weights(&desc), 1);
    float *x = check_floats((size_t)s.count * s.in, 2);
    float *all = check_floats((size_t)s.count * s.out, 3), *part = check_floats(s.out, 4);
    shoal_circulant_set_weights(layer, w);
    shoal_circulant_forward(layer, x, s.count, NULL, all);
    for (size_t b = 0; b < s.count; b += 9) {
        shoal_circulant_forward(layer, x + b * s.in, 1, NULL, part);
        for (size_t o = 0; o < s.out; o++)
            assert_true(fabsf(part[o] - all[b * s.out + o]) <= 2e-5f);
    }
    shoal_circulant_forward(layer, x, 0, NULL, all);
    shoali_free(w);
    shoali_free(x);
    shoali_free(all);
    shoali_free(part);
    shoali_free(memory);
}

/* Transforms of every row against sums in double. */
static void check_transform(const shoali_circulant_kernels *row, const shoal_circulant_desc *desc)
{
    enum { STRIDE = 48 };
    const uint32_t k = desc->block;
    float *x = check_floats((size_t)k * SHOALI_LANES, k), *table = check_floats((size_t)k * 2, 1);
    float *back = check_floats((size_t)k * SHOALI_LANES, 2);
    float *spectra = shoali_alloc_array((size_t)k * STRIDE, sizeof *spectra);
    assert_non_null(spectra);
    for (uint32_t i = 0; i < k; i++) {
        table[i] = (float)cos(2 * M_PI * i / k);
        table[k + i] = (float)sin(2 * M_PI * i / k);
    }
    const shoali_dft dft = {k, (k & (k - 1)) == 0, 1, table, table + k};
    row->analyse(&dft, x, k, spectra, STRIDE);
    for (uint32_t lane = 0; lane < SHOALI_LANES; lane++)
        for (uint32_t f = 0; f <= k / 2; f++) {
            double re = 0, im = 0;
            for (uint32_t t = 0; t < k; t++) {
                re += cos(2 * M_PI * f * t / k) * (double)x[lane * k + t];
                im -= sin(2 * M_PI * f * t / k) * (double)x[lane * k + t];
            }
            bool last = 2 * f == k;
            const float *group = spectra + (last ? 0 : f) * STRIDE + lane;
            assert_true(fabs((double)group[last ? 8 : 0] - re) < 1e-6 * k + 1e-6);
            if (f > 0 && !last)
                assert_true(fabs((double)group[8] - im) < 1e-6 * k + 1e-6);
        }
    row->synthesise(&dft, spectra, STRIDE, back, k);
    for (size_t i = 0; i < (size_t)k * SHOALI_LANES; i++)
        assert_true(fabsf(back[i] / (float)k - x[i]) < 2e-6f);
    shoali_free(x);
    shoali_free(table);
    shoali_free(back);
    shoali_free(spectra);
}

static void test_transforms(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 6, 8, 9, 16, 32, 64, 100, 128, 256};
    for (size_t r = 0; shoali_kernel_row(r) != NULL; r++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            shoal_circulant_desc desc = SHOAL_CIRCULANT_DESC_INIT;
            desc.block = sizes[i];
            check_transform(shoali_kernel_row(r)->circulant, &desc);
        }
}

static void test_arguments(void **state)
{
    (void)state;
    size_t bytes = 0;
    const shape good = {8, 8, 4, 1};
    shoal_circulant_desc desc = desc_of(&good, false);
    desc.block = 1025;
    assert_status(shoal_circulant_bytes(&desc, &bytes), SHOAL_EINVAL);
    assert_error_has("1025");
    desc.block = 0;
    assert_status(shoal_circulant_bytes(&desc, &bytes), SHOAL_EINVAL);
    assert_int_equal(shoal_circulant_weights(&desc), 0);
    desc = desc_of(&good, false);
    desc.in = 0;
    assert_status(shoal_circulant_bytes(&desc, &bytes), SHOAL_EINVAL);
    desc = desc_of(&good, false);
    desc.size = 4;
    assert_status(shoal_circulant_bytes(&desc, &bytes), SHOAL_EINVAL);
    desc = desc_of(&good, false);
    desc.in = desc.out = 1 << 24;
    desc.block = 1;
    assert_status(shoal_circulant_bytes(&desc, &bytes), SHOAL_EINVAL);
    desc = desc_of(&good, false);
    shoal_circulant *layer = NULL;
    assert_status(shoal_circulant_init(&desc, NULL, &layer), SHOAL_EINVAL);
    assert_null(layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(test_transforms),
        CHECK_TEST(test_against_dense),
        CHECK_TEST(test_small_batches),
        CHECK_TEST(test_arguments),
    };
    return CHECK_RUN(tests);
}
