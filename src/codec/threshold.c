/* SPDX-License-Identifier: Apache-2.0 */
/* threshold: only the blocks that hold something larger than a threshold travel, as floats: the
 * block form of the sparse collectives, on the dense ones. A piece is a bitmap, bit b for block b
 * (1: it travels), then these blocks. With threshold 0 nothing is lost but the sign of zeros. */
#include <string.h>

#include "base/error.h"
#include "codec/scaled.h"
#include "kernel/kernel.h"

typedef struct threshold_params {
    int32_t block;
    double above;
    bool ef;
} threshold_params;

static const shoali_key keys[] = {
    {"block", SHOALI_KEY_CHOICE, offsetof(threshold_params, block), 0, 0, "32|64|128|256|512|1024",
     "256", "elements of a block"},
    {"above", SHOALI_KEY_FLOAT, offsetof(threshold_params, above), 0, 1, NULL, "0",
     "a block travels if a magnitude in it exceeds this"},
    SHOALI_CODEC_KEY_EF(threshold_params, "on"),
};

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 52;
}

static double error_bound(const void *params)
{
    return ((const threshold_params *)params)->above;
}

static size_t block_of(const void *params)
{
    return shoali_scaled_block(((const threshold_params *)params)->block);
}

static size_t map_bytes(size_t count, size_t block)
{
    return (count + 8 * block - 1) / (8 * block);
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)parts;
    return map_bytes(count, block_of(params)) + count * sizeof(float);
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const shoali_scaled_formats *loops = shoali_scaled();
    const size_t block = block_of(params);
    const float above = (float)((const threshold_params *)params)->above;
    uint8_t *to = dst + map_bytes(count, block);
    uint32_t limit;
    (void)at, (void)capacity;
    memcpy(&limit, &above, sizeof limit);
    memset(dst, 0, map_bytes(count, block));
    for (size_t i = 0, b = 0, n; i < count; i += n, b++) {
        n = count - i < block ? count - i : block;
        if (loops->largest(src + i, n) <= limit)
            continue;
        dst[b / 8] |= (uint8_t)(1u << b % 8);
        memcpy(to, src + i, n * sizeof *src);
        to += n * sizeof *src;
    }
    *written_out = (size_t)(to - dst);
    return SHOAL_OK;
}

/* Any alignment of src. */
static void put_block(const uint8_t *src, size_t n, float *dst, bool add)
{
    enum { MOST = 1024 };
    float values[MOST];
    if (!add) {
        memcpy(dst, src, n * sizeof *dst);
        return;
    }
    memcpy(values, src, n * sizeof *values);
    shoali_kernel()->add(dst, values, n);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const size_t block = block_of(params), map = map_bytes(count, block);
    const size_t blocks = count / block + (count % block != 0);
    size_t used = map;
    if (len_bytes < map || (blocks % 8 != 0 && src[blocks / 8] >> blocks % 8 != 0))
        return shoali_fail(SHOAL_ECORRUPT, "threshold: a bitmap of %zu bytes for %zu blocks",
                           len_bytes, blocks);
    for (size_t i = 0, b = 0, n; i < count; i += n, b++) {
        n = count - i < block ? count - i : block;
        if ((src[b / 8] >> b % 8 & 1) == 0) {
            if (!add)
                memset(dst + i, 0, n * sizeof *dst);
            continue;
        }
        if (len_bytes - used < n * sizeof *dst)
            return shoali_fail(SHOAL_ECORRUPT, "threshold: the elements from %zu on are missing",
                               at->first + i);
        put_block(src + used, n, dst + i, add);
        used += n * sizeof *dst;
    }
    *read_out = used;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_threshold = {
    .name = "threshold",
    .paper = "the block bitmap of Fei et al., \"Efficient Sparse Collective Communication\" "
             "(OmniReduce), SIGCOMM 2021",
    .traits = SHOAL_CODEC_NAN_SAFE,
    .bytes_per_elem = 4,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(threshold_params)},
    .wire_id = wire_id,
    .error_bound = error_bound,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
