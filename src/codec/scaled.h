/* SPDX-License-Identifier: Apache-2.0 */
/* What int8, int4, fp8 and sign share: blocks of elements under one float32 scale. A block is its
 * scale, then the codes of its elements; how many bytes these take is the format's. Formats are
 * loops over the codes of one block, plain ones, which define the bytes, and vector ones. */
#ifndef SHOALI_CODEC_SCALED_H
#define SHOALI_CODEC_SCALED_H

#include "codec/codec.h"
#include "codec/noise.h"

/** Element i of a piece draws 16 bits: half (i / 8) % 2 of the noise at i / 16 * 8 + i % 8. */
typedef struct shoali_scaled_noise {
    shoali_noise key;
    uint32_t first; /* of the block, a multiple of 16 */
    bool on;        /* round up or down at random, else to nearest */
} shoali_scaled_noise;

typedef struct shoali_scaled_format {
    const char *name;
    float largest; /* code of the largest magnitude of a block; 0: the scale is the mean */
    size_t group;  /* elements that are coded together */
    size_t group_bytes;
    /** Codes of x * per_scale; src has n elements, dst the bytes of their groups. */
    void (*put)(const float *src, size_t n, float per_scale, const shoali_scaled_noise *noise,
                uint8_t *dst);
    void (*get)(const uint8_t *src, size_t n, float scale, float *dst, bool add);
    /** With largest 0: sums of |x| * factor, element i in sum i % 8. */
    void (*sums)(const float *src, size_t n, float factor, float sums_out[8]);
} shoali_scaled_format;

/** Key "block": log2 of the elements of a block, less 5. */
#define SHOALI_SCALED_KEY_BLOCK(type, fallback)                                            \
    {                                                                                      \
        "block", SHOALI_KEY_CHOICE, offsetof(type, block), 0, 0, "32|64|128|256|512|1024", \
            fallback, "elements under one scale"                                           \
    }
static inline size_t shoali_scaled_block(int32_t choice)
{
    return (size_t)32 << choice;
}

/** E[largest^2] of a block of normal numbers, by the choice of block: for variances. */
double shoali_scaled_largest2(int32_t choice);

size_t shoali_scaled_bound(const shoali_scaled_format *format, size_t block, size_t count);
SHOAL_MUST_USE shoal_status shoali_scaled_encode(const shoali_scaled_format *format, size_t block,
                                                 bool stochastic, const shoal_codec_at *at,
                                                 const float *src, size_t count, uint8_t *dst,
                                                 size_t *written_out);
SHOAL_MUST_USE shoal_status shoali_scaled_decode(const shoali_scaled_format *format, size_t block,
                                                 const uint8_t *src, size_t len_bytes, float *dst,
                                                 size_t count, bool add, size_t *read_out);

typedef struct shoali_scaled_formats {
    shoali_scaled_format int8, int4, e4m3, e5m2, sign;
    /** Largest magnitude as float bits, which compare like what they mean; of NaN, too. */
    uint32_t (*largest)(const float *src, size_t n);
} shoali_scaled_formats;
extern const shoali_scaled_formats shoali_scaled_ref;
/** Only on x86-64 builds; for CPUs with AVX2 and F16C. */
extern const shoali_scaled_formats shoali_scaled_avx2;
extern const shoali_scaled_formats shoali_scaled_neon; /* only on aarch64 builds */
/** Those for this CPU. */
const shoali_scaled_formats *shoali_scaled(void);

#endif
