/* SPDX-License-Identifier: Apache-2.0 */
/* identity: float32, little-endian, as it lies in memory. Trait RAW_BYTES lets the engine send and
 * receive such chunks in place, so encode and decode run only where chunks are mixed or summed. */
#include <string.h>

#include "base/error.h"
#include "codec/codec.h"
#include "kernel/kernel.h"

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 1;
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)params, (void)parts;
    return count * sizeof(float);
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    (void)params, (void)at, (void)capacity;
    if (count > 0)
        memcpy(dst, src, count * sizeof *src);
    *written_out = count * sizeof *src;
    return SHOAL_OK;
}

/* Coded bytes have any alignment; the kernel wants that of a float. */
static void add_bytes(float *acc, const uint8_t *src, size_t count)
{
    float block[1024];
    const size_t most = sizeof block / sizeof *block;
    for (size_t done = 0; done < count;) {
        size_t n = count - done < most ? count - done : most;
        memcpy(block, src + done * sizeof *acc, n * sizeof *acc);
        shoali_kernel()->add(acc + done, block, n);
        done += n;
    }
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    (void)params, (void)at;
    if (len_bytes / sizeof *dst < count)
        return shoali_fail(SHOAL_ECORRUPT, "identity: %zu bytes for %zu elements", len_bytes,
                           count);
    if (!add && count > 0)
        memcpy(dst, src, count * sizeof *dst);
    else if ((uintptr_t)src % _Alignof(float) == 0)
        shoali_kernel()->add(dst, (const float *)(const void *)src, count);
    else
        add_bytes(dst, src, count);
    *read_out = count * sizeof *dst;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_identity = {
    .name = "identity",
    .paper = "float32 as it is",
    .traits = SHOAL_CODEC_LOSSLESS | SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_RAW_BYTES |
              SHOAL_CODEC_NAN_SAFE,
    .bytes_per_elem = 4,
    .wire_id = wire_id,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
