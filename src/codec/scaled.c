/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/scaled.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "kernel/kernel.h"

/* Below it 1 / scale leaves float32: such a block counts as zeros. */
#define LEAST 0x1p-100f

const shoali_scaled_formats *shoali_scaled(void)
{
#if defined(__x86_64__)
    if (shoali_kernel()->avx2)
        return &shoali_scaled_avx2;
#elif defined(__aarch64__)
    if (shoali_kernel()->neon)
        return &shoali_scaled_neon;
#endif
    return &shoali_scaled_ref;
}

/* The integral of 1 - erf(sqrt(t / 2))^n. */
double shoali_scaled_largest2(int32_t choice)
{
    static const double mean[] = {5.7095, 6.9139, 8.1483, 9.4038, 10.675, 11.9583};
    return mean[choice];
}

static size_t code_bytes(const shoali_scaled_format *format, size_t n)
{
    return (n + format->group - 1) / format->group * format->group_bytes;
}

size_t shoali_scaled_bound(const shoali_scaled_format *format, size_t block, size_t count)
{
    size_t bytes = count / block * (sizeof(float) + code_bytes(format, block));
    return count % block != 0 ? bytes + sizeof(float) + code_bytes(format, count % block) : bytes;
}

/* Mean magnitude, summed in units of the largest: sums of huge numbers stay finite. */
static float mean_of(const shoali_scaled_format *format, const float *src, size_t n, float largest)
{
    float sums[8];
    double sum = 0;
    const int exponent = ilogbf(largest);
    format->sums(src, n, ldexpf(1, -exponent), sums);
    for (size_t j = 0; j < 8; j++)
        sum += (double)sums[j];
    return (float)ldexp(sum / (double)n, exponent);
}

static shoal_status encode_block(const shoali_scaled_format *format, const shoal_codec_at *at,
                                 const shoali_scaled_noise *noise, const float *src, size_t n,
                                 uint8_t *dst)
{
    const uint32_t largest_bits = shoali_scaled()->largest(src, n);
    float largest, scale = 0, per_scale = 0;
    memcpy(&largest, &largest_bits, sizeof largest);
    if (!isfinite(largest))
        return shoali_fail(SHOAL_ENOTFINITE, "%s: element %zu is not finite", format->name,
                           at->first + noise->first + shoali_kernel()->first_nonfinite(src, n));
    if (largest >= LEAST) {
        scale = format->largest > 0 ? largest / format->largest : mean_of(format, src, n, largest);
        per_scale = format->largest > 0 ? format->largest / largest : 1;
    }
    memcpy(dst, &scale, sizeof scale);
    format->put(src, n, per_scale, noise, dst + sizeof scale);
    return SHOAL_OK;
}

shoal_status shoali_scaled_encode(const shoali_scaled_format *format, size_t block, bool stochastic,
                                  const shoal_codec_at *at, const float *src, size_t count,
                                  uint8_t *dst, size_t *written_out)
{
    uint8_t *to = dst;
    shoali_scaled_noise noise = {.on = stochastic};
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < block ? count - i : block;
        if (i % ((uint64_t)1 << 32) == 0)
            noise.key = shoali_noise_key(at->seed, at->stream, at->first + i);
        noise.first = (uint32_t)i;
        SHOALI_TRY(encode_block(format, at, &noise, src + i, n, to));
        to += sizeof(float) + code_bytes(format, n);
    }
    *written_out = (size_t)(to - dst);
    return SHOAL_OK;
}

/* A scale that encoders write for nothing but the largest of floats may take a code too far. */
static bool is_finite(const shoali_scaled_format *format, const uint8_t *codes, size_t n,
                      float scale)
{
    enum { BLOCK_MOST = 1024 };
    float values[BLOCK_MOST];
    if (isfinite(scale * (format->largest + 1)))
        return true;
    format->get(codes, n, scale, values, false);
    return shoali_kernel()->first_nonfinite(values, n) == n;
}

shoal_status shoali_scaled_decode(const shoali_scaled_format *format, size_t block,
                                  const uint8_t *src, size_t len_bytes, float *dst, size_t count,
                                  bool add, size_t *read_out)
{
    const size_t bytes = shoali_scaled_bound(format, block, count);
    if (len_bytes < bytes)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %zu bytes for %zu elements", format->name,
                           len_bytes, count);
    for (size_t i = 0, n; i < count; i += n) {
        float scale;
        n = count - i < block ? count - i : block;
        memcpy(&scale, src, sizeof scale);
        if (!(scale >= 0) || !isfinite(scale) || !is_finite(format, src + sizeof scale, n, scale))
            return shoali_fail(SHOAL_ECORRUPT, "%s: a scale of %g", format->name, (double)scale);
        format->get(src + sizeof scale, n, scale, dst + i, add);
        src += sizeof scale + code_bytes(format, n);
    }
    *read_out = bytes;
    return SHOAL_OK;
}
