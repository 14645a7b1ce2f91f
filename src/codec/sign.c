/* SPDX-License-Identifier: Apache-2.0 */
/* sign: one bit per element and the mean magnitude of its block. Biased: without error feedback
 * (default) it goes astray. */
#include "codec/scaled.h"

typedef struct sign_params {
    int32_t block;
    bool ef;
} sign_params;

static const shoali_key keys[] = {
    SHOALI_SCALED_KEY_BLOCK(sign_params, "256"),
    SHOALI_CODEC_KEY_EF(sign_params, "on"),
};

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 46;
}

static const shoali_scaled_format *format_of(const sign_params *p)
{
    (void)p;
    return &shoali_scaled()->sign;
}

/* What the mean magnitude misses of normal numbers: 1 - 2 / pi, as far as the mean of a block is
 * the one of all. */
static double variance(const void *params)
{
    (void)params;
    return 0.36338;
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    const sign_params *p = params;
    (void)parts;
    return shoali_scaled_bound(format_of(p), shoali_scaled_block(p->block), count);
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const sign_params *p = params;
    (void)capacity;
    return shoali_scaled_encode(format_of(p), shoali_scaled_block(p->block), false, at, src, count,
                                dst, written_out);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const sign_params *p = params;
    (void)at;
    return shoali_scaled_decode(format_of(p), shoali_scaled_block(p->block), src, len_bytes, dst,
                                count, add, read_out);
}

const shoali_codec_row shoali_codec_sign = {
    .name = "sign",
    .paper = "Karimireddy et al., \"Error Feedback Fixes SignSGD\", ICML 2019; a scale per block",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_PER_TENSOR,
    .bytes_per_elem = 0.140625F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(sign_params)},
    .wire_id = wire_id,
    .variance = variance,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
