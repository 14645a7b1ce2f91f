/* SPDX-License-Identifier: Apache-2.0 */
/* nonzero: lossless; of every 4096 elements those that are not zero, and where they are. A chunk is
 * a 16-bit count k, k indices of 12 bits, ascending (sparse.h), and k float32; where that would be
 * no fewer bytes the count is 65535, and all elements follow. -0 is no zero: it travels, so not one
 * bit changes. Any collective carries it, as whatever a sum is by then. */
#include <string.h>

#include "base/error.h"
#include "codec/sparse.h"
#include "kernel/kernel.h"

enum { CHUNK = 4096, ALL = 65535, HEAD = 2 };

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 67;
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)params, (void)parts;
    return (count + CHUNK - 1) / CHUNK * HEAD + count * sizeof(float);
}

static size_t few_bytes(size_t k)
{
    return shoali_sparse_index_bytes(k) + k * sizeof(float);
}

static size_t find(const float *src, size_t n, uint16_t *indices)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &src[i], sizeof bits);
        indices[k] = (uint16_t)i;
        k += bits != 0;
    }
    return k;
}

static size_t encode_chunk(const float *src, size_t n, uint8_t *dst)
{
    uint16_t indices[CHUNK];
    const size_t k = find(src, n, indices);
    const bool few = few_bytes(k) < n * sizeof *src;
    const uint16_t head = few ? (uint16_t)k : ALL;
    memcpy(dst, &head, HEAD);
    dst += HEAD;
    if (!few) {
        memcpy(dst, src, n * sizeof *src);
        return HEAD + n * sizeof *src;
    }
    shoali_sparse_put_indices(indices, k, dst);
    dst += shoali_sparse_index_bytes(k);
    for (size_t i = 0; i < k; i++)
        memcpy(dst + i * sizeof *src, &src[indices[i]], sizeof *src);
    return HEAD + few_bytes(k);
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    size_t written = 0;
    (void)params, (void)at, (void)capacity;
    for (size_t i = 0; i < count; i += CHUNK)
        written += encode_chunk(src + i, count - i < CHUNK ? count - i : CHUNK, dst + written);
    *written_out = written;
    return SHOAL_OK;
}

static void take_all(const uint8_t *src, size_t n, float *dst, bool add)
{
    float values[CHUNK];
    if (!add) {
        memcpy(dst, src, n * sizeof *dst);
        return;
    }
    memcpy(values, src, n * sizeof *values);
    shoali_kernel()->add(dst, values, n);
}

/* Bytes of the chunk; 0: it makes no sense. */
static size_t decode_chunk(const uint8_t *src, size_t len_bytes, size_t n, float *dst, bool add)
{
    uint16_t k, indices[CHUNK];
    if (len_bytes < HEAD)
        return 0;
    memcpy(&k, src, HEAD);
    const size_t bytes = k == ALL ? n * sizeof *dst : few_bytes(k);
    if ((k != ALL && (k > n || bytes >= n * sizeof *dst)) || len_bytes - HEAD < bytes)
        return 0;
    src += HEAD;
    if (k == ALL) {
        take_all(src, n, dst, add);
        return HEAD + bytes;
    }
    if (!shoali_sparse_get_indices(src, k, n, indices))
        return 0;
    src += shoali_sparse_index_bytes(k);
    if (!add)
        memset(dst, 0, n * sizeof *dst);
    for (size_t i = 0; i < k; i++) {
        float value;
        memcpy(&value, src + i * sizeof value, sizeof value);
        dst[indices[i]] = add ? dst[indices[i]] + value : value;
    }
    return HEAD + bytes;
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    size_t read = 0;
    (void)params, (void)at;
    for (size_t i = 0; i < count; i += CHUNK) {
        const size_t n = count - i < CHUNK ? count - i : CHUNK,
                     one = decode_chunk(src + read, len_bytes - read, n, dst + i, add);
        if (one == 0)
            return shoali_fail(SHOAL_ECORRUPT,
                               "nonzero: %zu bytes for %zu elements, or indices do not ascend",
                               len_bytes, count);
        read += one;
    }
    *read_out = read;
    return SHOAL_OK;
}

/* What dense gradients take; with a share s that is not zero, 5.5 s. */
const shoali_codec_row shoali_codec_nonzero = {
    .name = "nonzero",
    .paper = "indices and values, as sparse all-reduces of every kind send them; ours",
    .traits = SHOAL_CODEC_LOSSLESS | SHOAL_CODEC_NAN_SAFE,
    .bytes_per_elem = 4.0005F,
    .wire_id = wire_id,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
