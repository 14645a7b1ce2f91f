/* SPDX-License-Identifier: Apache-2.0 */
/* topk: the largest elements and where they are. Per block of 65536 elements, or what is left of a
 * piece: k indices of 16 bits, ascending, then k values. Sums of such would soon be dense, so it
 * travels in slots (gather). Biased: without error feedback (default) the small elements never
 * arrive. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "codec/select.h"
#include "codec/sparse.h"

enum { SOME = 1024 };

typedef struct topk_params {
    double k;
    int32_t values;
    bool ef;
} topk_params;

static const shoali_key keys[] = {
    SHOALI_SPARSE_KEYS(topk_params),
    SHOALI_CODEC_KEY_EF(topk_params, "on"),
};

static uint16_t wire_id(const void *params)
{
    return ((const topk_params *)params)->values == SHOALI_SPARSE_FP32 ? 54 : 55;
}

/* The share of a normal number's square below the quantile that k cuts off. */
static double variance(const void *params)
{
    const double k = ((const topk_params *)params)->k;
    double low = 0, high = 10;
    if (k >= 1)
        return 0;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (erfc(middle / sqrt(2)) > k)
            low = middle;
        else
            high = middle;
    }
    return 1 - k - 2 * low * exp(-low * low / 2) / sqrt(2 * M_PI);
}

static size_t block_bytes(const void *params, size_t n)
{
    const topk_params *p = params;
    return shoali_sparse_count(p->k, n) * (sizeof(uint16_t) + shoali_sparse_value_bytes(p->values));
}

static shoal_status put_values(const topk_params *p, const float *src, const uint8_t *indices,
                               size_t k, uint8_t *dst)
{
    for (size_t i = 0, n; i < k; i += n) {
        float values[SOME];
        n = k - i < SOME ? k - i : SOME;
        for (size_t j = 0; j < n; j++) {
            uint16_t index;
            memcpy(&index, indices + (i + j) * sizeof index, sizeof index);
            values[j] = src[index];
        }
        SHOALI_TRY(shoali_sparse_put("topk", p->values, values, n, dst));
        dst += n * shoali_sparse_value_bytes(p->values);
    }
    return SHOAL_OK;
}

static shoal_status encode_block(const void *params, const shoal_codec_at *at, size_t first,
                                 const float *src, size_t n, uint8_t *dst)
{
    const topk_params *p = params;
    const size_t k = shoali_sparse_count(p->k, n);
    SHOALI_TRY(shoali_select("topk", at->first + first, src, n, k, dst));
    return put_values(p, src, dst, k, dst + k * sizeof(uint16_t));
}

static bool decode_block(const void *params, const shoal_codec_at *at, size_t first,
                         const uint8_t *src, float *dst, size_t n, bool add)
{
    const topk_params *p = params;
    (void)at, (void)first;
    const size_t k = shoali_sparse_count(p->k, n);
    const uint8_t *from = src + k * sizeof(uint16_t);
    size_t next = 0; /* the least that the next index may be */
    for (size_t i = 0, some; i < k; i += some) {
        float values[SOME];
        some = k - i < SOME ? k - i : SOME;
        if (!shoali_sparse_get(p->values, from, some, values))
            return false;
        from += some * shoali_sparse_value_bytes(p->values);
        for (size_t j = 0; j < some; j++) {
            uint16_t index;
            memcpy(&index, src + (i + j) * sizeof index, sizeof index);
            if (index < next || index >= n)
                return false;
            next = (size_t)index + 1;
            dst[index] = add ? dst[index] + values[j] : values[j];
        }
    }
    return true;
}

static const shoali_sparse_blocks blocks = {"topk", SHOALI_SPARSE_BLOCK, block_bytes, encode_block,
                                            decode_block};

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)parts;
    return shoali_sparse_bytes(&blocks, params, count);
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    (void)capacity;
    return shoali_sparse_encode(&blocks, params, at, src, count, dst, written_out);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    return shoali_sparse_decode(&blocks, params, at, src, len_bytes, dst, count, add, read_out);
}

const shoali_codec_row shoali_codec_topk = {
    .name = "topk",
    .paper = "Aji and Heafield, \"Sparse Communication for Distributed Gradient Descent\", EMNLP "
             "2017; without DGC's momentum correction",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_SLOTS,
    .bytes_per_elem = 0.06F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(topk_params)},
    .wire_id = wire_id,
    .variance = variance,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
