/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fixed_case.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

#define PI 3.14159265358979323846

int32_t draw_word(draw *d, unsigned bits)
{
    const int64_t span = INT64_C(1) << bits, low = -span / 2;
    uint64_t r = shoali_rng_u64(d->seed, d->stream, d->at++);
    if (r % 8 < 2)
        return (int32_t)(r % 8 == 0 ? low : low + span - 1);
    return (int32_t)(low + (int64_t)(r >> 8) % span);
}

void draw_words(draw *d, unsigned bits, uint32_t count, int16_t *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = (int16_t)draw_word(d, bits);
}

unsigned fixed_levels(uint32_t k)
{
    unsigned l = 0;
    while (k >> l > 1)
        l++;
    return l;
}

void fixed_invert(uint32_t k, const double *slots, double *x)
{
    for (uint32_t t = 0; t < k; t++) {
        x[t] = slots[0] + (k > 1 ? (t % 2 == 0 ? slots[1] : -slots[1]) : 0);
        for (uint32_t f = 1; f < (k + 1) / 2; f++)
            x[t] += 2 * (slots[2 * f] * cos(2 * PI * f * t / k) -
                         slots[2 * f + 1] * sin(2 * PI * f * t / k));
        x[t] /= k;
    }
}

/* ---------------------------------------------------------------- matrices and cells */

static void block_entries(random_matrix *r, uint32_t i, uint32_t j)
{
    const uint32_t k = r->m.block, q = (r->m.cols + k - 1) / k;
    double slots[64] = {0}, w[64];
    for (uint32_t s = 0; s < k; s++) {
        uint32_t bin = s == 1 ? k / 2 : s / 2;
        slots[s] = ldexp(r->w[(i * k + s) * q + j], -r->m.shift[bin]);
    }
    fixed_invert(k, slots, w);
    for (uint32_t a = 0; a < k && i * k + a < r->m.rows; a++)
        for (uint32_t b = 0; b < k && j * k + b < r->m.cols; b++)
            r->entries[(i * k + a) * r->m.cols + j * k + b] = w[(a + k - b) % k];
}

void random_matrix_make(random_matrix *r, draw *d, uint32_t bits, uint32_t rows, uint32_t cols,
                        uint32_t k)
{
    const uint32_t p = (rows + k - 1) / k, q = (cols + k - 1) / k;
    r->m = (shoali_fixed_matrix){.rows = rows, .cols = cols, .block = k, .w = r->w};
    for (uint32_t bin = 0; bin <= k / 2; bin++)
        r->m.shift[bin] = (uint8_t)(bits + fixed_levels(cols + k) + bin % 3);
    assert_true(p * q * k <= FIXED_MOST && rows * cols <= FIXED_MOST);
    draw_words(d, bits, p * q * k, r->w);
    for (uint32_t i = 0; i < p; i++)
        for (uint32_t j = 0; j < q; j++)
            block_entries(r, i, j);
}

void random_cells_make(random_cells *c, draw *d, uint32_t bits, uint32_t k, uint32_t gates,
                       uint32_t proj, bool peephole)
{
    c->bits = bits;
    c->out = proj > 0 ? proj : FIXED_CELLS;
    random_matrix_make(&c->x, d, bits, gates * FIXED_CELLS, FIXED_IN, k);
    random_matrix_make(&c->r, d, bits, (gates == 3 ? 2 : 4) * FIXED_CELLS, c->out, k);
    if (gates == 3 || proj > 0)
        random_matrix_make(&c->p, d, bits, gates == 3 ? FIXED_CELLS : proj, FIXED_CELLS, k);
    draw_words(d, bits - 1, 4 * FIXED_CELLS, c->bias);
    draw_words(d, bits, 3 * FIXED_CELLS, c->peephole);
    c->l = (shoali_fixed_cells){.count = FIXED_CELLS,
                                .x = c->x.m,
                                .r = c->r.m,
                                .bias = c->bias,
                                .peephole = peephole ? c->peephole : NULL,
                                .peephole_shift = (uint8_t)(bits + 1)};
    if (gates == 3 || proj > 0)
        c->l.p = c->p.m;
}

/* ---------------------------------------------------------------- vectors */

static void put16(FILE *f, const char *name, const int16_t *v, uint32_t count)
{
    fprintf(f, " %s", name);
    for (uint32_t i = 0; i < count; i++)
        fprintf(f, " %d", v[i]);
}

static void put32(FILE *f, const char *name, const int32_t *v, uint32_t count)
{
    fprintf(f, " %s", name);
    for (uint32_t i = 0; i < count; i++)
        fprintf(f, " %d", v[i]);
}

static void put_matrix(FILE *f, const char *name, const shoali_fixed_matrix *m)
{
    const uint32_t k = m->block, p = (m->rows + k - 1) / k, q = (m->cols + k - 1) / k;
    fprintf(f, " %s %u %u %u", name, m->rows, m->cols, k);
    for (uint32_t bin = 0; bin <= k / 2; bin++)
        fprintf(f, " %u", m->shift[bin]);
    put16(f, "w", m->w, p * q * k);
}

static void put_transforms(FILE *f, draw *d, uint32_t bits, uint32_t k)
{
    int32_t x[64] = {0}, slots[64] = {0};
    for (int round = 0; round < 6; round++) {
        for (uint32_t t = 0; t < k; t++)
            x[t] = draw_word(d, bits);
        shoali_fixed_rfft(k, x, slots);
        fprintf(f, "rfft %u %u", bits, k);
        put32(f, "x", x, k);
        put32(f, "slots", slots, k);
        for (uint32_t t = 0; t < k; t++)
            slots[t] = draw_word(d, bits + fixed_levels(k) + 2);
        shoali_fixed_irfft(k, slots, x);
        fprintf(f, "\nirfft %u %u", bits + fixed_levels(k) + 2, k);
        put32(f, "slots", slots, k);
        put32(f, "x", x, k);
        fputs("\n", f);
    }
}

static void put_product(FILE *f, draw *d, uint32_t bits, uint32_t k)
{
    static random_matrix r;
    int16_t x[160];
    int32_t slots[192], y[128];
    random_matrix_make(&r, d, bits, 2 * k, k < 32 ? 3 * k - k / 4 : k + 3, k);
    draw_words(d, bits, r.m.cols, x);
    shoali_fixed_analyse(&r.m, x, slots);
    shoali_fixed_multiply(&r.m, bits, slots, y, 0);
    fprintf(f, "product %u", bits);
    put_matrix(f, "M", &r.m);
    put16(f, "x", x, r.m.cols);
    put32(f, "y", y, r.m.rows);
    fputs("\n", f);
}

/* Four frames of one sequence. */
static void put_cells(FILE *f, draw *d, uint32_t bits, uint32_t k, bool gru, bool extras)
{
    static random_cells s;
    int16_t x[FIXED_IN], h[FIXED_CELLS] = {0}, halves[FIXED_CELLS];
    int32_t c[FIXED_CELLS] = {0}, scratch[512];
    random_cells_make(&s, d, bits, k, gru ? 3 : 4, extras ? 4 : 0, extras);
    fprintf(f, "%s %u cells %d in %d out %u sigmoid %d", gru ? "gru" : "lstm", bits, FIXED_CELLS,
            FIXED_IN, s.out, extras);
    put_matrix(f, "x", &s.l.x);
    put_matrix(f, "r", &s.l.r);
    if (s.l.p.rows > 0)
        put_matrix(f, "p", &s.l.p);
    put16(f, "bias", s.bias, (gru ? 3 : 4) * FIXED_CELLS);
    if (s.l.peephole != NULL) {
        fprintf(f, " peephole_shift %u", s.l.peephole_shift);
        put16(f, "peephole", s.peephole, 3 * FIXED_CELLS);
    }
    for (int t = 0; t < 4; t++) {
        draw_words(d, bits, FIXED_IN, x);
        if (gru)
            shoali_fixed_gru(&s.l, bits, x, h, scratch, halves);
        else
            shoali_fixed_lstm(&s.l, bits, extras, x, h, c, scratch, halves);
        put16(f, "frame", x, FIXED_IN);
        put16(f, "h", h, s.out);
        if (!gru)
            put32(f, "c", c, FIXED_CELLS);
    }
    fputs("\n", f);
}

static void put_activations(FILE *f, draw *d, uint32_t bits)
{
    for (int i = 0; i < 64; i++) {
        unsigned frac = i % 2 == 0 ? bits - 4 : bits - 1;
        int32_t v = draw_word(d, i % 2 == 0 ? bits : bits + 4);
        v = i % 4 < 2 ? v : v / 8;
        fprintf(f, "sigmoid %u %u %d %d\ntanh %u %u %d %d\n", bits, frac, v,
                shoali_fixed_sigmoid(bits, v, frac), bits, frac, v,
                shoali_fixed_tanh(bits, v, frac));
    }
}

/* One convolution: rows x (taps x whole blocks of channels). */
static void put_conv(FILE *f, draw *d, uint32_t bits, uint32_t k)
{
    static random_matrix r;
    const shoali_fixed_window w = {k > 1 ? 2 * k - 1 : 3, 4, 5, 2, 3, 3, 2, 1};
    const uint32_t each = (w.channels + k - 1) / k * k, rows = k > 1 ? k + 1 : 4;
    int16_t x[15 * 20], y[9 * 6], bias[9], halves[9 * 16 + 2 * 9 * 6];
    int32_t words[9 + 9 * 16];
    random_matrix_make(&r, d, bits, rows, 9 * each, k);
    draw_words(d, bits, w.channels * w.height * w.width, x);
    draw_words(d, bits, rows, bias);
    const shoali_fixed_layer layer = {.kind = SHOALI_FIXED_CONV,
                                      .in = w.channels * w.height * w.width,
                                      .out = rows * w.out_height * w.out_width,
                                      .matrix = r.m,
                                      .bias = bias,
                                      .window = w};
    const shoali_fixed_net net = {bits, 1, &layer};
    shoali_fixed_run(&net, x, 1, y, words, halves);
    fprintf(f, "conv %u channels %u height %u width %u places %u %u kernel %u stride %u pad %u",
            bits, w.channels, w.height, w.width, w.out_height, w.out_width, w.kernel, w.stride,
            w.pad);
    put_matrix(f, "M", &r.m);
    put16(f, "bias", bias, rows);
    put16(f, "x", x, layer.in);
    put16(f, "y", y, layer.out);
    fputs("\n", f);
}

static void put_pool(FILE *f, draw *d, uint32_t bits, bool mean)
{
    const shoali_fixed_window w = {2, 5, 4, 3, 2, 3, 2, 1};
    const shoali_fixed_layer layer = {.kind = mean ? SHOALI_FIXED_AVGPOOL : SHOALI_FIXED_MAXPOOL,
                                      .in = 40,
                                      .out = 12,
                                      .window = w};
    const shoali_fixed_net net = {bits, 1, &layer};
    int16_t x[40], y[12], halves[24];
    int32_t words[1];
    draw_words(d, bits, layer.in, x);
    shoali_fixed_run(&net, x, 1, y, words, halves);
    fprintf(f, "%s %u channels %u height %u width %u places %u %u kernel %u stride %u pad %u",
            mean ? "avgpool" : "maxpool", bits, w.channels, w.height, w.width, w.out_height,
            w.out_width, w.kernel, w.stride, w.pad);
    put16(f, "x", x, layer.in);
    put16(f, "y", y, layer.out);
    fputs("\n", f);
}

void fixed_vectors_write(FILE *f)
{
    draw d = {1, 4, 0};
    fputs(
        "# Block-circulant networks in fixed point: words in and words out, as src/kernel/fixed.h "
        "defines them.\n"
        "# Written and checked by tests/unit/kernel/fixed_test.c. Fields, all decimal:\n"
        "#   rfft W k x [k] slots [k]      irfft bits k slots [k] x [k]\n"
        "#   sigmoid | tanh  W  fraction bits of v  v  result\n"
        "#   M: rows cols k shift [k/2 + 1] w [p][slot][q]\n"
        "#   product W M x [cols] y [rows] (step 4)\n"
        "#   lstm | gru W cells H in F out R sigmoid S, matrices x r (p), bias, (peephole_shift, "
        "peephole),\n"
        "#   then per frame: frame [F] h [R] (lstm: c [H]), from h = c = 0\n"
        "#   conv | maxpool | avgpool W channels C height X width Y places X' Y' kernel stride "
        "pad,\n"
        "#   of a conv M and bias [rows]; x [C][X][Y] y [rows or C][X'][Y']\n",
        f);
    for (uint32_t bits = 12; bits <= 16; bits += 4) {
        for (uint32_t k = 2; k <= 32; k *= 2)
            put_transforms(f, &d, bits, k);
        put_activations(f, &d, bits);
        for (uint32_t k = 1; k <= 32; k *= 2)
            put_product(f, &d, bits, k);
        for (uint32_t k = 1; k <= 8; k *= 2) {
            put_cells(f, &d, bits, k, false, false);
            put_cells(f, &d, bits, k, false, true);
            put_cells(f, &d, bits, k, true, false);
        }
    }
    for (uint32_t bits = 12; bits <= 16; bits += 4) { /* behind the rest, which stays as it was */
        for (uint32_t k = 1; k <= 8; k *= 2)
            put_conv(f, &d, bits, k);
        put_pool(f, &d, bits, false);
        put_pool(f, &d, bits, true);
    }
}
