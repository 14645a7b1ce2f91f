/* SPDX-License-Identifier: Apache-2.0 */
/* A sample's values as vectors of one width, and their products: of each two vectors, summed up, as
 * the features' interactions in DLRM (Naumov et al., 2019), behind the first `keep` vectors as they
 * are; or, value by value, those of all vectors together, as in generalised matrix factorisation
 * (He et al., WWW 2017). Without parameters. */
#include <string.h>

#include "base/error.h"
#include "nn/exec.h"

extern const shoali_layer_row shoali_layer_dots;
extern const shoali_exec shoali_exec_dots;

typedef shoali_dots_params dots_params;

static uint64_t vectors_of(const shoali_layer *layer)
{
    const dots_params *p = layer->params;
    return shoali_shape_elems(layer->in) / (uint64_t)p->width;
}

static shoal_status infer(shoal_model *model, shoali_layer *layer)
{
    const dots_params *p = layer->params;
    const uint64_t elems = shoali_shape_elems(layer->in), width = (uint64_t)p->width;
    const uint64_t n = elems / width, pairs = n * (n - 1) / 2;
    (void)model;
    if (elems % width != 0 || n < 2)
        return shoali_fail(SHOAL_EINVAL, "%llu values are no two or more vectors of %lld",
                           (unsigned long long)elems, (long long)p->width);
    if (p->by == SHOALI_DOTS_VALUES && p->keep > 0)
        return shoali_fail(SHOAL_EINVAL, "by=value has no vectors to keep");
    if ((uint64_t)p->keep > n || pairs > SHOALI_MODEL_ELEMS_MAX)
        return shoali_fail(SHOAL_EINVAL,
                           "%llu vectors: keep at most as many, and have at most "
                           "2^31 pairs",
                           (unsigned long long)n);
    const uint64_t out = p->by == SHOALI_DOTS_VALUES ? width : (uint64_t)p->keep * width + pairs;
    layer->out = (shoal_shape){(uint32_t)out, 1, 1};
    layer->forward_flops = p->by == SHOALI_DOTS_VALUES ? (double)elems
                                                       : 2.0 * (double)pairs * (double)width;
    layer->input_flops = 2 * layer->forward_flops;
    return SHOAL_OK;
}

static const shoali_key keys[] = {
    {"width", SHOALI_KEY_INT, offsetof(dots_params, width), 1, 65536, NULL, "16",
     "values of a vector"},
    {"keep", SHOALI_KEY_INT, offsetof(dots_params, keep), 0, 65536, NULL, "0",
     "vectors, from the first, that stand in front of the products"},
    {"by", SHOALI_KEY_CHOICE, offsetof(dots_params, by), 0, 0, "pair|value", "pair",
     "one sum for each two vectors, or one vector of all products"},
};
const shoali_layer_row shoali_layer_dots = {
    .name = "dots",
    .help = "products of a sample's vectors with each other",
    .probe = "dots:width=1",
    .schema = {keys, 3, sizeof(dots_params)},
    .infer = infer,
};

/* ---------------------------------------------------------------- pairs */

static float product(const float *a, const float *b, size_t width)
{
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += (double)a[i] * (double)b[i];
    return (float)sum;
}

static void pairs_forward(const dots_params *p, size_t vectors, const float *x, float *y)
{
    const size_t width = (size_t)p->width, kept = (size_t)p->keep * width;
    memcpy(y, x, kept * sizeof *y);
    y += kept;
    for (size_t a = 1; a < vectors; a++)
        for (size_t b = 0; b < a; b++)
            *y++ = product(x + a * width, x + b * width, width);
}

static void pairs_backward(const dots_params *p, size_t vectors, const float *x, const float *dy,
                           float *dx)
{
    const size_t width = (size_t)p->width, kept = (size_t)p->keep * width;
    memcpy(dx, dy, kept * sizeof *dx);
    memset(dx + kept, 0, (vectors * width - kept) * sizeof *dx);
    dy += kept;
    for (size_t a = 1; a < vectors; a++)
        for (size_t b = 0; b < a; b++, dy++)
            for (size_t i = 0; i < width; i++) {
                dx[a * width + i] += *dy * x[b * width + i];
                dx[b * width + i] += *dy * x[a * width + i];
            }
}

/* ---------------------------------------------------------------- value by value */

static void values_forward(size_t width, size_t vectors, const float *x, float *y)
{
    memcpy(y, x, width * sizeof *y);
    for (size_t v = 1; v < vectors; v++)
        for (size_t i = 0; i < width; i++)
            y[i] *= x[v * width + i];
}

/* Without a division: values may be 0. */
static void values_backward(size_t width, size_t vectors, const float *x, const float *dy,
                            float *dx)
{
    for (size_t v = 0; v < vectors; v++)
        for (size_t i = 0; i < width; i++) {
            float others = dy[i];
            for (size_t u = 0; u < vectors; u++)
                others *= u == v ? 1 : x[u * width + i];
            dx[v * width + i] = others;
        }
}

/* ---------------------------------------------------------------- both */

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const dots_params *p = node->layer->params;
    const size_t vectors = (size_t)vectors_of(node->layer), width = (size_t)p->width;
    const size_t in = vectors * width, out = (size_t)shoali_shape_elems(node->layer->out);
    for (uint32_t n = 0; n < pass->count; n++, x += in, y += out)
        if (p->by == SHOALI_DOTS_VALUES)
            values_forward(width, vectors, x, y);
        else
            pairs_forward(p, vectors, x, y);
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const dots_params *p = node->layer->params;
    const size_t vectors = (size_t)vectors_of(node->layer), width = (size_t)p->width;
    const size_t in = vectors * width, out = (size_t)shoali_shape_elems(node->layer->out);
    (void)y;
    for (uint32_t n = 0; dx != NULL && n < pass->count; n++, x += in, dx += in, dy += out)
        if (p->by == SHOALI_DOTS_VALUES)
            values_backward(width, vectors, x, dy, dx);
        else
            pairs_backward(p, vectors, x, dy, dx);
}

const shoali_exec shoali_exec_dots = {.forward = forward, .backward = backward};
