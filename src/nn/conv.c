/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution, image by image, as products with the unrolled image: col[in channel, ky, kx][y, x].
 *
 *     y = W col + b        dW = sum over images of dy col^T        dcol = W^T dy, folded back into
 * dx */
#include <cblas.h>
#include <string.h>

#include "nn/exec.h"

typedef struct geometry {
    int channels, height, width; /* of the input */
    int out, out_height, out_width;
    int kernel, stride, pad;
    size_t in_elems, out_elems; /* per image */
    int taps, pixels;           /* rows and columns of col */
    bool bias;
} geometry;

static geometry geometry_of(const shoali_layer *layer)
{
    const shoali_conv_params *p = layer->params;
    return (geometry){
        .channels = (int)layer->in.channels,
        .height = (int)layer->in.height,
        .width = (int)layer->in.width,
        .out = (int)layer->out.channels,
        .out_height = (int)layer->out.height,
        .out_width = (int)layer->out.width,
        .kernel = (int)p->kernel,
        .stride = (int)p->stride,
        .pad = (int)p->pad,
        .in_elems = (size_t)shoali_shape_elems(layer->in),
        .out_elems = (size_t)shoali_shape_elems(layer->out),
        .taps = (int)(layer->in.channels * p->kernel * p->kernel),
        .pixels = (int)(layer->out.height * layer->out.width),
        .bias = p->bias,
    };
}

static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    geometry g = geometry_of(layer);
    (void)batch;
    return (size_t)g.taps * (size_t)g.pixels * sizeof(float);
}

/* Columns [*first, *end) of an output row whose tap kx falls inside the image. */
static void inside(const geometry *g, int kx, int *first, int *end)
{
    int low = g->pad - kx, high = g->width + g->pad - kx; /* stride * x must lie in [low, high) */
    *first = low <= 0 ? 0 : (low + g->stride - 1) / g->stride;
    *end = high <= 0 ? 0 : (high + g->stride - 1) / g->stride;
    if (*end > g->out_width)
        *end = g->out_width;
    if (*first > *end)
        *first = *end;
}

static void unroll_row(const geometry *g, const float *row, int kx, float *out)
{
    int first, end;
    inside(g, kx, &first, &end);
    memset(out, 0, (size_t)first * sizeof *out);
    if (g->stride == 1)
        memcpy(out + first, row + first + kx - g->pad, (size_t)(end - first) * sizeof *out);
    else
        for (int x = first; x < end; x++)
            out[x] = row[x * g->stride + kx - g->pad];
    memset(out + end, 0, (size_t)(g->out_width - end) * sizeof *out);
}

static void unroll(const geometry *g, const float *image, float *col)
{
    for (int c = 0; c < g->channels; c++)
        for (int ky = 0; ky < g->kernel; ky++)
            for (int kx = 0; kx < g->kernel; kx++)
                for (int y = 0; y < g->out_height; y++, col += g->out_width) {
                    int from = y * g->stride + ky - g->pad;
                    if (from < 0 || from >= g->height)
                        memset(col, 0, (size_t)g->out_width * sizeof *col);
                    else
                        unroll_row(g,
                                   image + ((size_t)c * (size_t)g->height + (size_t)from) *
                                               (size_t)g->width,
                                   kx, col);
                }
}

static void fold(const geometry *g, const float *col, float *image)
{
    memset(image, 0, g->in_elems * sizeof *image);
    for (int c = 0; c < g->channels; c++)
        for (int ky = 0; ky < g->kernel; ky++)
            for (int kx = 0; kx < g->kernel; kx++)
                for (int y = 0; y < g->out_height; y++, col += g->out_width) {
                    int to = y * g->stride + ky - g->pad, first, end;
                    if (to < 0 || to >= g->height)
                        continue;
                    float *row = image +
                                 ((size_t)c * (size_t)g->height + (size_t)to) * (size_t)g->width;
                    inside(g, kx, &first, &end);
                    for (int x = first; x < end; x++)
                        row[x * g->stride + kx - g->pad] += col[x];
                }
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    geometry g = geometry_of(node->layer);
    const float *bias = node->params + (size_t)g.out * (size_t)g.taps;
    for (uint32_t n = 0; n < pass->count; n++, x += g.in_elems, y += g.out_elems) {
        unroll(&g, x, pass->work);
        for (int o = 0; g.bias && o < g.out; o++)
            for (int i = 0; i < g.pixels; i++)
                y[(size_t)o * (size_t)g.pixels + (size_t)i] = bias[o];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, g.out, g.pixels, g.taps, 1.0f,
                    node->params, g.taps, pass->work, g.pixels, g.bias ? 1.0f : 0.0f, y, g.pixels);
    }
}

static void bias_gradient(const geometry *g, uint32_t count, const float *dy, float *dbias)
{
    for (int o = 0; o < g->out; o++) {
        float sum = 0;
        for (uint32_t n = 0; n < count; n++)
            for (int i = 0; i < g->pixels; i++)
                sum += dy[n * g->out_elems + (size_t)o * (size_t)g->pixels + (size_t)i];
        dbias[o] = sum;
    }
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    geometry g = geometry_of(node->layer);
    (void)y;
    for (uint32_t n = 0; n < pass->count; n++) {
        const float *dyn = dy + n * g.out_elems;
        unroll(&g, x + n * g.in_elems, pass->work);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, g.out, g.taps, g.pixels, 1.0f, dyn,
                    g.pixels, pass->work, g.pixels, n == 0 ? 0.0f : 1.0f, node->grads, g.taps);
        if (dx == NULL)
            continue;
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, g.taps, g.pixels, g.out, 1.0f,
                    node->params, g.taps, dyn, g.pixels, 0.0f, pass->work, g.pixels);
        fold(&g, pass->work, dx + n * g.in_elems);
    }
    if (g.bias)
        bias_gradient(&g, pass->count, dy, node->grads + (size_t)g.out * (size_t)g.taps);
}

const shoali_exec shoali_exec_conv = {
    .work_bytes = work_bytes, .forward = forward, .backward = backward};
