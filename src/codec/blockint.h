/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the blockint codec: integers q = round(x / step), half to even, step a power of two.
 *
 * A piece is a header, four bits per block of 32 elements (block 2i in the lower half of byte i),
 * then the blocks' payloads in order. The four bits say how wide the block's integers are:
 *
 *     0        all are zero, no payload
 *     1 .. 14  two's complement of that many bits, as bit planes, the lowest first
 *     15       a byte w, then w planes (15 .. 24), or, w = 32, the floats themselves
 *
 * Bit i of a plane is element i. A plane of a full block is a little-endian 32-bit word; of a last
 * block of n elements it has ceil(n / 8) bytes. Floats go where 2^24 steps are exceeded, where x is
 * not finite, and where a short block is no longer than as planes; they are rounded to steps, too.
 * From 2^23 steps on every float is a multiple of the step anyway.
 *
 * Planes add without unpacking: a carry that ripples over w words adds 32 elements at once, in
 * software, in BPF and in hardware. */
#ifndef SHOALI_CODEC_BLOCKINT_H
#define SHOALI_CODEC_BLOCKINT_H

#include "codec/codec.h"

enum {
    SHOALI_BLOCKINT_BLOCK = 32,
    SHOALI_BLOCKINT_WIDE = 15,   /* header bits of a block that begins with a byte of width */
    SHOALI_BLOCKINT_WIDEST = 24, /* integers that float32 holds */
    SHOALI_BLOCKINT_RAW = 32,
    SHOALI_BLOCKINT_BLOCK_BYTES = 1 + 4 * SHOALI_BLOCKINT_BLOCK
};
#define SHOALI_BLOCKINT_CORRUPT SIZE_MAX

typedef struct shoali_blockint_rule {
    float steps_per_unit, step; /* powers of two */
} shoali_blockint_rule;

/** step = 2^exponent, -126 .. 126. */
shoali_blockint_rule shoali_blockint_rule_make(int exponent);

/** Loops over one block of full size. */
typedef struct shoali_blockint_loops {
    /** Returns the payload's bytes; dst holds BLOCK_BYTES. */
    size_t (*put)(const shoali_blockint_rule *rule, const float *src, uint8_t *dst,
                  unsigned *code_out);
    /** Returns the bytes read or CORRUPT. */
    size_t (*get)(const shoali_blockint_rule *rule, unsigned code, const uint8_t *src,
                  size_t len_bytes, float *dst, bool add);
} shoali_blockint_loops;

extern const shoali_blockint_loops shoali_blockint_ref;
/** Only on x86-64 builds; for CPUs with AVX2. */
extern const shoali_blockint_loops shoali_blockint_avx2;
extern const shoali_blockint_loops shoali_blockint_neon; /* only on aarch64 builds */

/** Any block, count 1 .. 32: also for the vector loops' rare cases. */
size_t shoali_blockint_put(const shoali_blockint_rule *rule, const float *src, size_t count,
                           uint8_t *dst, unsigned *code_out);
size_t shoali_blockint_get(const shoali_blockint_rule *rule, unsigned code, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add);
/** Bytes of a block's payload, or CORRUPT; what it is made of in width_out (0 .. 24, RAW). */
size_t shoali_blockint_size(unsigned code, const uint8_t *src, size_t len_bytes, size_t count,
                            unsigned *width_out);
/** One block of the sum of two; all three payloads are of sizes that `size` has checked. */
size_t shoali_blockint_add(const shoali_blockint_rule *rule, unsigned a_code, const uint8_t *a,
                           unsigned b_code, const uint8_t *b, size_t count, uint8_t *dst,
                           unsigned *code_out);

#endif
