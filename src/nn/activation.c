/* SPDX-License-Identifier: Apache-2.0 */
/* relu, tanh, sigmoid, silu, gelu, and flatten, which is a shape and no work. What is no number
 * stays so: the exchange is to find and name it. */
#include <math.h>

#include "nn/exec.h"
#include "nn/squash.h"

static size_t elems(const shoali_node *node, const shoali_pass *pass)
{
    return (size_t)shoali_shape_elems(node->layer->out) * pass->count;
}

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

const shoali_exec shoali_exec_relu = {
    .continues = true, .forward = relu_forward, .backward = relu_backward};

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

const shoali_exec shoali_exec_tanh = {
    .continues = true, .forward = tanh_forward, .backward = tanh_backward};

/* ---------------------------------------------------------------- the smooth ones */

static float sigmoid_of(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static void sigmoid_forward(const shoali_node *node, const shoali_pass *pass, const float *x,
                            float *y)
{
    size_t n = elems(node, pass);
    for (size_t i = 0; i < n; i++)
        y[i] = sigmoid_of(x[i]);
}

static void sigmoid_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                             const float *y, float *dy, float *dx)
{
    size_t n = elems(node, pass);
    (void)x;
    for (size_t i = 0; dx != NULL && i < n; i++)
        dx[i] = y[i] * (1.0f - y[i]) * dy[i];
}

const shoali_exec shoali_exec_sigmoid = {
    .continues = true, .forward = sigmoid_forward, .backward = sigmoid_backward};

/* x s(x), whose slope is s + x s (1 - s). Neither it nor gelu rises all the way: an output does not
 * tell its input, which therefore stays. */
static void silu_forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    size_t n = elems(node, pass);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * sigmoid_of(x[i]);
}

static void silu_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                          const float *y, float *dy, float *dx)
{
    size_t n = elems(node, pass);
    (void)y;
    for (size_t i = 0; dx != NULL && i < n; i++) {
        float s = sigmoid_of(x[i]);
        dx[i] = (s + x[i] * s * (1.0f - s)) * dy[i];
    }
}

const shoali_exec shoali_exec_silu = {
    .continues = true, .forward = silu_forward, .backward = silu_backward};

/* Hendrycks and Gimpel, arXiv 1606.08415, section 2: x P(x), or its approximation by tanh. The
 * slope is P + x p with the density p = exp(-x^2 / 2) / sqrt(2 pi). */
static bool is_tanh(const shoali_node *node)
{
    return ((const shoali_gelu_params *)node->layer->params)->tanh;
}

/* Its approximation: x (1 + tanh u) / 2 = x s(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), without
 * what cancels far below 0. */
static float bent_rise(float x)
{
    return 1.59576912f * (x + 0.044715f * x * x * x);
}

/* With e = exp(-2 u), 1 - s is e s, which keeps its digits where s is nearly 1. */
static float bent_slope(float x)
{
    const float e = shoali_exp(-bent_rise(x)), s = 1.0f / (1.0f + e);
    return s + x * s * (e * s) * 1.59576912f * (1.0f + 3 * 0.044715f * x * x);
}

static void gelu_forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    size_t n = elems(node, pass);
    if (is_tanh(node))
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * shoali_sigmoid(bent_rise(x[i]));
    else
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * shoali_normal_below(x[i], shoali_normal_fall(x[i]));
}

static void gelu_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                          const float *y, float *dy, float *dx)
{
    size_t n = elems(node, pass);
    (void)y;
    if (is_tanh(node)) {
        for (size_t i = 0; dx != NULL && i < n; i++)
            dx[i] = bent_slope(x[i]) * dy[i];
        return;
    }
    for (size_t i = 0; dx != NULL && i < n; i++) {
        const float fall = shoali_normal_fall(x[i]);
        dx[i] = (shoali_normal_below(x[i], fall) + x[i] * 0.39894228f * fall) * dy[i];
    }
}

const shoali_exec shoali_exec_gelu = {
    .continues = true, .forward = gelu_forward, .backward = gelu_backward};

const shoali_exec shoali_exec_flatten = {0};
