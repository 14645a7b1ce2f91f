/* SPDX-License-Identifier: Apache-2.0 */
/* int8: a signed byte per element in units of a 127th of its block's largest magnitude. */
#include "codec/scaled.h"

typedef struct int8_params {
    int32_t block, rounding;
    bool ef;
} int8_params;

static const shoali_key keys[] = {
    SHOALI_SCALED_KEY_BLOCK(int8_params, "256"),
    {"rounding", SHOALI_KEY_CHOICE, offsetof(int8_params, rounding), 0, 0, "stochastic|nearest",
     "stochastic", "stochastic is unbiased, nearest errs half as much"},
    SHOALI_CODEC_KEY_EF(int8_params, "off"),
};

enum { STOCHASTIC, NEAREST };

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 42;
}

static const shoali_scaled_format *format_of(const int8_params *p)
{
    (void)p;
    return &shoali_scaled()->int8;
}

static uint32_t more_traits(const void *params)
{
    const int8_params *p = params;
    return p->rounding == STOCHASTIC ? SHOAL_CODEC_UNBIASED : 0;
}

/* Of uniform errors: a sixth of a step's square at random, a twelfth to nearest. */
static double variance(const void *params)
{
    const int8_params *p = params;
    double step2 = shoali_scaled_largest2(p->block) / (127.0 * 127.0);
    return step2 / (p->rounding == STOCHASTIC ? 6 : 12);
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    const int8_params *p = params;
    (void)parts;
    return shoali_scaled_bound(format_of(p), shoali_scaled_block(p->block), count);
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const int8_params *p = params;
    (void)capacity;
    return shoali_scaled_encode(format_of(p), shoali_scaled_block(p->block),
                                p->rounding == STOCHASTIC, at, src, count, dst, written_out);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const int8_params *p = params;
    (void)at;
    return shoali_scaled_decode(format_of(p), shoali_scaled_block(p->block), src, len_bytes, dst,
                                count, add, read_out);
}

const shoali_codec_row shoali_codec_int8 = {
    .name = "int8",
    .paper = "Dettmers, \"8-bit approximations\", 2015, and QSGD (Alistarh et al., NIPS 2017) with "
             "127 levels",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_PER_TENSOR,
    .bytes_per_elem = 1.015625F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(int8_params)},
    .wire_id = wire_id,
    .variance = variance,
    .more_traits = more_traits,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
