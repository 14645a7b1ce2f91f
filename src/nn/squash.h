/* SPDX-License-Identifier: Apache-2.0 */
/* Logistic function and tanh in a form that compilers vectorise. Absolute errors are below 3e-7;
 * what is no number stays so. */
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

static inline float shoali_tanh(float x)
{
    return 2.0f * shoali_sigmoid(2.0f * x) - 1.0f;
}

#endif
