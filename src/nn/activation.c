/* SPDX-License-Identifier: Apache-2.0 */
/* relu, tanh, and flatten, which is a shape and no work. */
#include <math.h>

#include "nn/exec.h"

static size_t elems(const shoali_node *node, const shoali_pass *pass)
{
    return (size_t)shoali_shape_elems(node->layer->out) * pass->count;
}

/* Written so that NaN passes: the exchange is to find and name it. */
static void relu_forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    size_t n = elems(node, pass);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static void relu_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                          const float *y, float *dy, float *dx)
{
    size_t n = elems(node, pass);
    (void)x;
    for (size_t i = 0; dx != NULL && i < n; i++)
        dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

const shoali_exec shoali_exec_relu = {.forward = relu_forward, .backward = relu_backward};

static void tanh_forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    size_t n = elems(node, pass);
    for (size_t i = 0; i < n; i++)
        y[i] = tanhf(x[i]);
}

static void tanh_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                          const float *y, float *dy, float *dx)
{
    size_t n = elems(node, pass);
    (void)x;
    for (size_t i = 0; dx != NULL && i < n; i++)
        dx[i] = (1.0f - y[i] * y[i]) * dy[i];
}

const shoali_exec shoali_exec_tanh = {.forward = tanh_forward, .backward = tanh_backward};

const shoali_exec shoali_exec_flatten = {0};
