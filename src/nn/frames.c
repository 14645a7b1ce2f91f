/* SPDX-License-Identifier: Apache-2.0 */
/* onehot, framewise, and ctc, which is a loss and no work. */
#include <math.h>
#include <string.h>

#include "nn/recurrent.h"

/* ---------------------------------------------------------------- onehot */

/* What is no token of the table, behind a sample's end for instance, is all 0; NaN stays one. */
static void onehot_forward(const shoali_node *node, const shoali_pass *pass, const float *x,
                           float *y)
{
    const shoali_onehot_params *p = node->layer->params;
    shoali_walk walk = shoali_walk_of(node, pass, false);
    size_t classes = (size_t)p->classes;
    memset(y, 0, (size_t)walk.count * walk.frames * classes * sizeof *y);
    for (uint32_t n = 0; n < walk.count; n++)
        for (uint32_t t = 0; t < shoali_walk_length(&walk, n); t++) {
            size_t at = (size_t)n * walk.frames + t;
            if (x[at] >= 0 && x[at] < (float)classes)
                y[at * classes + (size_t)x[at]] = 1.0f;
            else if (isnan(x[at]))
                y[at * classes] = x[at];
        }
}

/* A token has no slope. */
static void onehot_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                            const float *y, float *dy, float *dx)
{
    (void)x;
    (void)y;
    (void)dy;
    if (dx != NULL)
        memset(dx, 0, (size_t)pass->count * node->layer->in.height * sizeof *dx);
}

const shoali_exec shoali_exec_onehot = {
    .continues = true, .forward = onehot_forward, .backward = onehot_backward};

/* ---------------------------------------------------------------- framewise */

static size_t framewise_work(const shoali_layer *layer, uint32_t batch)
{
    const shoali_framewise_params *p = layer->params;
    (void)batch;
    if (p->precision == SHOALI_BF16)
        return shoali_matrix_rounded((uint32_t)p->out, layer->in.width);
    return shoali_matrix_scratch((uint32_t)p->out, layer->in.width, (uint32_t)p->k) * sizeof(float);
}

static void framewise_forward(const shoali_node *node, const shoali_pass *pass, const float *x,
                              float *y)
{
    const shoali_framewise_params *p = node->layer->params;
    const float *params = node->params;
    float *scratch = pass->work;
    shoali_walk walk = shoali_walk_of(node, pass, false);
    size_t out = (size_t)p->out;
    shoali_matrix w = shoali_matrix_open((uint32_t)out, node->layer->in.width, (uint32_t)p->k,
                                         &params, NULL, &scratch);
    w.rounded = p->precision == SHOALI_BF16 ? pass->work : NULL;
    shoali_walk_apply(&walk, &w, p->bias ? params : NULL, x, y, out);
    shoali_walk_clear(&walk, y, out);
}

static void framewise_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                               const float *y, float *dy, float *dx)
{
    const shoali_framewise_params *p = node->layer->params;
    const float *params = node->params;
    float *grads = node->grads, *scratch = pass->work;
    shoali_walk walk = shoali_walk_of(node, pass, false);
    size_t out = (size_t)p->out;
    (void)y;
    shoali_matrix w = shoali_matrix_open((uint32_t)out, node->layer->in.width, (uint32_t)p->k,
                                         &params, &grads, &scratch);
    w.rounded = p->precision == SHOALI_BF16 ? pass->work : NULL;
    shoali_walk_learn(&walk, &w, dy, out, x, node->layer->in.width);
    shoali_matrix_close(&w);
    if (p->bias)
        shoali_walk_bias(&walk, dy, (uint32_t)out, grads);
    if (dx != NULL)
        shoali_walk_back(&walk, &w, dy, out, dx, false);
}

const shoali_exec shoali_exec_framewise = {.continues = true,
                                           .work_bytes = framewise_work,
                                           .forward = framewise_forward,
                                           .backward = framewise_backward};

const shoali_exec shoali_exec_ctc = {0};
