/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation (Ioffe, Szegedy, ICML 2015): per channel over samples and pixels. Sums are in
 * double, so the statistics do not depend on how many values there are. Params: scale[C], shift[C];
 * state: running mean[C], running variance[C] (the unbiased one, as frameworks keep it).
 *
 * Each of LANES values in turn goes to a sum of its own, and these are added up in the end: the
 * order is fixed, and no addition waits for the one before. */
#include <math.h>

#include "nn/exec.h"

enum { LANES = 8 };

typedef struct view {
    size_t channels, pixels, count;
    double values; /* per channel */
} view;

/* What backward needs of a batch, per channel. */
typedef struct moments {
    float mean, inv_deviation;
} moments;

static view view_of(const shoali_node *node, const shoali_pass *pass)
{
    const shoal_shape in = node->layer->in;
    size_t pixels = (size_t)in.height * in.width;
    return (view){in.channels, pixels, pass->count, (double)pixels * pass->count};
}

static size_t saved_bytes(const shoali_layer *layer, uint32_t batch)
{
    (void)batch;
    return layer->in.channels * sizeof(moments);
}

static const float *plane(const view *v, const float *x, size_t sample, size_t channel)
{
    return x + (sample * v->channels + channel) * v->pixels;
}

static double together(const double lanes[LANES])
{
    double sum = 0;
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

static double mean_of(const view *v, const float *x, size_t channel)
{
    double lanes[LANES] = {0};
    for (size_t n = 0; n < v->count; n++) {
        const float *at = plane(v, x, n, channel);
        size_t i = 0;
        for (; i + LANES <= v->pixels; i += LANES)
            for (size_t k = 0; k < LANES; k++)
                lanes[k] += (double)at[i + k];
        for (; i < v->pixels; i++)
            lanes[i % LANES] += (double)at[i];
    }
    return together(lanes) / v->values;
}

static double variance_of(const view *v, const float *x, size_t channel, double mean)
{
    double lanes[LANES] = {0};
    for (size_t n = 0; n < v->count; n++) {
        const float *at = plane(v, x, n, channel);
        size_t i = 0;
        for (; i + LANES <= v->pixels; i += LANES)
            for (size_t k = 0; k < LANES; k++)
                lanes[k] += (at[i + k] - mean) * (at[i + k] - mean);
        for (; i < v->pixels; i++)
            lanes[i % LANES] += (at[i] - mean) * (at[i] - mean);
    }
    return together(lanes) / v->values;
}

static moments batch_moments(const shoali_node *node, const view *v, const float *x, size_t channel)
{
    const shoali_batchnorm_params *p = node->layer->params;
    double mean = mean_of(v, x, channel), variance = variance_of(v, x, channel, mean);
    double unbiased = v->values > 1 ? variance * v->values / (v->values - 1) : variance;
    float *running_mean = node->state + channel,
          *running_variance = node->state + v->channels + channel;
    *running_mean = (float)((1 - p->momentum) * *running_mean + p->momentum * mean);
    *running_variance = (float)((1 - p->momentum) * *running_variance + p->momentum * unbiased);
    return (moments){(float)mean, (float)(1.0 / sqrt(variance + p->eps))};
}

static moments running_moments(const shoali_node *node, const view *v, size_t channel)
{
    const shoali_batchnorm_params *p = node->layer->params;
    return (moments){node->state[channel],
                     (float)(1.0 / sqrt(node->state[v->channels + channel] + p->eps))};
}

/* What is no number stays none. */
static void rectify(size_t count, float *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = y[i] < 0.0f ? 0.0f : y[i];
}

static void forward(const shoali_node *node, const shoali_pass *pass, const float *x, float *y)
{
    view v = view_of(node, pass);
    moments *saved = node->saved;
    for (size_t c = 0; c < v.channels; c++) {
        moments m = pass->training ? batch_moments(node, &v, x, c) : running_moments(node, &v, c);
        float scale = node->params[c] * m.inv_deviation, shift = node->params[v.channels + c];
        for (size_t n = 0; n < v.count; n++) {
            const float *from = plane(&v, x, n, c);
            float *to = y + (from - x);
            for (size_t i = 0; i < v.pixels; i++)
                to[i] = (from[i] - m.mean) * scale + shift;
            if (node->rectify)
                rectify(v.pixels, to);
        }
        if (pass->training)
            saved[c] = m;
    }
}

/* Sums of a channel's slopes and of their products with z, behind max(y, 0) where y is given. */
typedef struct sums {
    double slopes, products;
} sums;

static void unrectify(size_t count, const float *y, float *slope)
{
    for (size_t i = 0; i < count; i++)
        slope[i] = y[i] > 0.0f ? slope[i] : 0.0f;
}

static sums sums_of(const view *v, const float *x, const float *y, float *dy, size_t channel,
                    moments m)
{
    double slopes[LANES] = {0}, products[LANES] = {0};
    for (size_t n = 0; n < v->count; n++) {
        const float *from = plane(v, x, n, channel);
        float *slope = dy + (from - x);
        size_t i = 0;
        if (y != NULL)
            unrectify(v->pixels, y + (from - x), slope);
        for (; i + LANES <= v->pixels; i += LANES)
            for (size_t k = 0; k < LANES; k++) {
                slopes[k] += (double)slope[i + k];
                products[k] += (double)slope[i + k] *
                               (double)((from[i + k] - m.mean) * m.inv_deviation);
            }
        for (; i < v->pixels; i++) {
            slopes[i % LANES] += (double)slope[i];
            products[i % LANES] += (double)slope[i] *
                                   (double)((from[i] - m.mean) * m.inv_deviation);
        }
    }
    return (sums){together(slopes), together(products)};
}

/* With z = (x - mean) / deviation: dx = scale / deviation * (dy - mean(dy) - z * mean(dy z)). */
static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    view v = view_of(node, pass);
    const moments *saved = node->saved;
    for (size_t c = 0; c < v.channels; c++) {
        const moments m = saved[c];
        const sums s = sums_of(&v, x, node->rectify ? y : NULL, dy, c, m);
        node->grads[c] = (float)s.products;
        node->grads[v.channels + c] = (float)s.slopes;
        float scale = node->params[c] * m.inv_deviation;
        float mean = (float)(s.slopes / v.values), mean_z = (float)(s.products / v.values);
        for (size_t n = 0; dx != NULL && n < v.count; n++) {
            const float *from = plane(&v, x, n, c), *slope = dy + (from - x);
            float *to = dx + (from - x);
            for (size_t i = 0; i < v.pixels; i++)
                to[i] = scale * (slope[i] - mean - (from[i] - m.mean) * m.inv_deviation * mean_z);
        }
    }
}

const shoali_exec shoali_exec_batchnorm = {
    .rectifies = true, .saved_bytes = saved_bytes, .forward = forward, .backward = backward};
