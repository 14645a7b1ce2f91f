/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sparse.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "kernel/kernel.h"

size_t shoali_sparse_count(double k, size_t n)
{
    size_t count = (size_t)ceil(k * (double)n);
    return count > n ? n : count;
}

size_t shoali_sparse_value_bytes(int32_t values)
{
    return values == SHOALI_SPARSE_FP32 ? sizeof(float) : sizeof(uint16_t);
}

shoal_status shoali_sparse_put(const char *name, int32_t values, const float *src, size_t count,
                               uint8_t *dst)
{
    enum { SOME = 256 };
    if (values == SHOALI_SPARSE_FP32) {
        memcpy(dst, src, count * sizeof *src);
        return SHOAL_OK;
    }
    for (size_t i = 0, n; i < count; i += n) {
        uint16_t half[SOME];
        n = count - i < SOME ? count - i : SOME;
        if (!shoali_kernel()->bf16_encode(half, src + i, n))
            return shoali_fail(SHOAL_ENOTFINITE, "%s: a value has no finite bf16", name);
        memcpy(dst + i * sizeof *half, half, n * sizeof *half);
    }
    return SHOAL_OK;
}

bool shoali_sparse_get(int32_t values, const uint8_t *src, size_t count, float *dst)
{
    if (values == SHOALI_SPARSE_FP32) {
        memcpy(dst, src, count * sizeof *dst);
        return shoali_kernel()->first_nonfinite(dst, count) == count;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, src + i * sizeof half, sizeof half);
        uint32_t bits = (uint32_t)half << 16;
        memcpy(&dst[i], &bits, sizeof bits);
    }
    return shoali_kernel()->first_nonfinite(dst, count) == count;
}

size_t shoali_sparse_bytes(const shoali_sparse_blocks *blocks, const void *params, size_t count)
{
    const size_t rest = count % blocks->block;
    return count / blocks->block * blocks->bytes(params, blocks->block) +
           (rest > 0 ? blocks->bytes(params, rest) : 0);
}

shoal_status shoali_sparse_encode(const shoali_sparse_blocks *blocks, const void *params,
                                  const shoal_codec_at *at, const float *src, size_t count,
                                  uint8_t *dst, size_t *written_out)
{
    uint8_t *to = dst;
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < blocks->block ? count - i : blocks->block;
        SHOALI_TRY(blocks->encode(params, at, i, src + i, n, to));
        to += blocks->bytes(params, n);
    }
    *written_out = (size_t)(to - dst);
    return SHOAL_OK;
}

shoal_status shoali_sparse_decode(const shoali_sparse_blocks *blocks, const void *params,
                                  const shoal_codec_at *at, const uint8_t *src, size_t len_bytes,
                                  float *dst, size_t count, bool add, size_t *read_out)
{
    const size_t bytes = shoali_sparse_bytes(blocks, params, count);
    if (len_bytes < bytes)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %zu bytes for %zu elements", blocks->name,
                           len_bytes, count);
    if (!add)
        memset(dst, 0, count * sizeof *dst);
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < blocks->block ? count - i : blocks->block;
        if (!blocks->decode(params, at, i, src, dst + i, n, add))
            return shoali_fail(SHOAL_ECORRUPT,
                               "%s: indices do not ascend below %zu, or a value is not finite",
                               blocks->name, n);
        src += blocks->bytes(params, n);
    }
    *read_out = bytes;
    return SHOAL_OK;
}

size_t shoali_sparse_index_bytes(size_t k)
{
    return (3 * k + 1) / 2;
}

void shoali_sparse_put_indices(const uint16_t *indices, size_t k, uint8_t *dst)
{
    for (size_t i = 0; i + 2 <= k; i += 2, dst += 3) {
        uint32_t pair = indices[i] | (uint32_t)indices[i + 1] << 12;
        memcpy(dst, &pair, 3);
    }
    if (k % 2 != 0)
        memcpy(dst, &indices[k - 1], 2);
}

bool shoali_sparse_get_indices(const uint8_t *src, size_t k, size_t n, uint16_t *indices)
{
    uint32_t next = 0;
    for (size_t i = 0; i < k; i++) {
        uint32_t pair = 0;
        memcpy(&pair, src + i / 2 * 3, i + 1 == k && i % 2 == 0 ? 2 : 3);
        uint32_t index = i % 2 == 0 ? pair & 4095 : pair >> 12;
        if (index < next || index >= n || (k % 2 != 0 && i + 1 == k && pair > 4095))
            return false;
        next = index + 1;
        indices[i] = (uint16_t)index;
    }
    return true;
}
