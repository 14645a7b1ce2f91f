/* SPDX-License-Identifier: Apache-2.0 */
/* Block-circulant convolutions against the definition in double: outputs, gradients of inputs and
 * of weights, by every shape of border, step and block; sizes that the block does not divide.
 * Transforms over planes against transforms over rows, for every row of kernels. */
#include "support/check.h"

#include <math.h>

#include "base/arena.h"
#include "kernel/circulant.h"
#include "kernel/kernel.h"
#include "shoal/circulant.h"

typedef struct conv_case {
    uint32_t in, height, width, out, kernel, stride, pad, k, count;
} conv_case;

static const conv_case cases[] = {
    {8, 6, 6, 8, 3, 1, 1, 8, 2},      {16, 12, 12, 24, 5, 1, 0, 8, 3}, /* read in place */
    {10, 7, 9, 13, 3, 1, 1, 4, 5},                                     /* neither divides */
    {6, 5, 5, 7, 3, 2, 1, 2, 20},     {33, 4, 4, 20, 3, 1, 1, 16, 17}, /* more than a group */
    {70, 3, 5, 40, 1, 1, 0, 32, 2},   {5, 8, 7, 9, 4, 3, 2, 3, 4},     /* odd block, steps of 3 */
    {4, 6, 6, 4, 2, 1, 1, 1, 2},      {12, 20, 17, 6, 3, 1, 2, 6, 1},  /* no power of two */
    {64, 2, 2, 130, 2, 1, 1, 64, 70}, {16, 18, 18, 16, 3, 1, 1, 4, 2},
};

static shoal_circulant_conv_desc desc_of(const conv_case *c)
{
    shoal_circulant_conv_desc desc = SHOAL_CIRCULANT_CONV_DESC_INIT;
    desc.in = c->in, desc.out = c->out, desc.height = c->height, desc.width = c->width;
    desc.kernel = c->kernel, desc.stride = c->stride, desc.pad = c->pad, desc.block = c->k;
    desc.training = true;
    return desc;
}

typedef struct setting {
    const conv_case *c;
    uint32_t out_height, out_width;
    size_t x_count, y_count, weights;
    float *w, *x, *bias, *y, *dy, *dx, *dw;
    double *want_y, *want_dx, *want_dw;
} setting;

/* Which weight tap, output and input channel meet at. */
static size_t weight_at(const conv_case *c, uint32_t tap, uint32_t o, uint32_t i)
{
    const uint32_t k = c->k, p = (c->out + k - 1) / k, q = (c->in + k - 1) / k;
    return (((size_t)tap * p + o / k) * q + i / k) * k + (o % k + k - i % k) % k;
}

/* Every product of the definition that (n, o, i, oy, ox) has. */
static void add_window(setting *s, uint32_t n, uint32_t o, uint32_t i, uint32_t oy, uint32_t ox)
{
    const conv_case *c = s->c;
    const size_t y = (((size_t)n * c->out + o) * s->out_height + oy) * s->out_width + ox;
    for (uint32_t tap = 0; tap < c->kernel * c->kernel; tap++) {
        const long iy = (long)(oy * c->stride + tap / c->kernel) - (long)c->pad,
                   ix = (long)(ox * c->stride + tap % c->kernel) - (long)c->pad;
        if (iy < 0 || ix < 0 || iy >= (long)c->height || ix >= (long)c->width)
            continue;
        const size_t x = (((size_t)n * c->in + i) * c->height + (size_t)iy) * c->width + (size_t)ix,
                     w = weight_at(c, tap, o, i);
        s->want_y[y] += (double)s->w[w] * (double)s->x[x];
        s->want_dx[x] += (double)s->w[w] * (double)s->dy[y];
        s->want_dw[w] += (double)s->x[x] * (double)s->dy[y];
    }
}

static void define(setting *s)
{
    const conv_case *c = s->c;
    for (uint32_t n = 0; n < c->count; n++)
        for (uint32_t o = 0; o < c->out; o++)
            for (uint32_t oy = 0; oy < s->out_height; oy++)
                for (uint32_t ox = 0; ox < s->out_width; ox++) {
                    for (uint32_t i = 0; i < c->in; i++)
                        add_window(s, n, o, i, oy, ox);
                    s->want_y[(((size_t)n * c->out + o) * s->out_height + oy) * s->out_width +
                              ox] += (double)s->bias[o];
                }
}

static setting open_case(const conv_case *c)
{
    setting s = {.c = c};
    const shoal_circulant_conv_desc desc = desc_of(c);
    s.out_height = (c->height + 2 * c->pad - c->kernel) / c->stride + 1;
    s.out_width = (c->width + 2 * c->pad - c->kernel) / c->stride + 1;
    s.x_count = (size_t)c->count * c->in * c->height * c->width;
    s.y_count = (size_t)c->count * c->out * s.out_height * s.out_width;
    s.weights = shoal_circulant_conv_weights(&desc);
    s.w = check_floats(s.weights, 1);
    s.x = check_floats(s.x_count, 2);
    s.bias = check_floats(c->out, 3);
    s.dy = check_floats(s.y_count, 4);
    s.y = check_floats(s.y_count, 5); /* old values that must not matter */
    s.dx = check_floats(s.x_count, 6);
    s.dw = check_floats(s.weights, 7);
    s.want_y = calloc(s.y_count, sizeof(double));
    s.want_dx = calloc(s.x_count, sizeof(double));
    s.want_dw = calloc(s.weights, sizeof(double));
    define(&s);
    return s;
}

static void close_case(setting *s)
{
    float *all[] = {s->w, s->x, s->bias, s->y, s->dy, s->dx, s->dw};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        shoali_free(all[i]);
    free(s->want_y), free(s->want_dx), free(s->want_dw);
}

static void assert_close(const float *got, const double *want, size_t count, const conv_case *c,
                         const char *what)
{
    double error = 0, norm = 0, largest = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        const double off = fabs((double)got[i] - want[i]);
        error += off * off;
        norm += want[i] * want[i];
        largest = fmax(largest, off);
        most = fmax(most, fabs(want[i]));
    }
    if (!(sqrt(error / norm) <= 2e-6) || !(largest <= 1e-5 * most))
        fail_msg("%s of %ux%ux%u to %u, window %u/%u/%u, k=%u: relative L2 error %g, largest %g",
                 what, c->in, c->height, c->width, c->out, c->kernel, c->stride, c->pad, c->k,
                 sqrt(error / norm), largest / most);
}

static shoal_circulant_conv *make_layer(const shoal_circulant_conv_desc *desc, void **memory_out)
{
    size_t bytes = 0;
    shoal_circulant_conv *layer = NULL;
    assert_ok(shoal_circulant_conv_bytes(desc, &bytes));
    *memory_out = shoali_alloc(bytes);
    assert_non_null(*memory_out);
    assert_ok(shoal_circulant_conv_init(desc, *memory_out, &layer));
    return layer;
}

static void it_is_the_convolution_of_the_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const conv_case *c = &cases[i];
        const shoal_circulant_conv_desc desc = desc_of(c);
        setting s = open_case(c);
        void *memory = NULL;
        shoal_circulant_conv *layer = make_layer(&desc, &memory);
        for (int round = 0; round < 2; round++) { /* nothing is left of the first */
            shoal_circulant_conv_set_weights(layer, s.w);
            shoal_circulant_conv_forward(layer, s.x, c->count, s.bias, s.y);
            shoal_circulant_conv_backward(layer, s.x, s.dy, c->count, s.dx, s.dw);
        }
        assert_close(s.y, s.want_y, s.y_count, c, "output");
        assert_close(s.dx, s.want_dx, s.x_count, c, "input gradient");
        assert_close(s.dw, s.want_dw, s.weights, c, "weight gradient");
        shoali_free(memory);
        close_case(&s);
    }
}

/* Inference alone, with max(y, 0), and each gradient alone. */
static void parts_may_be_left_out(void **state)
{
    (void)state;
    const conv_case *c = &cases[2];
    shoal_circulant_conv_desc desc = desc_of(c);
    setting s = open_case(c);
    void *memory = NULL;
    shoal_circulant_conv *layer = make_layer(&desc, &memory);
    shoal_circulant_conv_set_weights(layer, s.w);
    shoal_circulant_conv_backward(layer, s.x, s.dy, c->count, NULL, s.dw);
    shoal_circulant_conv_backward(layer, s.x, s.dy, c->count, s.dx, NULL);
    assert_close(s.dx, s.want_dx, s.x_count, c, "input gradient");
    assert_close(s.dw, s.want_dw, s.weights, c, "weight gradient");
    shoal_circulant_conv_backward(layer, s.x, s.dy, 0, s.dx, s.dw);
    for (size_t i = 0; i < s.weights; i++)
        assert_true(s.dw[i] == 0.0f);
    shoali_free(memory);

    desc.training = false;
    desc.rectify = true;
    layer = make_layer(&desc, &memory);
    shoal_circulant_conv_set_weights(layer, s.w);
    shoal_circulant_conv_forward(layer, s.x, c->count, s.bias, s.y);
    for (size_t i = 0; i < s.y_count; i++)
        s.want_y[i] = fmax(s.want_y[i], 0);
    assert_close(s.y, s.want_y, s.y_count, c, "output");
    shoali_free(memory);
    close_case(&s);
}

/* ---------------------------------------------------------------- planes */

/* Channels [t][pixels] of which `known` are there, against the transform of rows. */
static void check_planes(const shoali_circulant_kernels *row, uint32_t k, size_t pixels,
                         size_t known)
{
    enum { GAP = 3 };
    float table[2 * 128], *x = check_floats(k * pixels, k), *back = check_floats(k * pixels, 9);
    const size_t bin = 2 * pixels + GAP, bins = (k + 1) / 2, imaginary = pixels + 1;
    float *spectrum = check_floats(bins * bin, 8), *groups = check_floats(bins * 16 + 16, 8);
    const shoali_dft dft = shoali_dft_make(k, table);
    const float bias[128] = {0.25f, -0.5f};
    const shoali_planes p = {pixels, pixels, known, bin, imaginary, bias, true};
    row->analyse_planes(&dft, &p, x, spectrum);
    for (size_t at = 0; at < pixels; at++) {
        float time[8 * 128] = {0};
        for (size_t t = 0; t < known; t++)
            time[t] = x[t * pixels + at];
        shoali_dft_analyse(&dft, time, k, groups, SHOALI_GROUP);
        for (size_t f = 0; f < bins; f++)
            for (size_t part = 0; part < 2; part++)
                assert_true(fabsf(spectrum[f * bin + part * imaginary + at] -
                                  groups[f * 16 + part * 8]) < 2e-6f * (float)k);
    }
    memcpy(back, x, k * pixels * sizeof *x);
    row->synthesise_planes(&dft, &p, spectrum, back);
    for (size_t i = 0; i < k * pixels; i++) {
        const size_t t = i / pixels;
        const float want = t < known ? fmaxf(x[i] * (float)k + bias[t], 0) : x[i];
        assert_true(fabsf(back[i] - want) < 4e-6f * (float)k);
    }
    float *all[] = {x, back, spectrum, groups};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        shoali_free(all[i]);
}

static void planes_are_transformed_as_rows_are(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 6, 8, 16, 32, 64, 128};
    for (size_t r = 0; shoali_kernel_row(r) != NULL; r++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t pixels = 1; pixels < 30; pixels += 7) {
                const uint32_t k = sizes[i];
                check_planes(shoali_kernel_row(r)->circulant, k, pixels, k);
                check_planes(shoali_kernel_row(r)->circulant, k, pixels, k > 2 ? k - 2 : 1);
            }
}

/* ---------------------------------------------------------------- refusals */

static void refuse(shoal_circulant_conv_desc desc, const char *why)
{
    size_t bytes = 0;
    assert_status(shoal_circulant_conv_bytes(&desc, &bytes), SHOAL_EINVAL);
    assert_error_has(why);
}

static void shapes_are_checked(void **state)
{
    (void)state;
    const shoal_circulant_conv_desc good = desc_of(&cases[0]);
    shoal_circulant_conv_desc bad = good;
    bad.size = 8;
    refuse(bad, "size");
    bad = good, bad.block = 1025;
    refuse(bad, "1025");
    bad = good, bad.block = 0;
    refuse(bad, "blocks of 0");
    assert_int_equal(shoal_circulant_conv_weights(&bad), 0);
    bad = good, bad.out = 0;
    refuse(bad, "to 0 channels");
    bad = good, bad.pad = 3;
    refuse(bad, "padded by 3");
    bad = good, bad.kernel = 9;
    refuse(bad, "window of 9");
    bad = good, bad.in = bad.out = bad.height = bad.width = 65536;
    refuse(bad, "too large");
    shoal_circulant_conv *layer = NULL;
    assert_status(shoal_circulant_conv_init(&good, NULL, &layer), SHOAL_EINVAL);
    assert_null(layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(planes_are_transformed_as_rows_are),
        CHECK_TEST(it_is_the_convolution_of_the_definition),
        CHECK_TEST(parts_may_be_left_out),
        CHECK_TEST(shapes_are_checked),
    };
    return CHECK_RUN(tests);
}
