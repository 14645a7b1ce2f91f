/* SPDX-License-Identifier: Apache-2.0 */
/* The convolution's executor against the definition in double, at sizes that make every kind of
 * block; and every row of inner loops against the reference, bit for bit. */
#include <math.h>

#include "base/rng.h"
#include "kernel/conv_kernels.h"
#include "kernel/kernel.h"
#include "nn/exec.h"
#include "support/check.h"

extern const shoali_exec shoali_exec_conv;

typedef struct conv_case {
    uint32_t channels, height, width, count;
    const char *layer;
    bool rectify;
} conv_case;

static const conv_case cases[] = {
    {1, 28, 28, 3, "conv:out=20,kernel=5", true},      /* rows of 24: no copy, blocks of rows */
    {20, 12, 12, 5, "conv:out=50,kernel=5", false},    /* several blocks of taps, groups of 4 */
    {40, 9, 8, 4, "conv:out=13,kernel=3,pad=1", true}, /* odd channels: panels of 4, 5; 13 lanes */
    {3, 33, 17, 2, "conv:out=8,kernel=3,pad=1", true}, /* rows that end in one pixel */
    {2, 19, 21, 2, "conv:out=7,kernel=5,stride=2,pad=2", false},
    {3, 11, 10, 3, "conv:out=4,kernel=4,stride=3,bias=off", false},
    {9, 6, 5, 7, "conv:out=17,kernel=1", true},
    {5, 7, 7, 2, "conv:out=3,kernel=7,pad=6", false}, /* border as wide as it may be */
    {2, 5, 300, 1, "conv:out=2,kernel=2", false},     /* a row longer than a block of pixels */
};

typedef struct setting {
    shoal_model *model;
    shoali_node node;
    shoali_pass pass;
    size_t in_elems, out_elems, params;
    float *x, *y, *dy, *dx;
    double *want_y, *want_dx, *want_grads;
} setting;

static float *noise(size_t count, uint64_t stream)
{
    float *values = calloc(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)shoali_rng_normal(check_seed(), stream, i);
    return values;
}

/* Zeroed, and as long as it may be used. */
static void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    memset(memory, 0, (bytes + 64) / 64 * 64);
    return memory;
}

/* For batches of so many samples, of which there are c->count. */
static void open_case(const conv_case *c, uint32_t batch, setting *s)
{
    shoali_model_text text = {.name = "c",
                              .input = {c->channels, c->height, c->width},
                              .layers = &c->layer,
                              .layer_count = 1};
    *s = (setting){0};
    assert_ok(shoali_model_build("c", &text, false, &s->model));
    const shoali_layer *layer = &s->model->layers[0];
    s->in_elems = (size_t)shoali_shape_elems(layer->in);
    s->out_elems = (size_t)shoali_shape_elems(layer->out);
    s->params = (size_t)layer->param_count;
    s->x = noise(s->in_elems * c->count, 1);
    s->dy = noise(s->out_elems * c->count, 2);
    s->y = noise(s->out_elems * c->count, 3); /* old values that must not matter */
    s->dx = noise(s->in_elems * c->count, 4);
    s->node = (shoali_node){.layer = layer,
                            .exec = &shoali_exec_conv,
                            .params = noise(s->params, 5),
                            .grads = noise(s->params, 6),
                            .rectify = c->rectify};
    s->pass = (shoali_pass){.count = c->count, .training = true};
    s->pass.work = aligned(shoali_exec_conv.work_bytes(layer, batch));
    s->node.saved = aligned(shoali_exec_conv.saved_bytes(layer, batch));
    assert_ok(shoali_exec_conv.setup(&s->node, batch));
    s->want_y = calloc(s->out_elems * c->count, sizeof(double));
    s->want_dx = calloc(s->in_elems * c->count, sizeof(double));
    s->want_grads = calloc(s->params, sizeof(double));
}

static void close_case(setting *s)
{
    shoali_exec_conv.teardown(&s->node);
    void *all[] = {s->x,          s->y,          s->dy,         s->dx,
                   s->want_y,     s->want_dx,    s->want_grads, s->node.params,
                   s->node.grads, s->node.saved, s->pass.work};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    shoal_model_close(s->model);
}

/* Call visit for every product of the definition: indices of output, weight and input. */
typedef void (*visitor)(setting *s, size_t y, size_t w, size_t x);

static void each_product(setting *s, visitor visit)
{
    const shoali_conv_params *p = s->node.layer->params;
    shoal_shape in = s->node.layer->in, out = s->node.layer->out;
    size_t k = (size_t)p->kernel, y = 0;
    for (size_t n = 0; n < s->pass.count; n++)
        for (size_t o = 0; o < out.channels; o++)
            for (size_t oy = 0; oy < out.height; oy++)
                for (size_t ox = 0; ox < out.width; ox++, y++)
                    for (size_t t = 0; t < in.channels * k * k; t++) {
                        long iy = (long)(oy * (size_t)p->stride + t / k % k) - (long)p->pad;
                        long ix = (long)(ox * (size_t)p->stride + t % k) - (long)p->pad;
                        if (iy >= 0 && ix >= 0 && iy < (long)in.height && ix < (long)in.width)
                            visit(s, y, o * in.channels * k * k + t,
                                  ((n * in.channels + t / (k * k)) * in.height + (size_t)iy) *
                                          in.width +
                                      (size_t)ix);
                    }
}

static void add_output(setting *s, size_t y, size_t w, size_t x)
{
    s->want_y[y] += (double)s->node.params[w] * s->x[x];
}

static void add_slopes(setting *s, size_t y, size_t w, size_t x)
{
    double slope = s->node.rectify && !(s->want_y[y] > 0) ? 0.0 : s->dy[y];
    s->want_dx[x] += s->node.params[w] * slope;
    s->want_grads[w] += s->x[x] * slope;
}

/* Biases, then max(y, 0), and the gradients of the biases. */
static void finish(setting *s, bool backward)
{
    const shoali_conv_params *p = s->node.layer->params;
    size_t plane = (size_t)s->node.layer->out.height * s->node.layer->out.width,
           out = (size_t)p->out;
    for (size_t i = 0; i < s->out_elems * s->pass.count; i++) {
        size_t bias = s->params - out + i / plane % out;
        if (!backward && p->bias)
            s->want_y[i] += s->node.params[bias];
        if (!backward && s->node.rectify)
            s->want_y[i] = fmax(s->want_y[i], 0);
        if (backward && p->bias && (!s->node.rectify || s->want_y[i] > 0))
            s->want_grads[bias] += s->dy[i];
    }
}

static void assert_near(const float *got, const double *want, size_t count, size_t which,
                        const char *what)
{
    double error = 0, size = 1e-30;
    for (size_t i = 0; i < count; i++) {
        error += pow(got[i] - want[i], 2);
        size += pow(want[i], 2);
    }
    if (!(sqrt(error / size) < 1e-6)) /* in norm: a few rounding errors of 6e-8 */
        fail_msg("case %zu: %s are off by %g", which, what, sqrt(error / size));
}

static void it_is_a_convolution(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setting s;
        open_case(&cases[i], cases[i].count, &s);
        each_product(&s, add_output);
        finish(&s, false);
        shoali_exec_conv.forward(&s.node, &s.pass, s.x, s.y);
        assert_near(s.y, s.want_y, s.out_elems * cases[i].count, i, "outputs");
        for (size_t k = 0; k < s.out_elems * cases[i].count; k++)
            s.want_y[k] = s.y[k]; /* whether a value is above 0 is for the rounded one to say */
        each_product(&s, add_slopes);
        finish(&s, true);
        shoali_exec_conv.backward(&s.node, &s.pass, s.x, s.y, s.dy, s.dx);
        assert_near(s.dx, s.want_dx, s.in_elems * cases[i].count, i, "input gradients");
        assert_near(s.node.grads, s.want_grads, s.params, i, "parameter gradients");
        close_case(&s);
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
    float *x = noise(X, 1), *w = noise(TAPS * ROWS, 2), *bias = noise(ROWS, 3);
    int32_t taps[TAPS];
    for (int t = 0; t < TAPS; t++)
        taps[t] = t * 91 % 600;
    for (unsigned rows = 1; rows <= ROWS; rows++)
        for (unsigned spans_used = 1; spans_used <= SPANS; spans_used++)
            for (int mode = 0; mode < 4; mode++) {
                float *want = noise(ROWS * PLANE, 4), *got = noise(ROWS * PLANE, 4);
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
    float *x = noise(X, 1), *noise_dy = noise(DY, 2), *noise_dw = noise(DW, 3);
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
                float *from = noise(count, 1), *to[2];
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
    const shoali_conv_kernels *other = NULL; /* ARM has the reference alone */
#if defined(__x86_64__)
    for (size_t i = 0; shoali_kernel_row(i) != NULL; i++)
        if (shoali_kernel_row(i)->avx2)
            other = &shoali_conv_avx2;
#endif
    if (other == NULL)
        skip();
    rows_of_pixels_are_bit_equal(other);
    rows_of_weights_are_bit_equal(other);
    rows_of_lanes_are_bit_equal(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(it_is_a_convolution),
        CHECK_TEST(vector_rows_equal_the_reference),
    };
    return CHECK_RUN(tests);
}
