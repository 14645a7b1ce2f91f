/* SPDX-License-Identifier: Apache-2.0 */
/* The scaled formats in plain C: the definitions that the vector loops are tested against. */
#include <math.h>
#include <string.h>

#include "codec/scaled.h"

static void put_value(float *dst, float value, bool add)
{
    *dst = add ? *dst + value : value;
}

/* ---------------------------------------------------------------- integers */

static float draw(const shoali_scaled_noise *noise, size_t i)
{
    uint32_t counter = noise->first / 2 + (uint32_t)(i / 16 * 8 + i % 8);
    uint32_t bits = shoali_noise_at(noise->key, counter);
    return ((float)((i / 8 % 2 == 0 ? bits : bits >> 16) & 0xffff) + 0.5f) * 0x1p-16f;
}

static int round_one(float steps, const shoali_scaled_noise *noise, size_t i, int limit)
{
    float rounded = noise->on ? floorf(steps + draw(noise, i)) : rintf(steps);
    int code = (int)rounded;
    return code > limit ? limit : code < -limit ? -limit : code;
}

static void int8_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (uint8_t)(int8_t)round_one(src[i] * per_scale, noise, i, 127);
}

static void int8_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    for (size_t i = 0; i < n; i++)
        put_value(&dst[i], (float)(int8_t)src[i] * scale, add);
}

/* Byte j of 16: element j below, element 16 + j above. */
static void int4_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    memset(dst, 0, (n + 31) / 32 * 16);
    for (size_t i = 0; i < n; i++) {
        int code = round_one(src[i] * per_scale, noise, i, 7) & 15;
        dst[i / 32 * 16 + i % 16] |= (uint8_t)(code << i / 16 % 2 * 4);
    }
}

static void int4_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    for (size_t i = 0; i < n; i++) {
        int code = src[i / 32 * 16 + i % 16] >> i / 16 % 2 * 4 & 15;
        put_value(&dst[i], (float)(code < 8 ? code : code - 16) * scale, add);
    }
}

/* ---------------------------------------------------------------- 8-bit floats */

/* `fraction` bits behind the point, exponents biased by `bias`, rounded to nearest even. */
typedef struct float8 {
    int fraction, bias;
    uint8_t largest;
} float8;

static uint8_t float8_of(float8 f, float x)
{
    uint32_t bits;
    float magnitude = fabsf(x);
    uint8_t sign = signbit(x) != 0 ? 0x80 : 0;
    if (magnitude < ldexpf(1, 1 - f.bias)) /* in steps of the smallest */
        return sign | (uint8_t)rintf(ldexpf(magnitude, f.bias - 1 + f.fraction));
    const int drop = 23 - f.fraction;
    memcpy(&bits, &magnitude, sizeof bits);
    bits += (1u << (drop - 1)) - 1 + (bits >> drop & 1);
    bits = (bits >> drop) - ((uint32_t)(127 - f.bias) << f.fraction);
    return sign | (uint8_t)(bits < f.largest ? bits : f.largest);
}

/* Codes beyond the largest are no values of ours, but read as floats they are harmless: as the
 * largest. */
static float float8_value(float8 f, uint8_t code)
{
    uint8_t magnitude = code & 0x7f;
    magnitude = magnitude < f.largest ? magnitude : f.largest;
    int exponent = magnitude >> f.fraction, fraction = magnitude & ((1 << f.fraction) - 1);
    float value = exponent == 0 ? ldexpf((float)fraction, 1 - f.bias - f.fraction)
                                : ldexpf((float)(fraction + (1 << f.fraction)),
                                         exponent - f.bias - f.fraction);
    return (code & 0x80) != 0 ? -value : value;
}

static const float8 e4m3 = {3, 7, 0x7e}, e5m2 = {2, 15, 0x7b};

static void e4m3_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    (void)noise;
    for (size_t i = 0; i < n; i++)
        dst[i] = float8_of(e4m3, src[i] * per_scale);
}

static void e4m3_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    for (size_t i = 0; i < n; i++)
        put_value(&dst[i], float8_value(e4m3, src[i]) * scale, add);
}

static void e5m2_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    (void)noise;
    for (size_t i = 0; i < n; i++)
        dst[i] = float8_of(e5m2, src[i] * per_scale);
}

static void e5m2_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    for (size_t i = 0; i < n; i++)
        put_value(&dst[i], float8_value(e5m2, src[i]) * scale, add);
}

/* ---------------------------------------------------------------- signs */

static void sign_put(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                     uint8_t *dst)
{
    (void)per_scale, (void)noise;
    memset(dst, 0, (n + 7) / 8);
    for (size_t i = 0; i < n; i++)
        dst[i / 8] |= (uint8_t)((signbit(src[i]) != 0) << i % 8);
}

static void sign_get(const uint8_t *src, size_t n, float scale, float *dst, bool add)
{
    for (size_t i = 0; i < n; i++)
        put_value(&dst[i], (src[i / 8] >> i % 8 & 1) != 0 ? -scale : scale, add);
}

static void sign_sums(const float *src, size_t n, float factor, float sums_out[8])
{
    memset(sums_out, 0, 8 * sizeof *sums_out);
    for (size_t i = 0; i < n; i++)
        sums_out[i % 8] += fabsf(src[i]) * factor;
}

static uint32_t largest(const float *src, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &src[i], sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

const shoali_scaled_formats shoali_scaled_ref = {
    .int8 = {"int8", 127, 1, 1, int8_put, int8_get, NULL},
    .int4 = {"int4", 7, 32, 16, int4_put, int4_get, NULL},
    .e4m3 = {"fp8", 448, 1, 1, e4m3_put, e4m3_get, NULL},
    .e5m2 = {"fp8", 57344, 1, 1, e5m2_put, e5m2_get, NULL},
    .sign = {"sign", 0, 8, 1, sign_put, sign_get, sign_sums},
    .largest = largest,
};
