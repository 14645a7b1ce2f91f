/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/fixed.h"

/* ---------------------------------------------------------------- numbers */

SHOALI_FIXED_TABLE const int16_t shoali_fixed_cos[17] = {32767, 32610, 32138, 31357, 30274, 28899,
                                                         27246, 25330, 23170, 20788, 18205, 15447,
                                                         12540, 9512,  6393,  3212,  0};

/* Of the logistic function over [g/8, (g+1)/8): the chord, raised by half of what the curve is
 * above it (not in segment 0: sigmoid(0) = 1/2 and tanh(0) = 0 exactly). */
SHOALI_FIXED_TABLE const int16_t shoali_fixed_base[SHOALI_FIXED_SEGMENTS] = {
    16384, 17407, 18423, 19422, 20399, 21346, 22258, 23130, 23958, 24740, 25474, 26158,
    26793, 27380, 27920, 28414, 28864, 29274, 29646, 29981, 30284, 30556, 30801, 31019,
    31215, 31390, 31546, 31685, 31808, 31918, 32016, 32102, 32179, 32247, 32308, 32361,
    32408, 32450, 32487, 32520, 32549, 32574, 32597, 32617, 32635, 32650, 32664, 32676,
    32687, 32697, 32705, 32712, 32719, 32725, 32730, 32734, 32738, 32742, 32745, 32747,
    32750, 32752, 32754, 32756, 32757, 32758, 32759, 32760, 32761, 32762, 32763, 32763,
    32764, 32764, 32765, 32765, 32766, 32766, 32766, 32766, 32767, 32767, 32767, 32767,
    32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767,
};
SHOALI_FIXED_TABLE const int16_t shoali_fixed_slope[SHOALI_FIXED_SEGMENTS] = {
    32725, 32471, 31971, 31240, 30299, 29175, 27899, 26501, 25015, 23472, 21902, 20329,
    18779, 17269, 15816, 14430, 13120, 11892, 10748, 9690,  8715,  7822,  7008,  6268,
    5597,  4992,  4447,  3957,  3518,  3125,  2774,  2460,  2181,  1932,  1711,  1515,
    1341,  1186,  1049,  927,   820,   725,   640,   566,   500,   441,   390,   344,
    304,   268,   237,   209,   185,   163,   144,   127,   112,   99,    87,    77,
    68,    60,    53,    47,    41,    36,    32,    28,    25,    22,    20,    17,
    15,    13,    12,    10,    9,     8,     7,     6,     6,     5,     4,     4,
    3,     3,     3,     2,     2,     2,     2,     1,     1,     1,     1,     1,
};

int64_t shoali_fixed_round(int64_t v, unsigned shift)
{
    return shift > 0 ? (v + ((int64_t)1 << ((shift - 1) & 63))) >> (shift & 63) : v;
}

int32_t shoali_fixed_sat(int64_t v, unsigned bits)
{
    const int64_t most = ((int64_t)1 << (bits - 1)) - 1;
    return (int32_t)(v > most ? most : v < -most - 1 ? -most - 1 : v);
}

static unsigned log2_of(uint32_t k)
{
    unsigned l = 0;
    while (k >> l > 1)
        l++;
    return l;
}

/* ---------------------------------------------------------------- transforms */

static int32_t rotate(int32_t c, int32_t re, int32_t s, int32_t im)
{
    return (int32_t)shoali_fixed_round((int64_t)c * re + (int64_t)s * im, 15);
}

static void combine(uint32_t n, const int32_t *e, const int32_t *o, int32_t *out)
{
    out[0] = e[0] + o[0];
    out[1] = e[0] - o[0];
    out[n / 2] = e[1];
    out[n / 2 + 1] = -o[1];
    for (uint32_t f = 1; f < n / 4; f++) {
        const int32_t c = shoali_fixed_cos[f * (64 / n)], s = shoali_fixed_cos[16 - f * (64 / n)];
        const int32_t *eb = e + 2 * f, *ob = o + 2 * f;
        int32_t re = rotate(c, ob[0], s, ob[1]), im = rotate(c, ob[1], -s, ob[0]);
        int32_t *low = out + 2 * f, *high = out + n - 2 * f;
        low[0] = eb[0] + re;
        low[1] = eb[1] + im;
        high[0] = eb[0] - re;
        high[1] = im - eb[1];
    }
}

static void divide(uint32_t n, const int32_t *in, int32_t *e, int32_t *o)
{
    e[0] = in[0] + in[1];
    o[0] = in[0] - in[1];
    e[1] = 2 * in[n / 2];
    o[1] = -2 * in[n / 2 + 1];
    for (uint32_t f = 1; f < n / 4; f++) {
        const int32_t c = shoali_fixed_cos[f * (64 / n)], s = shoali_fixed_cos[16 - f * (64 / n)];
        const int32_t *a = in + 2 * f, *b = in + n - 2 * f;
        int32_t re = a[0] - b[0], im = a[1] + b[1];
        e[2 * f] = a[0] + b[0];
        e[2 * f + 1] = a[1] - b[1];
        o[2 * f] = rotate(c, re, -s, im);
        o[2 * f + 1] = rotate(s, re, c, im);
    }
}

static void rfft_strided(uint32_t n, const int32_t *x, uint32_t stride, int32_t *out)
{
    int32_t half[SHOALI_FIXED_BLOCK_MAX];
    if (n == 1) {
        out[0] = x[0];
    } else if (n == 2) {
        out[0] = x[0] + x[stride];
        out[1] = x[0] - x[stride];
    } else {
        rfft_strided(n / 2, x, 2 * stride, half);
        rfft_strided(n / 2, x + stride, 2 * stride, half + n / 2);
        combine(n, half, half + n / 2, out);
    }
}

void shoali_fixed_rfft(uint32_t k, const int32_t *x, int32_t *slots)
{
    rfft_strided(k, x, 1, slots);
}

static void irfft_strided(uint32_t n, const int32_t *in, int32_t *x, uint32_t stride)
{
    int32_t half[SHOALI_FIXED_BLOCK_MAX];
    if (n == 1) {
        x[0] = in[0];
    } else if (n == 2) {
        x[0] = in[0] + in[1];
        x[stride] = in[0] - in[1];
    } else {
        divide(n, in, half, half + n / 2);
        irfft_strided(n / 2, half, x, 2 * stride);
        irfft_strided(n / 2, half + n / 2, x + stride, 2 * stride);
    }
}

void shoali_fixed_irfft(uint32_t k, const int32_t *slots, int32_t *x)
{
    irfft_strided(k, slots, x, 1);
}

/* ---------------------------------------------------------------- products */

static uint32_t parts(uint32_t whole, uint32_t part)
{
    return whole / part + (whole % part != 0);
}

void shoali_fixed_analyse(const shoali_fixed_matrix *m, const int16_t *x, int32_t *slots)
{
    const uint32_t k = m->block, q = parts(m->cols, k);
    int32_t time[SHOALI_FIXED_BLOCK_MAX], own[SHOALI_FIXED_BLOCK_MAX];
    for (uint32_t j = 0; j < q; j++) {
        for (uint32_t t = 0; t < k; t++)
            time[t] = j * k + t < m->cols ? x[j * k + t] : 0;
        shoali_fixed_rfft(k, time, own);
        for (uint32_t slot = 0; slot < k; slot++)
            slots[slot * q + j] = own[slot];
    }
}

static int64_t dot(const int16_t *w, const int32_t *x, uint32_t count)
{
    int64_t sum = 0;
    for (uint32_t j = 0; j < count; j++)
        sum += (int64_t)w[j] * x[j];
    return sum;
}

/* Output block i in the frequency domain. */
static void sum_blocks(const shoali_fixed_matrix *m, uint32_t bits, uint32_t i,
                       const int32_t *slots, int32_t *out)
{
    const uint32_t k = m->block, q = parts(m->cols, k), wide = bits + log2_of(k) + 2;
    const int16_t *w = m->w + (uint64_t)i * k * q;
    out[0] = shoali_fixed_sat(shoali_fixed_round(dot(w, slots, q), m->shift[0]), wide);
    if (k == 1)
        return;
    out[1] = shoali_fixed_sat(shoali_fixed_round(dot(w + q, slots + q, q), m->shift[k / 2]), wide);
    for (uint32_t f = 1; f < k / 2; f++) {
        const int16_t *wr = w + 2 * f * q, *wi = wr + q;
        const int32_t *xr = slots + 2 * f * q, *xi = xr + q;
        int64_t re = dot(wr, xr, q) - dot(wi, xi, q), im = dot(wr, xi, q) + dot(wi, xr, q);
        out[2 * f] = shoali_fixed_sat(shoali_fixed_round(re, m->shift[f]), wide);
        out[2 * f + 1] = shoali_fixed_sat(shoali_fixed_round(im, m->shift[f]), wide);
    }
}

void shoali_fixed_multiply(const shoali_fixed_matrix *m, uint32_t bits, const int32_t *slots,
                           int32_t *y, int add)
{
    const uint32_t k = m->block, p = parts(m->rows, k);
    const unsigned l = log2_of(k);
    int32_t sums[SHOALI_FIXED_BLOCK_MAX], time[SHOALI_FIXED_BLOCK_MAX];
    for (uint32_t i = 0; i < p; i++) {
        sum_blocks(m, bits, i, slots, sums);
        shoali_fixed_irfft(k, sums, time);
        for (uint32_t t = 0; t < k && i * k + t < m->rows; t++) {
            int32_t value = (int32_t)shoali_fixed_round(time[t], l);
            y[i * k + t] = add ? y[i * k + t] + value : value;
        }
    }
}

/* ---------------------------------------------------------------- activations */

static int32_t line(uint32_t magnitude, unsigned frac)
{
    const unsigned below = (frac - 3) & 31; /* 0 .. 17; the mask tells analysers */
    const uint32_t segment = magnitude >> below, rest = magnitude - (segment << below);
    if (segment >= SHOALI_FIXED_SEGMENTS)
        return 32767;
    int64_t rise = shoali_fixed_round((int64_t)shoali_fixed_slope[segment] * rest, frac + 2);
    int32_t value = shoali_fixed_base[segment] + (int32_t)rise;
    return value > 32767 ? 32767 : value;
}

/* |v|, of at least 4 fraction bits: frac is raised with it. */
static uint32_t raised(int32_t v, unsigned *frac)
{
    uint32_t magnitude = v < 0 ? 0u - (uint32_t)v : (uint32_t)v;
    if (*frac < 4) {
        magnitude <<= 4 - *frac;
        *frac = 4;
    }
    return magnitude;
}

int32_t shoali_fixed_sigmoid(uint32_t bits, int32_t v, unsigned frac)
{
    const uint32_t magnitude = raised(v, &frac);
    int32_t u = line(magnitude, frac);
    u = v < 0 ? 32768 - u : u;
    return shoali_fixed_sat(shoali_fixed_round(u, 16 - bits), bits);
}

int32_t shoali_fixed_tanh(uint32_t bits, int32_t v, unsigned frac)
{
    const uint32_t magnitude = raised(v, &frac);
    int32_t u = 2 * line(magnitude, frac - 1) - 32768;
    u = shoali_fixed_sat(shoali_fixed_round(u, 16 - bits), bits);
    return v < 0 ? -u : u;
}

/* ---------------------------------------------------------------- cells */

/* Room for the spectra of a matrix's input. */
static uint32_t slots_of(const shoali_fixed_matrix *m)
{
    return m->rows > 0 ? parts(m->cols, m->block) * m->block : 0;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t spectra_of(const shoali_fixed_cells *l)
{
    return larger(slots_of(&l->x), larger(slots_of(&l->r), slots_of(&l->p)));
}

/* Sums of gates or of the projection, then spectra. */
static uint32_t sums_of(const shoali_fixed_cells *l)
{
    return larger(4 * l->count, l->p.rows);
}

uint32_t shoali_fixed_cell_words(const shoali_fixed_cells *l)
{
    return sums_of(l) + spectra_of(l);
}

/* sums += M x */
static void gates_of(const shoali_fixed_matrix *m, uint32_t bits, const int16_t *x, int32_t *sums,
                     int32_t *slots)
{
    shoali_fixed_analyse(m, x, slots);
    shoali_fixed_multiply(m, bits, slots, sums, 1);
}

static int32_t gate(uint32_t bits, int64_t a, int is_tanh)
{
    const int32_t v = shoali_fixed_sat(a, bits);
    const unsigned frac = bits - SHOALI_FIXED_GATE;
    return is_tanh ? shoali_fixed_tanh(bits, v, frac) : shoali_fixed_sigmoid(bits, v, frac);
}

static int64_t peep(const shoali_fixed_cells *l, uint32_t which, uint32_t i, int32_t c)
{
    if (l->peephole == 0)
        return 0;
    return shoali_fixed_round((int64_t)l->peephole[which * l->count + i] * c, l->peephole_shift);
}

void shoali_fixed_lstm(const shoali_fixed_cells *l, uint32_t bits, int sigmoid, const int16_t *x,
                       int16_t *h, int32_t *c, int32_t *words, int16_t *halves)
{
    const uint32_t n = l->count;
    int32_t *a = words, *slots = words + sums_of(l);
    int16_t *m = l->p.rows > 0 ? halves : h;
    for (uint32_t i = 0; i < 4 * n; i++)
        a[i] = l->bias[i];
    gates_of(&l->x, bits, x, a, slots);
    gates_of(&l->r, bits, h, a, slots);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t in = gate(bits, a[i] + peep(l, 0, i, c[i]), 0);
        const int64_t keep = gate(bits, a[n + i] + peep(l, 1, i, c[i]), 0);
        const int64_t z = gate(bits, a[2 * n + i], !sigmoid);
        c[i] = shoali_fixed_sat(shoali_fixed_round(keep * c[i] + in * z, bits - 1),
                                bits + SHOALI_FIXED_GATE);
        const int64_t open = gate(bits, a[3 * n + i] + peep(l, 2, i, c[i]), 0);
        const int64_t squashed = shoali_fixed_tanh(bits, c[i], bits - 1);
        m[i] = (int16_t)shoali_fixed_sat(shoali_fixed_round(open * squashed, bits - 1), bits);
    }
    if (l->p.rows == 0)
        return;
    shoali_fixed_analyse(&l->p, m, slots);
    shoali_fixed_multiply(&l->p, bits, slots, a, 0);
    for (uint32_t i = 0; i < l->p.rows; i++)
        h[i] = (int16_t)shoali_fixed_sat(a[i], bits);
}

void shoali_fixed_gru(const shoali_fixed_cells *l, uint32_t bits, const int16_t *x, int16_t *h,
                      int32_t *words, int16_t *halves)
{
    const uint32_t n = l->count;
    int32_t *a = words, *slots = words + sums_of(l);
    for (uint32_t i = 0; i < 3 * n; i++)
        a[i] = l->bias[i];
    gates_of(&l->x, bits, x, a, slots);
    gates_of(&l->r, bits, h, a, slots);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t r = gate(bits, a[n + i], 0);
        halves[i] = (int16_t)shoali_fixed_sat(shoali_fixed_round(r * h[i], bits - 1), bits);
    }
    gates_of(&l->p, bits, halves, a + 2 * n, slots);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t z = gate(bits, a[i], 0), v = gate(bits, a[2 * n + i], 1);
        const int64_t sum = ((int64_t)h[i] * ((int64_t)1 << (bits - 1))) + z * (v - h[i]);
        h[i] = (int16_t)shoali_fixed_sat(shoali_fixed_round(sum, bits - 1), bits);
    }
}

/* ---------------------------------------------------------------- whole nets
 *
 * words: c of all cells, then the sums and spectra of the largest layer. halves: h of all cells, a
 * frame of the most cells or the largest window, two buffers of frames. */

static uint32_t cells_in(const shoali_fixed_layer *layer)
{
    return layer->kind == SHOALI_FIXED_LSTM || layer->kind == SHOALI_FIXED_GRU ? layer->directions
                                                                               : 0;
}

/* Of all cells together. */
static void states_of(const shoali_fixed_net *net, uint32_t *c_out, uint32_t *h_out)
{
    *c_out = *h_out = 0;
    for (uint32_t i = 0; i < net->count; i++)
        for (uint32_t d = 0; d < cells_in(&net->layers[i]); d++) {
            *c_out += net->layers[i].cells[d].count;
            *h_out += net->layers[i].cells[d].r.cols;
        }
}

static uint32_t most_halves(const shoali_fixed_net *net)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < net->count; i++)
        if (cells_in(&net->layers[i]) > 0)
            most = larger(most, net->layers[i].cells[0].count);
        else if (net->layers[i].kind == SHOALI_FIXED_CONV)
            most = larger(most, net->layers[i].matrix.cols);
    return most;
}

static uint32_t widest(const shoali_fixed_net *net)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < net->count; i++)
        most = larger(most, net->layers[i].out);
    return most;
}

static uint32_t work_of(const shoali_fixed_layer *layer)
{
    const int has_matrix = layer->kind == SHOALI_FIXED_MATRIX || layer->kind == SHOALI_FIXED_CONV;
    uint32_t most = has_matrix ? layer->matrix.rows + slots_of(&layer->matrix) : 0;
    for (uint32_t d = 0; d < cells_in(layer); d++)
        most = larger(most, shoali_fixed_cell_words(&layer->cells[d]));
    return most;
}

void shoali_fixed_sizes(const shoali_fixed_net *net, uint32_t frames, uint64_t *words_out,
                        uint64_t *halves_out)
{
    uint32_t c = 0, h = 0, work = 0;
    states_of(net, &c, &h);
    for (uint32_t i = 0; i < net->count; i++)
        work = larger(work, work_of(&net->layers[i]));
    *words_out = (uint64_t)c + work;
    *halves_out = (uint64_t)h + most_halves(net) + 2 * (uint64_t)frames * widest(net);
}

void shoali_fixed_reset(const shoali_fixed_net *net, int32_t *words, int16_t *halves)
{
    uint32_t c = 0, h = 0;
    states_of(net, &c, &h);
    for (uint32_t i = 0; i < c; i++)
        words[i] = 0;
    for (uint32_t i = 0; i < h; i++)
        halves[i] = 0;
}

static void run_matrix(const shoali_fixed_layer *layer, uint32_t bits, const int16_t *x, int16_t *y,
                       int32_t *work)
{
    for (uint32_t i = 0; i < layer->out; i++)
        work[i] = layer->bias != 0 ? layer->bias[i] : 0;
    gates_of(&layer->matrix, bits, x, work, work + layer->out);
    for (uint32_t i = 0; i < layer->out; i++)
        y[i] = (int16_t)shoali_fixed_sat(work[i], bits);
}

static void run_simple(const shoali_fixed_layer *layer, uint32_t bits, const int16_t *x, int16_t *y)
{
    for (uint32_t i = 0; i < layer->out; i++)
        if (layer->kind == SHOALI_FIXED_RELU)
            y[i] = (int16_t)(x[i] > 0 ? x[i] : 0);
        else if (layer->kind == SHOALI_FIXED_TANH)
            y[i] = (int16_t)shoali_fixed_tanh(bits, x[i], layer->in_frac);
        else
            y[i] = (int16_t)(x[0] == (int32_t)i ? 1 << layer->out_frac : 0);
}

/* What is outside the image wraps round to above its sides. */
static void read_window(const shoali_fixed_layer *layer, const int16_t *x, uint32_t place,
                        int16_t *cols)
{
    const shoali_fixed_window *w = &layer->window;
    const uint32_t taps = w->kernel * w->kernel, each = layer->matrix.cols / taps;
    for (uint32_t tap = 0; tap < taps; tap++) {
        const uint32_t row = place / w->out_width * w->stride + tap / w->kernel - w->pad;
        const uint32_t col = place % w->out_width * w->stride + tap % w->kernel - w->pad;
        const int inside = row < w->height && col < w->width;
        for (uint32_t c = 0; c < each; c++)
            *cols++ = inside && c < w->channels ? x[(c * w->height + row) * w->width + col] : 0;
    }
}

static void run_conv(const shoali_fixed_layer *layer, uint32_t bits, const int16_t *x, int16_t *y,
                     int32_t *work, int16_t *cols)
{
    const uint32_t places = layer->window.out_height * layer->window.out_width;
    const uint32_t rows = layer->matrix.rows;
    for (uint32_t place = 0; place < places; place++) {
        read_window(layer, x, place, cols);
        for (uint32_t i = 0; i < rows; i++)
            work[i] = layer->bias != 0 ? layer->bias[i] : 0;
        gates_of(&layer->matrix, bits, cols, work, work + rows);
        for (uint32_t i = 0; i < rows; i++)
            y[i * places + place] = (int16_t)shoali_fixed_sat(work[i], bits);
    }
}

static int16_t pooled(const shoali_fixed_window *w, int mean, uint32_t place, const int16_t *plane)
{
    int64_t sum = 0, n = 0, most = INT16_MIN;
    for (uint32_t tap = 0; tap < w->kernel * w->kernel; tap++) {
        const uint32_t row = place / w->out_width * w->stride + tap / w->kernel - w->pad;
        const uint32_t col = place % w->out_width * w->stride + tap % w->kernel - w->pad;
        if (row >= w->height || col >= w->width)
            continue;
        const int16_t v = plane[row * w->width + col];
        most = v > most ? v : most;
        sum += v;
        n++;
    }
    return (int16_t)(mean && n > 0 ? shoali_fixed_round(sum * ((65536 + n / 2) / n), 16) : most);
}

static void run_pool(const shoali_fixed_layer *layer, const int16_t *x, int16_t *y)
{
    const shoali_fixed_window *w = &layer->window;
    const uint32_t places = w->out_height * w->out_width;
    for (uint32_t c = 0; c < w->channels; c++, x += w->height * w->width)
        for (uint32_t place = 0; place < places; place++)
            *y++ = pooled(w, layer->kind == SHOALI_FIXED_AVGPOOL, place, x);
}

/* Where a run keeps things: moved on from layer to layer. */
typedef struct places {
    int32_t *c, *work;
    int16_t *h, *frame;
} places;

/* One direction over all frames; the second one meets the first one's outputs in y. */
static void run_cells(const shoali_fixed_layer *layer, uint32_t d, uint32_t bits, const int16_t *x,
                      uint32_t frames, int16_t *y, const places *at)
{
    const shoali_fixed_cells *l = &layer->cells[d];
    const int reverse = d == 1 || layer->reverse;
    const uint32_t own = l->r.cols, first = d == 1 && layer->concat ? own : 0;
    for (uint32_t i = 0; reverse && i < own; i++)
        at->h[i] = 0;
    for (uint32_t i = 0; reverse && i < l->count; i++)
        at->c[i] = 0;
    for (uint32_t step = 0; step < frames; step++) {
        const uint64_t t = reverse ? frames - 1 - step : step;
        const int16_t *from = x + t * layer->in;
        int16_t *to = y + t * layer->out + first;
        if (layer->kind == SHOALI_FIXED_LSTM)
            shoali_fixed_lstm(l, bits, layer->sigmoid, from, at->h, at->c, at->work, at->frame);
        else
            shoali_fixed_gru(l, bits, from, at->h, at->work, at->frame);
        for (uint32_t i = 0; i < own; i++)
            to[i] = d == 1 && !layer->concat
                        ? (int16_t)shoali_fixed_sat(shoali_fixed_round(to[i] + at->h[i], 1), bits)
                        : at->h[i];
    }
}

static void run_layer(const shoali_fixed_layer *layer, uint32_t bits, const int16_t *x,
                      uint32_t frames, int16_t *y, places *at)
{
    for (uint32_t d = 0; d < cells_in(layer); d++) {
        run_cells(layer, d, bits, x, frames, y, at);
        at->c += layer->cells[d].count;
        at->h += layer->cells[d].r.cols;
    }
    for (uint32_t t = 0; cells_in(layer) == 0 && t < frames; t++) {
        const int16_t *from = x + (uint64_t)t * layer->in;
        int16_t *to = y + (uint64_t)t * layer->out;
        if (layer->kind == SHOALI_FIXED_MATRIX)
            run_matrix(layer, bits, from, to, at->work);
        else if (layer->kind == SHOALI_FIXED_CONV)
            run_conv(layer, bits, from, to, at->work, at->frame);
        else if (layer->window.kernel > 0)
            run_pool(layer, from, to);
        else
            run_simple(layer, bits, from, to);
    }
}

void shoali_fixed_run(const shoali_fixed_net *net, const int16_t *x, uint32_t frames, int16_t *y,
                      int32_t *words, int16_t *halves)
{
    uint32_t c = 0, h = 0;
    states_of(net, &c, &h);
    places at = {.c = words, .work = words + c, .h = halves, .frame = halves + h};
    int16_t *buffers = at.frame + most_halves(net);
    for (uint32_t i = 0; i < net->count; i++) {
        int16_t *to = buffers + (uint64_t)(i % 2) * frames * widest(net);
        to = i + 1 < net->count ? to : y;
        run_layer(&net->layers[i], net->bits, x, frames, to, &at);
        x = to;
    }
}
