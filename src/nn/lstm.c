/* SPDX-License-Identifier: Apache-2.0 */
/* Long short-term memory with peepholes and a projection (Sak, Senior, Beaufays, INTERSPEECH 2014),
 * in each direction; s is the logistic function, g tanh or s:
 *
 *     i = s(Wxi x + Wri y' + pi c' + bi)        c = f c' + i z       m = o tanh(c)
 *     f = s(Wxf x + Wrf y' + pf c' + bf)        o = s(Wxo x + Wro y' + po c + bo)
 *     z = g(Wxz x + Wrz y' + bz)                y = Wp m, or m       (' : of the frame before)
 *
 * Products with x are taken for all frames at once, before the first step. */
#include <string.h>

#include "nn/recurrent.h"
#include "nn/squash.h"

/* One direction of one pass. */
typedef struct direction {
    shoali_walk walk;
    uint32_t in, cells, out; /* out: of the projection, else cells */
    bool projects, sigmoid;
    shoali_matrix x, r, p;
    const float *bias, *peephole; /* peephole NULL: none */
    float *dbias, *dpeephole;
    float *gates, *c, *squashed, *m, *h; /* saved: [count][frames][4 cells], [cells] .., [out]; h is
                                            m without a projection */
} direction;

static uint32_t outputs(const shoali_recurrent_params *p)
{
    return (uint32_t)(p->proj > 0 ? p->proj : p->out);
}

static size_t frame_floats(const shoali_recurrent_params *p)
{
    size_t cells = (size_t)p->out;
    return 7 * cells + (p->proj > 0 ? outputs(p) : 0);
}

static size_t saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoali_recurrent_params *p = layer->params;
    size_t both = p->direction == SHOALI_BOTH ? 2 : 1;
    return both * batch * layer->in.height * frame_floats(p) * sizeof(float);
}

static size_t matrix_scratch(const shoali_layer *layer)
{
    const shoali_recurrent_params *p = layer->params;
    uint32_t cells = (uint32_t)p->out;
    return shoali_matrix_scratch(4 * cells, layer->in.width, shoali_block_of(p->kx, p->k)) +
           shoali_matrix_scratch(4 * cells, outputs(p), shoali_block_of(p->kr, p->k)) +
           shoali_matrix_scratch(outputs(p), cells, shoali_block_of(p->ky, p->k));
}

/* dgates and dh of all frames, dc and dm of one. */
static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoali_recurrent_params *p = layer->params;
    size_t cells = (size_t)p->out, frames = layer->in.height;
    return (matrix_scratch(layer) + batch * (frames * (4 * cells + outputs(p)) + 2 * cells)) *
           sizeof(float);
}

static float *take(float **floats, size_t count)
{
    float *taken = *floats;
    *floats += count;
    return taken;
}

/* Views of saved, in blocks of all samples of the batch under way. */
static void open_saved(direction *s, size_t frame, bool second)
{
    size_t rows = (size_t)s->walk.count * s->walk.frames;
    float *saved = s->gates + (second ? rows * frame : 0);
    s->gates = take(&saved, rows * 4 * s->cells);
    s->c = take(&saved, rows * s->cells);
    s->squashed = take(&saved, rows * s->cells);
    s->m = take(&saved, rows * s->cells);
    s->h = s->projects ? take(&saved, rows * s->out) : s->m;
}

/* params, grads and scratch move on, to the next direction's. grads NULL: forward. */
static direction open_cells(const shoali_node *node, const shoali_pass *pass, bool reverse,
                            bool second, const float **params, float **grads, float **scratch)
{
    const shoali_recurrent_params *p = node->layer->params;
    direction s = {.walk = shoali_walk_of(node, pass, reverse),
                   .in = node->layer->in.width,
                   .cells = (uint32_t)p->out,
                   .out = outputs(p),
                   .projects = p->proj > 0,
                   .sigmoid = p->gate == 1,
                   .gates = node->saved};
    open_saved(&s, frame_floats(p), second);
    s.x = shoali_matrix_open(4 * s.cells, s.in, shoali_block_of(p->kx, p->k), params, grads,
                             scratch);
    s.r = shoali_matrix_open(4 * s.cells, s.out, shoali_block_of(p->kr, p->k), params, grads,
                             scratch);
    s.bias = *params;
    s.peephole = p->peephole ? *params + (size_t)4 * s.cells : NULL;
    *params += (size_t)(p->peephole ? 7 : 4) * s.cells;
    if (grads != NULL) {
        s.dbias = *grads;
        s.dpeephole = *grads + (size_t)4 * s.cells;
        *grads += (size_t)(p->peephole ? 7 : 4) * s.cells;
    }
    if (s.projects)
        s.p = shoali_matrix_open(s.out, s.cells, shoali_block_of(p->ky, p->k), params, grads,
                                 scratch);
    return s;
}

/* ---------------------------------------------------------------- forward */

/* One frame of one sample; before: cells of the frame before, NULL: 0. */
static void step_forward(const direction *s, float *restrict gates, const float *restrict before,
                         float *restrict c, float *restrict squashed, float *restrict m)
{
    const uint32_t count = s->cells;
    float *restrict gi = gates, *restrict gf = gates + count, *restrict gz = gates + 2 * count,
                    *restrict go = gates + 3 * count;
    const float *pi = s->peephole != NULL ? s->peephole : gates; /* not read without */
    const float *pf = pi + count, *po = pi + 2 * count;
    if (s->peephole != NULL && before != NULL)
        for (uint32_t i = 0; i < count; i++) {
            gi[i] += pi[i] * before[i];
            gf[i] += pf[i] * before[i];
        }
    for (uint32_t i = 0; i < 2 * count; i++)
        gates[i] = shoali_sigmoid(gates[i]);
    for (uint32_t i = 0; i < count; i++)
        gz[i] = s->sigmoid ? shoali_sigmoid(gz[i]) : shoali_tanh(gz[i]);
    for (uint32_t i = 0; i < count; i++)
        c[i] = gi[i] * gz[i];
    if (before != NULL)
        for (uint32_t i = 0; i < count; i++)
            c[i] += gf[i] * before[i];
    if (s->peephole != NULL)
        for (uint32_t i = 0; i < count; i++)
            go[i] += po[i] * c[i];
    for (uint32_t i = 0; i < count; i++) {
        go[i] = shoali_sigmoid(go[i]);
        squashed[i] = shoali_tanh(c[i]);
        m[i] = go[i] * squashed[i];
    }
}

/* A sample that has no such frame: its cells rest at 0. */
static void step_nothing(const direction *s, size_t at)
{
    memset(s->gates + at * 4 * s->cells, 0, (size_t)4 * s->cells * sizeof(float));
    memset(s->c + at * s->cells, 0, s->cells * sizeof(float));
    memset(s->squashed + at * s->cells, 0, s->cells * sizeof(float));
    memset(s->m + at * s->cells, 0, s->cells * sizeof(float));
}

static void run_forward(direction *s, const float *x)
{
    const shoali_walk *walk = &s->walk;
    size_t gates_step = (size_t)walk->frames * 4 * s->cells,
           out_step = (size_t)walk->frames * s->out, cell_step = (size_t)walk->frames * s->cells;
    shoali_walk_apply(walk, &s->x, s->bias, x, s->gates, (size_t)4 * s->cells);
    for (uint32_t step = 0; step < walk->longest; step++) {
        uint32_t t = shoali_walk_frame(walk, step);
        uint32_t before = step > 0 ? shoali_walk_frame(walk, step - 1) : 0;
        if (step > 0)
            shoali_matrix_apply(&s->r, walk->count, s->h + (size_t)before * s->out, out_step,
                                s->gates + (size_t)t * 4 * s->cells, gates_step, true);
        for (uint32_t n = 0; n < walk->count; n++) {
            size_t at = (size_t)n * walk->frames + t, old = (size_t)n * walk->frames + before;
            if (t >= shoali_walk_length(walk, n))
                step_nothing(s, at);
            else
                step_forward(s, s->gates + at * 4 * s->cells,
                             step > 0 ? s->c + old * s->cells : NULL, s->c + at * s->cells,
                             s->squashed + at * s->cells, s->m + at * s->cells);
        }
        if (s->projects)
            shoali_matrix_apply(&s->p, walk->count, s->m + (size_t)t * s->cells, cell_step,
                                s->h + (size_t)t * s->out, out_step, false);
    }
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_recurrent_params *p = node->layer->params;
    const float *params = node->params;
    uint32_t values = node->layer->out.width;
    for (int d = 0; d < (p->direction == SHOALI_BOTH ? 2 : 1); d++) {
        float *scratch = pass->work;
        bool second = d == 1;
        direction s = open_cells(node, pass, second || p->direction == SHOALI_BACKWARD, second,
                                 &params, NULL, &scratch);
        run_forward(&s, x);
        bool sum = second && p->merge == SHOALI_MERGE_SUM;
        shoali_walk_give(&s.walk, s.h, s.out, y, second && !sum ? s.out : 0, values, sum);
    }
}

/* ---------------------------------------------------------------- backward */

/* One frame of one sample: dm to dgates; dc comes from the frame after, goes to the one before. */
static void step_backward(const direction *s, size_t at, const float *restrict before,
                          const float *restrict dm, float *restrict dgates, float *restrict dc)
{
    const uint32_t count = s->cells;
    const float *gates = s->gates + at * 4 * count, *squashed = s->squashed + at * count;
    const float *restrict gi = gates, *restrict gf = gates + count,
                          *restrict gz = gates + 2 * count, *restrict go = gates + 3 * count;
    const float *pi = s->peephole != NULL ? s->peephole : gates; /* not read without */
    const float *pf = pi + count, *po = pi + 2 * count;
    for (uint32_t i = 0; i < count; i++) {
        float open = dm[i] * squashed[i] * go[i] * (1.0f - go[i]);
        float cell = dc[i] + dm[i] * go[i] * (1.0f - squashed[i] * squashed[i]);
        cell += s->peephole != NULL ? open * po[i] : 0.0f;
        float slope = s->sigmoid ? gz[i] * (1.0f - gz[i]) : 1.0f - gz[i] * gz[i];
        float enter = cell * gz[i] * gi[i] * (1.0f - gi[i]);
        float keep = before != NULL ? cell * before[i] * gf[i] * (1.0f - gf[i]) : 0.0f;
        dgates[i] = enter;
        dgates[count + i] = keep;
        dgates[2 * count + i] = cell * gi[i] * slope;
        dgates[3 * count + i] = open;
        dc[i] = cell * gf[i] + (s->peephole != NULL ? enter * pi[i] + keep * pf[i] : 0.0f);
    }
}

static void learn_peephole(const direction *s, const float *dgates)
{
    const shoali_walk *walk = &s->walk;
    const uint32_t count = s->cells;
    memset(s->dpeephole, 0, (size_t)3 * count * sizeof *s->dpeephole);
    for (uint32_t n = 0; n < walk->count; n++) {
        uint32_t length = shoali_walk_length(walk, n);
        for (uint32_t t = 0; t < length; t++) {
            size_t at = (size_t)n * walk->frames + t;
            const float *d = dgates + at * 4 * count, *c = s->c + at * count;
            bool first = walk->reverse ? t + 1 == length : t == 0;
            const float *before = walk->reverse ? c + count : c - count;
            for (uint32_t i = 0; !first && i < count; i++) {
                s->dpeephole[i] += d[i] * before[i];
                s->dpeephole[count + i] += d[count + i] * before[i];
            }
            for (uint32_t i = 0; i < count; i++)
                s->dpeephole[2 * count + i] += d[3 * count + i] * c[i];
        }
    }
}

/* Scratch of the backward pass. */
typedef struct slopes {
    float *gates, *h; /* [count][frames][..] */
    float *c, *m;     /* [count][cells] */
} slopes;

static void run_backward(direction *s, const slopes *d)
{
    const shoali_walk *walk = &s->walk;
    size_t gates_step = (size_t)walk->frames * 4 * s->cells,
           out_step = (size_t)walk->frames * s->out;
    memset(d->c, 0, (size_t)walk->count * s->cells * sizeof *d->c);
    for (uint32_t step = walk->longest; step-- > 0;) {
        uint32_t t = shoali_walk_frame(walk, step);
        uint32_t before = step > 0 ? shoali_walk_frame(walk, step - 1) : 0;
        float *dh = d->h + (size_t)t * s->out;
        if (step + 1 < walk->longest)
            shoali_matrix_back(&s->r, walk->count,
                               d->gates + (size_t)shoali_walk_frame(walk, step + 1) * 4 * s->cells,
                               gates_step, dh, out_step, true);
        if (s->projects)
            shoali_matrix_back(&s->p, walk->count, dh, out_step, d->m, s->cells, false);
        for (uint32_t n = 0; n < walk->count; n++) {
            size_t at = (size_t)n * walk->frames + t, old = (size_t)n * walk->frames + before;
            float *dgates = d->gates + at * 4 * s->cells, *dc = d->c + (size_t)n * s->cells;
            if (t < shoali_walk_length(walk, n)) {
                step_backward(s, at, step > 0 ? s->c + old * s->cells : NULL,
                              s->projects ? d->m + (size_t)n * s->cells : dh + n * out_step, dgates,
                              dc);
                continue;
            }
            memset(dgates, 0, (size_t)4 * s->cells * sizeof *dgates);
            memset(dc, 0, s->cells * sizeof *dc);
        }
    }
}

static void learn(direction *s, const slopes *d, const float *x)
{
    size_t values = (size_t)4 * s->cells;
    shoali_walk_learn(&s->walk, &s->x, d->gates, values, x, s->in);
    shoali_walk_learn_before(&s->walk, &s->r, d->gates, values, s->h, s->out);
    shoali_walk_bias(&s->walk, d->gates, 4 * s->cells, s->dbias);
    shoali_matrix_close(&s->x);
    shoali_matrix_close(&s->r);
    if (s->peephole != NULL)
        learn_peephole(s, d->gates);
    if (!s->projects)
        return;
    shoali_walk_learn(&s->walk, &s->p, d->h, s->out, s->m, s->cells);
    shoali_matrix_close(&s->p);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_recurrent_params *p = node->layer->params;
    const float *params = node->params;
    float *grads = node->grads;
    uint32_t values = node->layer->out.width;
    (void)y;
    for (int dir = 0; dir < (p->direction == SHOALI_BOTH ? 2 : 1); dir++) {
        float *scratch = pass->work;
        bool second = dir == 1;
        direction s = open_cells(node, pass, second || p->direction == SHOALI_BACKWARD, second,
                                 &params, &grads, &scratch);
        size_t rows = (size_t)pass->count * s.walk.frames;
        slopes d = {.gates = take(&scratch, rows * 4 * s.cells),
                    .h = take(&scratch, rows * s.out),
                    .c = take(&scratch, (size_t)pass->count * s.cells),
                    .m = take(&scratch, (size_t)pass->count * s.cells)};
        shoali_walk_take(&s.walk, dy, second && p->merge == SHOALI_MERGE_CONCAT ? s.out : 0, values,
                         d.h, s.out);
        run_backward(&s, &d);
        learn(&s, &d, x);
        if (dx != NULL)
            shoali_walk_back(&s.walk, &s.x, d.gates, (size_t)4 * s.cells, dx, second);
    }
}

const shoali_exec shoali_exec_lstm = {
    .saved_bytes = saved_bytes, .work_bytes = work_bytes, .forward = forward, .backward = backward};
