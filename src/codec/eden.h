/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the eden codec: what its row, its portable loops and its vector loops share.
 *
 * A piece is cut into blocks of 4096 elements; what is left over becomes smaller blocks, powers of
 * two of at least 16, the last one filled up with zeros where that costs less than a third, and
 * fewer than 16 elements are sent as floats. A block of d is a float32 scale, then `bits` planes of
 * d / 8 bytes: signs (1: negative), then the bits of the level, lowest first.
 *
 * The rotation, without factors (it multiplies squares by 8 d or less):
 *
 *     signs, mix 8 elements (index bits 3-5), signs, Walsh-Hadamard transform of all
 *
 * The first mixing is there for sparse gradients: a transform of few elements alone has few
 * different values, which no longer look normal. Signs come from `key`, a draw per block. From 64
 * elements on the transform also swaps index bits 0-2 with 3-5, which saves shuffles and
 * changes nothing that matters. */
#ifndef SHOALI_CODEC_EDEN_H
#define SHOALI_CODEC_EDEN_H

#include "codec/codec.h"

enum {
    SHOALI_EDEN_MOST = 4096, /* elements of a block */
    SHOALI_EDEN_LEAST = 16,
    SHOALI_EDEN_TILE = 64,
    SHOALI_EDEN_LANES = 32 /* partial sums: element i counts in sum i % 32 */
};

/** Lloyd-Max levels of a normal number's magnitude, and the thresholds between them. */
typedef struct shoali_eden_levels {
    unsigned bits;      /* of a code, its sign included: 1 .. 4 */
    float level[8];     /* 2^(bits-1) of them */
    float threshold[7]; /* one less */
} shoali_eden_levels;
const shoali_eden_levels *shoali_eden_levels_of(unsigned bits);

/** Loops over one block of d elements, a power of two; z is 32-byte aligned. */
typedef struct shoali_eden_loops {
    /** z = rotation of scale * z. */
    void (*rotate)(float *z, size_t d, uint64_t key, float scale);
    /** The transpose. */
    void (*unrotate)(float *z, size_t d, uint64_t key);
    /** Sums of z^2, by lane. */
    void (*square)(const float *z, size_t d, float sums[SHOALI_EDEN_LANES]);
    /** Planes of z in units of rms; sums of |z| * level, by lane. */
    void (*quantise)(const shoali_eden_levels *levels, float rms, const float *z, size_t d,
                     uint8_t *planes, float sums[SHOALI_EDEN_LANES]);
    /** z = factor * signed level. */
    void (*dequantise)(const shoali_eden_levels *levels, float factor, const uint8_t *planes,
                       size_t d, float *z);
} shoali_eden_loops;

extern const shoali_eden_loops shoali_eden_ref;
/** Only on x86-64 builds; for CPUs with AVX2; d of at least 64. */
extern const shoali_eden_loops shoali_eden_avx2;

/** Signs of 64 elements: word 2t before the mixing of tile t, word 2t + 1 behind it. The splitmix
 * of Steele et al., at a counter. */
static inline uint64_t shoali_eden_signs(uint64_t key, uint64_t word)
{
    uint64_t x = key + (word + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

#endif
