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

void shoali_sparse_get(int32_t values, const uint8_t *src, size_t count, float *dst)
{
    if (values == SHOALI_SPARSE_FP32) {
        memcpy(dst, src, count * sizeof *dst);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, src + i * sizeof half, sizeof half);
        uint32_t bits = (uint32_t)half << 16;
        memcpy(&dst[i], &bits, sizeof bits);
    }
}
