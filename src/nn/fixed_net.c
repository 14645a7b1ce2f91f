/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/fixed_net.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

enum { FRAC_MAX = 30 };
#define PI 3.14159265358979323846

/* What is being made, and where it stands in the model. */
typedef struct maker {
    const shoal_model *model;
    shoali_fixed_model *fixed;
    const float *most;
    const shoali_layer *source; /* the layer under way */
    const float *params;        /* its next values */
    unsigned bits, frac;        /* of the words that come in */
} maker;

/* The most fraction bits with which a magnitude is a word of so many bits. */
static int frac_for(double most, unsigned bits)
{
    if (!(most > 0))
        return FRAC_MAX;
    int frac = (int)floor(log2((ldexp(1, (int)bits - 1) - 1) / most));
    return frac < FRAC_MAX ? frac : FRAC_MAX;
}

/* Of a tensor of data: never below 0, whatever that cuts off. */
static unsigned data_frac(double most, unsigned bits)
{
    int frac = frac_for(most, bits);
    return frac < 0 ? 0 : frac < (int)bits - 1 ? (unsigned)frac : bits - 1;
}

static int32_t to_word(double v, int frac, unsigned bits)
{
    return shoali_fixed_sat((int64_t)fmax(-0x1p40, fmin(0x1p40, floor(ldexp(v, frac) + 0.5))),
                            bits);
}

void shoali_fixed_quantise(const float *x, size_t count, unsigned frac, uint32_t bits,
                           int16_t *words_out)
{
    for (size_t i = 0; i < count; i++)
        words_out[i] = (int16_t)(isnan(x[i]) ? 0 : to_word((double)x[i], (int)frac, bits));
}

size_t shoali_fixed_weights(const shoali_fixed_matrix *m)
{
    if (m->rows == 0)
        return 0;
    return (size_t)shoali_matrix_count(m->rows, m->cols, m->block);
}

/* ---------------------------------------------------------------- matrices */

/* Slots of one circulant block of first column w. */
static void transform(uint32_t k, const float *w, double *slots)
{
    for (uint32_t f = 0; f <= k / 2; f++) {
        double re = 0, im = 0;
        for (uint32_t t = 0; t < k; t++) {
            double angle = 2 * PI * (f * t % k) / k;
            re += (double)w[t] * cos(angle);
            im -= (double)w[t] * sin(angle);
        }
        if (f == 0 || 2 * f == k) {
            slots[f == 0 ? 0 : 1] = re;
        } else {
            slots[2 * f] = re;
            slots[2 * f + 1] = im;
        }
    }
}

static uint32_t bin_of(uint32_t k, uint32_t slot)
{
    return slot == 1 ? k / 2 : slot / 2;
}

/* Fractions of the bins become shifts; one that would be to the left has no form. */
static shoal_status set_shifts(const maker *m, shoali_fixed_matrix *matrix, const double *most,
                               unsigned out_frac, int *fracs)
{
    for (uint32_t bin = 0; bin <= matrix->block / 2; bin++) {
        int frac = frac_for(most[bin], m->bits), room = SHOALI_FIXED_SHIFT_MAX + (int)out_frac;
        fracs[bin] = frac < room - (int)m->frac ? frac : room - (int)m->frac;
        int shift = fracs[bin] + (int)m->frac - (int)out_frac;
        if (shift < 0)
            return shoali_fail(SHOAL_EINVAL, "%s: weights up to %g are too large for %u bits",
                               m->source->name, most[bin], m->bits);
        matrix->shift[bin] = (uint8_t)shift;
    }
    return SHOAL_OK;
}

static shoal_status check_block(const maker *m, uint32_t k)
{
    if (k > SHOALI_FIXED_BLOCK_MAX || (k & (k - 1)) != 0)
        return shoali_fail(SHOAL_ENOTSUP,
                           "%s: blocks of %u have no form in fixed point; powers of two up to %d "
                           "have",
                           m->source->name, k, SHOALI_FIXED_BLOCK_MAX);
    return SHOAL_OK;
}

/* The next matrix among the layer's values, for words of m->frac. */
static shoal_status make_matrix(maker *m, uint32_t rows, uint32_t cols, uint32_t k,
                                unsigned out_frac, shoali_fixed_matrix *out)
{
    SHOALI_TRY(check_block(m, k));
    shoali_fixed_matrix matrix = {.rows = rows, .cols = cols, .block = k};
    const size_t count = shoali_fixed_weights(&matrix), q = (cols + k - 1) / k;
    double most[SHOALI_FIXED_BLOCK_MAX / 2 + 1] = {0};
    int fracs[SHOALI_FIXED_BLOCK_MAX / 2 + 1];
    int16_t *w = shoali_arena_array(m->fixed->arena, count, sizeof *w);
    double *slots = shoali_alloc_array(count, sizeof *slots);
    shoal_status status = w != NULL && slots != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    for (size_t at = 0; status == SHOAL_OK && at < count; at += k) {
        transform(k, m->params + at, slots + at);
        for (uint32_t s = 0; s < k; s++)
            most[bin_of(k, s)] = fmax(most[bin_of(k, s)], fabs(slots[at + s]));
    }
    if (status == SHOAL_OK)
        status = set_shifts(m, &matrix, most, out_frac, fracs);
    for (size_t at = 0; status == SHOAL_OK && at < count; at++) {
        size_t block = at / k, slot = at % k;
        w[(block / q * k + slot) * q + block % q] = (int16_t)to_word(
            slots[at], fracs[bin_of(k, (uint32_t)slot)], m->bits);
    }
    shoali_free(slots);
    m->params += count;
    matrix.w = w;
    *out = matrix;
    return status;
}

static shoal_status make_words(maker *m, size_t count, int frac, const int16_t **out)
{
    int16_t *words = shoali_arena_array(m->fixed->arena, count, sizeof *words);
    if (words == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < count; i++)
        words[i] = (int16_t)to_word((double)m->params[i], frac, m->bits);
    m->params += count;
    *out = words;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- layers */

static bool is(const shoali_layer *layer, const char *kind)
{
    return strcmp(layer->row->name, kind) == 0;
}

static bool does_nothing(const shoali_layer *layer)
{
    return is(layer, "dropout") || is(layer, "flatten") || is(layer, "ctc") || is(layer, "hinge");
}

/* What a matrix gives: as much as was seen of it, or what a tanh behind it looks at. */
static unsigned matrix_frac(const maker *m)
{
    const shoali_layer *end = m->model->layers + m->model->layer_count, *next = m->source + 1;
    while (next < end && does_nothing(next))
        next++;
    if (next < end && is(next, "tanh"))
        return m->bits - SHOALI_FIXED_GATE;
    return data_frac((double)m->most[m->source - m->model->layers + 1], m->bits);
}

static shoal_status make_dense(maker *m, uint32_t rows, uint32_t k, bool bias,
                               shoali_fixed_layer *out)
{
    out->kind = SHOALI_FIXED_MATRIX;
    out->out_frac = (uint8_t)matrix_frac(m);
    out->out = rows;
    SHOALI_TRY(make_matrix(m, rows, out->in, k, out->out_frac, &out->matrix));
    return bias ? make_words(m, rows, out->out_frac, &out->bias) : SHOAL_OK;
}

/* ---------------------------------------------------------------- images */

static shoali_fixed_window window_of(const shoali_layer *layer, int64_t kernel, int64_t stride,
                                     int64_t pad)
{
    return (shoali_fixed_window){.channels = layer->in.channels,
                                 .height = layer->in.height,
                                 .width = layer->in.width,
                                 .out_height = layer->out.height,
                                 .out_width = layer->out.width,
                                 .kernel = (uint32_t)kernel,
                                 .stride = (uint32_t)stride,
                                 .pad = (uint32_t)pad};
}

/* A convolution's weights in the order of its window: whole ones are [out][in][tap], blocks
 * [tap][p][q][k]; to_out [p][tap][q][k]. */
static void to_window(const float *from, uint32_t taps, uint32_t p, uint32_t q, uint32_t k,
                      float *to_out)
{
    for (uint32_t i = 0; i < p; i++)
        for (uint32_t tap = 0; tap < taps; tap++)
            for (uint32_t j = 0; j < q; j++, to_out += k)
                if (k == 1)
                    *to_out = from[((size_t)i * q + j) * taps + tap];
                else
                    memcpy(to_out, from + (((size_t)tap * p + i) * q + j) * k, k * sizeof *from);
}

static shoal_status make_conv(maker *m, const shoali_conv_params *c, uint32_t k,
                              shoali_fixed_layer *out)
{
    const uint32_t taps = (uint32_t)(c->kernel * c->kernel), channels = m->source->in.channels;
    const uint32_t p = ((uint32_t)c->out + k - 1) / k, q = (channels + k - 1) / k;
    const size_t count = (size_t)taps * p * q * k;
    out->kind = SHOALI_FIXED_CONV;
    out->out_frac = (uint8_t)matrix_frac(m);
    out->out = (uint32_t)shoali_shape_elems(m->source->out);
    out->window = window_of(m->source, c->kernel, c->stride, c->pad);
    float *weights = shoali_alloc_array(count, sizeof *weights);
    if (weights == NULL)
        return SHOAL_ENOMEM;
    const float *bias = m->params + count;
    to_window(m->params, taps, p, q, k, weights);
    m->params = weights;
    shoal_status status = make_matrix(m, (uint32_t)c->out, taps * q * k, k, out->out_frac,
                                      &out->matrix);
    shoali_free(weights);
    m->params = bias;
    if (status == SHOAL_OK && c->bias)
        status = make_words(m, (size_t)c->out, out->out_frac, &out->bias);
    return status;
}

static void make_pool(const maker *m, shoali_fixed_kind kind, shoali_fixed_layer *out)
{
    const shoali_pool_params *p = m->source->params;
    out->kind = (uint8_t)kind;
    out->out = (uint32_t)shoali_shape_elems(m->source->out);
    out->window = window_of(m->source, p->kernel, p->stride > 0 ? p->stride : p->kernel, p->pad);
}

/* ---------------------------------------------------------------- layers with memory */

static shoal_status make_bias(maker *m, uint32_t count, const int16_t **out)
{
    return make_words(m, count, (int)m->bits - SHOALI_FIXED_GATE, out);
}

/* The same for words of another fraction. */
static shoal_status make_inner(maker *m, unsigned frac, uint32_t rows, uint32_t cols, uint32_t k,
                               unsigned out_frac, shoali_fixed_matrix *out)
{
    const unsigned before = m->frac;
    m->frac = frac;
    shoal_status status = make_matrix(m, rows, cols, k, out_frac, out);
    m->frac = before;
    return status;
}

static shoal_status make_peephole(maker *m, shoali_fixed_cells *l)
{
    float most = 0;
    for (uint32_t i = 0; i < 3 * l->count; i++)
        most = fmaxf(most, fabsf(m->params[i]));
    int frac = frac_for((double)most, m->bits);
    if (frac + SHOALI_FIXED_GATE - 1 < 0)
        return shoali_fail(SHOAL_EINVAL, "%s: peepholes up to %g are too large for %u bits",
                           m->source->name, (double)most, m->bits);
    l->peephole_shift = (uint8_t)(frac + SHOALI_FIXED_GATE - 1);
    return make_words(m, (size_t)3 * l->count, frac, &l->peephole);
}

static shoal_status make_lstm(maker *m, unsigned h_frac, shoali_fixed_cells *l)
{
    const shoali_recurrent_params *p = m->source->params;
    const uint32_t n = (uint32_t)p->out, out = (uint32_t)(p->proj > 0 ? p->proj : p->out);
    const unsigned gate = m->bits - SHOALI_FIXED_GATE;
    l->count = n;
    SHOALI_TRY(
        make_matrix(m, 4 * n, m->source->in.width, shoali_block_of(p->kx, p->k), gate, &l->x));
    SHOALI_TRY(make_inner(m, h_frac, 4 * n, out, shoali_block_of(p->kr, p->k), gate, &l->r));
    SHOALI_TRY(make_bias(m, 4 * n, &l->bias));
    if (p->peephole)
        SHOALI_TRY(make_peephole(m, l));
    return p->proj > 0
               ? make_inner(m, m->bits - 1, out, n, shoali_block_of(p->ky, p->k), h_frac, &l->p)
               : SHOAL_OK;
}

static shoal_status make_gru(maker *m, unsigned h_frac, shoali_fixed_cells *l)
{
    const shoali_recurrent_params *p = m->source->params;
    const uint32_t n = (uint32_t)p->out, k = shoali_block_of(p->kr, p->k);
    const unsigned gate = m->bits - SHOALI_FIXED_GATE;
    l->count = n;
    SHOALI_TRY(
        make_matrix(m, 3 * n, m->source->in.width, shoali_block_of(p->kx, p->k), gate, &l->x));
    SHOALI_TRY(make_inner(m, h_frac, 2 * n, n, k, gate, &l->r));
    SHOALI_TRY(make_inner(m, h_frac, n, n, k, gate, &l->p));
    return make_bias(m, 3 * n, &l->bias);
}

static shoal_status make_recurrent(maker *m, shoali_fixed_layer *out)
{
    const shoali_recurrent_params *p = m->source->params;
    const bool gru = is(m->source, "gru");
    const unsigned seen = data_frac((double)m->most[m->source - m->model->layers + 1], m->bits);
    const unsigned h_frac = p->proj > 0 ? seen : m->bits - 1;
    out->kind = gru ? SHOALI_FIXED_GRU : SHOALI_FIXED_LSTM;
    out->directions = p->direction == SHOALI_BOTH ? 2 : 1;
    out->reverse = p->direction == SHOALI_BACKWARD;
    out->concat = p->merge == SHOALI_MERGE_CONCAT;
    out->sigmoid = p->gate == 1;
    out->out = m->source->out.width;
    out->out_frac = (uint8_t)(out->directions == 2 && !out->concat ? h_frac - (h_frac > 0)
                                                                   : h_frac);
    for (uint32_t d = 0; d < out->directions; d++)
        SHOALI_TRY(gru ? make_gru(m, h_frac, &out->cells[d])
                       : make_lstm(m, h_frac, &out->cells[d]));
    return SHOAL_OK;
}

static shoal_status make_layer(maker *m, shoali_fixed_layer *out)
{
    const shoali_layer *layer = m->source;
    if (is(layer, "dense")) {
        const shoali_dense_params *p = layer->params;
        return make_dense(m, (uint32_t)p->out, 1, p->bias, out);
    }
    if (is(layer, "framewise")) {
        const shoali_framewise_params *p = layer->params;
        return make_dense(m, (uint32_t)p->out, (uint32_t)p->k, p->bias, out);
    }
    if (is(layer, "circulant")) {
        const shoali_circulant_params *p = layer->params;
        return make_dense(m, (uint32_t)p->out, (uint32_t)p->block, p->bias, out);
    }
    if (is(layer, "conv") && ((const shoali_conv_params *)layer->params)->groups == 1)
        return make_conv(m, layer->params, 1, out);
    if (is(layer, "circulant_conv")) {
        const shoali_circulant_conv_params *p = layer->params;
        return make_conv(m, &p->conv, (uint32_t)p->block, out);
    }
    if (is(layer, "lstm") || is(layer, "gru"))
        return make_recurrent(m, out);
    out->out = out->in;
    out->out_frac = out->in_frac;
    if (is(layer, "relu")) {
        out->kind = SHOALI_FIXED_RELU;
    } else if (is(layer, "tanh")) {
        out->kind = SHOALI_FIXED_TANH;
        out->out_frac = (uint8_t)(m->bits - 1);
    } else if (is(layer, "onehot")) {
        out->kind = SHOALI_FIXED_ONEHOT;
        out->out = layer->out.width;
        out->out_frac = (uint8_t)(m->bits - 2);
    } else if (is(layer, "maxpool")) {
        make_pool(m, SHOALI_FIXED_MAXPOOL, out);
    } else if (is(layer, "avgpool") && ((const shoali_pool_params *)layer->params)->pad == 0) {
        make_pool(m, SHOALI_FIXED_AVGPOOL, out);
    } else {
        return shoali_fail(SHOAL_ENOTSUP,
                           "%s ('%s') has no form in fixed point; dense, framewise, circulant, "
                           "conv of one group, circulant_conv, maxpool, avgpool without a border, "
                           "lstm, gru, relu, "
                           "tanh and onehot have",
                           layer->name, layer->spec);
    }
    return SHOAL_OK;
}

static uint32_t frame_of(const shoal_model *model, shoal_shape shape)
{
    return model->sequence ? shape.width : (uint32_t)shoali_shape_elems(shape);
}

static shoal_status make_all(maker *m, const float *params)
{
    shoali_fixed_model *fixed = m->fixed;
    const shoal_model *model = m->model;
    bool tokens = model->layer_count > 0 && is(&model->layers[0], "onehot");
    fixed->in = frame_of(model, model->input);
    fixed->in_frac = m->frac = tokens ? 0 : data_frac((double)m->most[0], m->bits);
    uint32_t width = fixed->in;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        m->source = &model->layers[i];
        if (does_nothing(m->source))
            continue;
        shoali_fixed_layer *layer = &fixed->layers[fixed->net.count];
        *layer = (shoali_fixed_layer){.in = width, .in_frac = (uint8_t)m->frac};
        m->params = params + m->source->param_offset;
        SHOALI_TRY(make_layer(m, layer));
        fixed->sources[fixed->net.count++] = i;
        m->frac = layer->out_frac;
        width = layer->out;
    }
    fixed->out = width;
    fixed->out_frac = m->frac;
    return SHOAL_OK;
}

shoal_status shoali_fixed_create(const shoal_model *model, const float *params, uint32_t bits,
                                 const float *most, shoali_fixed_model **model_out)
{
    if (bits != 12 && bits != 16)
        return shoali_fail(SHOAL_EINVAL, "words of %u bits; there are 12 and 16", bits);
    shoal_arena *arena = shoali_arena_create(1 << 16);
    shoali_fixed_model *fixed = arena != NULL ? shoali_arena_alloc(arena, sizeof *fixed) : NULL;
    shoal_status status = SHOAL_ENOMEM;
    if (fixed != NULL) {
        fixed->arena = arena;
        fixed->net.bits = bits;
        fixed->layers = shoali_arena_array(arena, model->layer_count, sizeof *fixed->layers);
        fixed->sources = shoali_arena_array(arena, model->layer_count, sizeof *fixed->sources);
        fixed->net.layers = fixed->layers;
        maker m = {.model = model, .fixed = fixed, .most = most, .bits = bits};
        if (fixed->layers != NULL && fixed->sources != NULL)
            status = make_all(&m, params);
    }
    if (status == SHOAL_OK)
        *model_out = fixed;
    else
        shoali_arena_destroy(arena);
    return status;
}

void shoali_fixed_destroy(shoali_fixed_model *model)
{
    if (model != NULL)
        shoali_arena_destroy(model->arena);
}
