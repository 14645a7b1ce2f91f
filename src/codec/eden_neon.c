/* SPDX-License-Identifier: Apache-2.0 */
/* eden with NEON: sixteen registers hold a tile of 64 elements, its eight rows as a lower and an
 * upper half of four; the sums and differences are those of eden_ref.c in its order. */
#include <arm_neon.h>

#include "codec/eden.h"

enum { TILE = SHOALI_EDEN_TILE, LANES = SHOALI_EDEN_LANES, WIDTH = 4 };

#define INLINE static inline __attribute__((always_inline))

typedef struct tile {
    float32x4_t low[8], high[8]; /* elements 0-3 and 4-7 of each row */
} tile;

INLINE void butterfly(float32x4_t *a, float32x4_t *b)
{
    const float32x4_t sum = vaddq_f32(*a, *b);
    *b = vsubq_f32(*a, *b);
    *a = sum;
}

/* A transform of 8 across registers, lowest bit first. */
INLINE void across(float32x4_t v[8])
{
    butterfly(&v[0], &v[1]), butterfly(&v[2], &v[3]);
    butterfly(&v[4], &v[5]), butterfly(&v[6], &v[7]);
    butterfly(&v[0], &v[2]), butterfly(&v[1], &v[3]);
    butterfly(&v[4], &v[6]), butterfly(&v[5], &v[7]);
    butterfly(&v[0], &v[4]), butterfly(&v[1], &v[5]);
    butterfly(&v[2], &v[6]), butterfly(&v[3], &v[7]);
}

INLINE float32x4_t lower_halves(float32x4_t a, float32x4_t b)
{
    return vcombine_f32(vget_low_f32(a), vget_low_f32(b));
}

INLINE float32x4_t upper_halves(float32x4_t a, float32x4_t b)
{
    return vcombine_f32(vget_high_f32(a), vget_high_f32(b));
}

INLINE void transpose4(float32x4_t v[4])
{
    const float32x4_t a = vtrn1q_f32(v[0], v[1]), b = vtrn2q_f32(v[0], v[1]);
    const float32x4_t c = vtrn1q_f32(v[2], v[3]), d = vtrn2q_f32(v[2], v[3]);
    v[0] = lower_halves(a, c), v[1] = lower_halves(b, d);
    v[2] = upper_halves(a, c), v[3] = upper_halves(b, d);
}

INLINE void swap4(float32x4_t a[4], float32x4_t b[4])
{
    for (int i = 0; i < 4; i++) {
        const float32x4_t kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

INLINE void transform(tile *t)
{
    across(t->low), across(t->high);
    transpose4(t->low), transpose4(t->low + 4);
    transpose4(t->high), transpose4(t->high + 4);
    swap4(t->low + 4, t->high);
    across(t->low), across(t->high);
}

INLINE void load(tile *t, const float *z)
{
    for (size_t i = 0; i < 8; i++) {
        t->low[i] = vld1q_f32(z + 8 * i);
        t->high[i] = vld1q_f32(z + 8 * i + WIDTH);
    }
}

INLINE void store(const tile *t, float *z)
{
    for (size_t i = 0; i < 8; i++) {
        vst1q_f32(z + 8 * i, t->low[i]);
        vst1q_f32(z + 8 * i + WIDTH, t->high[i]);
    }
}

INLINE void mix(tile *t)
{
    across(t->low), across(t->high);
}

INLINE float32x4_t flip4(float32x4_t v, uint32_t bits)
{
    static const int32_t to_top[WIDTH] = {31, 30, 29, 28};
    const uint32x4_t moved = vshlq_u32(vdupq_n_u32(bits), vld1q_s32(to_top));
    const uint32x4_t sign = vandq_u32(moved, vdupq_n_u32(0x80000000u));
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(v), sign));
}

/* Negate elements whose bit is set; byte i of the word belongs to row i. */
INLINE void flip(tile *t, uint64_t word)
{
    for (int i = 0; i < 8; i++) {
        t->low[i] = flip4(t->low[i], (uint32_t)(word >> 8 * i));
        t->high[i] = flip4(t->high[i], (uint32_t)(word >> (8 * i + 4)));
    }
}

/* Index bits from 6 on: three at a time, then one. */
static void transform_above(float *z, size_t d)
{
    size_t h = TILE;
    for (; 8 * h <= d; h *= 8)
        for (size_t i = 0; i < d; i += 8 * h)
            for (size_t j = i; j < i + h; j += WIDTH) {
                float32x4_t v[8];
                for (size_t k = 0; k < 8; k++)
                    v[k] = vld1q_f32(z + j + k * h);
                across(v);
                for (size_t k = 0; k < 8; k++)
                    vst1q_f32(z + j + k * h, v[k]);
            }
    for (; h < d; h *= 2)
        for (size_t i = 0; i < d; i += 2 * h)
            for (size_t j = i; j < i + h; j += WIDTH) {
                float32x4_t a = vld1q_f32(z + j), b = vld1q_f32(z + j + h);
                butterfly(&a, &b);
                vst1q_f32(z + j, a);
                vst1q_f32(z + j + h, b);
            }
}

static void rotate(float *z, size_t d, uint64_t key, float power)
{
    for (size_t i = 0; i < d / TILE; i++) {
        tile t;
        load(&t, z + i * TILE);
        for (int k = 0; k < 8; k++) {
            t.low[k] = vmulq_n_f32(t.low[k], power);
            t.high[k] = vmulq_n_f32(t.high[k], power);
        }
        flip(&t, shoali_eden_signs(key, 2 * i));
        mix(&t);
        flip(&t, shoali_eden_signs(key, 2 * i + 1));
        transform(&t);
        store(&t, z + i * TILE);
    }
    transform_above(z, d);
}

static void unrotate(float *z, size_t d, uint64_t key)
{
    transform_above(z, d);
    for (size_t i = 0; i < d / TILE; i++) {
        tile t;
        load(&t, z + i * TILE);
        transform(&t);
        flip(&t, shoali_eden_signs(key, 2 * i + 1));
        mix(&t);
        flip(&t, shoali_eden_signs(key, 2 * i));
        store(&t, z + i * TILE);
    }
}

static void square(const float *z, size_t d, float sums[LANES])
{
    float32x4_t s[LANES / WIDTH];
    for (size_t i = 0; i < LANES / WIDTH; i++)
        s[i] = vdupq_n_f32(0);
    for (size_t k = 0; k < d; k += LANES)
        for (size_t i = 0; i < LANES / WIDTH; i++) {
            const float32x4_t x = vld1q_f32(z + k + WIDTH * i);
            s[i] = vaddq_f32(s[i], vmulq_f32(x, x)); /* no fma: the reference rounds twice */
        }
    for (size_t i = 0; i < LANES / WIDTH; i++)
        vst1q_f32(sums + WIDTH * i, s[i]);
}

/* ---------------------------------------------------------------- levels */

/* Four of eight floats: the table as bytes, and each index as those of its four bytes. */
INLINE float32x4_t pick(uint8x16x2_t table, uint32x4_t index)
{
    const uint32x4_t bytes = vaddq_u32(vmulq_n_u32(index, 0x04040404u), vdupq_n_u32(0x03020100u));
    return vreinterpretq_f32_u8(vqtbl2q_u8(table, vreinterpretq_u8_u32(bytes)));
}

INLINE uint8x16x2_t table_of(const float level[8], float factor)
{
    return (uint8x16x2_t){{vreinterpretq_u8_f32(vmulq_n_f32(vld1q_f32(level), factor)),
                           vreinterpretq_u8_f32(vmulq_n_f32(vld1q_f32(level + WIDTH), factor))}};
}

/* Bit `from` of eight lanes as a byte. */
INLINE uint8_t byte_of(const uint32x4_t v[2], int from)
{
    static const int32_t weight[2][WIDTH] = {{0, 1, 2, 3}, {4, 5, 6, 7}};
    const int32x4_t down = vdupq_n_s32(-from);
    const uint32x4_t one = vdupq_n_u32(1);
    const uint32x4_t a = vandq_u32(vshlq_u32(v[0], down), one);
    const uint32x4_t b = vandq_u32(vshlq_u32(v[1], down), one);
    return (uint8_t)vaddvq_u32(
        vorrq_u32(vshlq_u32(a, vld1q_s32(weight[0])), vshlq_u32(b, vld1q_s32(weight[1]))));
}

INLINE void quantise_bits(const shoali_eden_levels *levels, unsigned bits, float rms,
                          const float *z, size_t d, uint8_t *planes, float sums[LANES])
{
    const uint8x16x2_t table = table_of(levels->level, 1);
    const unsigned thresholds = (1u << (bits - 1)) - 1;
    float32x4_t s[LANES / WIDTH];
    for (size_t i = 0; i < LANES / WIDTH; i++)
        s[i] = vdupq_n_f32(0);
    for (size_t k = 0; k < d; k += LANES)
        for (size_t i = 0; i < LANES / WIDTH; i += 2) {
            uint32x4_t x[2], index[2];
            for (size_t j = 0; j < 2; j++) {
                const float32x4_t value = vld1q_f32(z + k + WIDTH * (i + j));
                const float32x4_t magnitude = vabsq_f32(value);
                x[j] = vreinterpretq_u32_f32(value);
                index[j] = vdupq_n_u32(0);
                for (unsigned t = 0; t < thresholds; t++)
                    index[j] = vsubq_u32(
                        index[j], vcgtq_f32(magnitude, vdupq_n_f32(levels->threshold[t] * rms)));
                s[i + j] = vaddq_f32(s[i + j], vmulq_f32(magnitude, pick(table, index[j])));
            }
            uint8_t *at = planes + (k + WIDTH * i) / 8;
            at[0] = byte_of(x, 31);
            for (unsigned p = 1; p < bits; p++)
                at[p * (d / 8)] = byte_of(index, (int)p - 1);
        }
    for (size_t i = 0; i < LANES / WIDTH; i++)
        vst1q_f32(sums + WIDTH * i, s[i]);
}

static void quantise(const shoali_eden_levels *levels, float rms, const float *z, size_t d,
                     uint8_t *planes, float sums[LANES])
{
    switch (levels->bits) {
    case 1:
        quantise_bits(levels, 1, rms, z, d, planes, sums);
        break;
    case 2:
        quantise_bits(levels, 2, rms, z, d, planes, sums);
        break;
    case 3:
        quantise_bits(levels, 3, rms, z, d, planes, sums);
        break;
    default:
        quantise_bits(levels, 4, rms, z, d, planes, sums);
    }
}

/* Four bits of a byte, from `first` on, each alone in bit 0 of a lane. */
INLINE uint32x4_t bits_at(uint8_t byte, int first)
{
    const int32_t down[WIDTH] = {-first, -first - 1, -first - 2, -first - 3};
    return vandq_u32(vshlq_u32(vdupq_n_u32(byte), vld1q_s32(down)), vdupq_n_u32(1));
}

INLINE void dequantise_bits(const shoali_eden_levels *levels, unsigned bits, float factor,
                            const uint8_t *planes, size_t d, float *z)
{
    const uint8x16x2_t table = table_of(levels->level, factor);
    for (size_t k = 0; k < d / 8; k++)
        for (int half = 0; half < 8; half += WIDTH) {
            uint32x4_t index = vdupq_n_u32(0);
            for (unsigned p = 1; p < bits; p++)
                index = vorrq_u32(index, vshlq_u32(bits_at(planes[p * (d / 8) + k], half),
                                                   vdupq_n_s32((int)p - 1)));
            const uint32x4_t value = vreinterpretq_u32_f32(pick(table, index));
            const uint32x4_t sign = vshlq_n_u32(bits_at(planes[k], half), 31);
            vst1q_f32(z + 8 * k + half, vreinterpretq_f32_u32(veorq_u32(value, sign)));
        }
}

static void dequantise(const shoali_eden_levels *levels, float factor, const uint8_t *planes,
                       size_t d, float *z)
{
    switch (levels->bits) {
    case 1:
        dequantise_bits(levels, 1, factor, planes, d, z);
        break;
    case 2:
        dequantise_bits(levels, 2, factor, planes, d, z);
        break;
    case 3:
        dequantise_bits(levels, 3, factor, planes, d, z);
        break;
    default:
        dequantise_bits(levels, 4, factor, planes, d, z);
    }
}

const shoali_eden_loops shoali_eden_neon = {rotate, unrotate, square, quantise, dequantise};
