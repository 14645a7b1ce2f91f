/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution by its definition, in double: what every other way is compared with. */
#ifndef SHOALI_TESTS_SUPPORT_CONV_DOUBLE_H
#define SHOALI_TESTS_SUPPORT_CONV_DOUBLE_H

#include <stddef.h>

typedef struct conv_double_shape {
    size_t channels, height, width, out, kernel, stride, pad, groups, count;
} conv_double_shape;

size_t conv_double_out_height(const conv_double_shape *s);
size_t conv_double_out_width(const conv_double_shape *s);
size_t conv_double_weights(const conv_double_shape *s);

/** y[count][out][..] += W x. */
void conv_double_forward(const conv_double_shape *s, const float *w, const float *x, double *y);
/** dw += dy x, dx += W dy. */
void conv_double_backward(const conv_double_shape *s, const float *w, const float *x,
                          const float *dy, double *dw, double *dx);

/** Fail unless |got - want| < 1e-6 |want|, in norm: a few rounding errors of 6e-8. */
void conv_double_near(const float *got, const double *want, size_t count, size_t which,
                      const char *what);

/** Normal random numbers; free them. */
float *conv_double_noise(size_t count, unsigned stream);

#endif
