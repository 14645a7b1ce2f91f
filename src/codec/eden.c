/* SPDX-License-Identifier: Apache-2.0 */
/* eden: 1 to 4 bits per element whose error does not depend on how the elements are distributed.
 * A random rotation makes any block look normal; each coordinate is rounded to the nearest of the
 * levels that are best for normal numbers; the scale is chosen such that the result is unbiased:
 * |z|^2 / <z, level(z)>. The squared error is 0.571, 0.133, 0.0358 or 0.0096 of the block's own,
 * and errors of different ranks are independent: the mean of N has an N-th of it. eden.h has the
 * format.
 *
 * With error feedback the scale is the one of least squares instead, <z, level> / <level, level>:
 * biased, but never further off than nothing at all, which feedback needs.
 *
 * With allot=energy whole runs of 4096 elements are coded as eden_allot.c says. */
#include "codec/eden.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "kernel/kernel.h"

enum { MOST = SHOALI_EDEN_MOST, LEAST = SHOALI_EDEN_LEAST, LANES = SHOALI_EDEN_LANES };

typedef shoali_eden_params eden_params;

enum { EVEN, ENERGY };

static const shoali_key keys[] = {
    {"bits", SHOALI_KEY_INT, offsetof(eden_params, bits), 1, 4, NULL, "2", "bits per element"},
    {"allot", SHOALI_KEY_CHOICE, offsetof(eden_params, allot), 0, 0, "even|energy", "even",
     "who gets the bits: all elements alike, or blocks of 256 by their energy, in as many bytes"},
    SHOALI_CODEC_KEY_EF(eden_params, "off"),
};

/* What leaves nothing to move: an unbiased block needs a bit, and none takes more than four. */
static shoal_status check(void *params)
{
    const eden_params *p = params;
    if (p->allot == ENERGY && (p->bits == 4 || (p->bits == 1 && !p->ef)))
        return shoali_fail(SHOAL_EINVAL,
                           "codec eden: allot=energy gives blocks 1 to 4 bits and needs bits=2 or "
                           "3 (or 1 with ef), not %d",
                           (int)p->bits);
    return SHOAL_OK;
}

static uint16_t wire_id(const void *params)
{
    return ((const eden_params *)params)->allot == ENERGY ? 63 : 41;
}

static uint32_t more_traits(const void *params)
{
    const eden_params *p = params;
    return (p->ef ? 0 : SHOAL_CODEC_UNBIASED) | (p->allot == ENERGY ? 0 : SHOAL_CODEC_SHAPE_FREE);
}

/* Of Lloyd and Max's distortion D: D / (1 - D) unbiased, D by least squares. */
double shoali_eden_error(unsigned bits, bool ef)
{
    static const double distortion[] = {1, 0.363380, 0.117482, 0.0345478, 0.00950101};
    double d = distortion[bits];
    return ef ? d : d / (1 - d);
}

/* Equal energies: side information costs every sixteenth block a bit. */
static double variance(const void *params)
{
    const eden_params *p = params;
    const unsigned bits = (unsigned)p->bits;
    double error = shoali_eden_error(bits, p->ef);
    return p->allot == EVEN ? error : (15 * error + shoali_eden_error(bits - 1, p->ef)) / 16;
}

static unsigned bits_of(const void *params)
{
    return (unsigned)((const eden_params *)params)->bits;
}

/* Size of the next block: how many of the `left` elements it takes, how many it codes (0: floats).
 */
static size_t next_block(size_t left, size_t *coded_out)
{
    size_t d = LEAST;
    *coded_out = 0;
    if (left < LEAST)
        return left;
    while (d < left && d < MOST)
        d *= 2;
    if (d > left && 4 * left <= 3 * d)
        d /= 2;
    *coded_out = d;
    return left < d ? left : d;
}

static size_t block_bytes(unsigned bits, size_t taken, size_t coded)
{
    return coded == 0 ? taken * sizeof(float) : sizeof(float) + bits * (coded / 8);
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    const eden_params *p = params;
    size_t full = count / MOST, coded;
    size_t bytes = full * (p->allot == ENERGY ? shoali_eden_unit_bytes(bits_of(params))
                                              : block_bytes(bits_of(params), MOST, MOST));
    (void)parts;
    for (size_t left = count % MOST, taken; left > 0; left -= taken) {
        taken = next_block(left, &coded);
        bytes += block_bytes(bits_of(params), taken, coded);
    }
    return bytes;
}

const shoali_eden_loops *shoali_eden_loops_for(size_t d)
{
#if defined(__x86_64__)
    if (d >= SHOALI_EDEN_TILE && shoali_kernel()->avx2)
        return &shoali_eden_avx2;
#elif defined(__aarch64__)
    if (d >= SHOALI_EDEN_TILE && shoali_kernel()->neon)
        return &shoali_eden_neon;
#endif
    (void)d;
    return &shoali_eden_ref;
}

double shoali_eden_gain(size_t d)
{
    return (double)d * (d >= 64 ? 8 : d >= 32 ? 4 : 2);
}

static double total(const float sums[LANES])
{
    double sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += (double)sums[i];
    return sum;
}

float shoali_eden_to_one(float magnitude)
{
    int exponent = -ilogbf(magnitude);
    return ldexpf(1, exponent > 126 ? 126 : exponent);
}

double shoali_eden_squared_levels(const shoali_eden_levels *levels, const shoali_eden_loops *loop,
                                  const uint8_t *planes, size_t d)
{
    _Alignas(32) float z[MOST];
    float sums[LANES];
    loop->dequantise(levels, 1, planes, d, z);
    loop->square(z, d, sums);
    return total(sums);
}

/* The coded block behind its scale; the scale. */
static double code_block(const eden_params *p, float *z, size_t d, uint64_t key, float largest,
                         uint8_t *planes)
{
    const shoali_eden_levels *levels = shoali_eden_levels_of(bits_of(p));
    const shoali_eden_loops *loop = shoali_eden_loops_for(d);
    const float power = shoali_eden_to_one(largest);
    float sums[LANES];
    loop->rotate(z, d, key, power);
    loop->square(z, d, sums);
    const double square = total(sums);
    loop->quantise(levels, (float)sqrt(square / (double)d), z, d, planes, sums);
    double product = total(sums);
    double scale = p->ef ? product / shoali_eden_squared_levels(levels, loop, planes, d)
                         : square / product;
    return scale / (sqrt(shoali_eden_gain(d)) * (double)power);
}

static shoal_status encode_block(const eden_params *p, const shoal_codec_at *at, size_t first,
                                 const float *src, size_t taken, size_t d, uint8_t *dst)
{
    _Alignas(32) float z[MOST];
    const float largest = shoali_kernel()->absmax(src, taken);
    float scale = 0;
    if (!isfinite(largest))
        return shoali_fail(SHOAL_ENOTFINITE, "eden: element %zu is not finite",
                           at->first + first + shoali_kernel()->first_nonfinite(src, taken));
    if (largest > 0) {
        shoali_kernel()->copy(z, src, taken);
        memset(z + taken, 0, (d - taken) * sizeof *z);
        uint64_t key = shoali_rng_u64(at->seed, at->stream, at->first + first);
        scale = (float)code_block(p, z, d, key, largest, dst + sizeof scale);
    } else {
        memset(dst + sizeof scale, 0, (size_t)p->bits * (d / 8));
    }
    if (!isfinite(scale))
        return shoali_fail(SHOAL_ENOTFINITE, "eden: the elements from %zu on are too large",
                           at->first + first);
    memcpy(dst, &scale, sizeof scale);
    return SHOAL_OK;
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const eden_params *p = params;
    uint8_t *to = dst;
    size_t i = 0;
    (void)capacity;
    for (size_t group; p->allot == ENERGY && (group = shoali_eden_group(count - i)) > 0;
         i += group) {
        SHOALI_TRY(shoali_eden_encode_group(p, at, i, src + i, group, to));
        to += group / MOST * shoali_eden_unit_bytes(bits_of(p));
    }
    for (size_t taken, d; i < count; i += taken) {
        taken = next_block(count - i, &d);
        if (d == 0) {
            size_t bad = shoali_kernel()->first_nonfinite(src + i, taken);
            if (bad < taken)
                return shoali_fail(SHOAL_ENOTFINITE, "eden: element %zu is not finite",
                                   at->first + i + bad);
            memcpy(to, src + i, taken * sizeof *src);
        } else {
            SHOALI_TRY(encode_block(params, at, i, src + i, taken, d, to));
        }
        to += block_bytes(bits_of(params), taken, d);
    }
    *written_out = (size_t)(to - dst);
    return SHOAL_OK;
}

shoal_status shoali_eden_put(float *dst, const float *values, size_t count, bool add)
{
    if (shoali_kernel()->first_nonfinite(values, count) < count)
        return shoali_fail(SHOAL_ECORRUPT, "eden: NaN or infinity among %zu elements", count);
    if (add)
        shoali_kernel()->add(dst, values, count);
    else
        shoali_kernel()->copy(dst, values, count);
    return SHOAL_OK;
}

static shoal_status decode_block(const eden_params *p, const shoal_codec_at *at, size_t first,
                                 const uint8_t *src, float *dst, size_t taken, size_t d, bool add)
{
    _Alignas(32) float z[MOST];
    const shoali_eden_loops *loop = shoali_eden_loops_for(d);
    float scale;
    memcpy(&scale, src, sizeof scale);
    if (!(scale >= 0) || !isfinite(scale))
        return shoali_fail(SHOAL_ECORRUPT, "eden: a scale of %g", (double)scale);
    if (scale == 0) {
        memset(z, 0, taken * sizeof *z);
    } else {
        uint64_t key = shoali_rng_u64(at->seed, at->stream, at->first + first);
        loop->dequantise(shoali_eden_levels_of(bits_of(p)), (float)(1 / sqrt(shoali_eden_gain(d))),
                         src + sizeof scale, d, z);
        loop->unrotate(z, d, key);
        shoali_kernel()->scale(z, scale, taken);
    }
    return shoali_eden_put(dst, z, taken, add);
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const eden_params *p = params;
    const uint8_t *from = src;
    size_t i = 0;
    if (len_bytes < bound(params, count, 1))
        return shoali_fail(SHOAL_ECORRUPT, "eden: %zu bytes for %zu elements", len_bytes, count);
    for (size_t group; p->allot == ENERGY && (group = shoali_eden_group(count - i)) > 0;
         i += group) {
        SHOALI_TRY(shoali_eden_decode_group(p, at, i, from, dst + i, group, add));
        from += group / MOST * shoali_eden_unit_bytes(bits_of(p));
    }
    for (size_t taken, d; i < count; i += taken) {
        taken = next_block(count - i, &d);
        if (d == 0) {
            float values[LEAST];
            memcpy(values, from, taken * sizeof *values);
            SHOALI_TRY(shoali_eden_put(dst + i, values, taken, add));
        } else {
            SHOALI_TRY(decode_block(params, at, i, from, dst + i, taken, d, add));
        }
        from += block_bytes(bits_of(params), taken, d);
    }
    *read_out = (size_t)(from - src);
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_eden = {
    .name = "eden",
    .paper = "Vargaftik et al., \"EDEN: Communication-Efficient and Robust Distributed Mean "
             "Estimation for Federated Learning\", ICML 2022; ours: blocks of 4096, 8 elements "
             "mixed before the transform, bits by energy as an option",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_PER_TENSOR,
    .bytes_per_elem = 0.25098F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(eden_params)},
    .check = check,
    .wire_id = wire_id,
    .variance = variance,
    .more_traits = more_traits,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
