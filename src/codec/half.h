/* SPDX-License-Identifier: Apache-2.0 */
/* What fp16 and bf16 share: two bytes per element, converted by a kernel, at any alignment of the
 * coded bytes. */
#ifndef SHOALI_CODEC_HALF_H
#define SHOALI_CODEC_HALF_H

#include "codec/codec.h"

typedef struct shoali_half_params {
    bool ef;
} shoali_half_params;

extern const shoali_key shoali_half_keys[1];

size_t shoali_half_bound(const void *params, size_t count, uint32_t parts);

/** ENOTFINITE names the first element without a finite 16-bit value: NaN, infinite, too large. */
SHOAL_MUST_USE shoal_status shoali_half_encode(const char *name,
                                               bool (*convert)(uint16_t *, const float *, size_t),
                                               const shoal_codec_at *at, const float *src,
                                               size_t count, uint8_t *dst, size_t *written_out);

/** `convert` overwrites or adds to its first argument. What is not finite is ECORRUPT: no encoder
 *  writes it. */
SHOAL_MUST_USE shoal_status shoali_half_decode(const char *name,
                                               bool (*convert)(float *, const uint16_t *, size_t),
                                               const uint8_t *src, size_t len_bytes, float *dst,
                                               size_t count, size_t *read_out);

#endif
