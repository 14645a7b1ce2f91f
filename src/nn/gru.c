/* SPDX-License-Identifier: Apache-2.0 */
/* Gated recurrent units in the form of Cho et al. (2014), in each direction:
 *
 *     z = s(Wxz x + Wrz h' + bz)     v = tanh(Wxv x + Wc (r h') + bv)
 *     r = s(Wxr x + Wrr h' + br)     h = (1 - z) h' + z v           (' : of the frame before) */
#include <string.h>

#include "nn/recurrent.h"
#include "nn/squash.h"

/* One direction of one pass. */
typedef struct units {
    shoali_walk walk;
    uint32_t in, cells;
    shoali_matrix x, r, c;
    const float *bias;
    float *dbias;
    float *gates, *reset, *h; /* saved: [count][frames][3 cells], [cells] (r h'), [cells] */
} units;

static size_t saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoali_recurrent_params *p = layer->params;
    size_t both = p->direction == SHOALI_BOTH ? 2 : 1;
    return both * batch * layer->in.height * 5 * (size_t)p->out * sizeof(float);
}

/* dgates and dh of all frames, dreset of one. */
static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoali_recurrent_params *p = layer->params;
    uint32_t cells = (uint32_t)p->out, k = shoali_block_of(p->kr, p->k);
    size_t matrices = shoali_matrix_scratch(3 * cells, layer->in.width,
                                            shoali_block_of(p->kx, p->k)) +
                      shoali_matrix_scratch(2 * cells, cells, k) +
                      shoali_matrix_scratch(cells, cells, k);
    return (matrices + (size_t)batch * cells * (4 * (size_t)layer->in.height + 1)) * sizeof(float);
}

static float *take(float **floats, size_t count)
{
    float *taken = *floats;
    *floats += count;
    return taken;
}

/* params, grads and scratch move on, to the next direction's. grads NULL: forward. */
static units open_units(const shoali_node *node, const shoali_pass *pass, bool reverse, bool second,
                        const float **params, float **grads, float **scratch)
{
    const shoali_recurrent_params *p = node->layer->params;
    units u = {.walk = shoali_walk_of(node, pass, reverse),
               .in = node->layer->in.width,
               .cells = (uint32_t)p->out};
    uint32_t k = shoali_block_of(p->kr, p->k);
    size_t rows = (size_t)u.walk.count * u.walk.frames;
    float *saved = node->saved;
    saved += second ? rows * 5 * u.cells : 0;
    u.gates = take(&saved, rows * 3 * u.cells);
    u.reset = take(&saved, rows * u.cells);
    u.h = take(&saved, rows * u.cells);
    u.x = shoali_matrix_open(3 * u.cells, u.in, shoali_block_of(p->kx, p->k), params, grads,
                             scratch);
    u.r = shoali_matrix_open(2 * u.cells, u.cells, k, params, grads, scratch);
    u.c = shoali_matrix_open(u.cells, u.cells, k, params, grads, scratch);
    u.bias = *params;
    *params += (size_t)3 * u.cells;
    if (grads != NULL) {
        u.dbias = *grads;
        *grads += (size_t)3 * u.cells;
    }
    return u;
}

/* ---------------------------------------------------------------- forward */

/* Gates of one frame of one sample, and r h'. before NULL: 0. */
static void step_gates(uint32_t cells, float *restrict gates, const float *restrict before,
                       float *restrict reset)
{
    for (uint32_t i = 0; i < 2 * cells; i++)
        gates[i] = shoali_sigmoid(gates[i]);
    for (uint32_t i = 0; i < cells; i++)
        reset[i] = before != NULL ? gates[cells + i] * before[i] : 0.0f;
}

static void step_cells(uint32_t cells, float *restrict gates, const float *restrict before,
                       float *restrict h)
{
    for (uint32_t i = 0; i < cells; i++) {
        float z = gates[i], v = shoali_tanh(gates[2 * cells + i]);
        gates[2 * cells + i] = v;
        h[i] = z * v + (before != NULL ? (1.0f - z) * before[i] : 0.0f);
    }
}

/* Half a step of all samples; those that have no such frame rest at 0. */
static void each_sample(units *u, uint32_t t, uint32_t before, bool has_before, bool gates)
{
    const shoali_walk *walk = &u->walk;
    size_t cells = u->cells;
    for (uint32_t n = 0; n < walk->count; n++) {
        size_t at = (size_t)n * walk->frames + t, old = (size_t)n * walk->frames + before;
        float *own = u->gates + at * 3 * cells;
        const float *h = has_before ? u->h + old * cells : NULL;
        if (t >= shoali_walk_length(walk, n)) {
            memset(own, 0, 3 * cells * sizeof *own);
            memset(u->reset + at * cells, 0, cells * sizeof *u->reset);
            memset(u->h + at * cells, 0, cells * sizeof *u->h);
        } else if (gates) {
            step_gates(u->cells, own, h, u->reset + at * cells);
        } else {
            step_cells(u->cells, own, h, u->h + at * cells);
        }
    }
}

static void run_forward(units *u, const float *x)
{
    const shoali_walk *walk = &u->walk;
    size_t cells = u->cells, step_cells_ = walk->frames * cells;
    shoali_walk_apply(walk, &u->x, u->bias, x, u->gates, 3 * cells);
    for (uint32_t step = 0; step < walk->longest; step++) {
        uint32_t t = shoali_walk_frame(walk, step);
        uint32_t before = step > 0 ? shoali_walk_frame(walk, step - 1) : 0;
        float *gates = u->gates + t * 3 * cells;
        if (step > 0)
            shoali_matrix_apply(&u->r, walk->count, u->h + before * cells, step_cells_, gates,
                                3 * step_cells_, true);
        each_sample(u, t, before, step > 0, true);
        if (step > 0)
            shoali_matrix_apply(&u->c, walk->count, u->reset + t * cells, step_cells_,
                                gates + 2 * cells, 3 * step_cells_, true);
        each_sample(u, t, before, step > 0, false);
    }
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_recurrent_params *p = node->layer->params;
    const float *params = node->params;
    for (int d = 0; d < (p->direction == SHOALI_BOTH ? 2 : 1); d++) {
        float *scratch = pass->work;
        bool second = d == 1, sum = second && p->merge == SHOALI_MERGE_SUM;
        units u = open_units(node, pass, second || p->direction == SHOALI_BACKWARD, second, &params,
                             NULL, &scratch);
        run_forward(&u, x);
        shoali_walk_give(&u.walk, u.h, u.cells, y, second && !sum ? u.cells : 0,
                         node->layer->out.width, sum);
    }
}

/* ---------------------------------------------------------------- backward */

/* dh of this frame to dgates of z and v, and what of it is the frame before's (NULL: none). */
static void step_slopes(const float *restrict gates, uint32_t cells, const float *restrict before,
                        const float *restrict dh, float *restrict dgates, float *restrict dbefore)
{
    for (uint32_t i = 0; i < cells; i++) {
        float z = gates[i], v = gates[2 * cells + i], old = before != NULL ? before[i] : 0.0f;
        dgates[i] = dh[i] * (v - old) * z * (1.0f - z);
        dgates[2 * cells + i] = dh[i] * z * (1.0f - v * v);
    }
    for (uint32_t i = 0; dbefore != NULL && i < cells; i++)
        dbefore[i] += dh[i] * (1.0f - gates[i]);
}

/* The same through the reset gate. */
static void step_reset(const float *restrict gates, uint32_t cells, const float *restrict before,
                       const float *restrict dreset, float *restrict dgates,
                       float *restrict dbefore)
{
    for (uint32_t i = 0; i < cells; i++) {
        float r = gates[cells + i];
        dgates[cells + i] = dreset[i] * before[i] * r * (1.0f - r);
        dbefore[i] += dreset[i] * r;
    }
}

/* Scratch of the backward pass: [count][frames][..], dreset [count][cells]. */
typedef struct slopes {
    float *gates, *h, *reset;
} slopes;

static void each_slope(const units *u, const slopes *d, uint32_t t, uint32_t before,
                       bool has_before, bool reset)
{
    const shoali_walk *walk = &u->walk;
    size_t cells = u->cells;
    for (uint32_t n = 0; n < walk->count; n++) {
        size_t at = (size_t)n * walk->frames + t, old = (size_t)n * walk->frames + before;
        const float *gates = u->gates + at * 3 * cells, *h = has_before ? u->h + old * cells : NULL;
        float *dgates = d->gates + at * 3 * cells, *dold = has_before ? d->h + old * cells : NULL;
        if (!reset)
            memset(dgates, 0, 3 * cells * sizeof *dgates);
        if (t >= shoali_walk_length(walk, n))
            continue;
        if (reset)
            step_reset(gates, u->cells, h, d->reset + n * cells, dgates, dold);
        else
            step_slopes(gates, u->cells, h, d->h + at * cells, dgates, dold);
    }
}

static void run_backward(const units *u, const slopes *d)
{
    const shoali_walk *walk = &u->walk;
    size_t cells = u->cells, row = walk->frames * cells;
    for (uint32_t step = walk->longest; step-- > 0;) {
        uint32_t t = shoali_walk_frame(walk, step);
        uint32_t before = step > 0 ? shoali_walk_frame(walk, step - 1) : 0;
        const float *dgates = d->gates + t * 3 * cells;
        each_slope(u, d, t, before, step > 0, false);
        if (step == 0)
            break; /* nothing before it: r h' is 0 */
        shoali_matrix_back(&u->c, walk->count, dgates + 2 * cells, 3 * row, d->reset, cells, false);
        each_slope(u, d, t, before, true, true);
        shoali_matrix_back(&u->r, walk->count, dgates, 3 * row, d->h + before * cells, row, true);
    }
}

static void learn(units *u, const slopes *d, const float *x)
{
    size_t cells = u->cells;
    shoali_walk_learn(&u->walk, &u->x, d->gates, 3 * cells, x, u->in);
    shoali_walk_learn_before(&u->walk, &u->r, d->gates, 3 * cells, u->h, cells);
    shoali_walk_learn(&u->walk, &u->c, d->gates + 2 * cells, 3 * cells, u->reset, cells);
    shoali_walk_bias(&u->walk, d->gates, 3 * u->cells, u->dbias);
    shoali_matrix_close(&u->x);
    shoali_matrix_close(&u->r);
    shoali_matrix_close(&u->c);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_recurrent_params *p = node->layer->params;
    const float *params = node->params;
    float *grads = node->grads;
    (void)y;
    for (int dir = 0; dir < (p->direction == SHOALI_BOTH ? 2 : 1); dir++) {
        float *scratch = pass->work;
        bool second = dir == 1;
        units u = open_units(node, pass, second || p->direction == SHOALI_BACKWARD, second, &params,
                             &grads, &scratch);
        size_t rows = (size_t)pass->count * u.walk.frames;
        slopes d = {.gates = take(&scratch, rows * 3 * u.cells),
                    .h = take(&scratch, rows * u.cells),
                    .reset = take(&scratch, (size_t)pass->count * u.cells)};
        shoali_walk_take(&u.walk, dy, second && p->merge == SHOALI_MERGE_CONCAT ? u.cells : 0,
                         node->layer->out.width, d.h, u.cells);
        run_backward(&u, &d);
        learn(&u, &d, x);
        if (dx != NULL)
            shoali_walk_back(&u.walk, &u.x, d.gates, (size_t)3 * u.cells, dx, second);
    }
}

const shoali_exec shoali_exec_gru = {
    .saved_bytes = saved_bytes, .work_bytes = work_bytes, .forward = forward, .backward = backward};
