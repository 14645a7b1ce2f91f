/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the inceptionn codec: what its row, its portable loops and its vector loops share.
 *
 * An element falls into one of four classes by its magnitude; a 2-bit tag says which:
 *
 *     ZERO   nothing          below 2^-k
 *     BYTE   1 sign + 7 bit   sign and magnitude in units of 2^-7
 *     WORD   1 sign + 15 bit  the same in units of 2^-15, little-endian
 *     RAW    32 bit           from 1 on, infinities and NaN: the float itself
 *
 * With a prescale of 2^p the first three see the element times 2^p, and RAW begins at 2^-p; RAW
 * payloads are not scaled, so nothing can overflow. BYTE is the upper byte of the WORD that the
 * element would have made.
 *
 * Layout `interleaved` (the hardware's): per 8 elements a 16-bit tag word, element j in bits 2j and
 * 2j+1, then their payloads in order. Missing elements of the last group count as ZERO.
 * Layout `planes`: blocks of 1024 elements, each of strides of 32; the last ones may be short, and
 * count as filled up with ZERO. A block is two bitmaps of 32 bits per stride, then three planes:
 *
 *     high: BYTE or WORD    low: WORD or RAW    (so RAW is low without high)
 *     upper bytes of all BYTE and WORD | lower bytes of all WORD | the floats of all RAW
 *
 * Bit j of a stride belongs to element 8 (j/4 mod 4) + 4 (j/16) + (j mod 4), and the planes follow
 * the order of the bits: that is how registers of two lanes narrow 32 floats to bytes and widen
 * them again. Both layouts cost 2 bits per element plus the payload. In planes all positions follow
 * from the bitmaps, so that decoding does not wait for one element's length to find the next.
 * Layout `planes` with `zmap`: each block begins with a word whose bit i says that stride i is
 * live, not all ZERO; then the bitmaps of the live strides, all `high`, all `low`, and the planes.
 * Costs 1 bit per 32 elements, and saves 64 for each stride of zeros: our extension, since the
 * published format spends 2 bits on every element and so ends at 16 times fewer bytes, while
 * gradients late in training are mostly runs of zeros.
 * Layout `floats`: the values that a decoder would make, as float32 (inceptionn_floats.c). */
#ifndef SHOALI_CODEC_INCEPTIONN_H
#define SHOALI_CODEC_INCEPTIONN_H

#include "codec/codec.h"

enum { SHOALI_INC_ZERO, SHOALI_INC_BYTE, SHOALI_INC_WORD, SHOALI_INC_RAW };
enum {
    SHOALI_INC_GROUP = 8,    /* elements under one tag word */
    SHOALI_INC_STRIDE = 32,  /* elements under one word of a bitmap */
    SHOALI_INC_BLOCK = 1024, /* elements under one pair of bitmaps */
    SHOALI_INC_STRIDES = SHOALI_INC_BLOCK / SHOALI_INC_STRIDE,
    SHOALI_INC_BLOCK_BYTES = 8 * SHOALI_INC_STRIDES + 4 * SHOALI_INC_BLOCK
};

/** Thresholds of one bound, mode and prescale. Float bits compare like the magnitudes they mean. */
typedef struct shoali_inc_rule {
    uint32_t power;     /* p */
    uint32_t byte_from; /* float bits of 2^-k-p */
    uint32_t raw_from;  /* float bits of 2^-p */
    uint16_t byte_bits; /* a 15-bit magnitude is BYTE or more from here on: 2^(15-k) */
    uint16_t word_bits; /* ... and WORD if it has any of these: the class's own, and those that
                           `strict` keeps */
    bool strict;
} shoali_inc_rule;

/** k = 6, 8 or 10; power 0 .. 16. */
shoali_inc_rule shoali_inc_rule_make(uint32_t k, uint32_t power, bool strict);

/** Class of one element and its payload as for WORD (BYTE sends its upper 8 bits); 0 for RAW. */
unsigned shoali_inc_classify(const shoali_inc_rule *rule, float x, uint16_t *payload_out);
/** The value of a WORD, or of a BYTE shifted up by 8. */
float shoali_inc_value(const shoali_inc_rule *rule, uint16_t payload);

/** Element of a stride that bit j of its bitmaps stands for. */
static inline size_t shoali_inc_element(size_t j)
{
    return 8 * (j / 4 % 4) + 4 * (j / 16) + j % 4;
}

/** Bitmap words of a block of count elements. */
static inline size_t shoali_inc_strides(size_t count)
{
    return (count + SHOALI_INC_STRIDE - 1) / SHOALI_INC_STRIDE;
}

/** Bits of a stride that stand for its first count elements; all for 32 and more. */
uint32_t shoali_inc_stride_bits(size_t count);

/** Loops over one piece. Encoders return the bytes written (dst holds the bound); decoders the
 * bytes read, or SHOALI_INC_CORRUPT. With add, a group (interleaved) or stride (planes) that is all
 * ZERO is not touched. */
#define SHOALI_INC_CORRUPT SIZE_MAX
typedef struct shoali_inc_loops {
    size_t (*encode)(const shoali_inc_rule *rule, const float *src, size_t count, uint8_t *dst);
    size_t (*decode)(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes, float *dst,
                     size_t count, bool add);
} shoali_inc_loops;

extern const shoali_inc_loops shoali_inc_ref_interleaved, shoali_inc_ref_planes,
    shoali_inc_ref_zmap;
/** Layout `floats`, on every CPU. */
extern const shoali_inc_loops shoali_inc_floats;
/** Only on x86-64 builds; for CPUs with AVX2, and after init. */
extern const shoali_inc_loops shoali_inc_avx2_interleaved, shoali_inc_avx2_planes,
    shoali_inc_avx2_zmap;
void shoali_inc_avx2_init(void);
/** Only on aarch64 builds; after init. */
extern const shoali_inc_loops shoali_inc_neon_planes, shoali_inc_neon_zmap;
void shoali_inc_neon_init(void);

/** What a zmap block begins with, as bitmaps of all strides, also of those that the block has not;
 * its bytes, or SHOALI_INC_CORRUPT. */
size_t shoali_inc_zmap_head(const uint8_t *src, size_t len_bytes, size_t strides,
                            uint32_t high_out[SHOALI_INC_STRIDES],
                            uint32_t low_out[SHOALI_INC_STRIDES]);

/** One group, also for the vector loops' rare cases: tails, RAW elements, the end of the input. */
size_t shoali_inc_group_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                               uint8_t *dst);
size_t shoali_inc_group_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                               float *dst, size_t count, bool add);

#endif
