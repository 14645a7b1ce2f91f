/* SPDX-License-Identifier: Apache-2.0 */
/* What int8 and int4 share: everything but their rows. They differ in bits, name and default. */
#ifndef SHOALI_CODEC_SCALED_INT_H
#define SHOALI_CODEC_SCALED_INT_H

#include "codec/scaled.h"

/** Parameters of both rows; which of them it is, each row's check says. */
typedef struct shoali_scaled_int {
    int32_t block, rounding; /* choices */
    bool ef;
    int32_t bits; /* 4 or 8 */
} shoali_scaled_int;

#define SHOALI_SCALED_INT_KEYS(block_fallback)                  \
    SHOALI_SCALED_KEY_BLOCK(shoali_scaled_int, block_fallback), \
        {"rounding",                                            \
         SHOALI_KEY_CHOICE,                                     \
         offsetof(shoali_scaled_int, rounding),                 \
         0,                                                     \
         0,                                                     \
         "stochastic|nearest",                                  \
         "stochastic",                                          \
         "stochastic is unbiased, nearest errs half as much"},  \
        SHOALI_CODEC_KEY_EF(shoali_scaled_int, "off")

uint32_t shoali_scaled_int_more_traits(const void *params);
double shoali_scaled_int_variance(const void *params);
size_t shoali_scaled_int_size(const void *params, size_t count, uint32_t parts);
SHOAL_MUST_USE shoal_status shoali_scaled_int_encode(const void *params, const shoal_codec_at *at,
                                                     const float *src, size_t count, uint8_t *dst,
                                                     size_t capacity, size_t *written_out);
SHOAL_MUST_USE shoal_status shoali_scaled_int_decode(const void *params, const shoal_codec_at *at,
                                                     const uint8_t *src, size_t len_bytes,
                                                     float *dst, size_t count, bool add,
                                                     size_t *read_out);

#endif
