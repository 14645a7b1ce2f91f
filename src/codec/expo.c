/* SPDX-License-Identifier: Apache-2.0 */
/* expo: lossless. Exponents of neighbouring gradients are close to each other, so three bits behind
 * the block's largest say most of them; fractions are noise and stay as they are. expo.h has the
 * format. `format=bf16` first rounds to bf16, to nearest even, and is exact from there on. */
#include "codec/expo.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "kernel/kernel.h"

enum { BLOCK = SHOALI_EXPO_BLOCK };
enum { FP32, BF16 };

typedef struct expo_params {
    int32_t format;
    bool ef;
} expo_params;

static const shoali_key keys[] = {
    {"format", SHOALI_KEY_CHOICE, offsetof(expo_params, format), 0, 0, "fp32|bf16", "fp32",
     "fp32 is lossless; bf16 rounds first"},
    SHOALI_CODEC_KEY_EF(expo_params, "off"),
};

static uint16_t wire_id(const void *params)
{
    return ((const expo_params *)params)->format == FP32 ? 47 : 48;
}

static uint32_t more_traits(const void *params)
{
    return ((const expo_params *)params)->format == FP32
               ? SHOAL_CODEC_LOSSLESS | SHOAL_CODEC_NAN_SAFE
               : 0;
}

static double error_bound(const void *params)
{
    return ((const expo_params *)params)->format == FP32 ? 0 : 0x1p-9;
}

static double rate(const void *params, uint32_t parts)
{
    (void)parts;
    return ((const expo_params *)params)->format == FP32 ? 3.43 : 1.43;
}

static unsigned kept_of(const void *params)
{
    return ((const expo_params *)params)->format == FP32 ? 3 : 1;
}

static const shoali_expo_loops *loops(void)
{
#if defined(__x86_64__)
    if (shoali_kernel()->avx2)
        return &shoali_expo_avx2;
#elif defined(__aarch64__)
    if (shoali_kernel()->neon)
        return &shoali_expo_neon;
#endif
    return &shoali_expo_ref;
}

static size_t blocks_of(size_t count)
{
    return count / BLOCK + (count % BLOCK != 0);
}

static size_t map_bytes(size_t count)
{
    return (blocks_of(count) + 7) / 8;
}

/* The vector loops write up to 8 bytes beyond a block. */
static size_t bound(const void *params, size_t count, uint32_t parts)
{
    enum { BEYOND = 8 };
    (void)parts;
    return map_bytes(count) + blocks_of(count) * (1 + 12) + count * (kept_of(params) + 1) +
           (count > 0 ? BEYOND : 0);
}

/* bf16 as float32: `scratch`, unless src may be coded as it is. */
static shoal_status rounded(const expo_params *p, const shoal_codec_at *at, const float *src,
                            size_t first, size_t n, float *scratch, const float **out)
{
    uint16_t half[BLOCK];
    *out = src + first;
    if (p->format == FP32)
        return SHOAL_OK;
    if (!shoali_kernel()->bf16_encode(half, src + first, n))
        return shoali_fail(SHOAL_ENOTFINITE, "expo: an element from %zu on has no finite bf16",
                           at->first + first);
    (void)shoali_kernel()->bf16_decode(scratch, half, n);
    *out = scratch;
    return SHOAL_OK;
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const expo_params *p = params;
    const shoali_expo_loops *loop = loops();
    const unsigned kept = kept_of(p);
    uint8_t *to = dst + map_bytes(count);
    (void)capacity;
    memset(dst, 0, map_bytes(count));
    for (size_t b = 0; b < blocks_of(count); b++) {
        float scratch[BLOCK];
        const float *x;
        size_t n = count - b * BLOCK < BLOCK ? count - b * BLOCK : BLOCK;
        SHOALI_TRY(rounded(p, at, src, b * BLOCK, n, scratch, &x));
        size_t bytes = n == BLOCK ? loop->put(x, kept, to) : shoali_expo_put(x, n, kept, to);
        dst[b / 8] |= (uint8_t)((bytes > 0) << b % 8);
        to += bytes;
    }
    *written_out = (size_t)(to - dst);
    return SHOAL_OK;
}

static shoal_status corrupt(const shoal_codec_at *at, size_t len_bytes, size_t count)
{
    return shoali_fail(SHOAL_ECORRUPT, "expo: %zu bytes do not hold the %zu elements from %zu on",
                       len_bytes, count, at->first);
}

/* Of a block of bf16 that has been read: its largest exponent, and those behind the values. */
static bool is_finite(const uint8_t *block, size_t n, size_t bytes)
{
    const size_t fixed = 1 + 3 * ((n + 7) / 8) + n;
    return block[0] != 0xff && memchr(block + fixed, 0xff, bytes - fixed) == NULL;
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const shoali_expo_loops *loop = loops();
    const unsigned kept = kept_of(params);
    const size_t blocks = blocks_of(count);
    size_t used = map_bytes(count);
    if (len_bytes < used || (blocks % 8 != 0 && src[blocks / 8] >> blocks % 8 != 0))
        return corrupt(at, len_bytes, count);
    for (size_t b = 0, bytes; b < blocks; b++, used += bytes) {
        size_t n = count - b * BLOCK < BLOCK ? count - b * BLOCK : BLOCK, left = len_bytes - used;
        float *to = dst + b * BLOCK;
        if ((src[b / 8] >> b % 8 & 1) == 0) {
            bytes = 0;
            if (!add)
                memset(to, 0, n * sizeof *to);
            continue;
        }
        bytes = n == BLOCK ? loop->get(src + used, left, kept, to, add)
                           : shoali_expo_get(src + used, left, n, kept, to, add);
        if (bytes == SHOALI_EXPO_CORRUPT)
            return corrupt(at, len_bytes, count);
        if (kept == 1 && !is_finite(src + used, n, bytes))
            return shoali_fail(SHOAL_ECORRUPT, "expo: NaN or infinity in block %zu of bf16", b);
    }
    *read_out = used;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_expo = {
    .name = "expo",
    .paper = "the idea of ZipNN (Hershcovitch et al., 2024) and ZipCCL (2026), without an entropy "
             "coder",
    .bytes_per_elem = 3.43F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(expo_params)},
    .wire_id = wire_id,
    .error_bound = error_bound,
    .rate = rate,
    .more_traits = more_traits,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
