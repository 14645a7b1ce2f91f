/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/half.h"

#include <string.h>

#include "base/error.h"

const shoali_key shoali_half_keys[1] = {SHOALI_CODEC_KEY_EF(shoali_half_params, "off")};

/* Elements bounced at a time where the coded bytes are not aligned for the kernels. */
enum { BLOCK = 1024 };

static bool aligned(const uint8_t *bytes)
{
    return (uintptr_t)bytes % _Alignof(uint16_t) == 0;
}

size_t shoali_half_bound(const void *params, size_t count, uint32_t parts)
{
    (void)params, (void)parts;
    return count * sizeof(uint16_t);
}

static shoal_status not_finite(const char *name, bool (*convert)(uint16_t *, const float *, size_t),
                               const shoal_codec_at *at, const float *src)
{
    uint16_t ignored;
    size_t i = 0;
    while (convert(&ignored, src + i, 1))
        i++;
    return shoali_fail(SHOAL_ENOTFINITE,
                       "%s: element %zu is %g, which has no finite value in this format", name,
                       at->first + i, (double)src[i]);
}

shoal_status shoali_half_encode(const char *name,
                                bool (*convert)(uint16_t *, const float *, size_t),
                                const shoal_codec_at *at, const float *src, size_t count,
                                uint8_t *dst, size_t *written_out)
{
    bool finite = true;
    if (aligned(dst))
        finite = convert((uint16_t *)(void *)dst, src, count);
    else
        for (size_t done = 0; done < count;) {
            uint16_t block[BLOCK];
            size_t n = count - done < BLOCK ? count - done : BLOCK;
            finite &= convert(block, src + done, n);
            memcpy(dst + done * sizeof *block, block, n * sizeof *block);
            done += n;
        }
    if (!finite)
        return not_finite(name, convert, at, src);
    *written_out = count * sizeof(uint16_t);
    return SHOAL_OK;
}

shoal_status shoali_half_decode(const char *name,
                                bool (*convert)(float *, const uint16_t *, size_t),
                                const uint8_t *src, size_t len_bytes, float *dst, size_t count,
                                size_t *read_out)
{
    if (len_bytes / sizeof(uint16_t) < count)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %zu bytes for %zu elements", name, len_bytes,
                           count);
    bool finite = true;
    if (aligned(src))
        finite = convert(dst, (const uint16_t *)(const void *)src, count);
    else
        for (size_t done = 0; done < count;) {
            uint16_t block[BLOCK];
            size_t n = count - done < BLOCK ? count - done : BLOCK;
            memcpy(block, src + done * sizeof *block, n * sizeof *block);
            finite &= convert(dst + done, block, n);
            done += n;
        }
    if (!finite)
        return shoali_fail(SHOAL_ECORRUPT, "%s: NaN or infinity among %zu coded elements", name,
                           count);
    *read_out = count * sizeof(uint16_t);
    return SHOAL_OK;
}
