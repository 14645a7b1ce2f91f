/* SPDX-License-Identifier: Apache-2.0 */
/* Block-circulant layers, by shoal/circulant.h in the frequency domain. A convolution for which
 * that does not pay writes its matrix out and runs as an ordinary one: its weights, gradients and
 * traffic are smaller, its work is not.
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

static shoal_status setup(const shoali_node *node, uint32_t batch)
{
    const shoal_circulant_desc desc = desc_of(node->layer, batch);
    kept *k = node->saved;
    k->weights = shoal_circulant_weights(&desc);
    char *memory = (char *)node->saved + HEAD + rounded(k->weights * sizeof(float));
    return shoal_circulant_init(&desc, memory, &k->layer);
}

/* Whether weights differ from those that the spectra are of. These start from zero weights' zero
 * spectra, so the first comparison is right, too. */
static bool is_new(const shoali_node *node, size_t weights)
{
    float *copy = (float *)((char *)node->saved + HEAD);
    if (memcmp(copy, node->params, weights * sizeof *copy) == 0)
        return false;
    memcpy(copy, node->params, weights * sizeof *copy);
    return true;
}

static shoal_circulant *renewed(const shoali_node *node)
{
    const kept *k = node->saved;
    if (is_new(node, k->weights))
        shoal_circulant_set_weights(k->layer, node->params);
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

/* ---------------------------------------------------------------- conv, written out */

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
    return rounded(shoali_exec_conv.saved_bytes(layer, batch));
}

static size_t conv_arena(const conv_sizes *s)
{
    return rounded((s->dense + (s->bias ? s->out : 0)) * sizeof(float));
}

static size_t plain_saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    const conv_sizes s = sizes_of(layer);
    return 2 * conv_arena(&s) + inner_saved(layer, batch);
}

static size_t plain_work_bytes(const shoali_layer *layer, uint32_t batch)
{
    return shoali_exec_conv.work_bytes(layer, batch);
}

static shoali_node inner_node(const shoali_node *node, const conv_sizes *s)
{
    shoali_node inner = *node;
    inner.params = node->saved;
    inner.grads = (float *)((char *)node->saved + conv_arena(s));
    inner.saved = (char *)node->saved + 2 * conv_arena(s);
    return inner;
}

static shoal_status plain_setup(const shoali_node *node, uint32_t batch)
{
    const conv_sizes s = sizes_of(node->layer);
    const shoali_node inner = inner_node(node, &s);
    return shoali_exec_conv.setup(&inner, batch);
}

static void plain_teardown(const shoali_node *node)
{
    const conv_sizes s = sizes_of(node->layer);
    const shoali_node inner = inner_node(node, &s);
    shoali_exec_conv.teardown(&inner);
}

static void plain_forward(const shoali_node *node, const shoali_pass *pass, const float *x,
                          float *y)
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

static void plain_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
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

/* ---------------------------------------------------------------- conv */

/* Measured: faster at every shape and block tried, 8 to 512 channels (docs/circulant.md); other
 * sizes have no fast transform. */
static bool pays(const shoal_circulant_conv_desc *d)
{
    return d->block >= 2 && (d->block & (d->block - 1)) == 0;
}

static shoal_circulant_conv_desc conv_desc_of(const shoali_layer *layer, bool rectify)
{
    const shoali_circulant_conv_params *p = layer->params;
    shoal_circulant_conv_desc desc = SHOAL_CIRCULANT_CONV_DESC_INIT;
    desc.in = layer->in.channels;
    desc.out = layer->out.channels;
    desc.height = layer->in.height;
    desc.width = layer->in.width;
    desc.kernel = (uint32_t)p->conv.kernel;
    desc.stride = (uint32_t)p->conv.stride;
    desc.pad = (uint32_t)p->conv.pad;
    desc.block = (uint32_t)p->block;
    desc.training = true;
    desc.rectify = rectify;
    return desc;
}

typedef struct kept_conv {
    shoal_circulant_conv *layer; /* NULL: written out */
    size_t weights;
} kept_conv;

/* Bytes of the convolution in the frequency domain; 0: it is written out. */
static size_t conv_bytes(const shoali_layer *layer)
{
    const shoal_circulant_conv_desc desc = conv_desc_of(layer, false);
    size_t bytes = 0;
    if (!pays(&desc) || shoal_circulant_conv_bytes(&desc, &bytes) != SHOAL_OK)
        return 0;
    return bytes;
}

static size_t conv_saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    const shoal_circulant_conv_desc desc = conv_desc_of(layer, false);
    const size_t bytes = conv_bytes(layer);
    if (bytes == 0)
        return HEAD + plain_saved_bytes(layer, batch);
    return HEAD + rounded(shoal_circulant_conv_weights(&desc) * sizeof(float)) + bytes;
}

static size_t conv_work_bytes(const shoali_layer *layer, uint32_t batch)
{
    return conv_bytes(layer) == 0 ? plain_work_bytes(layer, batch) : 0;
}

static shoali_node plain_node(const shoali_node *node)
{
    shoali_node plain = *node;
    plain.saved = (char *)node->saved + HEAD;
    return plain;
}

static shoal_status conv_setup(const shoali_node *node, uint32_t batch)
{
    const shoal_circulant_conv_desc desc = conv_desc_of(node->layer, node->rectify);
    kept_conv *k = node->saved;
    if (conv_bytes(node->layer) == 0) {
        const shoali_node plain = plain_node(node);
        return plain_setup(&plain, batch);
    }
    k->weights = shoal_circulant_conv_weights(&desc);
    char *memory = (char *)node->saved + HEAD + rounded(k->weights * sizeof(float));
    return shoal_circulant_conv_init(&desc, memory, &k->layer);
}

static void conv_teardown(const shoali_node *node)
{
    const shoali_node plain = plain_node(node);
    if (conv_bytes(node->layer) == 0)
        plain_teardown(&plain);
}

static shoal_circulant_conv *renewed_conv(const shoali_node *node)
{
    const kept_conv *k = node->saved;
    if (is_new(node, k->weights))
        shoal_circulant_conv_set_weights(k->layer, node->params);
    return k->layer;
}

static void conv_forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const shoali_circulant_conv_params *p = node->layer->params;
    const kept_conv *k = node->saved;
    if (k->layer == NULL) {
        const shoali_node plain = plain_node(node);
        plain_forward(&plain, pass, x, y);
        return;
    }
    const float *bias = p->conv.bias ? node->params + k->weights : NULL;
    shoal_circulant_conv_forward(renewed_conv(node), x, pass->count, bias, y);
}

/* In chains enough for a register. */
static float sum_of(const float *x, size_t count)
{
    enum { CHAINS = 16 };
    float sums[CHAINS] = {0};
    size_t i = 0;
    for (; i + CHAINS <= count; i += CHAINS)
        for (size_t c = 0; c < CHAINS; c++)
            sums[c] += x[i + c];
    for (; i < count; i++)
        sums[0] += x[i];
    for (size_t c = 1; c < CHAINS; c++)
        sums[0] += sums[c];
    return sums[0];
}

/* The gradient before max(y, 0), and the biases'. */
static void open_slopes(const shoali_node *node, uint32_t count, const float *y, float *dy,
                        float *dbias)
{
    const size_t out = node->layer->out.channels,
                 pixels = (size_t)node->layer->out.height * node->layer->out.width;
    for (size_t i = 0; node->rectify && i < count * out * pixels; i++)
        dy[i] = y[i] > 0.0f ? dy[i] : 0.0f;
    for (size_t o = 0; dbias != NULL && o < out; o++) {
        dbias[o] = 0;
        for (size_t n = 0; n < count; n++)
            dbias[o] += sum_of(dy + (n * out + o) * pixels, pixels);
    }
}

static void conv_backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                          const float *y, float *dy, float *dx)
{
    const shoali_circulant_conv_params *p = node->layer->params;
    const kept_conv *k = node->saved;
    if (k->layer == NULL) {
        const shoali_node plain = plain_node(node);
        plain_backward(&plain, pass, x, y, dy, dx);
        return;
    }
    open_slopes(node, pass->count, y, dy, p->conv.bias ? node->grads + k->weights : NULL);
    shoal_circulant_conv_backward(k->layer, x, dy, pass->count, dx, node->grads);
    shoali_kernel()->scale(node->grads, 1.0f / (float)p->block, k->weights);
}

const shoali_exec shoali_exec_circulant_conv = {.rectifies = true,
                                                .saved_bytes = conv_saved_bytes,
                                                .work_bytes = conv_work_bytes,
                                                .setup = conv_setup,
                                                .teardown = conv_teardown,
                                                .forward = conv_forward,
                                                .backward = conv_backward};
