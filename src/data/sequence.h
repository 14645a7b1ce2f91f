/* SPDX-License-Identifier: Apache-2.0 */
/* Files of labelled sequences, `train.shoalseq` and `test.shoalseq`. All numbers are little-endian:
 *
 *     0   "SHOALSEQ"
 *     8   u32 version 1       12  u32 kind: 0 values, 1 tokens (never normalised)
 *     16  u32 values of a frame          20  u32 classes
 *     24  u32 sequences, >= 1            28  u32 0           32  u64 frames of all sequences
 *     40  u32 length of each sequence, frames, >= 1
 *         u16 label of each frame, below classes
 *         f32 values of each frame, finite
 *
 * Class 0 is silence where sequences are speech: symbols are runs of the others. */
#ifndef SHOALI_DATA_SEQUENCE_H
#define SHOALI_DATA_SEQUENCE_H

#include "data/loader.h"

enum { SHOALI_SEQUENCE_FRAMES_MAX = 65536, SHOALI_SEQUENCE_VALUES_MAX = 4096 };

typedef struct shoali_sequences {
    uint32_t values, classes, count;
    bool tokens;
    uint64_t frames;
    const uint32_t *lengths; /* [count] */
    const uint16_t *labels;  /* [frames] */
    const float *x;          /* [frames][values] */
} shoali_sequences;

/** Replaces path in one step. */
SHOAL_MUST_USE shoal_status shoali_sequences_write(const char *path, const shoali_sequences *s);

/** Sequences of both splits become a data set: values are normalised by those of the train split,
 * in place. */
SHOAL_MUST_USE shoal_status shoali_sequences_use(shoali_dataset *dataset,
                                                 const shoali_sequences *train,
                                                 const shoali_sequences *test);

#endif
