/* SPDX-License-Identifier: Apache-2.0 */
#include "support/reference_net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

typedef struct job {
    const shoali_layer *layer;
    const double *params;
    const reference_batch *batch;
    const double *state;
} job;

static size_t at(shoal_shape s, size_t n, size_t c, size_t y, size_t x)
{
    return ((n * s.channels + c) * s.height + y) * s.width + x;
}

static void run_dense(const job *j, const double *x, double *y)
{
    const shoali_dense_params *p = j->layer->params;
    size_t in = (size_t)shoali_shape_elems(j->layer->in), out = (size_t)p->out;
    for (size_t n = 0; n < j->batch->count; n++)
        for (size_t o = 0; o < out; o++) {
            double sum = p->bias ? j->params[in * out + o] : 0;
            for (size_t i = 0; i < in; i++)
                sum += j->params[o * in + i] * x[n * in + i];
            y[n * out + o] = sum;
        }
}

/* By the definition, block by block: C[a][b] = w[(a - b) mod k]. */
static double circulant_weight(const double *w, size_t q, size_t k, size_t o, size_t i)
{
    return w[((o / k) * q + i / k) * k + (o + k * i - i) % k];
}

static void run_circulant(const job *j, const double *x, double *y)
{
    const shoali_circulant_params *p = j->layer->params;
    size_t in = (size_t)shoali_shape_elems(j->layer->in), out = (size_t)p->out;
    size_t k = (size_t)p->block, q = (in + k - 1) / k, weights = (out + k - 1) / k * q * k;
    for (size_t n = 0; n < j->batch->count; n++)
        for (size_t o = 0; o < out; o++) {
            double sum = p->bias ? j->params[weights + o] : 0;
            for (size_t i = 0; i < in; i++)
                sum += circulant_weight(j->params, q, k, o, i) * x[n * in + i];
            y[n * out + o] = sum;
        }
}

/* Weight of a tap, and where the biases start. */
static double conv_weight(const job *j, size_t o, size_t c, size_t tap, size_t *bias_out)
{
    const shoali_circulant_conv_params *p = j->layer->params; /* conv's own are its first */
    size_t in = j->layer->in.channels, out = (size_t)p->conv.out;
    size_t taps = (size_t)(p->conv.kernel * p->conv.kernel);
    if (strcmp(j->layer->row->name, "conv") == 0) {
        const size_t groups = (size_t)p->conv.groups, seen = in / groups;
        *bias_out = taps * seen * out;
        return o / (out / groups) == c / seen ? j->params[(o * seen + c % seen) * taps + tap] : 0;
    }
    size_t k = (size_t)p->block, rows = (out + k - 1) / k, q = (in + k - 1) / k;
    *bias_out = taps * rows * q * k;
    return circulant_weight(j->params + tap * rows * q * k, q, k, o, c);
}

/* One output value of a convolution: pixels outside the image are 0. */
static double conv_value(const job *j, const double *x, size_t n, size_t o, size_t oy, size_t ox)
{
    const shoali_conv_params *p = j->layer->params;
    shoal_shape in = j->layer->in;
    size_t k = (size_t)p->kernel, bias = 0;
    double sum = 0;
    for (size_t c = 0; c < in.channels; c++)
        for (size_t ky = 0; ky < k; ky++)
            for (size_t kx = 0; kx < k; kx++) {
                long iy = (long)(oy * (size_t)p->stride + ky) - (long)p->pad;
                long ix = (long)(ox * (size_t)p->stride + kx) - (long)p->pad;
                double weight = conv_weight(j, o, c, ky * k + kx, &bias);
                if (iy >= 0 && ix >= 0 && iy < (long)in.height && ix < (long)in.width)
                    sum += weight * x[at(in, n, c, (size_t)iy, (size_t)ix)];
            }
    return sum + (p->bias ? j->params[bias + o] : 0);
}

static double pool_value(const job *j, const double *x, size_t n, size_t c, size_t oy, size_t ox,
                         bool mean)
{
    const shoali_pool_params *p = j->layer->params;
    shoal_shape in = j->layer->in;
    long stride = (long)(p->stride == 0 ? p->kernel : p->stride);
    long top = (long)oy * stride - (long)p->pad, left = (long)ox * stride - (long)p->pad;
    double most = -INFINITY, sum = 0, seen = 0;
    for (long iy = top; iy < top + (long)p->kernel; iy++)
        for (long ix = left; ix < left + (long)p->kernel; ix++) {
            if (iy < 0 || ix < 0 || iy >= (long)in.height || ix >= (long)in.width)
                continue;
            double value = x[at(in, n, c, (size_t)iy, (size_t)ix)];
            most = value > most ? value : most;
            sum += value;
            seen++;
        }
    seen = p->include_pad ? (double)(p->kernel * p->kernel) : seen;
    return mean ? sum / seen : most;
}

static void run_windows(const job *j, const double *x, double *y)
{
    shoal_shape out = j->layer->out;
    const char *kind = j->layer->row->name;
    for (size_t n = 0; n < j->batch->count; n++)
        for (size_t c = 0; c < out.channels; c++)
            for (size_t oy = 0; oy < out.height; oy++)
                for (size_t ox = 0; ox < out.width; ox++)
                    y[at(out, n, c, oy, ox)] = strstr(kind, "conv") != NULL
                                                   ? conv_value(j, x, n, c, oy, ox)
                                                   : pool_value(j, x, n, c, oy, ox,
                                                                strcmp(kind, "avgpool") == 0);
}

static void run_batchnorm(const job *j, const double *x, double *y)
{
    const shoali_batchnorm_params *p = j->layer->params;
    shoal_shape s = j->layer->in;
    size_t pixels = (size_t)s.height * s.width;
    for (size_t c = 0; c < s.channels; c++) {
        double values = (double)(pixels * j->batch->count), mean = 0, variance = 0;
        for (size_t n = 0; n < j->batch->count; n++)
            for (size_t i = 0; i < pixels; i++)
                mean += x[at(s, n, c, 0, i)] / values;
        for (size_t n = 0; n < j->batch->count; n++)
            for (size_t i = 0; i < pixels; i++)
                variance += pow(x[at(s, n, c, 0, i)] - mean, 2) / values;
        if (!j->batch->training) {
            mean = j->state[c];
            variance = j->state[s.channels + c];
        }
        for (size_t n = 0; n < j->batch->count; n++)
            for (size_t i = 0; i < pixels; i++)
                y[at(s, n, c, 0, i)] = (x[at(s, n, c, 0, i)] - mean) / sqrt(variance + p->eps) *
                                           j->params[c] +
                                       j->params[s.channels + c];
    }
}

/* By ONNX's definition. */
static void run_lrn(const job *j, const double *x, double *y)
{
    const shoali_lrn_params *p = j->layer->params;
    shoal_shape s = j->layer->in;
    for (size_t n = 0; n < j->batch->count; n++)
        for (long c = 0; c < (long)s.channels; c++)
            for (size_t i = 0; i < (size_t)s.height * s.width; i++) {
                double sum = 0;
                for (long o = c - (long)floor((double)(p->size - 1) / 2);
                     o <= c + (long)ceil((double)(p->size - 1) / 2); o++)
                    sum += o >= 0 && o < (long)s.channels ? pow(x[at(s, n, (size_t)o, 0, i)], 2)
                                                          : 0;
                y[at(s, n, (size_t)c, 0, i)] = x[at(s, n, (size_t)c, 0, i)] /
                                               pow(p->k + p->alpha / (double)p->size * sum,
                                                   p->beta);
            }
}

/* The documented rule: word i % 4 of Philox block i / 4 of stream (layer name, sample) against rate
 * * 2^32. */
static void run_dropout(const job *j, const double *x, double *y)
{
    const shoali_dropout_params *p = j->layer->params;
    size_t elems = (size_t)shoali_shape_elems(j->layer->in);
    uint64_t key = shoali_hash(j->layer->name, strlen(j->layer->name), 0);
    for (size_t n = 0; n < j->batch->count; n++)
        for (size_t i = 0; i < elems; i++) {
            uint32_t word[4];
            shoali_philox(j->batch->seed, shoali_mix(key, j->batch->first_serial + n), i / 4, word);
            bool kept = (double)word[i % 4] >= floor(p->rate * 0x1p32);
            y[n * elems + i] = !j->batch->training ? x[n * elems + i]
                               : kept              ? x[n * elems + i] / (1 - p->rate)
                                                   : 0;
        }
}

static double gelu_of(const shoali_layer *layer, double x)
{
    const shoali_gelu_params *p = layer->params;
    return p->tanh ? x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))))
                   : x * (1 + erf(x / sqrt(2))) / 2;
}

static void run_pointwise(const job *j, const double *x, double *y)
{
    const char *kind = j->layer->row->name;
    size_t elems = (size_t)shoali_shape_elems(j->layer->in) * j->batch->count;
    for (size_t i = 0; i < elems; i++)
        y[i] = strcmp(kind, "relu") == 0      ? fmax(x[i], 0)
               : strcmp(kind, "tanh") == 0    ? tanh(x[i])
               : strcmp(kind, "sigmoid") == 0 ? 1 / (1 + exp(-x[i]))
               : strcmp(kind, "silu") == 0    ? x[i] / (1 + exp(-x[i]))
               : strcmp(kind, "gelu") == 0    ? gelu_of(j->layer, x[i])
                                              : x[i];
}

static void run_layer(const job *j, const double *x, double *y)
{
    static const struct {
        const char *kind;
        void (*run)(const job *j, const double *x, double *y);
    } kinds[] = {
        {"dense", run_dense},         {"conv", run_windows},           {"maxpool", run_windows},
        {"avgpool", run_windows},     {"relu", run_pointwise},         {"tanh", run_pointwise},
        {"batchnorm", run_batchnorm}, {"dropout", run_dropout},        {"flatten", run_pointwise},
        {"circulant", run_circulant}, {"circulant_conv", run_windows}, {"sigmoid", run_pointwise},
        {"silu", run_pointwise},      {"gelu", run_pointwise},         {"lrn", run_lrn}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].kind, j->layer->row->name) == 0) {
            kinds[i].run(j, x, y);
            return;
        }
    if (!reference_frames(j->layer, j->params, j->batch, x, y) &&
        !reference_tokens(j->layer, j->params, j->batch, x, y))
        abort(); /* a new kind needs its second opinion here */
}

/* A value of a joint: which earlier output, which of its channels. outputs[i + 1]: layer i's. */
typedef struct joined {
    const shoal_model *model;
    double *const *outputs;
    uint32_t index; /* the joint */
} joined;

static shoal_shape shape_of(const joined *j, uint32_t output)
{
    return output == 0 ? j->model->input : j->model->layers[output - 1].out;
}

/* Append an output's channels behind `channel` of y. */
static uint32_t put(const joined *j, uint32_t output, size_t count, uint32_t channel, double *y)
{
    shoal_shape from = shape_of(j, output), to = j->model->layers[j->index].out;
    for (size_t n = 0; n < count; n++)
        for (size_t c = 0; c < from.channels; c++)
            for (size_t i = 0; i < (size_t)from.height * from.width; i++)
                y[at(to, n, channel + c, 0, 0) + i] = j->outputs[output][at(from, n, c, 0, 0) + i];
    return channel + from.channels;
}

/* branch, add, concat; false: another kind. */
static bool run_joint(const joined *j, size_t count, double *y)
{
    const shoali_layer *layer = &j->model->layers[j->index];
    const char *kind = layer->row->name;
    uint32_t before = j->index; /* outputs' place of the layer before */
    if (strcmp(kind, "branch") == 0 || strcmp(kind, "add") == 0) {
        const shoali_branch_params *p = layer->params;
        const double *other = j->outputs[before + 1 - (uint32_t)p->back];
        size_t elems = (size_t)shoali_shape_elems(layer->out) * count;
        for (size_t i = 0; i < elems; i++)
            y[i] = other[i] + (kind[0] == 'a' ? j->outputs[before][i] : 0);
        return true;
    }
    if (strcmp(kind, "concat") != 0)
        return false;
    uint32_t channel = 0;
    const char *text = ((const shoali_concat_params *)layer->params)->back;
    for (char *end = NULL; *text != '\0'; text = *end == '/' ? end + 1 : end)
        channel = put(j, before + 1 - (uint32_t)strtoul(text, &end, 10), count, channel, y);
    put(j, before, count, channel, y);
    return true;
}

static double mean_loss(const double *scores, const reference_batch *batch, size_t classes)
{
    double sum = 0;
    for (size_t n = 0; n < batch->count; n++) {
        double total = 0;
        for (size_t c = 0; c < classes; c++)
            total += exp(scores[n * classes + c]);
        sum += log(total) - scores[n * classes + batch->labels[n]];
    }
    return batch->weight * sum / batch->count;
}

double reference_loss(const shoal_model *model, const double *params, const reference_batch *batch,
                      double *scores_out)
{
    double **outputs = calloc(model->layer_count + 1u, sizeof *outputs);
    size_t elems = (size_t)shoali_shape_elems(model->input) * batch->count;
    outputs[0] = calloc(elems, sizeof **outputs);
    memcpy(outputs[0], batch->x, elems * sizeof **outputs);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        const job j = {layer, params + layer->param_offset, batch,
                       batch->state != NULL ? batch->state + layer->state_offset : NULL};
        elems = (size_t)shoali_shape_elems(layer->out) * batch->count;
        outputs[i + 1] = calloc(elems, sizeof **outputs);
        if (!run_joint(&(joined){model, outputs, i}, batch->count, outputs[i + 1]))
            run_layer(&j, outputs[i], outputs[i + 1]);
    }
    const double *scores = outputs[model->layer_count];
    if (scores_out != NULL)
        memcpy(scores_out, scores, elems * sizeof *scores);
    double loss = model->sequence ? reference_sequence_loss(model, scores, batch)
                                  : mean_loss(scores, batch, elems / batch->count);
    for (uint32_t i = 0; i <= model->layer_count; i++)
        free(outputs[i]);
    free(outputs);
    return loss;
}
