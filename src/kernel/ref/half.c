/* SPDX-License-Identifier: Apache-2.0 */
/* float32 to the two 16-bit formats and back in integers, so that no rounding mode or flush-to-zero
 * setting of the caller changes a result. */
#include <string.h>

#include "kernel/ref/rows.h"

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Drop the low `shift` bits, ties to even; a carry into the exponent is what rounding up to the
 * next binade needs. */
static uint32_t round_off(uint32_t value, uint32_t shift)
{
    uint32_t half = (1u << (shift - 1)) - 1u;
    return (value + half + ((value >> shift) & 1u)) >> shift;
}

uint16_t shoali_ref_fp16_from(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu, result;
    if (a > 0x7f800000u)
        result = 0x7e00u | (a >> 13 & 0x3ffu); /* quiet NaN, payload cut */
    else if (a >= 0x47800000u)
        result = 0x7c00u; /* 2^16 and above; 65520 .. 2^16 gets there by rounding below */
    else if (a >= 0x38800000u)
        result = round_off(a - 0x38000000u, 13); /* normal: exponent bias 127 -> 15 */
    else if (a >= 0x33000000u)
        /* subnormal: units of 2^-24 */
        result = round_off((a & 0x7fffffu) | 0x800000u, 126u - (a >> 23));
    else
        result = 0;
    return (uint16_t)(sign | result);
}

float shoali_ref_fp16_to(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 0x1fu,
             mantissa = h & 0x3ffu;
    if (exponent == 0x1fu)
        return float_of(sign | 0x7f800000u | (mantissa != 0 ? 0x400000u : 0u) | mantissa << 13);
    if (exponent == 0)
        return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    return float_of(sign | ((exponent + 112u) << 23) | mantissa << 13);
}

uint16_t shoali_ref_bf16_from(float x)
{
    uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)round_off(bits, 16);
}

float shoali_ref_bf16_to(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

bool shoali_ref_fp16_encode(uint16_t *dst, const float *src, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        dst[i] = shoali_ref_fp16_from(src[i]);
        finite &= (dst[i] & 0x7c00u) != 0x7c00u;
    }
    return finite;
}

bool shoali_ref_fp16_decode(float *dst, const uint16_t *src, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        dst[i] = shoali_ref_fp16_to(src[i]);
        finite &= (src[i] & 0x7c00u) != 0x7c00u;
    }
    return finite;
}

bool shoali_ref_fp16_add(float *acc, const uint16_t *src, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        acc[i] += shoali_ref_fp16_to(src[i]);
        finite &= (src[i] & 0x7c00u) != 0x7c00u;
    }
    return finite;
}

bool shoali_ref_bf16_encode(uint16_t *dst, const float *src, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        dst[i] = shoali_ref_bf16_from(src[i]);
        finite &= (dst[i] & 0x7f80u) != 0x7f80u;
    }
    return finite;
}

bool shoali_ref_bf16_decode(float *dst, const uint16_t *src, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        dst[i] = shoali_ref_bf16_to(src[i]);
        finite &= (src[i] & 0x7f80u) != 0x7f80u;
    }
    return finite;
}

bool shoali_ref_bf16_add(float *acc, const uint16_t *src, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        acc[i] += shoali_ref_bf16_to(src[i]);
        finite &= (src[i] & 0x7f80u) != 0x7f80u;
    }
    return finite;
}
