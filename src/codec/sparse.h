/* SPDX-License-Identifier: Apache-2.0 */
/* What topk, randomk and chunk_topk share: blocks of which few elements travel; the first two also
 * how many, and how. Indices of 12 bits are chunk_topk's and nonzero's. */
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
/** False: one of them is not finite. */
bool shoali_sparse_get(int32_t values, const uint8_t *src, size_t count, float *dst);

/** Pieces are blocks of equal length, the last perhaps shorter; a block's bytes follow from its
 * elements' number. */
typedef struct shoali_sparse_blocks {
    const char *name;
    size_t block;
    size_t (*bytes)(const void *params, size_t n);
    /** `first`: the block's place in the piece. */
    shoal_status (*encode)(const void *params, const shoal_codec_at *at, size_t first,
                           const float *src, size_t n, uint8_t *dst);
    /** Sets or adds what travelled; all others are 0 already. False: corrupt indices. */
    bool (*decode)(const void *params, const shoal_codec_at *at, size_t first, const uint8_t *src,
                   float *dst, size_t n, bool add);
} shoali_sparse_blocks;

/** Bytes of count elements. */
size_t shoali_sparse_bytes(const shoali_sparse_blocks *blocks, const void *params, size_t count);
/** As in a codec's row. */
SHOAL_MUST_USE shoal_status shoali_sparse_encode(const shoali_sparse_blocks *blocks,
                                                 const void *params, const shoal_codec_at *at,
                                                 const float *src, size_t count, uint8_t *dst,
                                                 size_t *written_out);
SHOAL_MUST_USE shoal_status shoali_sparse_decode(const shoali_sparse_blocks *blocks,
                                                 const void *params, const shoal_codec_at *at,
                                                 const uint8_t *src, size_t len_bytes, float *dst,
                                                 size_t count, bool add, size_t *read_out);

/** k ascending indices below 4096, 12 bits each: the first of two in the lower bits of three bytes,
 * a last one alone in two. */
size_t shoali_sparse_index_bytes(size_t k);
void shoali_sparse_put_indices(const uint16_t *indices, size_t k, uint8_t *dst);
/** False: not ascending below n, or spare bits are set. */
bool shoali_sparse_get_indices(const uint8_t *src, size_t k, size_t n, uint16_t *indices);

#endif
