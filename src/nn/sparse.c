/* SPDX-License-Identifier: Apache-2.0 */
/* y = the sum over a sample's pairs (id, value) of value times row id of a table: a linear model of
 * features of which a sample has few. Behind its last pair there are ids below 0. With a bias the
 * last row belongs to every sample, with value 1. The gradient is zero but in the rows of the
 * batch, which it lists. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/exec.h"

/* Rows of the last batch, once each, ascending. */
typedef struct touched {
    size_t count;
    uint32_t rows[];
} touched;

static size_t saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    return sizeof(touched) + ((size_t)batch * layer->in.height + 1) * sizeof(uint32_t);
}

static bool is_row(const shoali_sparse_params *p, float id)
{
    return id >= 0 && id < (float)p->vocab;
}

static void add_row(const float *row, float value, size_t out, float *y)
{
    for (size_t k = 0; k < out; k++)
        y[k] += value * row[k];
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_sparse_params *p = node->layer->params;
    const size_t out = (size_t)p->out, pairs = node->layer->in.height;
    for (size_t n = 0; n < pass->count; n++, x += 2 * pairs, y += out) {
        memset(y, 0, out * sizeof *y);
        if (p->bias)
            add_row(node->params + (size_t)p->vocab * out, 1, out, y);
        for (size_t i = 0; i < pairs && !(x[2 * i] < 0); i++) {
            if (is_row(p, x[2 * i]))
                add_row(node->params + (size_t)x[2 * i] * out, x[2 * i + 1], out, y);
            for (size_t k = 0; k < out && isnan(x[2 * i]); k++)
                y[k] = x[2 * i];
        }
    }
}

static int by_row(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void list_rows(const shoali_node *node, uint32_t count, const float *x)
{
    const shoali_sparse_params *p = node->layer->params;
    const size_t pairs = node->layer->in.height;
    touched *t = node->saved;
    size_t all = 0;
    for (size_t n = 0; n < count; n++, x += 2 * pairs)
        for (size_t i = 0; i < pairs && !(x[2 * i] < 0); i++)
            if (is_row(p, x[2 * i]))
                t->rows[all++] = (uint32_t)x[2 * i];
    if (p->bias)
        t->rows[all++] = (uint32_t)p->vocab;
    qsort(t->rows, all, sizeof *t->rows, by_row);
    t->count = 0;
    for (size_t i = 0; i < all; i++)
        if (i == 0 || t->rows[i] != t->rows[i - 1])
            t->rows[t->count++] = t->rows[i];
}

static const uint32_t *rows(const shoali_node *node, size_t *count_out)
{
    const touched *t = node->saved;
    *count_out = t->count;
    return t->rows;
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_sparse_params *p = node->layer->params;
    const size_t out = (size_t)p->out, pairs = node->layer->in.height;
    const float *sample = x;
    (void)y;
    memset(node->grads, 0, (size_t)node->layer->param_count * sizeof *node->grads);
    for (size_t n = 0; n < pass->count; n++, sample += 2 * pairs, dy += out) {
        if (p->bias)
            add_row(dy, 1, out, node->grads + (size_t)p->vocab * out);
        for (size_t i = 0; i < pairs && !(sample[2 * i] < 0); i++)
            if (is_row(p, sample[2 * i]))
                add_row(dy, sample[2 * i + 1], out, node->grads + (size_t)sample[2 * i] * out);
    }
    list_rows(node, pass->count, x);
    if (dx != NULL) /* nothing that learns stands before it */
        memset(dx, 0, (size_t)pass->count * 2 * pairs * sizeof *dx);
}

const shoali_exec shoali_exec_sparse = {
    .saved_bytes = saved_bytes, .forward = forward, .backward = backward, .rows = rows};

/* A loss (loss.c) and no work. */
const shoali_exec shoali_exec_hinge = {0};
