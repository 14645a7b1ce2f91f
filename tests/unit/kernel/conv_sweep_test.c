/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps and sums over pixels against the definition in double, at sizes that make every kind of
 * block; and every row of inner loops against the reference, bit for bit. */
#include "kernel/conv_sweep.h"
#include "kernel/kernel.h"
#include "support/check.h"
#include "support/conv_double.h"

static const conv_double_shape cases[] = {
    {1, 28, 28, 20, 5, 1, 0, 1, 3},  /* rows of 24: blocks of rows */
    {20, 12, 12, 50, 5, 1, 0, 1, 5}, /* several blocks of taps, groups of 4 */
    {40, 9, 8, 13, 3, 1, 1, 1, 4},   /* odd channels: panels of 4, 5; 13 lanes */
    {3, 33, 17, 8, 3, 1, 1, 1, 2},   /* rows that end in one pixel */
    {2, 19, 21, 7, 5, 2, 2, 1, 2},   {3, 11, 10, 4, 4, 3, 0, 1, 3},
    {9, 6, 5, 17, 1, 1, 0, 1, 7},    {5, 7, 7, 3, 7, 1, 6, 1, 2}, /* border as wide as it may be */
    {2, 5, 300, 2, 2, 1, 0, 1, 1}, /* a row longer than a block of pixels */
};

typedef struct setting {
    const conv_double_shape *s;
    unsigned height, width; /* of the output */
    shoali_conv_image x_image, dy_image;
    size_t in, out, weights;
    float *x, *w, *dy;
    double *y, *dw, *dx;
} setting;

static setting open_case(const conv_double_shape *s)
{
    const unsigned kernel = (unsigned)s->kernel, pad = (unsigned)s->pad,
                   stride = (unsigned)s->stride, height = (unsigned)s->height,
                   width = (unsigned)s->width;
    setting t = {.s = s,
                 .height = (unsigned)conv_double_out_height(s),
                 .width = (unsigned)conv_double_out_width(s),
                 .in = s->channels * s->height * s->width,
                 .weights = conv_double_weights(s)};
    t.out = s->out * t.height * t.width;
    t.x_image = shoali_conv_image_make((unsigned)s->channels, height, width, height + 2 * pad,
                                       width + 2 * pad, pad, stride, 1);
    t.dy_image = shoali_conv_image_make((unsigned)s->out, t.height, t.width, height + kernel - 1,
                                        width + kernel - 1, kernel - 1 - pad, 1, stride);
    t.x = conv_double_noise(t.in * s->count, 1);
    t.w = conv_double_noise(t.weights, 2);
    t.dy = conv_double_noise(t.out * s->count, 3);
    t.y = calloc(t.out * s->count, sizeof *t.y);
    t.dw = calloc(t.weights, sizeof *t.dw);
    t.dx = calloc(t.in * s->count, sizeof *t.dx);
    conv_double_forward(s, t.w, t.x, t.y);
    conv_double_backward(s, t.w, t.x, t.dy, t.dw, t.dx);
    return t;
}

static void close_case(setting *t)
{
    void *all[] = {t->x, t->w, t->dy, t->y, t->dw, t->dx};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* One sweep over all images, ahead or back. */
static void sweep(const setting *t, bool back, float *result)
{
    const conv_double_shape *s = t->s;
    const shoali_conv_image *image = back ? &t->dy_image : &t->x_image;
    const unsigned kernel = (unsigned)s->kernel, out = (unsigned)s->out,
                   channels = (unsigned)s->channels, taps = kernel * kernel;
    const unsigned rows = back ? channels : out, height = back ? (unsigned)s->height : t->height,
                   width = back ? (unsigned)s->width : t->width;
    shoali_conv_room count = {0, 0};
    const shoali_conv_sweep sizes = shoali_conv_sweep_place(&count, image, kernel, rows, height,
                                                            width);
    float *panels = calloc(sizes.tap_count * rows, sizeof *panels);
    void *memory = aligned_alloc(64, (count.used + 63) / 64 * 64);
    shoali_conv_room room = {(uintptr_t)memory, 0};
    const shoali_conv_sweep w = shoali_conv_sweep_place(&room, image, kernel, rows, height, width);
    shoali_conv_sweep_init(&w, image, kernel, height, width);
    (back ? shoali_conv_pack_backward : shoali_conv_pack_forward)(t->w, out, channels, taps,
                                                                  panels);
    for (size_t n = 0; n < s->count; n++) {
        shoali_conv_image_fill(image, back ? t->dy + n * t->out : t->x + n * t->in, w.padded);
        shoali_conv_sweep_run(&w, &(shoali_conv_io){w.padded, panels, NULL,
                                                    result + n * (back ? t->in : t->out),
                                                    (size_t)height * width, false});
    }
    free(panels);
    free(memory);
}

static void gather(const setting *t, float *dw)
{
    const conv_double_shape *s = t->s;
    const unsigned kernel = (unsigned)s->kernel, out = (unsigned)s->out;
    const size_t pixels = (size_t)t->height * t->width;
    shoali_conv_room count = {0, 0};
    (void)shoali_conv_gather_place(&count, &t->x_image, kernel, out, pixels);
    void *memory = aligned_alloc(64, (count.used + 63) / 64 * 64);
    shoali_conv_room room = {(uintptr_t)memory, 0};
    const shoali_conv_gather g = shoali_conv_gather_place(&room, &t->x_image, kernel, out, pixels);
    float *sums = aligned_alloc(64, (shoali_conv_gather_floats(&g) * sizeof(float) + 63) / 64 * 64);
    shoali_conv_gather_init(&g, &t->x_image, kernel, t->height, t->width);
    for (unsigned n = 0, left = (unsigned)s->count; left > 0;) {
        const unsigned images = left < g.group ? left : g.group;
        for (unsigned i = 0; i < images; i++)
            shoali_conv_image_fill(&t->x_image, t->x + (n + i) * t->in,
                                   g.padded + i * t->x_image.elems);
        shoali_conv_gather_run(&g, g.padded, t->dy + n * t->out, t->out, images, n > 0, sums, NULL);
        n += images;
        left -= images;
    }
    for (unsigned o = 0; o < out; o++)
        for (size_t tap = 0; tap < g.tap_count; tap++)
            dw[o * g.tap_count + tap] = sums[shoali_conv_gather_at(&g, o, tap)];
    free(sums);
    free(memory);
}

static void they_are_convolutions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setting t = open_case(&cases[i]);
        float *y = conv_double_noise(t.out * t.s->count, 4), *dw = conv_double_noise(t.weights, 5),
              *dx = conv_double_noise(t.in * t.s->count, 6); /* old values that must not matter */
        sweep(&t, false, y);
        sweep(&t, true, dx);
        gather(&t, dw);
        conv_double_near(y, t.y, t.out * t.s->count, i, "outputs");
        conv_double_near(dx, t.dx, t.in * t.s->count, i, "input gradients");
        conv_double_near(dw, t.dw, t.weights, i, "weight gradients");
        free(y);
        free(dw);
        free(dx);
        close_case(&t);
    }
}

/* ---------------------------------------------------------------- rows of inner loops */

enum {
    X = 4096,
    TAPS = 37,
    SPANS = 5,
    PLANE = 48,
    ROWS = SHOALI_CONV_ROWS,
    LANES = SHOALI_CONV_LANES
};

static void rows_of_pixels_are_bit_equal(const shoali_conv_kernels *other)
{
    static const shoali_conv_span spans[SPANS] = {
        {3, 0, 8}, {40, 8, 8}, {77, 16, 5}, {120, 21, 8}, {160, 29, 1}};
    float *x = conv_double_noise(X, 1), *w = conv_double_noise(TAPS * ROWS, 2),
          *bias = conv_double_noise(ROWS, 3);
    int32_t taps[TAPS];
    for (int t = 0; t < TAPS; t++)
        taps[t] = t * 91 % 600;
    for (unsigned rows = 1; rows <= ROWS; rows++)
        for (unsigned spans_used = 1; spans_used <= SPANS; spans_used++)
            for (int mode = 0; mode < 4; mode++) {
                float *want = conv_double_noise(ROWS * PLANE, 4),
                      *got = conv_double_noise(ROWS * PLANE, 4);
                shoali_conv_pixels job = {.x = x,
                                          .taps = taps,
                                          .tap_count = TAPS,
                                          .spans = spans,
                                          .span_count = spans_used,
                                          .w = w,
                                          .rows = rows,
                                          .bias = mode & 1 ? bias : NULL,
                                          .y = want,
                                          .plane = PLANE,
                                          .rectify = (mode & 2) != 0};
                shoali_conv_ref.pixels(&job);
                job.y = got;
                other->pixels(&job);
                assert_memory_equal(got, want, ROWS * PLANE * sizeof *got);
                free(want);
                free(got);
            }
    free(x);
    free(w);
    free(bias);
}

static void rows_of_weights_are_bit_equal(const shoali_conv_kernels *other)
{
    enum { PIXELS = 43, DY = PIXELS * 2 * LANES, DW = TAPS * 2 * LANES };
    float *x = conv_double_noise(X, 1), *noise_dy = conv_double_noise(DY, 2),
          *noise_dw = conv_double_noise(DW, 3);
    float *dy = aligned_alloc(64, DY * sizeof *dy), *dw[2];
    int32_t taps[TAPS];
    for (int t = 0; t < TAPS; t++)
        taps[t] = t * 91 % 600;
    int32_t pixels[PIXELS];
    for (int p = 0; p < PIXELS; p++)
        pixels[p] = p * 173 % 3000;
    memcpy(dy, noise_dy, DY * sizeof *dy);
    for (int i = 0; i < 2; i++)
        dw[i] = aligned_alloc(64, DW * sizeof *dw[i]);
    for (size_t tap_count = TAPS - 8; tap_count <= TAPS; tap_count++)
        for (unsigned vectors = 1; vectors <= 2; vectors++)
            for (int add = 0; add < 2; add++) {
                for (int i = 0; i < 2; i++) {
                    memcpy(dw[i], noise_dw, DW * sizeof *dw[i]);
                    const shoali_conv_weights job = {.x = x,
                                                     .taps = taps,
                                                     .tap_count = tap_count,
                                                     .dy = dy,
                                                     .pixels = pixels,
                                                     .pixel_count = PIXELS,
                                                     .vectors = vectors,
                                                     .dw = dw[i],
                                                     .add = add == 1};
                    (i == 0 ? &shoali_conv_ref : other)->weights(&job);
                }
                assert_memory_equal(dw[0], dw[1], DW * sizeof *dw[0]);
            }
    void *all[] = {x, noise_dy, noise_dw, dy, dw[0], dw[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void rows_of_lanes_are_bit_equal(const shoali_conv_kernels *other)
{
    static const size_t pixel_counts[] = {8, 64, 13};
    for (size_t i = 0; i < sizeof pixel_counts / sizeof pixel_counts[0]; i++)
        for (unsigned vectors = 1; vectors <= 2; vectors++)
            for (unsigned known = 1; known <= vectors * LANES; known++) {
                size_t count = pixel_counts[i] * vectors * LANES;
                float *from = conv_double_noise(count, 1), *to[2];
                for (int k = 0; k < 2; k++) {
                    to[k] = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
                    memset(to[k], 1, count * sizeof(float));
                    (k == 0 ? &shoali_conv_ref : other)
                        ->lanes(&(shoali_conv_lanes){from, pixel_counts[i], known, vectors, to[k]});
                }
                assert_memory_equal(to[0], to[1], count * sizeof(float));
                free(from);
                free(to[0]);
                free(to[1]);
            }
}

static void vector_rows_equal_the_reference(void **state)
{
    (void)state;
    const shoali_conv_kernels *other = NULL;
#if defined(__x86_64__)
    for (size_t i = 0; shoali_kernel_row(i) != NULL; i++)
        if (shoali_kernel_row(i)->avx2)
            other = &shoali_conv_avx2;
#elif defined(__aarch64__)
    other = &shoali_conv_neon;
#endif
    if (other == NULL) {
        skip();
        return;
    }
    rows_of_pixels_are_bit_equal(other);
    rows_of_weights_are_bit_equal(other);
    rows_of_lanes_are_bit_equal(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(they_are_convolutions),
        CHECK_TEST(vector_rows_equal_the_reference),
    };
    return CHECK_RUN(tests);
}
