/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_topk: the k largest of every 4096 elements, in two bits each. A chunk is k indices of 12
 * bits (the first of two in the lower bits of three bytes), ascending, two float32 levels, and k
 * codes of two bits, four to a byte: 1 negative, 2 the upper level. The levels are the means of
 * those of the k magnitudes that are above their mean, and of the others. q=32 sends float32 values
 * instead of levels and codes. The last chunk may be short; then so is k. Travels in slots
 * (gather), and wants error feedback (default); with decay below 1 what was left over is forgotten
 * by and by, SparseLoCo's stand-in for momentum. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "codec/select.h"
#include "codec/sparse.h"
#include "kernel/kernel.h"

enum { CHUNK = 4096, MOST = 1024 };
enum { Q2, Q32 };

typedef struct chunk_topk_params {
    int64_t k;
    int32_t q;
    bool ef;
    double decay;
} chunk_topk_params;

static const shoali_key keys[] = {
    {"k", SHOALI_KEY_INT, offsetof(chunk_topk_params, k), 1, MOST, NULL, "64",
     "elements of every 4096 that travel"},
    {"q", SHOALI_KEY_CHOICE, offsetof(chunk_topk_params, q), 0, 0, "2|32", "2", "bits of a value"},
    SHOALI_CODEC_KEY_EF(chunk_topk_params, "on"),
    {"decay", SHOALI_KEY_FLOAT, offsetof(chunk_topk_params, decay), 0, 1, NULL, "1",
     "part of what an encode left over that is added to the next gradient"},
};

static uint16_t wire_id(const void *params)
{
    return ((const chunk_topk_params *)params)->q == Q2 ? 58 : 59;
}

static size_t k_of(const chunk_topk_params *p, size_t n)
{
    return ((size_t)p->k * n + CHUNK - 1) / CHUNK;
}

static size_t chunk_bytes(const void *params, size_t n)
{
    const chunk_topk_params *p = params;
    const size_t k = k_of(p, n);
    return shoali_sparse_index_bytes(k) +
           (p->q == Q2 ? 2 * sizeof(float) + (k + 3) / 4 : k * sizeof(float));
}

static void levels_of(const float *values, size_t k, float levels[2])
{
    double sum[2] = {0}, all = 0;
    size_t number[2] = {0};
    for (size_t i = 0; i < k; i++)
        all += fabs((double)values[i]);
    const double mean = all / (double)k;
    for (size_t i = 0; i < k; i++) {
        bool upper = fabs((double)values[i]) > mean;
        sum[upper] += fabs((double)values[i]);
        number[upper]++;
    }
    for (size_t i = 0; i < 2; i++)
        levels[i] = number[i] > 0 ? (float)(sum[i] / (double)number[i]) : 0;
}

static void put_codes(const float *values, size_t k, uint8_t *dst)
{
    float levels[2];
    levels_of(values, k, levels);
    memcpy(dst, levels, sizeof levels);
    dst += sizeof levels;
    memset(dst, 0, (k + 3) / 4);
    /* nearest level: the middle between them, not the mean, decides */
    const double middle = ((double)levels[0] + (double)levels[1]) / 2;
    for (size_t i = 0; i < k; i++) {
        bool upper = levels[1] > 0 && fabs((double)values[i]) > middle;
        unsigned code = (signbit(values[i]) != 0) | (unsigned)upper << 1;
        dst[i / 4] |= (uint8_t)(code << i % 4 * 2);
    }
}

static shoal_status encode_block(const void *params, const shoal_codec_at *at, size_t first,
                                 const float *src, size_t n, uint8_t *dst)
{
    const chunk_topk_params *p = params;
    const size_t k = k_of(p, n);
    uint16_t indices[MOST];
    float values[MOST];
    SHOALI_TRY(shoali_select("chunk_topk", at->first + first, src, n, k, (uint8_t *)indices));
    for (size_t i = 0; i < k; i++)
        values[i] = src[indices[i]];
    shoali_sparse_put_indices(indices, k, dst);
    if (p->q == Q2)
        put_codes(values, k, dst + shoali_sparse_index_bytes(k));
    else
        memcpy(dst + shoali_sparse_index_bytes(k), values, k * sizeof *values);
    return SHOAL_OK;
}

static void get_codes(const uint8_t *src, size_t k, float *values)
{
    float levels[2];
    memcpy(levels, src, sizeof levels);
    src += sizeof levels;
    for (size_t i = 0; i < k; i++) {
        unsigned code = src[i / 4] >> i % 4 * 2 & 3u;
        values[i] = (code & 1) != 0 ? -levels[code >> 1] : levels[code >> 1];
    }
}

static bool decode_block(const void *params, const shoal_codec_at *at, size_t first,
                         const uint8_t *src, float *dst, size_t n, bool add)
{
    const chunk_topk_params *p = params;
    (void)at, (void)first;
    const size_t k = k_of(p, n);
    uint16_t indices[MOST];
    float values[MOST];
    if (!shoali_sparse_get_indices(src, k, n, indices))
        return false;
    if (p->q == Q2)
        get_codes(src + shoali_sparse_index_bytes(k), k, values);
    else
        memcpy(values, src + shoali_sparse_index_bytes(k), k * sizeof *values);
    if (shoali_kernel()->first_nonfinite(values, k) < k)
        return false;
    for (size_t i = 0; i < k; i++)
        dst[indices[i]] = add ? dst[indices[i]] + values[i] : values[i];
    return true;
}

static const shoali_sparse_blocks blocks = {"chunk_topk", CHUNK, chunk_bytes, encode_block,
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

const shoali_codec_row shoali_codec_chunk_topk = {
    .name = "chunk_topk",
    .paper = "Sarfi et al., \"Communication Efficient LLM Pre-training with SparseLoCo\", 2025: "
             "top-k per chunk in two bits; their chunks are tiles of matrices",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_SLOTS,
    .bytes_per_elem = 0.0293F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(chunk_topk_params)},
    .wire_id = wire_id,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
