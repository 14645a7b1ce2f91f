/* SPDX-License-Identifier: Apache-2.0 */
/* eden:allot=energy: blocks of 256 elements get 1 to 4 bits each by their energy, `bits` on
 * average, side information included.
 *
 * Blocks are rotated each by itself: a rotation across rows of different scale would spread the
 * energy of the large ones over all. Twice, since of the many small blocks some have only two or
 * three elements that are not zero: one rotation makes few different values of those, which are far
 * from normal, and the smaller elements come out too large (0.1 beside 1 was 0.33 on average).
 *
 * A further bit of a block takes E (V(k) - V(k+1)) off the squared error, E being its energy and
 * V(k) eden's error at k bits; V is convex, so taking the largest of these gains until the bits are
 * spent is the optimum (reverse water-filling in whole bits). The last level is found by bisection;
 * of equal gains the first blocks' count.
 *
 * The unbiased form leaves no block out that has energy, the one with feedback may. Equal energies
 * lose: 2 bytes of header per block are the bit of every sixteenth block. As any allotment is at
 * least as good as that one, so is the promise: of any values the error is at most the one of
 * equal blocks.
 *
 * The scale has 5 bits behind the point, rounded up or down by chance such that it is right on
 * average: no bias, and less than a hundredth of the error at 4 bits. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "codec/eden.h"
#include "kernel/kernel.h"

enum {
    ROW = SHOALI_EDEN_ROW,
    ROWS = SHOALI_EDEN_ROWS,
    UNIT = SHOALI_EDEN_MOST / ROW, /* blocks that pay one plane for their headers */
    PLANE = ROW / 8,               /* bytes */
    HEADER = 2,
    CHANCE_WORD = 2 * ROW / SHOALI_EDEN_TILE, /* behind the words that a rotation draws */
    SECOND_WORD,
    PLANES_MOST = 4,
    SCALE_SHIFT = 18, /* bits of a float32 that a header leaves out */
    KEY_BITS = 20,    /* of a gain: a double's exponent and 8 bits behind the point */
    FORCED = 1 << KEY_BITS,
    KEYS = ROWS * PLANES_MOST
};

static size_t planes_of(unsigned bits, size_t blocks)
{
    return blocks * bits - blocks / UNIT;
}

size_t shoali_eden_unit_bytes(unsigned bits)
{
    return UNIT * HEADER + planes_of(bits, UNIT) * PLANE;
}

size_t shoali_eden_group(size_t left)
{
    size_t units = left / SHOALI_EDEN_MOST;
    return (units < ROWS / UNIT ? units : ROWS / UNIT) * SHOALI_EDEN_MOST;
}

/* ------------------------------------------------------------------ allotment */

/* Order of gains as integers: the same on every machine. */
static uint32_t key_of(double gain)
{
    uint64_t bits;
    memcpy(&bits, &gain, sizeof bits);
    return (uint32_t)(bits >> (64 - KEY_BITS));
}

static uint32_t reached(const uint32_t keys[KEYS], uint32_t level)
{
    uint32_t n = 0;
    for (size_t i = 0; i < KEYS; i++)
        n += keys[i] >= level;
    return n;
}

/* The highest level that at least `total` keys reach. */
static uint32_t level_of(const uint32_t keys[KEYS], size_t total)
{
    uint32_t level = 0;
    for (uint32_t step = FORCED; step > 0; step /= 2)
        if (reached(keys, level + step) >= total)
            level += step;
    return level;
}

void shoali_eden_allot(const double *energy, size_t blocks, bool ef, size_t total,
                       uint8_t *planes_out)
{
    uint32_t keys[KEYS] = {0};
    double gains[PLANES_MOST];
    size_t equal = total;
    for (unsigned k = ef ? 0 : 1; k < PLANES_MOST; k++)
        gains[k] = shoali_eden_error(k, ef) - shoali_eden_error(k + 1, ef);
    for (size_t b = 0; b < blocks; b++) {
        for (unsigned k = ef ? 0 : 1; k < PLANES_MOST; k++)
            keys[b * PLANES_MOST + k] = key_of(energy[b] * gains[k]);
        if (!ef)
            keys[b * PLANES_MOST] = energy[b] > 0 ? FORCED : 0;
    }
    const uint32_t level = level_of(keys, total);
    for (size_t b = 0; b < blocks; b++) {
        const uint32_t *key = keys + b * PLANES_MOST;
        planes_out[b] = (uint8_t)((key[0] > level) + (key[1] > level) + (key[2] > level) +
                                  (key[3] > level));
        equal -= planes_out[b];
    }
    for (size_t i = 0; equal > 0; i++) {
        planes_out[i / PLANES_MOST] += keys[i] == level;
        equal -= keys[i] == level;
    }
}

/* ------------------------------------------------------------------ encode */

static uint64_t row_key(const shoal_codec_at *at, size_t first)
{
    return shoali_rng_u64(at->seed, at->stream, at->first + first);
}

static uint64_t second_key(uint64_t key)
{
    return shoali_eden_signs(key, SECOND_WORD);
}

/* Side by side, since a row has only a few elements for each. */
static double total(const float sums[SHOALI_EDEN_LANES])
{
    double part[4] = {0};
    for (int i = 0; i < SHOALI_EDEN_LANES; i += 4)
        for (int j = 0; j < 4; j++)
            part[j] += (double)sums[i + j];
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/* A block whose squares float32 cannot hold, or that is not finite. */
static shoal_status look_closer(size_t index, const float *src, float *size_out, double *energy_out)
{
    _Alignas(32) float z[ROW];
    float sums[SHOALI_EDEN_LANES];
    *size_out = shoali_kernel()->absmax(src, ROW);
    *energy_out = 0;
    if (!isfinite(*size_out))
        return shoali_fail(SHOAL_ENOTFINITE, "eden: element %zu is not finite",
                           index + shoali_kernel()->first_nonfinite(src, ROW));
    if (*size_out == 0)
        return SHOAL_OK;
    const float power = shoali_eden_to_one(*size_out);
    shoali_kernel()->copy(z, src, ROW);
    shoali_kernel()->scale(z, power, ROW);
    shoali_eden_loops_for(ROW)->square(z, ROW, sums);
    *energy_out = total(sums) / ((double)power * (double)power);
    return SHOAL_OK;
}

/* Energy of each block, and about how large its elements are. */
static shoal_status look(const shoal_codec_at *at, size_t first, const float *src, size_t blocks,
                         float *size_out, double *energy_out)
{
    const shoali_eden_loops *loop = shoali_eden_loops_for(ROW);
    float sums[SHOALI_EDEN_LANES];
    for (size_t b = 0; b < blocks; b++) {
        loop->square(src + b * ROW, ROW, sums);
        energy_out[b] = total(sums);
        size_out[b] = (float)sqrt(energy_out[b] / ROW);
        if (!(energy_out[b] >= 0x1p-80 && energy_out[b] <= 0x1p120))
            SHOALI_TRY(look_closer(at->first + first + b * ROW, src + b * ROW, &size_out[b],
                                   &energy_out[b]));
    }
    return SHOAL_OK;
}

/* 13 bits of a scale: the nearest with ef, else one of the two beside it, right on average. */
static uint32_t short_scale(float scale, bool ef, uint64_t key)
{
    const uint32_t below = (1u << SCALE_SHIFT) - 1;
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    uint32_t chance = (uint32_t)shoali_eden_signs(key, CHANCE_WORD);
    return (bits + (ef ? (below + 1) / 2 : chance & below)) >> SCALE_SHIFT;
}

static float long_scale(uint32_t header)
{
    uint32_t bits = header >> 3 << SCALE_SHIFT;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* Planes of z, which is lost; their scale. A rotation keeps the energy. */
static double code_row(unsigned bits, bool ef, float *z, uint64_t key, float size, double energy,
                       uint8_t *planes)
{
    const shoali_eden_levels *levels = shoali_eden_levels_of(bits);
    const shoali_eden_loops *loop = shoali_eden_loops_for(ROW);
    const float power = shoali_eden_to_one(size);
    const double factor = shoali_eden_gain(ROW) * (double)power;
    const double square = energy * factor * factor;
    float sums[SHOALI_EDEN_LANES];
    loop->rotate(z, ROW, key, power);
    loop->rotate(z, ROW, second_key(key), 1);
    loop->quantise(levels, (float)sqrt(square / ROW), z, ROW, planes, sums);
    const double product = total(sums);
    return (ef ? product / shoali_eden_squared_levels(levels, loop, planes, ROW)
               : square / product) /
           factor;
}

static shoal_status encode_row(const shoali_eden_params *p, const shoal_codec_at *at, size_t first,
                               const float *src, float size, double energy, unsigned planes,
                               uint8_t *header, uint8_t *dst)
{
    _Alignas(32) float z[ROW];
    uint32_t coded = planes;
    if (energy > 0 && planes > 0) {
        const uint64_t key = row_key(at, first);
        shoali_kernel()->copy(z, src, ROW);
        double scale = code_row(planes, p->ef, z, key, size, energy, dst);
        coded |= short_scale((float)scale, p->ef, key) << 3;
    } else {
        memset(dst, 0, planes * PLANE);
    }
    if (!isfinite(long_scale(coded)))
        return shoali_fail(SHOAL_ENOTFINITE, "eden: the elements from %zu on are too large",
                           at->first + first);
    header[0] = (uint8_t)coded;
    header[1] = (uint8_t)(coded >> 8);
    return SHOAL_OK;
}

shoal_status shoali_eden_encode_group(const shoali_eden_params *params, const shoal_codec_at *at,
                                      size_t first, const float *src, size_t count, uint8_t *dst)
{
    const size_t blocks = count / ROW;
    float size[ROWS] = {0};
    double energy[ROWS] = {0}; /* gcc cannot see that `look` fills what is used */
    uint8_t planes[ROWS], *to = dst + blocks * HEADER;
    SHOALI_TRY(look(at, first, src, blocks, size, energy));
    shoali_eden_allot(energy, blocks, params->ef, planes_of((unsigned)params->bits, blocks),
                      planes);
    for (size_t b = 0; b < blocks; b++) {
        SHOALI_TRY(encode_row(params, at, first + b * ROW, src + b * ROW, size[b], energy[b],
                              planes[b], dst + b * HEADER, to));
        to += planes[b] * PLANE;
    }
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ decode */

/* Headers that no encoder makes: another sum would move every plane behind it. */
static shoal_status check_headers(const uint8_t *headers, size_t blocks, size_t total)
{
    size_t sum = 0;
    for (size_t b = 0; b < blocks; b++) {
        const uint32_t header = headers[b * HEADER] | (uint32_t)headers[b * HEADER + 1] << 8;
        const uint32_t planes = header & 7;
        if (planes > PLANES_MOST || (planes == 0 && header != 0) || !isfinite(long_scale(header)))
            return shoali_fail(SHOAL_ECORRUPT, "eden: block %zu has %u bits and a scale of %g", b,
                               planes, (double)long_scale(header));
        sum += planes;
    }
    if (sum != total)
        return shoali_fail(SHOAL_ECORRUPT, "eden: %zu bits for %zu blocks that share %zu", sum,
                           blocks, total);
    return SHOAL_OK;
}

static void decode_row(unsigned bits, float scale, uint64_t key, const uint8_t *planes, float *z)
{
    const shoali_eden_loops *loop = shoali_eden_loops_for(ROW);
    const float factor = (float)(1 / shoali_eden_gain(ROW));
    loop->dequantise(shoali_eden_levels_of(bits), factor, planes, ROW, z);
    loop->unrotate(z, ROW, second_key(key));
    loop->unrotate(z, ROW, key);
    shoali_kernel()->scale(z, scale, ROW);
}

shoal_status shoali_eden_decode_group(const shoali_eden_params *params, const shoal_codec_at *at,
                                      size_t first, const uint8_t *src, float *dst, size_t count,
                                      bool add)
{
    _Alignas(32) float z[ROW];
    const size_t blocks = count / ROW;
    const uint8_t *from = src + blocks * HEADER;
    SHOALI_TRY(check_headers(src, blocks, planes_of((unsigned)params->bits, blocks)));
    for (size_t b = 0; b < blocks; b++) {
        const uint32_t header = src[b * HEADER] | (uint32_t)src[b * HEADER + 1] << 8;
        const unsigned planes = header & 7;
        const float scale = long_scale(header);
        if (scale > 0)
            decode_row(planes, scale, row_key(at, first + b * ROW), from, z);
        else
            memset(z, 0, sizeof z);
        SHOALI_TRY(shoali_eden_put(dst + b * ROW, z, ROW, add));
        from += planes * PLANE;
    }
    return SHOAL_OK;
}
