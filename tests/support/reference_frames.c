/* SPDX-License-Identifier: Apache-2.0 */
/* Layers over frames and losses of sequences, sample by sample, gate by gate, from their formulas.
 * CTC sums over all labellings of the frames one by one, so sequences are to be short. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/reference_net.h"

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* Entry (r, c) of a matrix of `cols` columns in circulant blocks of side k. */
static double entry(const double *w, size_t k, size_t cols, size_t r, size_t c)
{
    size_t across = (cols + k - 1) / k;
    size_t offset = (r % k + k - c % k) % k;
    return w[((r / k) * across + c / k) * k + offset];
}

static size_t kept(size_t rows, size_t cols, size_t k)
{
    return ((rows + k - 1) / k) * ((cols + k - 1) / k) * k;
}

/* sum_c W[r][c] x[c] */
static double product(const double *w, size_t k, size_t cols, size_t r, const double *x)
{
    double sum = 0;
    for (size_t c = 0; c < cols; c++)
        sum += entry(w, k, cols, r, c) * x[c];
    return sum;
}

static uint32_t length_of(const reference_batch *batch, const shoali_layer *layer, size_t n)
{
    return batch->lengths != NULL ? batch->lengths[n] : layer->in.height;
}

/* One direction over one sample: state of the cell and output carry from frame to frame. */
typedef struct way {
    const shoali_recurrent_params *p;
    const double *params;
    size_t in, cells, out, kx, kr, ky;
} way;

static size_t lstm_count(const way *v)
{
    return kept(4 * v->cells, v->in, v->kx) + kept(4 * v->cells, v->out, v->kr) +
           (v->p->peephole ? 7 : 4) * v->cells +
           (v->p->proj > 0 ? kept(v->out, v->cells, v->ky) : 0);
}

static void lstm_frame(const way *v, const double *x, double *c, double *y)
{
    size_t h = v->cells;
    const double *wx = v->params, *wr = wx + kept(4 * h, v->in, v->kx),
                 *b = wr + kept(4 * h, v->out, v->kr), *peep = b + 4 * h,
                 *wp = peep + (v->p->peephole ? 3 * h : 0);
    double *m = calloc(h, sizeof *m), *next = calloc(h, sizeof *next);
    for (size_t u = 0; u < h; u++) {
        double a[4];
        for (size_t g = 0; g < 4; g++)
            a[g] = product(wx, v->kx, v->in, g * h + u, x) +
                   product(wr, v->kr, v->out, g * h + u, y) + b[g * h + u];
        if (v->p->peephole) {
            a[0] += peep[u] * c[u];
            a[1] += peep[h + u] * c[u];
        }
        double z = v->p->gate == 1 ? logistic(a[2]) : tanh(a[2]);
        next[u] = logistic(a[1]) * c[u] + logistic(a[0]) * z;
        a[3] += v->p->peephole ? peep[2 * h + u] * next[u] : 0;
        m[u] = logistic(a[3]) * tanh(next[u]);
    }
    memcpy(c, next, h * sizeof *c);
    for (size_t o = 0; o < v->out; o++)
        y[o] = v->p->proj > 0 ? product(wp, v->ky, h, o, m) : m[o];
    free(m);
    free(next);
}

static size_t gru_count(const way *v)
{
    return kept(3 * v->cells, v->in, v->kx) + kept(2 * v->cells, v->cells, v->kr) +
           kept(v->cells, v->cells, v->kr) + 3 * v->cells;
}

static void gru_frame(const way *v, const double *x, double *h)
{
    size_t n = v->cells;
    const double *wx = v->params, *wr = wx + kept(3 * n, v->in, v->kx),
                 *wc = wr + kept(2 * n, n, v->kr), *b = wc + kept(n, n, v->kr);
    double *z = calloc(n, sizeof *z), *rh = calloc(n, sizeof *rh), *next = calloc(n, sizeof *next);
    for (size_t u = 0; u < n; u++) {
        z[u] = logistic(product(wx, v->kx, v->in, u, x) + product(wr, v->kr, n, u, h) + b[u]);
        rh[u] = h[u] * logistic(product(wx, v->kx, v->in, n + u, x) +
                                product(wr, v->kr, n, n + u, h) + b[n + u]);
    }
    for (size_t u = 0; u < n; u++)
        next[u] = (1 - z[u]) * h[u] + z[u] * tanh(product(wx, v->kx, v->in, 2 * n + u, x) +
                                                  product(wc, v->kr, n, u, rh) + b[2 * n + u]);
    memcpy(h, next, n * sizeof *h);
    free(z);
    free(rh);
    free(next);
}

static void walk(const way *v, bool lstm, bool reverse, uint32_t length, const double *x, double *y,
                 size_t width, size_t first)
{
    double *c = calloc(v->cells, sizeof *c), *h = calloc(v->out, sizeof *h);
    for (uint32_t i = 0; i < length; i++) {
        uint32_t t = reverse ? length - 1 - i : i;
        if (lstm)
            lstm_frame(v, x + t * v->in, c, h);
        else
            gru_frame(v, x + t * v->in, h);
        for (size_t o = 0; o < v->out; o++)
            y[t * width + first + o] += h[o];
    }
    free(c);
    free(h);
}

static void run_recurrent(const shoali_layer *layer, const double *params,
                          const reference_batch *batch, const double *x, double *y)
{
    const shoali_recurrent_params *p = layer->params;
    bool lstm = strcmp(layer->row->name, "lstm") == 0;
    size_t width = layer->out.width, frames = layer->in.height;
    way v = {.p = p, .params = params, .in = layer->in.width, .cells = (size_t)p->out};
    v.out = p->proj > 0 ? (size_t)p->proj : v.cells;
    v.kx = (size_t)(p->kx > 0 ? p->kx : p->k);
    v.kr = (size_t)(p->kr > 0 ? p->kr : p->k);
    v.ky = (size_t)(p->ky > 0 ? p->ky : p->k);
    for (int d = 0; d < (p->direction == SHOALI_BOTH ? 2 : 1); d++) {
        bool reverse = d == 1 || p->direction == SHOALI_BACKWARD;
        size_t first = d == 1 && p->merge == SHOALI_MERGE_CONCAT ? v.out : 0;
        for (size_t n = 0; n < batch->count; n++)
            walk(&v, lstm, reverse, length_of(batch, layer, n), x + n * frames * v.in,
                 y + n * frames * width, width, first);
        v.params += lstm ? lstm_count(&v) : gru_count(&v);
    }
}

static void run_framewise(const shoali_layer *layer, const double *params,
                          const reference_batch *batch, const double *x, double *y)
{
    const shoali_framewise_params *p = layer->params;
    size_t in = layer->in.width, out = (size_t)p->out, k = (size_t)p->k;
    for (size_t n = 0; n < batch->count; n++)
        for (size_t t = 0; t < length_of(batch, layer, n); t++)
            for (size_t o = 0; o < out; o++) {
                size_t at = n * layer->in.height + t;
                y[at * out + o] = product(params, k, in, o, x + at * in) +
                                  (p->bias ? params[kept(out, in, k) + o] : 0);
            }
}

static void run_onehot(const shoali_layer *layer, const reference_batch *batch, const double *x,
                       double *y)
{
    size_t classes = layer->out.width;
    for (size_t n = 0; n < batch->count; n++)
        for (size_t t = 0; t < length_of(batch, layer, n); t++) {
            size_t at = n * layer->in.height + t;
            for (size_t c = 0; c < classes; c++)
                y[at * classes + c] = floor(x[at]) == (double)c;
        }
}

bool reference_frames(const shoali_layer *layer, const double *params, const reference_batch *batch,
                      const double *x, double *y)
{
    const char *kind = layer->row->name;
    if (strcmp(kind, "framewise") == 0)
        run_framewise(layer, params, batch, x, y);
    else if (strcmp(kind, "onehot") == 0)
        run_onehot(layer, batch, x, y);
    else if (strcmp(kind, "ctc") == 0)
        memcpy(y, x, (size_t)shoali_shape_elems(layer->in) * batch->count * sizeof *y);
    else if (strcmp(kind, "lstm") == 0 || strcmp(kind, "gru") == 0)
        run_recurrent(layer, params, batch, x, y);
    else
        return false;
    return true;
}

/* ---------------------------------------------------------------- losses */

static double probability(const double *scores, size_t classes, size_t c)
{
    double total = 0;
    for (size_t i = 0; i < classes; i++)
        total += exp(scores[i]);
    return exp(scores[c]) / total;
}

static size_t collapse(const uint32_t *of, size_t count, uint32_t *out)
{
    size_t used = 0;
    for (size_t t = 0; t < count; t++)
        if (of[t] != 0 && (t == 0 || of[t] != of[t - 1]))
            out[used++] = of[t];
    return used;
}

/* Every way to give each frame a class that collapses to the same as the labels. */
static double ctc_sample(const double *scores, const uint32_t *labels, size_t length,
                         size_t classes)
{
    uint32_t path[16] = {0}, want[16], got[16];
    size_t symbols = collapse(labels, length, want), ways = 1;
    double sum = 0;
    for (size_t t = 0; t < length; t++)
        ways *= classes;
    for (size_t way_ = 0; way_ < ways; way_++) {
        double p = 1;
        for (size_t t = 0, rest = way_; t < length; t++, rest /= classes)
            path[t] = (uint32_t)(rest % classes);
        if (collapse(path, length, got) != symbols || memcmp(got, want, symbols * sizeof *got) != 0)
            continue;
        for (size_t t = 0; t < length; t++)
            p *= probability(scores + t * classes, classes, path[t]);
        sum += p;
    }
    return -log(sum) / (double)length;
}

double reference_sequence_loss(const shoal_model *model, const double *scores,
                               const reference_batch *batch)
{
    const shoali_layer *last = &model->layers[model->layer_count - 1];
    size_t frames = last->out.height, classes = last->out.width;
    double sum = 0;
    for (size_t n = 0; n < batch->count; n++) {
        size_t length = length_of(batch, last, n);
        const double *of = scores + n * frames * classes;
        const uint32_t *labels = batch->labels + n * frames;
        if (model->ctc)
            sum += ctc_sample(of, labels, length, classes);
        for (size_t t = 0; !model->ctc && t < length; t++)
            sum -= log(probability(of + t * classes, classes, labels[t])) / (double)length;
    }
    return batch->weight * sum / batch->count;
}
