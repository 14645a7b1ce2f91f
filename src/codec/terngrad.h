/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the terngrad codec: what its row, its packings and its loops share.
 *
 * A member's values become the codes 0, 1, 2 for -s, 0, +s; a sum of k members is one of 0 .. 2k
 * for -k s .. +k s. Bytes of a piece of n elements, after the scale (4 bytes, scaler=own only):
 *
 *     k = 1, linear   2 bits an element, element i in bits 2 (i mod 4) of byte i / 4; tail code 1
 *     k = 1, planar   the authors': codes and 4 - n mod 4 entries 0, 1, ... of padding, cut into
 *                     four equal quarters; byte j = a[j] + 4 b[j] + 16 c[j] + 64 d[j]
 *     k = 1, base3    five elements a byte, sum of code_i 3^i; tail code 1
 *     k > 1           w = ceil(log2(2k+1)) bits an element, one after the other from bit 0 on
 *
 * Loops turn floats into bytes of one code each and back, a block at a time; packings know bytes
 * only. The 2-bit format, which carries the load, has loops of its own. */
#ifndef SHOALI_CODEC_TERNGRAD_H
#define SHOALI_CODEC_TERNGRAD_H

#include "codec/codec.h"
#include "codec/noise.h"

enum { SHOALI_TERN_BLOCK = 1280 }; /* elements; a multiple of 8, 5 and 128 */

/** What maps floats to codes. */
typedef struct shoali_tern_rule {
    float scale;   /* s, 0: everything is 0 */
    float lift;    /* power of two that lifts a tiny s (and x with it) to where 1 / s is finite */
    float inverse; /* 1 / (lift s) */
    uint32_t most; /* k */
    shoali_noise noise;
} shoali_tern_rule;

/** Bits per element of sums of `parts` members. */
uint32_t shoali_tern_bits(uint32_t parts);
/** A scale that is no positive number counts as 0. */
shoali_tern_rule shoali_tern_rule_make(float scale, uint32_t parts, shoali_noise noise);

/** Loops over elements [first, first + count) of a tensor. Those that read floats return false if
 * one is not finite; those that read codes, if one is above 2k. */
typedef struct shoali_tern_loops {
    /* Ternarise: |x| / s against 16 random bits, and 24 more where they are equal to it; to one
     * byte a code, or packed `linear`. */
    bool (*draw)(const shoali_tern_rule *rule, uint64_t first, const float *src, size_t count,
                 uint8_t *codes);
    bool (*draw_packed)(const shoali_tern_rule *rule, uint64_t first, const float *src,
                        size_t count, uint8_t *packed);
    /* The nearest multiple of s, at most k of them. */
    bool (*nearest)(const shoali_tern_rule *rule, const float *src, size_t count, uint8_t *codes);
    bool (*expand)(const shoali_tern_rule *rule, const uint8_t *codes, size_t count, float *dst,
                   bool add);
    bool (*expand_packed)(const shoali_tern_rule *rule, const uint8_t *packed, size_t count,
                          float *dst, bool add);
    /* Sums of x and of x^2. */
    void (*moments)(const float *x, size_t n, double sums_out[2]);
} shoali_tern_loops;

extern const shoali_tern_loops shoali_tern_ref;
extern const shoali_tern_loops shoali_tern_avx2; /* only on x86-64 builds; needs AVX2 */
extern const shoali_tern_loops shoali_tern_neon; /* only on aarch64 builds */

/** Codes of one byte to w bits each, w <= 8, and back; count is a multiple of 8 but at the end of a
 * piece. */
void shoali_tern_pack_bits(const uint8_t *codes, size_t count, uint32_t bits, uint8_t *dst);
void shoali_tern_unpack_bits(const uint8_t *src, size_t count, uint32_t bits, uint8_t *codes);
/** Five codes a byte; count is a multiple of 5 but at the end. Unpacking: false for a byte above
 * 242; codes has room for 8 more than count. */
void shoali_tern_pack_base3(const uint8_t *codes, size_t count, uint8_t *dst);
bool shoali_tern_unpack_base3(const uint8_t *src, size_t count, uint8_t *codes);

#endif
