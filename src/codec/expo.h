/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the expo codec. A piece is a bitmap, one bit per block of 32 elements (1: the block is not
 * all +0), then the blocks that are not, in order:
 *
 *     1 byte     the block's largest exponent E
 *     3 planes   of ceil(n / 8) bytes, lowest bit first: E - exponent, 7 for "further off"
 *     n values   sign and fraction: fp32 three bytes (sign on top), bf16 one
 *     escapes    one byte each, the exponents of the elements with 7, in order
 */
#ifndef SHOALI_CODEC_EXPO_H
#define SHOALI_CODEC_EXPO_H

#include "codec/codec.h"

enum {
    SHOALI_EXPO_BLOCK = 32,
    SHOALI_EXPO_ESCAPE = 7,
    SHOALI_EXPO_MOST = 1 + 12 + 3 * 32 + 32 /* bytes of a block */
};
#define SHOALI_EXPO_CORRUPT SIZE_MAX

/** Loops over one block. `kept` bytes of sign and fraction per element: 3, or 1 for bf16. */
typedef struct shoali_expo_loops {
    /** n = 32. Bytes written, 0 if all are +0; dst holds MOST and 8 bytes more. */
    size_t (*put)(const float *src, unsigned kept, uint8_t *dst);
    /** n = 32. Bytes read or CORRUPT. */
    size_t (*get)(const uint8_t *src, size_t len_bytes, unsigned kept, float *dst, bool add);
} shoali_expo_loops;

extern const shoali_expo_loops shoali_expo_ref;
/** Only on x86-64 builds; for CPUs with AVX2. */
extern const shoali_expo_loops shoali_expo_avx2;
extern const shoali_expo_loops shoali_expo_neon; /* only on aarch64 builds */

/** Blocks of any size up to 32. */
size_t shoali_expo_put(const float *src, size_t n, unsigned kept, uint8_t *dst);
size_t shoali_expo_get(const uint8_t *src, size_t len_bytes, size_t n, unsigned kept, float *dst,
                       bool add);

#endif
