/* SPDX-License-Identifier: Apache-2.0 */
/* eden in plain C: the definition that the vector loops are tested against. Sums and differences
 * are made in the same order there, hence the same bits. */
#include <math.h>
#include <string.h>

#include "codec/eden.h"

enum { TILE = SHOALI_EDEN_TILE, LANES = SHOALI_EDEN_LANES };

/* Max, "Quantizing for minimum distortion", 1960, table I, carried to more digits. */
static const shoali_eden_levels all_levels[4] = {
    {.bits = 1, .level = {0.797884561f}},
    {.bits = 2, .level = {0.452780035f, 1.510417608f}, .threshold = {0.981598822f}},
    {.bits = 3,
     .level = {0.245094179f, 0.756005281f, 1.343909279f, 2.151945705f},
     .threshold = {0.500549730f, 1.049957280f, 1.747927492f}},
    {.bits = 4,
     .level = {0.128395030f, 0.388048299f, 0.656759119f, 0.942340456f, 1.256231197f, 1.618046386f,
               2.069017227f, 2.732589571f},
     .threshold = {0.258221665f, 0.522403709f, 0.799549788f, 1.099285827f, 1.437138792f,
                   1.843531806f, 2.400803399f}},
};

const shoali_eden_levels *shoali_eden_levels_of(unsigned bits)
{
    return &all_levels[bits - 1];
}

/* Sums and differences of elements whose index differs in one bit. */
static void butterflies(float *z, size_t d, unsigned bit)
{
    const size_t h = (size_t)1 << bit;
    for (size_t i = 0; i < d; i += 2 * h)
        for (size_t j = i; j < i + h; j++) {
            float a = z[j], b = z[j + h];
            z[j] = a + b;
            z[j + h] = a - b;
        }
}

static void mix(float *z, size_t d)
{
    for (unsigned bit = 3; bit < 6 && (size_t)1 << bit < d; bit++)
        butterflies(z, d, bit);
}

static void flip(float *z, size_t d, uint64_t key, uint64_t which)
{
    for (size_t i = 0; i < d; i++)
        if ((shoali_eden_signs(key, i / TILE * 2 + which) >> i % TILE & 1) != 0)
            z[i] = -z[i];
}

static void transpose(float *tile)
{
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < i; j++) {
            float a = tile[8 * i + j];
            tile[8 * i + j] = tile[8 * j + i];
            tile[8 * j + i] = a;
        }
}

/* Index bits 0-5 of the Walsh-Hadamard transform; all of them below a tile. */
static void transform_tiles(float *z, size_t d)
{
    if (d < TILE) {
        for (unsigned bit = 0; (size_t)1 << bit < d; bit++)
            butterflies(z, d, bit);
        return;
    }
    mix(z, d);
    for (size_t i = 0; i < d; i += TILE)
        transpose(z + i);
    mix(z, d);
}

static void transform_above(float *z, size_t d)
{
    for (unsigned bit = 6; (size_t)1 << bit < d; bit++)
        butterflies(z, d, bit);
}

static void rotate(float *z, size_t d, uint64_t key, float scale)
{
    for (size_t i = 0; i < d; i++)
        z[i] *= scale;
    flip(z, d, key, 0);
    mix(z, d);
    flip(z, d, key, 1);
    transform_tiles(z, d);
    transform_above(z, d);
}

static void unrotate(float *z, size_t d, uint64_t key)
{
    transform_above(z, d);
    transform_tiles(z, d);
    flip(z, d, key, 1);
    mix(z, d);
    flip(z, d, key, 0);
}

static void square(const float *z, size_t d, float sums[LANES])
{
    memset(sums, 0, LANES * sizeof *sums);
    for (size_t i = 0; i < d; i++)
        sums[i % LANES] += z[i] * z[i];
}

static void quantise(const shoali_eden_levels *levels, float rms, const float *z, size_t d,
                     uint8_t *planes, float sums[LANES])
{
    const unsigned thresholds = (1u << (levels->bits - 1)) - 1;
    memset(sums, 0, LANES * sizeof *sums);
    memset(planes, 0, levels->bits * (d / 8));
    for (size_t i = 0; i < d; i++) {
        unsigned index = 0;
        float magnitude = fabsf(z[i]);
        for (unsigned t = 0; t < thresholds; t++)
            index += magnitude > levels->threshold[t] * rms;
        unsigned code = index << 1 | (signbit(z[i]) != 0);
        for (unsigned p = 0; p < levels->bits; p++)
            planes[p * (d / 8) + i / 8] |= (uint8_t)((code >> p & 1) << i % 8);
        sums[i % LANES] += magnitude * levels->level[index];
    }
}

static void dequantise(const shoali_eden_levels *levels, float factor, const uint8_t *planes,
                       size_t d, float *z)
{
    for (size_t i = 0; i < d; i++) {
        unsigned code = 0;
        for (unsigned p = 0; p < levels->bits; p++)
            code |= (planes[p * (d / 8) + i / 8] >> i % 8 & 1u) << p;
        float value = levels->level[code >> 1] * factor;
        z[i] = (code & 1) != 0 ? -value : value;
    }
}

const shoali_eden_loops shoali_eden_ref = {rotate, unrotate, square, quantise, dequantise};
