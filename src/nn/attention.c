/* SPDX-License-Identifier: Apache-2.0 */
/* Attention (Vaswani et al., 2017) with queries in groups that share keys and values (Ainslie et
 * al., 2023) and turned by their place (Su et al., 2021): value i of a head and value i + dim / 2
 * are a point that frame t turns by t theta^(-2 i / dim).
 *
 * In bf16 the four products with weights are; scores, softmax and sums over values stay in float32.
 *
 * Scores are made for TILE frames at a time and never kept: forward leaves the logarithm of each
 * row's sum, from which backward makes them again. Keys and values of the frames before pass->from
 * are those of the last pass.
 *
 * In training a share `drop` of the weights is 0 and the others are larger for it, behind the
 * softmax (Vaswani et al., section 5.4). A weight's fate depends on (seed, layer, global number of
 * the sample, head and row, column): backward draws it again. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "nn/gemm.h"
#include "nn/recurrent.h"
#include "nn/squash.h"

enum { TILE = 64 };

/* All of a layer's memory for `count` samples. */
typedef struct attention {
    shoali_attention_sizes s;
    shoali_walk walk;
    size_t q_values, kv_values;     /* of a frame: heads dim, kv dim */
    float *turns;                   /* [frames][dim / 2][cosine, sine] */
    float *q, *k, *v, *seen, *logs; /* [count][frames][...]; seen: of values; logs [heads] */
    float scale;
    void *rounded; /* work of products in bf16; NULL: in float32 */
    bool causal, rope, bias;
    float *fates; /* [frames] of one row's weights: what each is multiplied with; NULL: none is */
    double drop;
    uint64_t seed, stream, first_serial;
} attention;

static size_t turns_of(const shoali_attention_sizes *s)
{
    return (size_t)s->frames * s->dim;
}

static size_t saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoali_attention_sizes s = shoali_attention_sizes_of(layer);
    const size_t frame = 2 * (size_t)s.dim * (s.heads + s.kv) + s.heads;
    return (turns_of(&s) + (size_t)batch * s.frames * frame) * sizeof(float);
}

/* Two tiles of scores, slopes of seen, queries, keys and values, and fates; aligned. */
static size_t work_floats(const shoali_attention_sizes *s, uint32_t count)
{
    const size_t frame = 2 * (size_t)s->dim * (s->heads + s->kv);
    const size_t floats = (2 * TILE + 1) * (size_t)s->frames + (size_t)count * s->frames * frame;
    return (floats + 15) / 16 * 16;
}

static bool rounds(const shoali_layer *layer)
{
    return ((const shoali_attention_params *)layer->params)->precision == SHOALI_BF16;
}

/* Behind the rest: rounded operands of the largest matrix. */
static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoali_attention_sizes s = shoali_attention_sizes_of(layer);
    return work_floats(&s, batch) * sizeof(float) +
           (rounds(layer) ? shoali_matrix_rounded(s.heads * s.dim, s.width) : 0);
}

/* Behind both tiles of scores. */
static void set_drop(const shoali_node *node, const shoali_pass *pass, attention *a)
{
    const shoali_attention_params *p = node->layer->params;
    const char *name = node->layer->name;
    if (!pass->training || p->drop == 0)
        return;
    a->fates = (float *)pass->work + 2 * TILE * (size_t)a->s.frames;
    a->drop = p->drop;
    a->seed = pass->seed;
    a->stream = shoali_hash(name, strlen(name), 0);
    a->first_serial = pass->first_serial;
}

static attention attention_of(const shoali_node *node, const shoali_pass *pass)
{
    const shoali_attention_params *p = node->layer->params;
    attention a = {.s = shoali_attention_sizes_of(node->layer),
                   .walk = shoali_walk_of(node, pass, false),
                   .causal = p->causal,
                   .rope = p->rope,
                   .bias = p->bias};
    a.q_values = (size_t)a.s.heads * a.s.dim;
    a.kv_values = (size_t)a.s.kv * a.s.dim;
    a.scale = 1.0f / sqrtf((float)a.s.dim);
    const size_t frames = (size_t)pass->count * a.s.frames;
    a.turns = node->saved;
    a.q = a.turns + turns_of(&a.s);
    a.k = a.q + frames * a.q_values;
    a.v = a.k + frames * a.kv_values;
    a.seen = a.v + frames * a.kv_values;
    a.logs = a.seen + frames * a.q_values;
    if (rounds(node->layer))
        a.rounded = (float *)pass->work + work_floats(&a.s, pass->count);
    set_drop(node, pass, &a);
    return a;
}

static shoal_status setup(const shoali_node *node, uint32_t batch)
{
    const shoali_attention_params *p = node->layer->params;
    const shoali_attention_sizes s = shoali_attention_sizes_of(node->layer);
    float *turn = node->saved;
    (void)batch;
    for (uint32_t t = 0; t < s.frames; t++)
        for (uint32_t i = 0; i < s.dim / 2; i++, turn += 2) {
            const double angle = t * pow(p->theta, -2.0 * i / s.dim);
            turn[0] = (float)cos(angle);
            turn[1] = (float)sin(angle);
        }
    return SHOAL_OK;
}

/* Turn all heads of all frames; back: the other way round, which is the slope's. */
static void turn(const attention *a, float *x, uint32_t heads, bool back)
{
    const size_t half = a->s.dim / 2, values = (size_t)heads * a->s.dim;
    for (uint32_t n = 0; a->rope && n < a->walk.count; n++)
        for (uint32_t t = a->walk.from; t < shoali_walk_length(&a->walk, n); t++) {
            const float *turns = a->turns + t * 2 * half;
            float *low = x + ((size_t)n * a->s.frames + t) * values;
            for (uint32_t h = 0; h < heads; h++, low += 2 * half)
                for (size_t i = 0; i < half; i++) {
                    const float c = turns[2 * i], s = back ? -turns[2 * i + 1] : turns[2 * i + 1];
                    const float one = low[i], other = low[half + i];
                    low[i] = one * c - other * s;
                    low[half + i] = other * c + one * s;
                }
        }
}

/* ---------------------------------------------------------------- one head of one sample */

/* Frames [first, first + rows) of a head look at the first cols frames. */
typedef struct tile {
    const attention *a;
    size_t at_q, at_kv; /* where the head's frame 0 is, in q and seen, in k and v */
    float *logs;        /* [frames][heads], the head's */
    uint64_t stream;    /* of fates: the sample's, then row 0 of the head among all of it */
    uint64_t first_row;
    uint32_t first, rows, cols;
} tile;

static uint32_t visible(const tile *t, uint32_t row)
{
    return t->a->causal ? t->first + row + 1 : t->cols;
}

static tile tile_of(const attention *a, uint32_t n, uint32_t head, uint32_t first)
{
    const uint32_t length = shoali_walk_length(&a->walk, n), left = length - first;
    const size_t frame = (size_t)n * a->s.frames;
    tile t = {.a = a, .first = first, .rows = left < TILE ? left : TILE};
    t.at_q = frame * a->q_values + (size_t)head * a->s.dim;
    t.at_kv = frame * a->kv_values + (size_t)(head / (a->s.heads / a->s.kv)) * a->s.dim;
    t.logs = a->logs + frame * a->s.heads + head;
    t.stream = shoali_mix(a->stream, a->first_serial + n);
    t.first_row = (uint64_t)head * a->s.frames;
    t.cols = a->causal ? first + t.rows : length;
    return t;
}

/* out[rows][cols] = scale * x y^T, x of the tile's frames, y of all that it looks at. */
static void products(const tile *t, const float *x, const float *y, float scale, float *out)
{
    const int q = (int)t->a->q_values, kv = (int)t->a->kv_values, cols = (int)t->cols;
    shoali_gemm(false, true, (int)t->rows, cols, (int)t->a->s.dim, scale,
                x + t->at_q + (size_t)t->first * t->a->q_values, q, y + t->at_kv, kv, 0, out, cols);
}

/* to of the tile's frames = w y. */
static void gather(const tile *t, const float *w, const float *y, float *to)
{
    const int q = (int)t->a->q_values, kv = (int)t->a->kv_values, cols = (int)t->cols;
    shoali_gemm(false, false, (int)t->rows, (int)t->a->s.dim, cols, 1, w, cols, y + t->at_kv, kv, 0,
                to + t->at_q + (size_t)t->first * t->a->q_values, q);
}

/* to of all frames that the tile looks at += w^T x. */
static void scatter(const tile *t, const float *w, const float *x, float *to)
{
    const int q = (int)t->a->q_values, kv = (int)t->a->kv_values, cols = (int)t->cols;
    shoali_gemm(true, false, cols, (int)t->a->s.dim, (int)t->rows, 1, w, cols,
                x + t->at_q + (size_t)t->first * t->a->q_values, q, 1, to + t->at_kv, kv);
}

/* What a row does not see has weight 0. */
static void hide(const tile *t, uint32_t row, float *w)
{
    const uint32_t seen = visible(t, row);
    memset(w + seen, 0, (t->cols - seen) * sizeof *w);
}

static void draw_fates(const tile *t, uint32_t row)
{
    const attention *a = t->a;
    const uint32_t limit = (uint32_t)(a->drop * 0x1p32), seen = visible(t, row);
    const uint64_t stream = shoali_mix(t->stream, t->first_row + t->first + row);
    const float kept = (float)(1 / (1 - a->drop));
    for (uint32_t c = 0; c < seen; c += 4) {
        uint32_t bits[4];
        shoali_philox(a->seed, stream, c / 4, bits);
        for (uint32_t k = 0; k < 4 && c + k < seen; k++)
            a->fates[c + k] = bits[k] >= limit ? kept : 0.0f;
    }
}

static void drop(const tile *t, uint32_t row, float *w)
{
    const uint32_t seen = visible(t, row);
    for (uint32_t c = 0; c < seen; c++)
        w[c] *= t->a->fates[c];
}

static void softmax(const tile *t, float *scores)
{
    for (uint32_t r = 0; r < t->rows; r++, scores += t->cols) {
        const uint32_t seen = visible(t, r);
        float most = scores[0], sum = 0;
        for (uint32_t c = 1; c < seen; c++)
            most = scores[c] > most ? scores[c] : most;
        for (uint32_t c = 0; c < seen; c++)
            scores[c] = shoali_exp(scores[c] - most);
        for (uint32_t c = 0; c < seen; c++)
            sum += scores[c];
        for (uint32_t c = 0; c < seen; c++)
            scores[c] /= sum;
        t->logs[(size_t)(t->first + r) * t->a->s.heads] = most + logf(sum);
        if (t->a->fates != NULL) {
            draw_fates(t, r);
            drop(t, r, scores);
        }
        hide(t, r, scores);
    }
}

/* The same weights again, and from their slopes those of the scores. The mean over a row's weights
 * is that of dropped ones, too: of what was seen. */
static void softmax_back(const tile *t, const float *dseen, float *w, float *dw)
{
    const size_t dim = t->a->s.dim;
    for (uint32_t r = 0; r < t->rows; r++, w += t->cols, dw += t->cols) {
        const size_t at = t->at_q + (size_t)(t->first + r) * t->a->q_values;
        const float log = t->logs[(size_t)(t->first + r) * t->a->s.heads], scale = t->a->scale;
        const float mean = cblas_sdot((int)dim, dseen + at, 1, t->a->seen + at, 1);
        const uint32_t seen = visible(t, r);
        for (uint32_t c = 0; c < seen; c++)
            w[c] = shoali_exp(w[c] - log);
        if (t->a->fates != NULL) {
            draw_fates(t, r);
            drop(t, r, dw);
        }
        for (uint32_t c = 0; c < seen; c++)
            dw[c] = w[c] * (dw[c] - mean) * scale;
        if (t->a->fates != NULL)
            drop(t, r, w);
        hide(t, r, w);
        hide(t, r, dw);
    }
}

/* ---------------------------------------------------------------- forward */

static void look(const attention *a, float *scores)
{
    for (uint32_t n = 0; n < a->walk.count; n++)
        for (uint32_t head = 0; head < a->s.heads; head++)
            for (uint32_t t = a->walk.from; t < shoali_walk_length(&a->walk, n); t += TILE) {
                const tile of = tile_of(a, n, head, t);
                products(&of, a->q, a->k, a->scale, scores);
                softmax(&of, scores);
                gather(&of, scores, a->v, a->seen);
            }
}

typedef struct matrices {
    shoali_matrix query, key, value, out;
    const float *biases[4]; /* of the same; NULL: none */
} matrices;

static matrices open_all(const attention *a, const float *params, float *grads)
{
    const uint32_t q = (uint32_t)a->q_values, kv = (uint32_t)a->kv_values, width = a->s.width;
    float **to = grads != NULL ? &grads : NULL, *scratch = NULL; /* dense ones need none */
    matrices m;
    m.query = shoali_matrix_open(q, width, 1, &params, to, &scratch);
    m.key = shoali_matrix_open(kv, width, 1, &params, to, &scratch);
    m.value = shoali_matrix_open(kv, width, 1, &params, to, &scratch);
    m.out = shoali_matrix_open(width, q, 1, &params, to, &scratch);
    m.query.rounded = m.key.rounded = m.value.rounded = m.out.rounded = a->rounded;
    m.biases[0] = a->bias ? params : NULL; /* behind the matrices, in their order */
    m.biases[1] = a->bias ? params + q : NULL;
    m.biases[2] = a->bias ? params + q + kv : NULL;
    m.biases[3] = a->bias ? params + q + 2 * (size_t)kv : NULL;
    return m;
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const attention a = attention_of(node, pass);
    const matrices m = open_all(&a, node->params, NULL);
    shoali_walk_apply(&a.walk, &m.query, m.biases[0], x, a.q, a.q_values);
    shoali_walk_apply(&a.walk, &m.key, m.biases[1], x, a.k, a.kv_values);
    shoali_walk_apply(&a.walk, &m.value, m.biases[2], x, a.v, a.kv_values);
    turn(&a, a.q, a.s.heads, false);
    turn(&a, a.k, a.s.kv, false);
    look(&a, pass->work);
    shoali_walk_apply(&a.walk, &m.out, m.biases[3], a.seen, y, a.s.width);
    shoali_walk_clear(&a.walk, y, a.s.width);
}

/* ---------------------------------------------------------------- backward */

typedef struct slopes {
    float *scores, *weights; /* [TILE][frames] */
    float *seen, *q, *k, *v;
    size_t frames;
} slopes;

static slopes slopes_of(const attention *a, const shoali_pass *pass)
{
    slopes d = {.scores = pass->work, .frames = (size_t)pass->count * a->s.frames};
    d.weights = d.scores + TILE * (size_t)a->s.frames;
    d.seen = d.weights + (TILE + 1) * (size_t)a->s.frames; /* fates lie between */
    d.q = d.seen + d.frames * a->q_values;
    d.k = d.q + d.frames * a->q_values;
    d.v = d.k + d.frames * a->kv_values;
    return d;
}

/* Heads that share keys add up in their order. */
static void look_back(const attention *a, const slopes *d)
{
    memset(d->k, 0, 2 * d->frames * a->kv_values * sizeof *d->k); /* v lies behind k */
    for (uint32_t n = 0; n < a->walk.count; n++)
        for (uint32_t head = 0; head < a->s.heads; head++)
            for (uint32_t t = 0; t < shoali_walk_length(&a->walk, n); t += TILE) {
                const tile of = tile_of(a, n, head, t);
                products(&of, a->q, a->k, a->scale, d->weights);
                products(&of, d->seen, a->v, 1, d->scores);
                softmax_back(&of, d->seen, d->weights, d->scores);
                scatter(&of, d->weights, d->seen, d->v);
                scatter(&of, d->scores, a->q, d->k);
                gather(&of, d->scores, a->k, d->q);
            }
}

static void learn(const shoali_walk *walk, shoali_matrix *w, const float *dy, const float *x)
{
    shoali_walk_learn(walk, w, dy, (size_t)w->rows, x, (size_t)w->cols);
    shoali_matrix_close(w);
}

/* dout: of the way out; d: of what the others gave, turned back. */
static void learn_biases(const attention *a, const slopes *d, const float *dout, float *grads)
{
    const size_t q = a->q_values, kv = a->kv_values;
    if (!a->bias)
        return;
    grads += 2 * (q + kv) * a->s.width;
    shoali_walk_bias(&a->walk, d->q, (uint32_t)q, grads);
    shoali_walk_bias(&a->walk, d->k, (uint32_t)kv, grads + q);
    shoali_walk_bias(&a->walk, d->v, (uint32_t)kv, grads + q + kv);
    shoali_walk_bias(&a->walk, dout, a->s.width, grads + q + 2 * kv);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const attention a = attention_of(node, pass);
    const slopes d = slopes_of(&a, pass);
    matrices m = open_all(&a, node->params, node->grads);
    (void)y;
    shoali_walk_back(&a.walk, &m.out, dy, a.s.width, d.seen, false);
    learn(&a.walk, &m.out, dy, a.seen);
    look_back(&a, &d);
    turn(&a, d.q, a.s.heads, true);
    turn(&a, d.k, a.s.kv, true);
    learn(&a.walk, &m.query, d.q, x);
    learn(&a.walk, &m.key, d.k, x);
    learn(&a.walk, &m.value, d.v, x);
    learn_biases(&a, &d, dy, node->grads);
    if (dx == NULL)
        return;
    shoali_walk_back(&a.walk, &m.query, d.q, a.q_values, dx, false);
    shoali_walk_back(&a.walk, &m.key, d.k, a.kv_values, dx, true);
    shoali_walk_back(&a.walk, &m.value, d.v, a.kv_values, dx, true);
}

const shoali_exec shoali_exec_attention = {.continues = true,
                                           .saved_bytes = saved_bytes,
                                           .work_bytes = work_bytes,
                                           .setup = setup,
                                           .forward = forward,
                                           .backward = backward};
