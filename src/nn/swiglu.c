/* SPDX-License-Identifier: Apache-2.0 */
/* down(silu(gate x) * up x), frame by frame (Shazeer, arXiv 2002.05202). */
#include "nn/recurrent.h"
#include "nn/squash.h"

/* Both products are kept; what comes of them is made again. */
typedef struct swiglu {
    shoali_walk walk;
    size_t ff;
    float *gate, *up; /* [count][frames][ff] */
    shoali_matrix to_gate, to_up, down;
} swiglu;

static size_t pair_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoali_swiglu_params *p = layer->params;
    return 2 * (size_t)batch * layer->in.height * (size_t)p->ff * sizeof(float);
}

static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoali_swiglu_params *p = layer->params;
    const bool rounds = p->precision == SHOALI_BF16;
    return pair_bytes(layer, batch) +
           (rounds ? 64 + shoali_matrix_rounded((uint32_t)p->ff, layer->in.width) : 0);
}

static swiglu open_it(const shoali_node *node, const shoali_pass *pass, bool training)
{
    const shoali_swiglu_params *p = node->layer->params;
    const uint32_t ff = (uint32_t)p->ff, width = node->layer->in.width;
    const float *params = node->params;
    float *grads = node->grads, *scratch = NULL, **to = training ? &grads : NULL;
    swiglu s = {.walk = shoali_walk_of(node, pass, false), .ff = ff, .gate = node->saved};
    s.up = s.gate + (size_t)pass->count * s.walk.frames * ff;
    s.to_gate = shoali_matrix_open(ff, width, 1, &params, to, &scratch);
    s.to_up = shoali_matrix_open(ff, width, 1, &params, to, &scratch);
    s.down = shoali_matrix_open(width, ff, 1, &params, to, &scratch);
    if (p->precision == SHOALI_BF16) /* behind the pair, aligned */
        s.to_gate.rounded = s.to_up.rounded = s.down.rounded =
            (char *)pass->work + (pair_bytes(node->layer, pass->count) + 63) / 64 * 64;
    return s;
}

/* Where a sample's frames that are computed begin, in [count][frames][ff], and how many values. */
static size_t first_of(const swiglu *s, uint32_t n, size_t *count_out)
{
    *count_out = (shoali_walk_length(&s->walk, n) - s->walk.from) * s->ff;
    return ((size_t)n * s->walk.frames + s->walk.from) * s->ff;
}

static void mix(const swiglu *s, float *mixed)
{
    size_t count;
    for (uint32_t n = 0; n < s->walk.count; n++) {
        const size_t at = first_of(s, n, &count);
        const float *g = s->gate + at, *u = s->up + at;
        for (size_t i = 0; i < count; i++)
            mixed[at + i] = g[i] * shoali_sigmoid(g[i]) * u[i];
    }
}

/* mixed becomes the slope of up, dmixed that of gate. */
static void mix_back(const swiglu *s, float *mixed, float *dmixed)
{
    size_t count;
    for (uint32_t n = 0; n < s->walk.count; n++) {
        const size_t at = first_of(s, n, &count);
        const float *g = s->gate + at, *u = s->up + at;
        for (size_t i = 0; i < count; i++) {
            const float share = shoali_sigmoid(g[i]), d = dmixed[at + i];
            mixed[at + i] = d * g[i] * share;
            dmixed[at + i] = d * u[i] * (share + g[i] * share * (1.0f - share));
        }
    }
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const swiglu s = open_it(node, pass, false);
    float *mixed = pass->work;
    shoali_walk_apply(&s.walk, &s.to_gate, NULL, x, s.gate, s.ff);
    shoali_walk_apply(&s.walk, &s.to_up, NULL, x, s.up, s.ff);
    mix(&s, mixed);
    shoali_walk_apply(&s.walk, &s.down, NULL, mixed, y, node->layer->out.width);
    shoali_walk_clear(&s.walk, y, node->layer->out.width);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const size_t width = node->layer->in.width;
    swiglu s = open_it(node, pass, true);
    float *mixed = pass->work, *dmixed = mixed + (size_t)pass->count * s.walk.frames * s.ff;
    (void)y;
    mix(&s, mixed);
    shoali_walk_learn(&s.walk, &s.down, dy, width, mixed, s.ff);
    shoali_walk_back(&s.walk, &s.down, dy, width, dmixed, false);
    mix_back(&s, mixed, dmixed);
    shoali_walk_learn(&s.walk, &s.to_gate, dmixed, s.ff, x, width);
    shoali_walk_learn(&s.walk, &s.to_up, mixed, s.ff, x, width);
    shoali_matrix_close(&s.to_gate);
    shoali_matrix_close(&s.to_up);
    shoali_matrix_close(&s.down);
    if (dx == NULL)
        return;
    shoali_walk_back(&s.walk, &s.to_gate, dmixed, s.ff, dx, false);
    shoali_walk_back(&s.walk, &s.to_up, mixed, s.ff, dx, true);
}

const shoali_exec shoali_exec_swiglu = {.continues = true,
                                        .saved_bytes = pair_bytes,
                                        .work_bytes = work_bytes,
                                        .forward = forward,
                                        .backward = backward};
