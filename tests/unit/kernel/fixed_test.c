/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed point against the same formulas in double, within bounds derived from the roundings that
 * kernel/fixed.h lists; the widths that it promises, at the largest words; tables against their
 * formulas; and innet/vectors/fixed.txt, which others check themselves against. To write that file
 * anew: tests/unit.kernel.fixed_test --write FILE */
#include "kernel/fixed.h"

#include <math.h>

#include "support/check.h"
#include "support/fixed_case.h"

#define PI 3.14159265358979323846

static bool fits(int64_t v, unsigned bits)
{
    return v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1);
}

/* ---------------------------------------------------------------- tables */

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* By how much the curve is above the chord over [left, left + 1/8], at most. */
static double rise_above(double left, double slope)
{
    double y = (1 + sqrt(1 - 4 * slope)) / 2; /* where the curve has that slope */
    if (!(slope > 1e-12) || y >= 1)
        return 0;
    return y - (logistic(left) + slope * (log(y / (1 - y)) - left));
}

static void tables_are_their_formulas(void **state)
{
    (void)state;
    for (int i = 1; i <= 16; i++)
        assert_int_equal(shoali_fixed_cos[i], (int)floor(cos(2 * PI * i / 64) * 32768 + 0.5));
    for (int g = 0; g < SHOALI_FIXED_SEGMENTS; g++) {
        double left = g / 8.0, slope = (logistic(left + 0.125) - logistic(left)) * 8;
        double base = logistic(left) + (g > 0 ? rise_above(left, slope) / 2 : 0);
        assert_int_equal(shoali_fixed_slope[g], (int)floor(slope * 131072 + 0.5));
        assert_int_equal(shoali_fixed_base[g], (int)fmin(32767, floor(base * 32768 + 0.5)));
    }
}

/* ---------------------------------------------------------------- transforms */

/* Slots of a block by the definition. */
static void transform(uint32_t k, const double *x, double *slots)
{
    for (uint32_t f = 0; f <= k / 2; f++) {
        double re = 0, im = 0;
        for (uint32_t t = 0; t < k; t++) {
            re += x[t] * cos(2 * PI * f * t / k);
            im -= x[t] * sin(2 * PI * f * t / k);
        }
        if (f == 0 || 2 * f == k) {
            slots[f == 0 ? 0 : 1] = re;
        } else {
            slots[2 * f] = re;
            slots[2 * f + 1] = im;
        }
    }
}

/* Of a component of rfft's results, in words: both halves' errors, one of them rotated, the
 * rounding, and constants that are off by 2^-16 each. */
static double rfft_bound(uint32_t k, double largest)
{
    if (k <= 4)
        return 0;
    double half = rfft_bound(k / 2, largest);
    return half * (1 + sqrt(2)) + 0.5 + 0x1p-16 * sqrt(2) * largest * k / 2;
}

/* Of irfft's words, with components of X off by `error`, at most `largest` in size. */
static double irfft_bound(uint32_t k, double largest, double error)
{
    if (k <= 2)
        return k * error;
    if (k == 4)
        return 4 * error;
    double rotated = 2 * sqrt(2) * error + 0.5 + 0x1p-16 * 4 * largest;
    return irfft_bound(k / 2, 2 * sqrt(2) * largest, rotated);
}

static void check_rfft(uint32_t bits, uint32_t k, draw *d)
{
    int32_t x[64] = {0}, slots[64] = {0};
    double in[64] = {0}, want[64];
    for (uint32_t t = 0; t < k; t++)
        in[t] = x[t] = draw_word(d, bits);
    shoali_fixed_rfft(k, x, slots);
    transform(k, in, want);
    for (uint32_t s = 0; s < k; s++) {
        assert_true(fits(slots[s], bits + fixed_levels(k)));
        assert_true(fabs(slots[s] - want[s]) <= rfft_bound(k, ldexp(1, (int)bits - 1)) + 1e-6);
    }
}

static void check_irfft(uint32_t wide, uint32_t k, draw *d)
{
    int32_t x[64] = {0}, slots[64] = {0};
    double in[64] = {0}, want[64];
    unsigned l = fixed_levels(k), growth = l + (l > 2 ? (l - 1) / 2 : 0);
    for (uint32_t t = 0; t < k; t++)
        in[t] = slots[t] = draw_word(d, wide);
    shoali_fixed_irfft(k, slots, x);
    fixed_invert(k, in, want);
    for (uint32_t t = 0; t < k; t++) {
        assert_true(fits(x[t], wide + growth));
        assert_true(fabs(x[t] - k * want[t]) <= irfft_bound(k, ldexp(1, (int)wide - 1), 0) + 1e-6);
    }
}

static void transforms_stay_within_their_bounds(void **state)
{
    (void)state;
    draw d = {check_seed(), 1, 0};
    for (int round = 0; round < 400; round++)
        for (uint32_t k = 1; k <= 64; k *= 2)
            for (uint32_t bits = 12; bits <= 16; bits += 4) {
                check_rfft(bits, k, &d);
                check_irfft(bits + fixed_levels(k) + 2, k, &d);
            }
}

/* ---------------------------------------------------------------- activations */

/* The lines are off by 1.05e-4 (tanh twice), base and slope by half a unit each, and what comes out
 * by half a word; 1 is not a word. */
static void check_activations(uint32_t bits, unsigned frac)
{
    const double step = ldexp(1, 1 - (int)bits), line = 1.05e-4 + 1.5 * 0x1p-16;
    for (int32_t v = -(1 << (bits - 1)); v < 1 << (bits - 1); v++) {
        double x = ldexp(v, -(int)frac);
        double s = shoali_fixed_sigmoid(bits, v, frac) * step;
        double t = shoali_fixed_tanh(bits, v, frac) * step;
        assert_true(fabs(s - fmin(logistic(x), 1 - step)) <= line + step / 2);
        assert_true(fabs(t - fmax(fmin(tanh(x), 1 - step), step - 1)) <= 2 * line + step / 2);
        if (v != -v)
            assert_int_equal(shoali_fixed_tanh(bits, -v, frac), -shoali_fixed_tanh(bits, v, frac));
    }
    assert_int_equal(shoali_fixed_sigmoid(bits, 0, frac), 1 << (bits - 2));
    assert_int_equal(shoali_fixed_tanh(bits, 0, frac), 0);
}

static void activations_stay_near_the_curves(void **state)
{
    (void)state;
    for (unsigned frac = 0; frac < 16; frac++) {
        check_activations(12, frac);
        check_activations(16, frac);
    }
}

/* ---------------------------------------------------------------- products */

/* Of one output: spectra of x, sums, their rounding, the way back. */
static double row_bound(const random_matrix *r, uint32_t bits, uint32_t i)
{
    const uint32_t k = r->m.block, q = (r->m.cols + k - 1) / k;
    const double largest = ldexp(1, (int)(bits + fixed_levels(k) + 2));
    double worst = 0;
    for (uint32_t slot = 0; slot < k; slot++) {
        uint32_t bin = slot == 1 ? k / 2 : slot / 2;
        double sum = 0;
        for (uint32_t j = 0; j < q; j++) {
            const int16_t *w = r->w + (i * k) * q + j;
            sum += fabs((double)w[slot * q]);
            if (slot > 1)
                sum += fabs((double)w[(slot ^ 1) * q]);
        }
        sum *= rfft_bound(k, ldexp(1, (int)bits - 1)) * ldexp(1, -r->m.shift[bin]);
        worst = fmax(worst, sum + (r->m.shift[bin] > 0 ? 0.5 : 0));
    }
    return irfft_bound(k, largest, worst) / k + 0.5;
}

/* Of all words of a product. */
static double product_bound(const random_matrix *r, uint32_t bits)
{
    double worst = 0;
    for (uint32_t i = 0; i * r->m.block < r->m.rows; i++)
        worst = fmax(worst, row_bound(r, bits, i));
    return worst;
}

static double times(const random_matrix *r, uint32_t row, const double *x)
{
    double sum = 0;
    for (uint32_t c = 0; c < r->m.cols; c++)
        sum += r->entries[row * r->m.cols + c] * x[c];
    return sum;
}

static void check_product(draw *d, uint32_t bits, uint32_t rows, uint32_t cols, uint32_t k)
{
    static random_matrix r;
    int16_t x[128];
    double values[128];
    int32_t slots[256], y[128];
    random_matrix_make(&r, d, bits, rows, cols, k);
    draw_words(d, bits - 1, cols, x);
    for (uint32_t c = 0; c < cols; c++)
        values[c] = x[c];
    shoali_fixed_analyse(&r.m, x, slots);
    shoali_fixed_multiply(&r.m, bits, slots, y, 0);
    for (uint32_t i = 0; i < rows; i++)
        if (!(fabs(y[i] - times(&r, i, values)) <= product_bound(&r, bits)))
            fail_msg("W %u, %u x %u, k %u, row %u: %d, not %g +- %g", bits, rows, cols, k, i, y[i],
                     times(&r, i, values), product_bound(&r, bits));
}

static void products_are_those_of_the_matrix(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{5, 7, 1},   {6, 8, 2},    {9, 11, 4},   {32, 24, 8},
                                         {30, 21, 8}, {48, 33, 16}, {50, 64, 32}, {64, 63, 64}};
    draw d = {check_seed(), 2, 0};
    for (int round = 0; round < 20; round++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            check_product(&d, 12, shapes[s][0], shapes[s][1], shapes[s][2]);
            check_product(&d, 16, shapes[s][0], shapes[s][1], shapes[s][2]);
        }
}

/* ---------------------------------------------------------------- images */

static shoali_fixed_window window_drawn(draw *d, uint32_t channels)
{
    shoali_fixed_window w = {.channels = channels, .height = 6, .width = 7};
    w.kernel = 1 + (uint32_t)(draw_word(d, 12) & 3);
    w.stride = 1 + (uint32_t)(draw_word(d, 12) & 1);
    w.pad = w.kernel > 1 ? (uint32_t)(draw_word(d, 12) & 1) : 0;
    w.out_height = (w.height + 2 * w.pad - w.kernel) / w.stride + 1;
    w.out_width = (w.width + 2 * w.pad - w.kernel) / w.stride + 1;
    return w;
}

/* Word (channel, row, col) of an image, which is surrounded by zeros. */
static double pixel(const shoali_fixed_window *w, const int16_t *x, uint32_t c, int row, int col)
{
    const bool inside = c < w->channels && row >= 0 && row < (int)w->height && col >= 0 &&
                        col < (int)w->width;
    return inside ? x[c * 42 + (uint32_t)row * 7 + (uint32_t)col] : 0;
}

static double convolved(const random_matrix *r, const shoali_fixed_window *w, const int16_t *x,
                        uint32_t out, int oy, int ox)
{
    const uint32_t each = r->m.cols / (w->kernel * w->kernel);
    const int kernel = (int)w->kernel, stride = (int)w->stride, pad = (int)w->pad;
    double sum = 0;
    for (int ky = 0; ky < kernel; ky++)
        for (int kx = 0; kx < kernel; kx++)
            for (uint32_t c = 0; c < each; c++)
                sum += r->entries[out * r->m.cols + (uint32_t)(ky * kernel + kx) * each + c] *
                       pixel(w, x, c, oy * stride + ky - pad, ox * stride + kx - pad);
    return sum;
}

static void check_conv(draw *d, uint32_t bits, uint32_t channels, uint32_t rows, uint32_t k)
{
    static random_matrix r;
    static int16_t x[8 * 42], y[8 * 56], bias[8], halves[4096];
    static int32_t words[4096];
    const shoali_fixed_window w = window_drawn(d, channels);
    const uint32_t taps = w.kernel * w.kernel, places = w.out_height * w.out_width;
    random_matrix_make(&r, d, bits, rows, taps * ((channels + k - 1) / k * k), k);
    draw_words(d, bits - 1, channels * 42, x);
    draw_words(d, bits - 2, rows, bias);
    const shoali_fixed_layer layer = {.kind = SHOALI_FIXED_CONV,
                                      .in = channels * 42,
                                      .out = rows * places,
                                      .matrix = r.m,
                                      .bias = bias,
                                      .window = w};
    const shoali_fixed_net net = {bits, 1, &layer};
    uint64_t need[2];
    shoali_fixed_sizes(&net, 1, &need[0], &need[1]);
    assert_true(need[0] <= 4096 && need[1] <= 4096);
    shoali_fixed_run(&net, x, 1, y, words, halves);
    const double most = ldexp(1, (int)bits - 1);
    for (uint32_t i = 0; i < layer.out; i++) {
        const uint32_t row = i / places, place = i % places;
        const double sum = bias[row] + convolved(&r, &w, x, row, (int)(place / w.out_width),
                                                 (int)(place % w.out_width));
        const double want = fmax(-most, fmin(most - 1, sum));
        if (!(fabs(y[i] - want) <= product_bound(&r, bits)))
            fail_msg("W %u, k %u, kernel %u, stride %u, pad %u, word %u: %d, not %g +- %g", bits, k,
                     w.kernel, w.stride, w.pad, i, y[i], want, product_bound(&r, bits));
    }
}

static void convolutions_are_products_with_windows(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{3, 5, 1}, {1, 2, 1}, {4, 6, 2}, {7, 5, 4}, {8, 8, 8}};
    draw d = {check_seed(), 5, 0};
    for (int round = 0; round < 20; round++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            check_conv(&d, 12, shapes[s][0], shapes[s][1], shapes[s][2]);
            check_conv(&d, 16, shapes[s][0], shapes[s][1], shapes[s][2]);
        }
}

/* Of the window's words that are inside the image: the largest, and their mean to half a word and
 * what the reciprocal of their number is off (2^-17 of a sum). */
static void check_pool(const shoali_fixed_window *w, const int16_t *x, uint32_t i, int16_t most,
                       int16_t mean)
{
    const uint32_t places = w->out_height * w->out_width, c = i / places, place = i % places;
    const int top = (int)(place / w->out_width * w->stride) - (int)w->pad;
    const int left = (int)(place % w->out_width * w->stride) - (int)w->pad;
    double largest = -INFINITY, sum = 0;
    int n = 0;
    for (int row = top; row < top + (int)w->kernel; row++)
        for (int col = left; col < left + (int)w->kernel; col++) {
            if (row < 0 || row >= (int)w->height || col < 0 || col >= (int)w->width)
                continue;
            largest = fmax(largest, pixel(w, x, c, row, col));
            sum += pixel(w, x, c, row, col);
            n++;
        }
    assert_true((double)most == largest);
    assert_true(fabs(mean - sum / n) <= 0.5 + fabs(sum) * 0x1p-17);
}

static void pools_look_at_what_is_inside(void **state)
{
    (void)state;
    draw d = {check_seed(), 6, 0};
    for (int round = 0; round < 100; round++) {
        static int16_t x[3 * 42], y[2][3 * 56], halves[1024];
        int32_t words[1];
        const shoali_fixed_window w = window_drawn(&d, 3);
        draw_words(&d, 12, 3 * 42, x);
        for (int mean = 0; mean < 2; mean++) {
            const shoali_fixed_layer layer = {.kind = mean ? SHOALI_FIXED_AVGPOOL
                                                           : SHOALI_FIXED_MAXPOOL,
                                              .in = 3 * 42,
                                              .out = 3 * w.out_height * w.out_width,
                                              .window = w};
            const shoali_fixed_net net = {12, 1, &layer};
            shoali_fixed_run(&net, x, 1, y[mean], words, halves);
        }
        for (uint32_t i = 0; i < 3 * w.out_height * w.out_width; i++)
            check_pool(&w, x, i, y[0][i], y[1][i]);
    }
}

/* ---------------------------------------------------------------- cells */

/* A value and how far off it may be. */
typedef struct near {
    double v, off;
} near;

static near clamp(near a, double most)
{
    return (near){fmax(-most, fmin(most, a.v)), a.off};
}

/* What enters a gate, in words. */
static near gate_input(const random_cells *c, uint32_t gate, uint32_t i, const double *x,
                       const double *h, const near *cell, int which)
{
    const uint32_t row = gate * FIXED_CELLS + i;
    near a = {times(&c->x, row, x) + times(&c->r, row, h) + c->bias[row],
              product_bound(&c->x, c->bits) + product_bound(&c->r, c->bits)};
    if (c->l.peephole != NULL && which >= 0) {
        double p = ldexp(c->peephole[which * FIXED_CELLS + (int)i], -c->l.peephole_shift);
        a.v += p * cell->v;
        a.off += fabs(p) * cell->off + 0.5;
    }
    return clamp(a, ldexp(1, (int)c->bits - 1));
}

/* Slopes are at most 1/4 and 1; lines and words as in check_activations. */
static near squash(const random_cells *c, near a, bool is_tanh)
{
    const double unit = ldexp(1, 4 - (int)c->bits), step = ldexp(1, 1 - (int)c->bits);
    const double line = 1.05e-4 + 1.5 * 0x1p-16, x = a.v * unit;
    return is_tanh ? (near){tanh(x), a.off * unit + 2 * line + 1.5 * step}
                   : (near){logistic(x), a.off * unit / 4 + line + 1.5 * step};
}

static near product(near a, near b)
{
    return (near){a.v * b.v, fabs(a.v) * b.off + fabs(b.v) * a.off + a.off * b.off};
}

static void assert_near(const char *what, uint32_t i, double got, near want)
{
    if (!(fabs(got - want.v) <= want.off))
        fail_msg("%s of cell %u: %g, not %g +- %g", what, i, got, want.v, want.off);
}

/* One frame of an lstm in double, from the same words. */
static void lstm_in_double(const random_cells *s, bool sigmoid, const double *x, const double *h,
                           const int32_t *before, near *c, near *m)
{
    const double one = ldexp(1, (int)s->bits - 1), step = 1 / one;
    for (uint32_t i = 0; i < FIXED_CELLS; i++) {
        near old = {before[i], 0};
        near in = squash(s, gate_input(s, 0, i, x, h, &old, 0), false);
        near keep = squash(s, gate_input(s, 1, i, x, h, &old, 1), false);
        near z = squash(s, gate_input(s, 2, i, x, h, NULL, -1), !sigmoid);
        near kept = product(keep, (near){before[i] / one, 0}), entered = product(in, z);
        c[i] = clamp((near){kept.v + entered.v, kept.off + entered.off + step}, 16);
        near words = {c[i].v * one, c[i].off * one};
        near open = squash(s, gate_input(s, 3, i, x, h, &words, 2), false);
        near t = {tanh(c[i].v), c[i].off + 2 * (1.05e-4 + 1.5 * 0x1p-16) + 1.5 * step};
        m[i] = product(open, t);
        m[i].off += step;
    }
}

static void check_lstm(draw *d, uint32_t bits, uint32_t k, uint32_t proj, bool extras)
{
    static random_cells s;
    const double one = ldexp(1, (int)bits - 1);
    int16_t x[FIXED_IN], h[FIXED_CELLS], halves[FIXED_CELLS];
    int32_t c[FIXED_CELLS], before[FIXED_CELLS], scratch[512];
    double xs[FIXED_IN], hs[FIXED_CELLS];
    near want_c[FIXED_CELLS], want_m[FIXED_CELLS];
    random_cells_make(&s, d, bits, k, 4, proj, extras);
    draw_words(d, bits, FIXED_IN, x);
    draw_words(d, bits, s.out, h);
    for (uint32_t i = 0; i < FIXED_CELLS; i++)
        c[i] = before[i] = draw_word(d, bits + 2);
    for (uint32_t i = 0; i < FIXED_IN; i++)
        xs[i] = x[i];
    for (uint32_t i = 0; i < s.out; i++)
        hs[i] = h[i];
    assert_true(shoali_fixed_cell_words(&s.l) <= sizeof scratch / sizeof *scratch);
    shoali_fixed_lstm(&s.l, bits, extras, x, h, c, scratch, halves);
    lstm_in_double(&s, extras, xs, hs, before, want_c, want_m);
    for (uint32_t i = 0; i < FIXED_CELLS; i++) {
        assert_near("c", i, c[i] / one, want_c[i]);
        assert_near("m", i, (proj > 0 ? halves : h)[i] / one, want_m[i]);
    }
    for (uint32_t i = 0; i < proj; i++) {
        for (uint32_t j = 0; j < FIXED_CELLS; j++)
            hs[j] = halves[j];
        assert_near("h", i, h[i],
                    clamp((near){times(&s.p, i, hs), product_bound(&s.p, bits) + 0.5}, one));
    }
}

static void check_gru(draw *d, uint32_t bits, uint32_t k)
{
    static random_cells s;
    const double one = ldexp(1, (int)bits - 1), step = 1 / one;
    int16_t x[FIXED_IN], h[FIXED_CELLS], before[FIXED_CELLS], halves[FIXED_CELLS];
    int32_t scratch[512];
    double xs[FIXED_IN], hs[FIXED_CELLS], reset[FIXED_CELLS];
    random_cells_make(&s, d, bits, k, 3, 0, false);
    draw_words(d, bits, FIXED_IN, x);
    draw_words(d, bits, FIXED_CELLS, h);
    memcpy(before, h, sizeof before);
    for (uint32_t i = 0; i < FIXED_IN; i++)
        xs[i] = x[i];
    for (uint32_t i = 0; i < FIXED_CELLS; i++)
        hs[i] = h[i];
    shoali_fixed_gru(&s.l, bits, x, h, scratch, halves);
    for (uint32_t i = 0; i < FIXED_CELLS; i++) {
        near r = squash(&s, gate_input(&s, 1, i, xs, hs, NULL, -1), false);
        near g = product(r, (near){hs[i] / one, 0});
        assert_near("r h", i, halves[i] / one, (near){g.v, g.off + step});
        reset[i] = halves[i];
    }
    for (uint32_t i = 0; i < FIXED_CELLS; i++) {
        near a = {times(&s.x, 2 * FIXED_CELLS + i, xs) + times(&s.p, i, reset) +
                      s.bias[2 * FIXED_CELLS + i],
                  product_bound(&s.x, bits) + product_bound(&s.p, bits)};
        near v = squash(&s, clamp(a, one), true);
        near z = squash(&s, gate_input(&s, 0, i, xs, hs, NULL, -1), false);
        near change = product(z, (near){v.v - hs[i] / one, v.off});
        assert_near("h", i, h[i] / one,
                    clamp((near){hs[i] / one + change.v, change.off + step}, 1));
    }
}

static void cells_follow_their_formulas(void **state)
{
    (void)state;
    draw d = {check_seed(), 3, 0};
    for (int round = 0; round < 60; round++)
        for (uint32_t bits = 12; bits <= 16; bits += 4)
            for (uint32_t k = 1; k <= 8; k *= 2) {
                check_lstm(&d, bits, k, 0, false);
                check_lstm(&d, bits, k, 4, true);
                check_gru(&d, bits, k);
            }
}

static void vectors_are_as_written(void **state)
{
    (void)state;
    char *text = NULL, *line = NULL;
    size_t bytes = 0, room = 0, at = 0;
    FILE *made = open_memstream(&text, &bytes);
    FILE *file = fopen(SHOAL_SOURCE_DIR "/innet/vectors/fixed.txt", "re");
    assert_non_null(made);
    assert_non_null(file);
    fixed_vectors_write(made);
    fclose(made);
    for (ssize_t got; (got = getline(&line, &room, file)) > 0; at += (size_t)got) {
        assert_true(at + (size_t)got <= bytes);
        assert_memory_equal(text + at, line, (size_t)got);
    }
    assert_int_equal(at, bytes);
    fclose(file);
    free(line);
    free(text);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        CHECK_TEST(tables_are_their_formulas),
        CHECK_TEST(transforms_stay_within_their_bounds),
        CHECK_TEST(activations_stay_near_the_curves),
        CHECK_TEST(products_are_those_of_the_matrix),
        CHECK_TEST(convolutions_are_products_with_windows),
        CHECK_TEST(pools_look_at_what_is_inside),
        CHECK_TEST(cells_follow_their_formulas),
        CHECK_TEST(vectors_are_as_written),
    };
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        FILE *file = fopen(argv[2], "we");
        if (file == NULL)
            return 1;
        fixed_vectors_write(file);
        return fclose(file) == 0 ? 0 : 1;
    }
    return CHECK_RUN(tests);
}
