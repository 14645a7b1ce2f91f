/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/recurrent.h"

#include <string.h>

shoali_walk shoali_walk_of(const shoali_node *node, const shoali_pass *pass, bool reverse)
{
    uint32_t frames = node->layer->in.height;
    bool all = pass->lengths == NULL || pass->longest == 0;
    return (shoali_walk){.count = pass->count,
                         .frames = frames,
                         .longest = all ? frames : pass->longest,
                         .lengths = pass->lengths,
                         .reverse = reverse,
                         .from = pass->from};
}

static size_t row(const shoali_walk *walk, uint32_t sample, size_t values)
{
    return (size_t)sample * walk->frames * values;
}

void shoali_walk_clear(const shoali_walk *walk, float *y, size_t values)
{
    for (uint32_t n = 0; n < walk->count; n++) {
        const uint32_t length = shoali_walk_length(walk, n);
        memset(y + row(walk, n, values) + length * values, 0,
               (walk->frames - length) * values * sizeof *y);
    }
}

void shoali_walk_apply(const shoali_walk *walk, const shoali_matrix *w, const float *bias,
                       const float *x, float *out, size_t out_values)
{
    size_t in = (size_t)w->cols;
    for (uint32_t n = 0; n < walk->count; n++) {
        uint32_t count = shoali_walk_length(walk, n) - walk->from;
        const float *of = x + row(walk, n, in) + walk->from * in;
        float *to = out + row(walk, n, out_values) + walk->from * out_values;
        for (uint32_t t = 0; bias != NULL && t < count; t++)
            memcpy(to + t * out_values, bias, (size_t)w->rows * sizeof *to);
        shoali_matrix_apply(w, count, of, in, to, out_values, bias != NULL);
    }
}

void shoali_walk_back(const shoali_walk *walk, const shoali_matrix *w, const float *dout,
                      size_t dout_values, float *dx, bool add)
{
    size_t in = (size_t)w->cols;
    for (uint32_t n = 0; n < walk->count; n++) {
        uint32_t length = shoali_walk_length(walk, n);
        float *to = dx + row(walk, n, in);
        shoali_matrix_back(w, length, dout + row(walk, n, dout_values), dout_values, to, in, add);
        memset(to + length * in, 0, (walk->frames - length) * in * sizeof *to);
    }
}

void shoali_walk_learn(const shoali_walk *walk, shoali_matrix *w, const float *dout,
                       size_t dout_values, const float *x, size_t x_values)
{
    if (walk->lengths == NULL) { /* one sequence's end meets the next one's start */
        shoali_matrix_learn(w, walk->count * walk->frames, dout, dout_values, x, x_values);
        return;
    }
    for (uint32_t n = 0; n < walk->count; n++)
        shoali_matrix_learn(w, shoali_walk_length(walk, n), dout + row(walk, n, dout_values),
                            dout_values, x + row(walk, n, x_values), x_values);
}

void shoali_walk_learn_before(const shoali_walk *walk, shoali_matrix *w, const float *dout,
                              size_t dout_values, const float *h, size_t h_values)
{
    for (uint32_t n = 0; n < walk->count; n++) {
        const float *d = dout + row(walk, n, dout_values), *before = h + row(walk, n, h_values);
        if (walk->reverse)
            before += h_values;
        else
            d += dout_values;
        shoali_matrix_learn(w, shoali_walk_length(walk, n) - 1, d, dout_values, before, h_values);
    }
}

void shoali_walk_bias(const shoali_walk *walk, const float *dout, uint32_t values, float *dbias)
{
    memset(dbias, 0, values * sizeof *dbias);
    for (uint32_t n = 0; n < walk->count; n++) {
        const float *d = dout + row(walk, n, values);
        for (uint32_t t = 0; t < shoali_walk_length(walk, n); t++, d += values)
            for (uint32_t i = 0; i < values; i++)
                dbias[i] += d[i];
    }
}

void shoali_walk_give(const shoali_walk *walk, const float *h, uint32_t width, float *y,
                      uint32_t first, uint32_t values, bool add)
{
    for (uint32_t n = 0; n < walk->count; n++) {
        uint32_t length = shoali_walk_length(walk, n);
        const float *from = h + row(walk, n, width);
        float *to = y + row(walk, n, values) + first;
        for (uint32_t t = 0; t < walk->frames; t++, from += width, to += values) {
            if (t >= length)
                memset(to, 0, width * sizeof *to);
            else if (!add)
                memcpy(to, from, width * sizeof *to);
            else
                for (uint32_t i = 0; i < width; i++)
                    to[i] += from[i];
        }
    }
}

void shoali_walk_take(const shoali_walk *walk, const float *dy, uint32_t first, uint32_t values,
                      float *dh, uint32_t width)
{
    for (uint32_t n = 0; n < walk->count; n++) {
        uint32_t length = shoali_walk_length(walk, n);
        const float *from = dy + row(walk, n, values) + first;
        float *to = dh + row(walk, n, width);
        for (uint32_t t = 0; t < walk->frames; t++, from += values, to += width)
            if (t < length)
                memcpy(to, from, width * sizeof *to);
            else
                memset(to, 0, width * sizeof *to);
    }
}
