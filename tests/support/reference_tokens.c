/* SPDX-License-Identifier: Apache-2.0 */
/* Second opinions on the kinds of language models: one pair of frames and one value at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/reference_net.h"

typedef struct job {
    const shoali_layer *layer;
    const double *params;
    size_t frames, in, length; /* of this sample; in: values of a frame */
    const reference_batch *batch;
    uint64_t serial; /* of this sample in the run */
} job;

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void run_rmsnorm(const job *j, const double *x, double *y)
{
    const shoali_rmsnorm_params *p = j->layer->params;
    for (size_t t = 0; t < j->length; t++)
        for (size_t i = 0; i < j->in; i++) {
            const double *of = x + t * j->in;
            y[t * j->in + i] = of[i] / sqrt(dot(of, of, j->in) / (double)j->in + p->eps) *
                               j->params[i];
        }
}

static void run_layernorm(const job *j, const double *x, double *y)
{
    const shoali_layernorm_params *p = j->layer->params;
    for (size_t t = 0; t < j->length; t++, x += j->in, y += j->in) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < j->in; i++)
            mean += x[i] / (double)j->in;
        for (size_t i = 0; i < j->in; i++)
            variance += pow(x[i] - mean, 2) / (double)j->in;
        for (size_t i = 0; i < j->in; i++)
            y[i] = (x[i] - mean) / sqrt(variance + p->eps) * j->params[i] +
                   (p->bias ? j->params[j->in + i] : 0);
    }
}

static void run_bias(const job *j, const double *x, double *y)
{
    for (size_t i = 0; i < j->length * j->in; i++)
        y[i] = x[i] + j->params[i % j->in];
}

static void run_framepool(const job *j, const double *x, double *y)
{
    const shoali_framepool_params *p = j->layer->params;
    for (size_t i = 0; i < j->in; i++)
        for (size_t t = 0; t < j->length; t++)
            y[i] += p->by == SHOALI_POOL_MEAN ? x[t * j->in + i] / (double)j->length
                    : t == 0                  ? x[i]
                                              : 0;
}

static void run_swiglu(const job *j, const double *x, double *y)
{
    const size_t ff = (size_t)((const shoali_swiglu_params *)j->layer->params)->ff, in = j->in;
    const double *gate = j->params, *up = gate + ff * in, *down = up + ff * in;
    for (size_t t = 0; t < j->length; t++)
        for (size_t o = 0; o < in; o++) {
            double sum = 0;
            for (size_t f = 0; f < ff; f++) {
                const double g = dot(gate + f * in, x + t * in, in);
                sum += down[o * ff + f] * g / (1 + exp(-g)) * dot(up + f * in, x + t * in, in);
            }
            y[t * in + o] = sum;
        }
}

/* keep vectors, then a . b for b before a; or the product of all, value by value. */
static void run_dots(const job *j, const double *x, double *y)
{
    const shoali_dots_params *p = j->layer->params;
    const size_t width = (size_t)p->width;
    const size_t vectors = (size_t)shoali_shape_elems(j->layer->in) / width;
    for (size_t i = 0; i < (size_t)p->keep * width; i++)
        *y++ = x[i];
    for (size_t i = 0; p->by == SHOALI_DOTS_VALUES && i < width; i++, y++) {
        *y = 1;
        for (size_t v = 0; v < vectors; v++)
            *y *= x[v * width + i];
    }
    for (size_t a = 0; p->by == SHOALI_DOTS_PAIRS && a < vectors; a++)
        for (size_t b = 0; b < a; b++)
            *y++ = dot(x + a * width, x + b * width, width);
}

static void run_lookup(const job *j, const double *x, double *y)
{
    const shoali_lookup_params *p = j->layer->params;
    const size_t width = (size_t)p->width;
    const double *places = j->params + (size_t)p->vocab * width;
    const double *types = places + (size_t)p->positions * width;
    const size_t ids = (size_t)(p->vocab * (p->types > 0 ? p->types : 1));
    for (size_t t = 0; t < j->length; t++)
        for (size_t i = 0; i < width; i++) {
            const bool known = x[t] >= 0 && x[t] < (double)ids;
            const size_t id = known ? (size_t)x[t] : 0;
            y[t * width + i] = known ? j->params[id % (size_t)p->vocab * width + i] : 0;
            y[t * width + i] += p->positions > 0 ? places[t * width + i] : 0;
            y[t * width + i] += p->types > 0 ? types[id / (size_t)p->vocab * width + i] : 0;
        }
}

/* A head's query or key of one frame: as a complex number per pair, turned by its place. */
static void head_of(const job *j, const double *matrix, const double *bias, size_t head, size_t dim,
                    const double *x, size_t t, double *out)
{
    const shoali_attention_params *p = j->layer->params;
    for (size_t i = 0; i < dim; i++)
        out[i] = dot(matrix + (head * dim + i) * j->in, x + t * j->in, j->in) +
                 (p->bias ? bias[head * dim + i] : 0);
    for (size_t i = 0; p->rope && i < dim / 2; i++) {
        const double angle = (double)t / pow(p->theta, 2.0 * (double)i / (double)dim);
        const double re = out[i], im = out[i + dim / 2];
        out[i] = re * cos(angle) - im * sin(angle);
        out[i + dim / 2] = re * sin(angle) + im * cos(angle);
    }
}

/* The documented rule: word s % 4 of Philox block s / 4 of stream (layer name, sample, row of all
 * heads' rows) against drop * 2^32. */
static double fate_of(const job *j, size_t head, size_t t, size_t s)
{
    const shoali_attention_params *p = j->layer->params;
    const uint64_t key = shoali_hash(j->layer->name, strlen(j->layer->name), 0);
    uint32_t word[4];
    if (!j->batch->training)
        return 1;
    shoali_philox(j->batch->seed, shoali_mix(shoali_mix(key, j->serial), head * j->frames + t),
                  s / 4, word);
    return (double)word[s % 4] >= floor(p->drop * 0x1p32) ? 1 / (1 - p->drop) : 0;
}

static void run_attention(const job *j, const double *x, double *y)
{
    const shoali_attention_params *p = j->layer->params;
    const size_t heads = (size_t)p->heads, kv = p->kv > 0 ? (size_t)p->kv : heads, in = j->in;
    const size_t dim = p->dim > 0 ? (size_t)p->dim : in / heads;
    const double *wq = j->params, *wk = wq + heads * dim * in, *wv = wk + kv * dim * in;
    const double *wo = wv + kv * dim * in, *bq = wo + heads * dim * in, *bk = bq + heads * dim;
    const double *bv = bk + kv * dim, *bo = bv + kv * dim;
    double q[64], k[64];
    for (size_t t = 0; t < j->length; t++)
        for (size_t h = 0; h < heads; h++) {
            const size_t group = h * kv / heads, seen = p->causal ? t + 1 : j->length;
            double total = 0, mixed[64] = {0};
            head_of(j, wq, bq, h, dim, x, t, q);
            for (size_t s = 0; s < seen; s++) {
                head_of(j, wk, bk, group, dim, x, s, k);
                const double weight = exp(dot(q, k, dim) / sqrt((double)dim));
                total += weight;
                for (size_t i = 0; i < dim; i++)
                    mixed[i] += weight * fate_of(j, h, t, s) *
                                (dot(wv + (group * dim + i) * in, x + s * in, in) +
                                 (p->bias ? bv[group * dim + i] : 0));
            }
            for (size_t o = 0; o < in; o++)
                y[t * in + o] += (p->bias && h == 0 ? bo[o] : 0) +
                                 dot(wo + o * heads * dim + h * dim, mixed, dim) / total;
        }
}

bool reference_tokens(const shoali_layer *layer, const double *params, const reference_batch *batch,
                      const double *x, double *y)
{
    static const struct {
        const char *kind;
        void (*run)(const job *j, const double *x, double *y);
    } kinds[] = {{"rmsnorm", run_rmsnorm}, {"layernorm", run_layernorm}, {"swiglu", run_swiglu},
                 {"bias", run_bias},       {"framepool", run_framepool}, {"lookup", run_lookup},
                 {"dots", run_dots},       {"attention", run_attention}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].kind, layer->row->name) != 0)
            continue;
        job j = {layer, params, layer->in.height, layer->in.width, 0, batch, 0};
        for (size_t n = 0; n < batch->count; n++) {
            j.serial = batch->first_serial + n;
            j.length = batch->lengths != NULL ? batch->lengths[n] : j.frames;
            kinds[i].run(&j, x + n * (size_t)shoali_shape_elems(layer->in),
                         y + n * (size_t)shoali_shape_elems(layer->out));
        }
        return true;
    }
    return false;
}
