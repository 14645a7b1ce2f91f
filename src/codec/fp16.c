/* SPDX-License-Identifier: Apache-2.0 */
/* fp16: IEEE 754 binary16, rounded to nearest even, denormals kept.
 * A magnitude of 65520 or more has no finite value here: ENOTFINITE, so that an overflowing sum is
 * named like a NaN. */
#include "codec/half.h"
#include "kernel/kernel.h"

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 2;
}

/* Half a unit in the last place below 1. */
static double error_bound(const void *params)
{
    (void)params;
    return 0x1p-12;
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    (void)params, (void)capacity;
    return shoali_half_encode("fp16", shoali_kernel()->fp16_encode, at, src, count, dst,
                              written_out);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    (void)params, (void)at;
    const shoali_kernels *kernel = shoali_kernel();
    return shoali_half_decode("fp16", add ? kernel->fp16_add : kernel->fp16_decode, src, len_bytes,
                              dst, count, read_out);
}

const shoali_codec_row shoali_codec_fp16 = {
    .name = "fp16",
    .paper = "IEEE 754-2019 binary16",
    .traits = SHOAL_CODEC_FIXED_RATE,
    .bytes_per_elem = 2,
    .schema = {shoali_half_keys, 1, sizeof(shoali_half_params)},
    .wire_id = wire_id,
    .error_bound = error_bound,
    .bound = shoali_half_bound,
    .encode = encode,
    .decode = decode,
};
