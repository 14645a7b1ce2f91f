/* SPDX-License-Identifier: Apache-2.0 */
#include "support/conv_double.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

size_t conv_double_out_height(const conv_double_shape *s)
{
    return (s->height + 2 * s->pad - s->kernel) / s->stride + 1;
}

size_t conv_double_out_width(const conv_double_shape *s)
{
    return (s->width + 2 * s->pad - s->kernel) / s->stride + 1;
}

size_t conv_double_weights(const conv_double_shape *s)
{
    return s->out * (s->channels / s->groups) * s->kernel * s->kernel;
}

/* Call visit for every product of the definition: indices of output, weight and input. */
typedef void (*visitor)(void *ctx, size_t y, size_t w, size_t x);

static void each_tap(const conv_double_shape *s, size_t n, size_t o, const long corner[2], size_t y,
                     visitor visit, void *ctx)
{
    const size_t k = s->kernel, in = s->channels / s->groups, first = o / (s->out / s->groups) * in;
    for (size_t t = 0; t < in * k * k; t++) {
        const long iy = corner[0] + (long)(t / k % k), ix = corner[1] + (long)(t % k);
        if (iy >= 0 && ix >= 0 && iy < (long)s->height && ix < (long)s->width)
            visit(ctx, y, o * in * k * k + t,
                  ((n * s->channels + first + t / (k * k)) * s->height + (size_t)iy) * s->width +
                      (size_t)ix);
    }
}

static void each_product(const conv_double_shape *s, visitor visit, void *ctx)
{
    size_t y = 0;
    for (size_t n = 0; n < s->count; n++)
        for (size_t o = 0; o < s->out; o++)
            for (size_t oy = 0; oy < conv_double_out_height(s); oy++)
                for (size_t ox = 0; ox < conv_double_out_width(s); ox++, y++) {
                    const long corner[] = {(long)(oy * s->stride) - (long)s->pad,
                                           (long)(ox * s->stride) - (long)s->pad};
                    each_tap(s, n, o, corner, y, visit, ctx);
                }
}

typedef struct sides {
    const float *w, *x, *dy;
    double *y, *dw, *dx;
} sides;

static void add_output(void *ctx, size_t y, size_t w, size_t x)
{
    const sides *s = ctx;
    s->y[y] += (double)s->w[w] * s->x[x];
}

static void add_slopes(void *ctx, size_t y, size_t w, size_t x)
{
    const sides *s = ctx;
    s->dx[x] += (double)s->w[w] * s->dy[y];
    s->dw[w] += (double)s->x[x] * s->dy[y];
}

void conv_double_forward(const conv_double_shape *s, const float *w, const float *x, double *y)
{
    each_product(s, add_output, &(sides){.w = w, .x = x, .y = y});
}

void conv_double_backward(const conv_double_shape *s, const float *w, const float *x,
                          const float *dy, double *dw, double *dx)
{
    each_product(s, add_slopes, &(sides){.w = w, .x = x, .dy = dy, .dw = dw, .dx = dx});
}

void conv_double_near(const float *got, const double *want, size_t count, size_t which,
                      const char *what)
{
    double error = 0, size = 1e-30;
    for (size_t i = 0; i < count; i++) {
        error += pow(got[i] - want[i], 2);
        size += pow(want[i], 2);
    }
    if (!(sqrt(error / size) < 1e-6))
        fail_msg("case %zu: %s are off by %g", which, what, sqrt(error / size));
}

float *conv_double_noise(size_t count, unsigned stream)
{
    float *values = calloc(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)shoali_rng_normal(check_seed(), stream, i);
    return values;
}
