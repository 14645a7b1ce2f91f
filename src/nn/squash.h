/* SPDX-License-Identifier: Apache-2.0 */
/* Logistic function, tanh and the normal distribution in a form that compilers vectorise. Absolute
 * errors are below 3e-7; what is no number stays so. */
#ifndef SHOALI_NN_SQUASH_H
#define SHOALI_NN_SQUASH_H

#include <stdint.h>
#include <string.h>

/* e^x for |x| <= 87, beyond it as at 87: 2^n e^r with |r| <= ln 2 / 2, e^r by its Taylor series. */
static inline float shoali_exp(float x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, which then is in the low bits
                                    */
    x = x > 87.0f ? 87.0f : x;
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504f + magic, n = shifted - magic;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float e = 1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 +
                                                  r * (1.0f / 24 + r * (1.0f / 120 + r / 720)))));
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127u) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x == x ? e * scale : x;
}

static inline float shoali_sigmoid(float x)
{
    return 1.0f / (1.0f + shoali_exp(-x));
}

/* exp(-x^2 / 2), and the share of the standard normal distribution below x from it:
 * exp(z^2) erfc(z) is t times a polynomial in t = 1 / (1 + z / 2), fitted here for z from 0 to 9.4
 * so that its largest relative error is least, 4e-8; with float32's own rounding 3e-7 and, as
 * x^2 / 2 is rounded, 5e-6 where the share is 1e-38. */
static inline float shoali_normal_fall(float x)
{
    return shoali_exp(-0.5f * x * x);
}

static inline float shoali_normal_below(float x, float fall)
{
    const float z = 0.70710678f * (x < 0 ? -x : x), t = 1.0f / (1.0f + 0.5f * z);
    float sum = -0.05884714797f;
    sum = 0.28348782659f + t * sum;
    sum = -0.48493731022f + t * sum;
    sum = 0.27546346188f + t * sum;
    sum = -0.02481987886f + t * sum;
    sum = 0.20191682875f + t * sum;
    sum = 0.24330016971f + t * sum;
    sum = 0.28234800696f + t * sum;
    sum = 0.28208798170f + t * sum;
    const float tail = 0.5f * t * sum * fall;
    return x < 0 ? tail : 1.0f - tail;
}

static inline float shoali_tanh(float x)
{
    return 2.0f * shoali_sigmoid(2.0f * x) - 1.0f;
}

#endif
