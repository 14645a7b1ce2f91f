/* SPDX-License-Identifier: Apache-2.0 */
/* randomk: one element of each of k ranges of equal length, drawn at random. Both ends draw the
 * same indices, so that only values travel. As drawn it is biased and wants error feedback
 * (default); with ef=off values are multiplied by the length of their range, which is unbiased, and
 * very noisy. Travels in slots (gather): every rank draws its own indices. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "codec/noise.h"
#include "codec/sparse.h"
#include "kernel/kernel.h"

enum { SOME = 1024 };

typedef struct randomk_params {
    double k;
    int32_t values;
    bool ef;
} randomk_params;

static const shoali_key keys[] = {
    SHOALI_SPARSE_KEYS(randomk_params),
    SHOALI_CODEC_KEY_EF(randomk_params, "on"),
};

static uint16_t wire_id(const void *params)
{
    return ((const randomk_params *)params)->values == SHOALI_SPARSE_FP32 ? 56 : 57;
}

static uint32_t more_traits(const void *params)
{
    const randomk_params *p = params;
    return !p->ef && p->values == SHOALI_SPARSE_FP32 ? SHOAL_CODEC_UNBIASED : 0;
}

/* What does not travel; without feedback 1 / k - 1, which one draw only comes near. */
static double variance(const void *params)
{
    const randomk_params *p = params;
    return p->ef ? 1 - p->k : (double)INFINITY;
}

/* The draws of one block. */
typedef struct ranges {
    shoali_noise key;
    size_t n, k;
} ranges;

static ranges ranges_of(const randomk_params *p, const shoal_codec_at *at, size_t first, size_t n)
{
    return (ranges){shoali_noise_key(at->seed, at->stream, at->first + first), n,
                    shoali_sparse_count(p->k, n)};
}

/* Index of draw j; how many it stands for. */
static size_t draw(const ranges *r, size_t j, float *length_out)
{
    size_t low = j * r->n / r->k, length = (j + 1) * r->n / r->k - low;
    *length_out = (float)length;
    return low + (size_t)((uint64_t)shoali_noise_at(r->key, (uint32_t)j) * length >> 32);
}

static size_t block_bytes(const void *params, size_t n)
{
    const randomk_params *p = params;
    return shoali_sparse_count(p->k, n) * shoali_sparse_value_bytes(p->values);
}

static shoal_status encode_block(const void *params, const shoal_codec_at *at, size_t first,
                                 const float *src, size_t n, uint8_t *dst)
{
    const randomk_params *p = params;
    const ranges r = ranges_of(p, at, first, n);
    for (size_t i = 0, some; i < r.k; i += some) {
        float values[SOME], length;
        some = r.k - i < SOME ? r.k - i : SOME;
        for (size_t j = 0; j < some; j++) {
            size_t index = draw(&r, i + j, &length);
            values[j] = p->ef ? src[index] : src[index] * length;
        }
        if (shoali_kernel()->first_nonfinite(values, some) < some)
            return shoali_fail(SHOAL_ENOTFINITE, "randomk: a value times its range is not finite");
        SHOALI_TRY(shoali_sparse_put("randomk", p->values, values, some, dst));
        dst += some * shoali_sparse_value_bytes(p->values);
    }
    return SHOAL_OK;
}

static bool decode_block(const void *params, const shoal_codec_at *at, size_t first,
                         const uint8_t *src, float *dst, size_t n, bool add)
{
    const randomk_params *p = params;
    const ranges r = ranges_of(p, at, first, n);
    for (size_t i = 0, some; i < r.k; i += some) {
        float values[SOME], length;
        some = r.k - i < SOME ? r.k - i : SOME;
        if (!shoali_sparse_get(p->values, src, some, values))
            return false;
        src += some * shoali_sparse_value_bytes(p->values);
        for (size_t j = 0; j < some; j++) {
            size_t index = draw(&r, i + j, &length);
            dst[index] = add ? dst[index] + values[j] : values[j];
        }
    }
    return true;
}

static const shoali_sparse_blocks blocks = {"randomk", SHOALI_SPARSE_BLOCK, block_bytes,
                                            encode_block, decode_block};

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)parts;
    return shoali_sparse_bytes(&blocks, params, count);
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    (void)capacity;
    const size_t bad = shoali_kernel()->first_nonfinite(src, count);
    if (bad < count)
        return shoali_fail(SHOAL_ENOTFINITE, "randomk: element %zu is not finite", at->first + bad);
    return shoali_sparse_encode(&blocks, params, at, src, count, dst, written_out);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    return shoali_sparse_decode(&blocks, params, at, src, len_bytes, dst, count, add, read_out);
}

const shoali_codec_row shoali_codec_randomk = {
    .name = "randomk",
    .paper = "Stich et al., \"Sparsified SGD with Memory\", NeurIPS 2018; one draw per range",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_SLOTS,
    .bytes_per_elem = 0.04F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(randomk_params)},
    .wire_id = wire_id,
    .variance = variance,
    .more_traits = more_traits,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
