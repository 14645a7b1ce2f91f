/* SPDX-License-Identifier: Apache-2.0 */
/* fp8: 8-bit floats under a scale that makes each block's largest magnitude the format's. e4m3 has
 * three bits behind the point and 2^15 between its smallest and its largest normal number, e5m2 two
 * bits and 2^30. */
#include "codec/scaled.h"

typedef struct fp8_params {
    int32_t block, format;
    bool ef;
} fp8_params;

static const shoali_key keys[] = {
    SHOALI_SCALED_KEY_BLOCK(fp8_params, "256"),
    {"format", SHOALI_KEY_CHOICE, offsetof(fp8_params, format), 0, 0, "e4m3|e5m2", "e4m3",
     "bits of the exponent and behind the point"},
    SHOALI_CODEC_KEY_EF(fp8_params, "off"),
};

enum { E4M3, E5M2 };

static uint16_t wire_id(const void *params)
{
    return ((const fp8_params *)params)->format == E4M3 ? 44 : 45;
}

static const shoali_scaled_format *format_of(const fp8_params *p)
{
    return p->format == E4M3 ? &shoali_scaled()->e4m3 : &shoali_scaled()->e5m2;
}

/* Of a uniform error within half a last place, averaged over where between two powers of two the
 * numbers are: measured. */
static double variance(const void *params)
{
    return ((const fp8_params *)params)->format == E4M3 ? 0.0007 : 0.0028;
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    const fp8_params *p = params;
    (void)parts;
    return shoali_scaled_bound(format_of(p), shoali_scaled_block(p->block), count);
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const fp8_params *p = params;
    (void)capacity;
    return shoali_scaled_encode(format_of(p), shoali_scaled_block(p->block), false, at, src, count,
                                dst, written_out);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const fp8_params *p = params;
    (void)at;
    return shoali_scaled_decode(format_of(p), shoali_scaled_block(p->block), src, len_bytes, dst,
                                count, add, read_out);
}

const shoali_codec_row shoali_codec_fp8 = {
    .name = "fp8",
    .paper = "Micikevicius et al., \"FP8 formats for deep learning\", 2022; a scale per block",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_PER_TENSOR,
    .bytes_per_elem = 1.015625F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(fp8_params)},
    .wire_id = wire_id,
    .variance = variance,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
