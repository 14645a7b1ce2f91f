/* SPDX-License-Identifier: Apache-2.0 */
/* demo: momentum that stays where it is, of which each step the strongest waves travel. A transform
 * of one round; +x+ is summed over the members, T the cosine transform of each tile of a matrix:
 *
 *     m = beta m + gradient
 *     q = the k largest of each tile of T(m)        m = m - T'(q)
 *     gradient = N sign(T'(+q+))                    N: members, by which an optimiser divides
 *
 * So what comes back is no sum but the step itself (trait STEPS): an optimiser without a momentum
 * of its own (sgd:momentum=0) moves every weight by its rate. Tiles are chunk x chunk of a matrix'
 * rows and columns, the last ones smaller, and chunk elements in a row of whatever is none; T is
 * orthonormal (DCT-II). Coefficients go from each member to all others (gather) as `nonzero`.
 * Tensors that travel as they are (RAW) do, in a second round, and are sums.
 *
 * The last T' adds in one fixed order, so that signs are the same at every member, whatever its
 * processor. State, floats: m; what travels, tile by tile, then RAW tensors. Zero at first.
 * Cost: 6 chunk multiplications an element. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/select.h"
#include "kernel/kernel.h"

enum { SIDE = 64, AREA = SIDE * SIDE };

typedef struct demo_params {
    int64_t k, chunk;
    double beta;
} demo_params;

static const shoali_key keys[] = {
    {"k", SHOALI_KEY_INT, offsetof(demo_params, k), 1, AREA, NULL, "32",
     "coefficients of a tile that travel"},
    {"chunk", SHOALI_KEY_INT, offsetof(demo_params, chunk), 1, SIDE, NULL, "64",
     "rows and columns of a tile"},
    {"beta", SHOALI_KEY_FLOAT, offsetof(demo_params, beta), 0, 0.99999, NULL, "0.999",
     "share of the momentum that a step keeps"},
};

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 68;
}

/* A value and 12 bits of where it is. */
static double rate(const void *params, uint32_t parts)
{
    const demo_params *p = params;
    (void)parts;
    return fmin(sizeof(float), 5.5 * (double)p->k / (double)(p->chunk * p->chunk));
}

static size_t state_size(const void *params, const shoal_tensor *tensors, uint32_t tensor_count)
{
    (void)params;
    return tensor_count > 0
               ? 2 * sizeof(float) *
                     (tensors[tensor_count - 1].offset + tensors[tensor_count - 1].count)
               : 0;
}

/* ---------------------------------------------------------------- tiles and waves */

/* T of n values: rows of `to` are cosines; `back` is its transpose, and its inverse. */
typedef struct waves {
    uint32_t n;
    float to[AREA], back[AREA];
} waves;

static void make_waves(waves *t, uint32_t n)
{
    if (t->n == n)
        return;
    t->n = n;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            const double norm = sqrt((i == 0 ? 1.0 : 2.0) / n);
            t->to[i * n + j] = (float)(norm * cos(M_PI * (2 * j + 1) * i / (2.0 * n)));
            t->back[j * n + i] = t->to[i * n + j];
        }
}

/* out = a b, of h x n and n x w, in one order on every machine; zeros of a cost nothing. */
static void multiply(float *out, const float *a, uint32_t h, uint32_t n, const float *b, uint32_t w)
{
    memset(out, 0, (size_t)h * w * sizeof *out);
    for (uint32_t r = 0; r < h; r++)
        for (uint32_t i = 0; i < n; i++)
            if (a[r * n + i] != 0)
                shoali_kernel()->axpy(out + r * w, a[r * n + i], b + i * w, w);
}

typedef struct tile {
    uint32_t h, w;
    size_t at, stride; /* of its first element, from one row to the next */
    waves *down, *across;
} tile;

/* What the work needs beside state. */
typedef struct bench {
    waves whole, below, right; /* of full tiles, of those at the lower and at the right edge */
    float values[AREA], half[AREA], made[AREA];
} bench;

/* The same of a member's own values, in OpenBLAS's order. */
static void multiply_own(float *out, const float *a, uint32_t h, uint32_t n, const float *b,
                         uint32_t w)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)h, (int)w, (int)n, 1, a, (int)n, b,
                (int)w, 0, out, (int)w);
}

static void transform(bench *b, const tile *t)
{
    multiply_own(b->half, b->values, t->h, t->w, t->across->back, t->w);
    multiply_own(b->made, t->down->to, t->h, t->h, b->half, t->w);
}

static void transform_back(bench *b, const float *coefficients, const tile *t, bool own)
{
    void (*const by)(float *, const float *, uint32_t, uint32_t, const float *,
                     uint32_t) = own ? multiply_own : multiply;
    by(b->half, coefficients, t->h, t->w, t->across->to, t->w);
    by(b->made, t->down->back, t->h, t->h, b->half, t->w);
}

/* ---------------------------------------------------------------- a step */

typedef struct step {
    const demo_params *params;
    float *momentum, *sent; /* sent: [elements of this tensor], tile by tile */
    float *grad;
    float members;
    bench *bench;
    bool last;
} step;

/* The k largest, all others 0; NaN all over, if one is no number: the exchange will name whose. */
static shoal_status keep_largest(const float *values, size_t n, size_t k, float *kept)
{
    uint16_t indices[AREA];
    k = k < n ? k : n;
    if (shoali_kernel()->first_nonfinite(values, n) < n) {
        for (size_t i = 0; i < n; i++)
            kept[i] = NAN;
        return SHOAL_OK;
    }
    SHOALI_TRY(shoali_select("demo", 0, values, n, k, (uint8_t *)indices));
    memset(kept, 0, n * sizeof *kept);
    for (size_t i = 0; i < k; i++)
        kept[indices[i]] = values[indices[i]];
    return SHOAL_OK;
}

static shoal_status take(const step *s, const tile *t, float *sent)
{
    bench *b = s->bench;
    for (uint32_t r = 0; r < t->h; r++)
        memcpy(b->values + r * t->w, s->momentum + t->at + r * t->stride, t->w * sizeof *b->values);
    transform(b, t);
    SHOALI_TRY(keep_largest(b->made, (size_t)t->h * t->w, (size_t)s->params->k, sent));
    transform_back(b, sent, t, true);
    for (uint32_t r = 0; r < t->h; r++)
        shoali_kernel()->axpy(s->momentum + t->at + r * t->stride, -1, b->made + r * t->w, t->w);
    return SHOAL_OK;
}

static void give(const step *s, const tile *t, const float *sum)
{
    transform_back(s->bench, sum, t, false);
    for (uint32_t r = 0; r < t->h; r++)
        for (uint32_t c = 0; c < t->w; c++) {
            const float x = s->bench->made[r * t->w + c];
            s->grad[t->at + r * t->stride + c] = x > 0   ? s->members
                                                 : x < 0 ? -s->members
                                                         : x; /* 0, or no number */
        }
}

/* All tiles of a tensor, row by row. */
static shoal_status each_tile(const step *s, const shoal_tensor *tensor)
{
    const bool matrix = (size_t)tensor->rows * tensor->cols == tensor->count && tensor->cols > 1;
    const size_t rows = matrix ? tensor->rows : 1, cols = matrix ? tensor->cols : tensor->count;
    const size_t side = (size_t)s->params->chunk;
    float *sent = s->sent;
    bench *b = s->bench;
    for (size_t r = 0; r < rows; r += side) {
        const uint32_t h = (uint32_t)(rows - r < side ? rows - r : side);
        waves *down = h == side ? &b->whole : &b->below;
        make_waves(down, h);
        for (size_t c = 0; c < cols; c += side) {
            const uint32_t w = (uint32_t)(cols - c < side ? cols - c : side);
            const tile t = {h, w, r * cols + c, cols, down, w == side ? &b->whole : &b->right};
            make_waves(t.across, w);
            if (s->last)
                give(s, &t, sent);
            else
                SHOALI_TRY(take(s, &t, sent));
            sent += (size_t)h * w;
        }
    }
    return SHOAL_OK;
}

static void accumulate(const step *s, size_t count)
{
    const float beta = (float)s->params->beta;
    for (size_t i = 0; i < count; i++)
        s->momentum[i] = beta * s->momentum[i] + s->grad[i];
}

/* ---------------------------------------------------------------- rounds */

static bool is_raw(const shoal_tensor *tensor)
{
    return (tensor->flags & SHOAL_TENSOR_RAW) != 0;
}

/* Tensors that travel as they are, out of grad or back into it. */
static void copy_raw(const shoal_tensor *tensors, uint32_t tensor_count, float *grad, float *raw,
                     bool back)
{
    for (uint32_t i = 0; i < tensor_count; i++) {
        float *here = grad + tensors[i].offset;
        if (!is_raw(&tensors[i]))
            continue;
        shoali_kernel()->copy(back ? here : raw, back ? raw : here, tensors[i].count);
        raw += tensors[i].count;
    }
}

static shoal_status next_round(const void *params, void *state, const shoal_tensor *tensors,
                               uint32_t tensor_count, uint32_t index, float *grad,
                               shoal_round *round_out)
{
    bench b;
    const size_t count = state_size(params, tensors, tensor_count) / (2 * sizeof(float));
    float *const momentum = state, *const sent = momentum + count;
    size_t coded = 0;
    for (uint32_t i = 0; i < tensor_count; i++)
        coded += is_raw(&tensors[i]) ? 0 : tensors[i].count;
    const bool raw_next = index == 1 && coded < count;
    step s = {.params = params, .sent = sent, .bench = &b, .last = index > 0};
    s.members = (float)round_out->members;
    b.whole.n = b.below.n = b.right.n = 0;
    for (uint32_t i = 0; i < tensor_count && !raw_next; i++) {
        if (is_raw(&tensors[i]))
            continue;
        s.momentum = momentum + tensors[i].offset;
        s.grad = grad + tensors[i].offset;
        if (!s.last)
            accumulate(&s, tensors[i].count);
        SHOALI_TRY(each_tile(&s, &tensors[i]));
        s.sent += tensors[i].count;
    }
    if (raw_next || index == 2)
        copy_raw(tensors, tensor_count, grad, sent + coded, index == 2);
    *round_out = (shoal_round){.last = index == 2 || (index == 1 && !raw_next)};
    if (index == 0)
        *round_out = (shoal_round){.buf = sent, .count = coded, .codec = "nonzero", .slots = true};
    else if (raw_next)
        *round_out = (shoal_round){.buf = sent + coded, .count = count - coded};
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_demo = {
    .name = "demo",
    .paper = "Peng, Quesnelle, Kingma, \"DeMo: Decoupled Momentum Optimization\", arXiv "
             "2411.19870; coefficients are summed, where their code takes the mean of those that "
             "were sent; tiles of a matrix' edge are smaller, where theirs all are, down to 1",
    .traits = SHOAL_CODEC_TRANSFORM | SHOAL_CODEC_STEPS | SHOAL_CODEC_GATHERS,
    .bytes_per_elem = 0.0430F,
    .rate = rate,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(demo_params)},
    .wire_id = wire_id,
    .state_size = state_size,
    .next_round = next_round,
};
