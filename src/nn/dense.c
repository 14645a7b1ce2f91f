/* SPDX-License-Identifier: Apache-2.0 */
/* y[n][out] = x[n][in] W^T + b, W float32[out][in]. */
#include <string.h>

#include "nn/exec.h"
#include "nn/gemm.h"
#include "nn/rounded.h"

typedef struct sizes {
    int in, out;
    const float *bias; /* NULL: none */
} sizes;

static sizes dense_sizes(const shoali_node *node)
{
    const shoali_dense_params *p = node->layer->params;
    int in = (int)shoali_shape_elems(node->layer->in), out = (int)p->out;
    return (sizes){in, out, p->bias ? node->params + (size_t)in * (size_t)out : NULL};
}

static bool rounds(const shoali_layer *layer)
{
    return ((const shoali_dense_params *)layer->params)->precision == SHOALI_BF16;
}

/* Two of samples, slopes and weights at a time. */
static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoali_dense_params *p = layer->params;
    const size_t in = (size_t)shoali_shape_elems(layer->in), out = (size_t)p->out;
    const size_t side = in > out ? in : out, both = batch * (in + out);
    const size_t one = batch * side + in * out;
    return rounds(layer) ? shoali_rounded_bytes(one > both ? one : both) : 0;
}

/* c = a b, or c += with add. */
static void product(const shoali_node *node, const shoali_pass *pass, bool turn_a, bool turn_b,
                    int m, int n, int k, const float *a, int a_step, const float *b, int b_step,
                    bool add, float *c)
{
    if (rounds(node->layer))
        shoali_rounded_gemm(turn_a, turn_b, m, n, k, a, a_step, b, b_step, add, c, n, pass->work);
    else
        shoali_gemm(turn_a, turn_b, m, n, k, 1.0f, a, a_step, b, b_step, add ? 1.0f : 0.0f, c, n);
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    sizes s = dense_sizes(node);
    int n = (int)pass->count;
    if (s.bias != NULL)
        for (int i = 0; i < n; i++)
            memcpy(y + (size_t)i * (size_t)s.out, s.bias, (size_t)s.out * sizeof *y);
    product(node, pass, false, true, n, s.out, s.in, x, s.in, node->params, s.in, s.bias != NULL,
            y);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    sizes s = dense_sizes(node);
    int n = (int)pass->count;
    (void)y;
    product(node, pass, true, false, s.out, s.in, n, dy, s.out, x, s.in, false, node->grads);
    if (s.bias != NULL) {
        float *dbias = node->grads + (size_t)s.in * (size_t)s.out;
        memset(dbias, 0, (size_t)s.out * sizeof *dbias);
        for (int i = 0; i < n; i++)
            for (int o = 0; o < s.out; o++)
                dbias[o] += dy[(size_t)i * (size_t)s.out + (size_t)o];
    }
    if (dx != NULL)
        product(node, pass, false, false, n, s.in, s.out, dy, s.out, node->params, s.in, false, dx);
}

const shoali_exec shoali_exec_dense = {
    .work_bytes = work_bytes, .forward = forward, .backward = backward};
