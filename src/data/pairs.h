/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of few out of many features, each with a value, and a class. A file, little-endian, plain
 * or .gz:
 *
 *     0 "SHOALPRS" | 8 version 1, u32 | 12 features u32 | 16 classes u32 | 20 samples u32 |
 *     24 pairs u64
 *     u16 class of each sample
 *     u32 pairs of each sample
 *     u32 features, sample by sample, ascending in each
 *     f32 their values, likewise */
#ifndef SHOALI_DATA_PAIRS_H
#define SHOALI_DATA_PAIRS_H

#include "data/loader.h"

/** Features are exact in float32. A sample's pairs are bounded, as batches have room for them. */
enum { SHOALI_PAIRS_FEATURES_MAX = 1 << 24, SHOALI_PAIRS_MOST = 1 << 16 };

typedef struct shoali_pairs {
    uint32_t features, classes, count;
    uint32_t most;    /* pairs of the sample that has most */
    uint64_t *starts; /* [count + 1] */
    uint16_t *labels; /* [count] */
    float *pairs;     /* [starts[count]][2]: feature, value */
} shoali_pairs;

SHOAL_MUST_USE shoal_status shoali_pairs_write(const char *path, const shoali_pairs *pairs);
/** Into memory of arena. name: without .gz. */
SHOAL_MUST_USE shoal_status shoali_pairs_read(const char *dir, const char *name, shoal_arena *arena,
                                              shoali_pairs *pairs_out);

#endif
