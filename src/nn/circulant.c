/* SPDX-License-Identifier: Apache-2.0 */
/* Block-circulant layers. `circulant` runs by shoal/circulant.h in the frequency domain;
 * `circulant_conv` writes its matrix out and runs as a convolution (a block's channels are planes
 * here, far apart): its weights, gradients and traffic are smaller, its work is not.
 *
 * Gradients leave in mean form: divided by the block's side k they are means of the dense layer's
 * gradients, not sums. So SGD moves the matrix as the projection of a dense step would, at the
 * dense layer's rate, and codecs with absolute bounds see the magnitudes that they are made for. */
#include <stdint.h>
#include <string.h>

#include "kernel/kernel.h"
#include "nn/exec.h"
#include "shoal/circulant.h"

/* ---------------------------------------------------------------- dense */

/* What stands in front of saved memory, then a copy of the weights that the spectra are of, then
 * the layer. The copy tells when to renew them: whoever writes parameters need not say so. */
typedef struct kept {
    shoal_circulant *layer;
    size_t weights;
} kept;

enum { HEAD = 64 };

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static shoal_circulant_desc desc_of(const shoali_layer *layer, uint32_t batch)
{
    const shoali_circulant_params *p = layer->params;
    shoal_circulant_desc desc = SHOAL_CIRCULANT_DESC_INIT;
    desc.in = (uint32_t)shoali_shape_elems(layer->in);
    desc.out = (uint32_t)p->out;
    desc.block = (uint32_t)p->block;
    desc.batch_max = batch;
    desc.training = true;
    return desc;
}

/* infer() admits no sizes that the kernels refuse; a layer too large for memory fails there. */
static size_t saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoal_circulant_desc desc = desc_of(layer, batch);
    size_t bytes = 0;
    if (shoal_circulant_bytes(&desc, &bytes) != SHOAL_OK)
        return SIZE_MAX;
    return HEAD + rounded(shoal_circulant_weights(&desc) * sizeof(float)) + bytes;
}

static void setup(const shoali_node *node, uint32_t batch)
{
    const shoal_circulant_desc desc = desc_of(node->layer, batch);
    kept *k = node->saved;
    k->weights = shoal_circulant_weights(&desc);
    char *memory = (char *)node->saved + HEAD + rounded(k->weights * sizeof(float));
    if (shoal_circulant_init(&desc, memory, &k->layer) != SHOAL_OK)
        k->layer = NULL; /* saved_bytes has refused the same description already */
}

/* New weights start from zero spectra of zero weights, so the first comparison is right, too. */
static shoal_circulant *renewed(const shoali_node *node)
{
    const kept *k = node->saved;
    float *copy = (float *)((char *)node->saved + HEAD);
    if (memcmp(copy, node->params, k->weights * sizeof *copy) != 0) {
        memcpy(copy, node->params, k->weights * sizeof *copy);
        shoal_circulant_set_weights(k->layer, copy);
    }
    return k->layer;
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_circulant_params *p = node->layer->params;
    const kept *k = node->saved;
    const float *bias = p->bias ? node->params + k->weights : NULL;
    shoal_circulant_forward(renewed(node), x, pass->count, bias, y);
}

static void sum_rows(const float *dy, size_t rows, size_t columns, float *sums)
{
    memset(sums, 0, columns * sizeof *sums);
    for (size_t r = 0; r < rows; r++)
        shoali_kernel()->add(sums, dy + r * columns, columns);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const shoali_circulant_params *p = node->layer->params;
    const kept *k = node->saved;
    (void)x; /* its spectra are kept from the forward pass */
    (void)y;
    if (p->bias)
        sum_rows(dy, pass->count, (size_t)p->out, node->grads + k->weights);
    shoal_circulant_backward(k->layer, dy, pass->count, dx, node->grads);
    shoali_kernel()->scale(node->grads, 1.0f / (float)p->block, k->weights);
}

const shoali_exec shoali_exec_circulant = {
    .saved_bytes = saved_bytes, .setup = setup, .forward = forward, .backward = backward};

/* ---------------------------------------------------------------- conv */

extern const shoali_exec shoali_exec_conv; /* its keys are the first of ours */

typedef struct conv_sizes {
    size_t in, out, taps, p, q, k, dense, weights;
    bool bias;
} conv_sizes;

static conv_sizes sizes_of(const shoali_layer *layer)
{
    const shoali_circulant_conv_params *c = layer->params;
    conv_sizes s = {.in = layer->in.channels,
                    .out = (size_t)c->conv.out,
                    .taps = (size_t)(c->conv.kernel * c->conv.kernel),
                    .k = (size_t)c->block,
                    .bias = c->conv.bias};
    s.p = (s.out + s.k - 1) / s.k;
    s.q = (s.in + s.k - 1) / s.k;
    s.dense = s.taps * s.in * s.out;
    s.weights = s.taps * s.p * s.q * s.k;
    return s;
}

/* Where the weight of (tap, out, in) stands. */
static size_t place(const conv_sizes *s, size_t tap, size_t o, size_t i)
{
    size_t block = (tap * s->p + o / s->k) * s->q + i / s->k;
    return block * s->k + (o % s->k + s->k - i % s->k) % s->k;
}

/* saved: what conv saves, then its weights and gradients with biases. */
static size_t inner_saved(const shoali_layer *layer, uint32_t batch)
{
    if (shoali_exec_conv.saved_bytes == NULL)
        return 0;
    return rounded(shoali_exec_conv.saved_bytes(layer, batch));
}

static size_t conv_arena(const conv_sizes *s)
{
    return rounded((s->dense + (s->bias ? s->out : 0)) * sizeof(float));
}

static size_t conv_saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    const conv_sizes s = sizes_of(layer);
    return 2 * conv_arena(&s) + inner_saved(layer, batch);
}

static size_t conv_work_bytes(const shoali_layer *layer, uint32_t batch)
{
    return shoali_exec_conv.work_bytes != NULL ? shoali_exec_conv.work_bytes(layer, batch) : 0;
}

static shoali_node inner_node(const shoali_node *node, const conv_sizes *s)
{
    shoali_node inner = *node;
    inner.params = node->saved;
    inner.grads = (float *)((char *)node->saved + conv_arena(s));
    inner.saved = (char *)node->saved + 2 * conv_arena(s);
    return inner;
}

static void conv_forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const conv_sizes s = sizes_of(node->layer);
    const shoali_node inner = inner_node(node, &s);
    float *w = inner.params;
    for (size_t o = 0; o < s.out; o++)
        for (size_t i = 0; i < s.in; i++)
            for (size_t tap = 0; tap < s.taps; tap++)
                *w++ = node->params[place(&s, tap, o, i)];
    if (s.bias)
        memcpy(w, node->params + s.weights, s.out * sizeof *w);
    shoali_exec_conv.forward(&inner, pass, x, y);
}

static void conv_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                          const float *y, float *dy, float *dx)
{
    const conv_sizes s = sizes_of(node->layer);
    const shoali_node inner = inner_node(node, &s);
    shoali_exec_conv.backward(&inner, pass, x, y, dy, dx);
    const float *g = inner.grads;
    memset(node->grads, 0, s.weights * sizeof *g);
    for (size_t o = 0; o < s.out; o++)
        for (size_t i = 0; i < s.in; i++)
            for (size_t tap = 0; tap < s.taps; tap++)
                node->grads[place(&s, tap, o, i)] += *g++;
    shoali_kernel()->scale(node->grads, 1.0f / (float)s.k, s.weights);
    if (s.bias)
        memcpy(node->grads + s.weights, g, s.out * sizeof *g);
}

const shoali_exec shoali_exec_circulant_conv = {.rectifies = true,
                                                .saved_bytes = conv_saved_bytes,
                                                .work_bytes = conv_work_bytes,
                                                .forward = conv_forward,
                                                .backward = conv_backward};
