/* SPDX-License-Identifier: Apache-2.0 */
/* What topk and randomk share: the share of elements that travels, and their values. */
#ifndef SHOALI_CODEC_SPARSE_H
#define SHOALI_CODEC_SPARSE_H

#include "codec/codec.h"

enum { SHOALI_SPARSE_BLOCK = 65536 }; /* elements that 16 bits number */
enum { SHOALI_SPARSE_FP32, SHOALI_SPARSE_BF16 };

/* clang-format off */
#define SHOALI_SPARSE_KEYS(type)                                                \
    {"k", SHOALI_KEY_FLOAT, offsetof(type, k), 1e-6, 1, NULL, "0.01",           \
     "share of the elements that travels; at least one per 65536"},             \
    {"values", SHOALI_KEY_CHOICE, offsetof(type, values), 0, 0, "fp32|bf16",    \
     "fp32", "how they travel"}
/* clang-format on */

/** How many of n elements. */
size_t shoali_sparse_count(double k, size_t n);
size_t shoali_sparse_value_bytes(int32_t values);
/** ENOTFINITE if one has no finite code. */
SHOAL_MUST_USE shoal_status shoali_sparse_put(const char *name, int32_t values, const float *src,
                                              size_t count, uint8_t *dst);
void shoali_sparse_get(int32_t values, const uint8_t *src, size_t count, float *dst);

#endif
