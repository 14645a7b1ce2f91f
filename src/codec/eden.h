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
 * changes nothing that matters.
 *
 * allot=energy: of the whole 4096s of a piece up to 16 make a group, of blocks of 256, each rotated
 * by itself, twice (by `key`, then by word 9 of its signs). A group of B blocks has B 16-bit
 * headers, lowest byte first (bits 0-2: planes, 0 to 4; bits 3-15: the scale, a float32 without its
 * sign and its lower 18 bits), then the blocks' planes of 32 bytes, B bits - B / 16 of them: with
 * the headers an element costs exactly `bits` bits. What follows the last whole 4096 is coded as
 * above. */
#ifndef SHOALI_CODEC_EDEN_H
#define SHOALI_CODEC_EDEN_H

#include "codec/codec.h"

enum {
    SHOALI_EDEN_MOST = 4096, /* elements of a block */
    SHOALI_EDEN_LEAST = 16,
    SHOALI_EDEN_TILE = 64,
    SHOALI_EDEN_LANES = 32, /* partial sums: element i counts in sum i % 32 */
    SHOALI_EDEN_ROW = 256,  /* elements of a block whose bits are allotted */
    SHOALI_EDEN_ROWS = 256  /* such blocks of a group */
};

typedef struct shoali_eden_params {
    int64_t bits;
    int32_t allot; /* 0: even, 1: energy */
    bool ef;
} shoali_eden_params;

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
    /** Sums of z^2, by lane; z of any alignment. */
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
/** Only on aarch64 builds; d of at least 64. */
extern const shoali_eden_loops shoali_eden_neon;

const shoali_eden_loops *shoali_eden_loops_for(size_t d);

/** Expected squared error relative to a block's own, at 0 (ef: nothing arrives) or 1 .. 4 bits. */
double shoali_eden_error(unsigned bits, bool ef);
/** A rotation multiplies squares by this. */
double shoali_eden_gain(size_t d);
/** The power of two that brings a magnitude to 1..2, as far as float32 has it. */
float shoali_eden_to_one(float magnitude);
/** Sum of the squares of the levels that the planes name. */
double shoali_eden_squared_levels(const shoali_eden_levels *levels, const shoali_eden_loops *loop,
                                  const uint8_t *planes, size_t d);
/** Set or add; ECORRUPT of what is not finite. */
SHOAL_MUST_USE shoal_status shoali_eden_put(float *dst, const float *values, size_t count,
                                            bool add);

/* ---- eden_allot.c */

/** Bytes of 4096 elements, headers included. */
size_t shoali_eden_unit_bytes(unsigned bits);
/** Elements of the next group of `left` elements; 0: fewer than 4096 are left. */
size_t shoali_eden_group(size_t left);
/** Planes for each of `blocks` (at most 256) so that all have `total` and the expected error is
 * smallest. A block with energy has at least one, unless ef. blocks <= total <= 4 blocks. */
void shoali_eden_allot(const double *energy, size_t blocks, bool ef, size_t total,
                       uint8_t *planes_out);
SHOAL_MUST_USE shoal_status shoali_eden_encode_group(const shoali_eden_params *params,
                                                     const shoal_codec_at *at, size_t first,
                                                     const float *src, size_t count, uint8_t *dst);
SHOAL_MUST_USE shoal_status shoali_eden_decode_group(const shoali_eden_params *params,
                                                     const shoal_codec_at *at, size_t first,
                                                     const uint8_t *src, float *dst, size_t count,
                                                     bool add);

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
