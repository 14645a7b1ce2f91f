/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/scaled_int.h"

enum { STOCHASTIC };

static const shoali_scaled_format *format_of(const shoali_scaled_int *p)
{
    return p->bits == 8 ? &shoali_scaled()->int8 : &shoali_scaled()->int4;
}

uint32_t shoali_scaled_int_more_traits(const void *params)
{
    const shoali_scaled_int *p = params;
    return p->rounding == STOCHASTIC ? SHOAL_CODEC_UNBIASED : 0;
}

/* Of uniform errors: a sixth of a step's square at random, a twelfth to nearest. */
double shoali_scaled_int_variance(const void *params)
{
    const shoali_scaled_int *p = params;
    const double levels = (double)format_of(p)->largest;
    double step2 = shoali_scaled_largest2(p->block) / (levels * levels);
    return step2 / (p->rounding == STOCHASTIC ? 6 : 12);
}

size_t shoali_scaled_int_size(const void *params, size_t count, uint32_t parts)
{
    const shoali_scaled_int *p = params;
    (void)parts;
    return shoali_scaled_bound(format_of(p), shoali_scaled_block(p->block), count);
}

shoal_status shoali_scaled_int_encode(const void *params, const shoal_codec_at *at,
                                      const float *src, size_t count, uint8_t *dst, size_t capacity,
                                      size_t *written_out)
{
    const shoali_scaled_int *p = params;
    (void)capacity;
    return shoali_scaled_encode(format_of(p), shoali_scaled_block(p->block),
                                p->rounding == STOCHASTIC, at, src, count, dst, written_out);
}

shoal_status shoali_scaled_int_decode(const void *params, const shoal_codec_at *at,
                                      const uint8_t *src, size_t len_bytes, float *dst,
                                      size_t count, bool add, size_t *read_out)
{
    const shoali_scaled_int *p = params;
    (void)at;
    return shoali_scaled_decode(format_of(p), shoali_scaled_block(p->block), src, len_bytes, dst,
                                count, add, read_out);
}
