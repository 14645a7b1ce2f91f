/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation (Ioffe, Szegedy, ICML 2015): per channel over samples and pixels. Sums are in
 * double, so the statistics do not depend on how many values there are. Params: scale[C], shift[C];
 * state: running mean[C], running variance[C] (the unbiased one, as frameworks keep it). */
#include <math.h>

#include "nn/exec.h"

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

static double mean_of(const view *v, const float *x, size_t channel)
{
    double sum = 0;
    for (size_t n = 0; n < v->count; n++) {
        const float *at = plane(v, x, n, channel);
        for (size_t i = 0; i < v->pixels; i++)
            sum += at[i];
    }
    return sum / v->values;
}

static double variance_of(const view *v, const float *x, size_t channel, double mean)
{
    double sum = 0;
    for (size_t n = 0; n < v->count; n++) {
        const float *at = plane(v, x, n, channel);
        for (size_t i = 0; i < v->pixels; i++)
            sum += (at[i] - mean) * (at[i] - mean);
    }
    return sum / v->values;
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
        }
        if (pass->training)
            saved[c] = m;
    }
}

/* With z = (x - mean) / deviation: dx = scale / deviation * (dy - mean(dy) - z * mean(dy z)). */
static void backward(const shoali_node *node, const shoali_pass *pass, const float *x,
                     const float *y, float *dy, float *dx)
{
    view v = view_of(node, pass);
    const moments *saved = node->saved;
    (void)y;
    for (size_t c = 0; c < v.channels; c++) {
        moments m = saved[c];
        double sum = 0, sum_z = 0;
        for (size_t n = 0; n < v.count; n++) {
            const float *from = plane(&v, x, n, c), *slope = dy + (from - x);
            for (size_t i = 0; i < v.pixels; i++) {
                sum += slope[i];
                sum_z += (double)slope[i] * ((from[i] - m.mean) * m.inv_deviation);
            }
        }
        node->grads[c] = (float)sum_z;
        node->grads[v.channels + c] = (float)sum;
        float scale = node->params[c] * m.inv_deviation;
        float mean = (float)(sum / v.values), mean_z = (float)(sum_z / v.values);
        for (size_t n = 0; dx != NULL && n < v.count; n++) {
            const float *from = plane(&v, x, n, c), *slope = dy + (from - x);
            float *to = dx + (from - x);
            for (size_t i = 0; i < v.pixels; i++)
                to[i] = scale * (slope[i] - mean - (from[i] - m.mean) * m.inv_deviation * mean_z);
        }
    }
}

const shoali_exec shoali_exec_batchnorm = {
    .saved_bytes = saved_bytes, .forward = forward, .backward = backward};
