/* SPDX-License-Identifier: Apache-2.0 */
/* y[n][out] = x[n][in] W^T + b, W float32[out][in]. */
#include <string.h>

#include "nn/exec.h"
#include "nn/gemm.h"

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

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    sizes s = dense_sizes(node);
    int n = (int)pass->count;
    if (s.bias != NULL)
        for (int i = 0; i < n; i++)
            memcpy(y + (size_t)i * (size_t)s.out, s.bias, (size_t)s.out * sizeof *y);
    shoali_gemm(false, true, n, s.out, s.in, 1.0f, x, s.in, node->params, s.in,
                s.bias != NULL ? 1.0f : 0.0f, y, s.out);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    sizes s = dense_sizes(node);
    int n = (int)pass->count;
    (void)y;
    shoali_gemm(true, false, s.out, s.in, n, 1.0f, dy, s.out, x, s.in, 0.0f, node->grads, s.in);
    if (s.bias != NULL) {
        float *dbias = node->grads + (size_t)s.in * (size_t)s.out;
        memset(dbias, 0, (size_t)s.out * sizeof *dbias);
        for (int i = 0; i < n; i++)
            for (int o = 0; o < s.out; o++)
                dbias[o] += dy[(size_t)i * (size_t)s.out + (size_t)o];
    }
    if (dx != NULL)
        shoali_gemm(false, false, n, s.in, s.out, 1.0f, dy, s.out, node->params, s.in, 0.0f, dx,
                    s.in);
}

const shoali_exec shoali_exec_dense = {.forward = forward, .backward = backward};
