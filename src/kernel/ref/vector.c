/* SPDX-License-Identifier: Apache-2.0 */
/* The reference rows over float32 and the reference table. Plain loops; they define the results. */
#include <math.h>
#include <string.h>

#include "kernel/circulant.h"
#include "kernel/ref/rows.h"

static void add(float *acc, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        acc[i] += x[i];
}

static void max(float *acc, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] > acc[i] || x[i] != x[i])
            acc[i] = x[i];
}

static void scale(float *x, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= a;
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void copy(float *dst, const float *src, size_t n)
{
    if (n > 0)
        memcpy(dst, src, n * sizeof *dst);
}

static double sumsq(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

static float absmax(const float *x, size_t n)
{
    float result = 0;
    for (size_t i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        if (a > result || a != a)
            result = a;
        if (result != result)
            break;
    }
    return result;
}

static size_t first_nonfinite(const float *x, size_t n)
{
    size_t i = 0;
    while (i < n && isfinite(x[i]))
        i++;
    return i;
}

static uint32_t or_bits(const float *x, size_t n)
{
    uint32_t all = 0, bits;
    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, &x[i], sizeof bits);
        all |= bits;
    }
    return all;
}

const shoali_kernels shoali_kernels_ref = {
    .name = "ref",
    .avx2 = false,
    .add = add,
    .max = max,
    .scale = scale,
    .axpy = axpy,
    .copy = copy,
    .fp16_encode = shoali_ref_fp16_encode,
    .fp16_decode = shoali_ref_fp16_decode,
    .fp16_add = shoali_ref_fp16_add,
    .bf16_encode = shoali_ref_bf16_encode,
    .bf16_decode = shoali_ref_bf16_decode,
    .bf16_add = shoali_ref_bf16_add,
    .sumsq = sumsq,
    .absmax = absmax,
    .first_nonfinite = first_nonfinite,
    .circulant = &shoali_circulant_ref,
    .or_bits = or_bits,
};
