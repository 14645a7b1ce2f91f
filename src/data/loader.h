/* SPDX-License-Identifier: Apache-2.0 */
/* Labelled images or sequences in memory, from files in the formats people have. A format is one
 * file with one row plus one line in loaders.def. Files are hostile: sizes are bounded and checked
 * before memory is taken, errors say file, byte offset and reason. A data set never changes after
 * open, so any number of threads may read it. */
#ifndef SHOALI_DATA_LOADER_H
#define SHOALI_DATA_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "shoal/status.h"

enum { SHOALI_DATA_CHANNELS_MAX = 4, SHOALI_DATA_SIDE_MAX = 4096, SHOALI_DATA_CLASSES_MAX = 65536 };

/** Samples of one split: pixels as in the file, uint8[count][channels][height][width]. */
typedef struct shoali_split {
    const uint8_t *pixels;
    const uint16_t *labels;
    uint32_t count;
    /* of sequences, whose labels are of frames: float32[starts[count]][width]; of ids
     * float32[count][height]; of pairs as of sequences, labels per sample */
    const float *frames;
    const uint64_t *starts; /* [count + 1]: first frame of each */
    /* of texts, instead: all tokens, [count * length + 1] at least (token_file.h) */
    const uint16_t *stream;
    uint32_t length;
} shoali_split;

/** A file in memory. */
typedef struct shoali_map {
    void *memory; /* NULL: none */
    size_t bytes;
} shoali_map;

typedef struct shoali_dataset {
    const char *format; /* name of the row */
    uint32_t channels, height, width, classes;
    bool natural;   /* photographs: a mirror image is as good; digits are not */
    bool sequences; /* 1 x height (of the longest) x width; not images */
    uint32_t ids;   /* above 0: 1 x height x 1 numbers below this one per sample, in frames */
    bool pairs;     /* 1 x height (of the sample that has most) x 2: ids and values, in frames;
                       each sample from its start on */
    bool tokens;    /* width 1: one of so many things per frame, as a number */
    const uint32_t *token_bytes; /* [classes] bytes of text that a token is; NULL: not known */
    shoali_map maps[2];          /* of the splits' files */
    shoali_split train, test;
    /* per channel, over the train split; pixels become (x - mean) / deviation */
    float mean[SHOALI_DATA_CHANNELS_MAX], inv_deviation[SHOALI_DATA_CHANNELS_MAX];
    shoal_arena *arena; /* owns all of this */
} shoali_dataset;

/**
 * Open a directory; the format is found by the names of the files in it.
 * @return SHOAL_OK | EINVAL (no known files: lists what was looked for) | EIO | ECORRUPT (file,
 * offset, reason) | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_dataset_open(const char *dir, shoali_dataset **dataset_out);
void shoali_dataset_close(shoali_dataset *dataset);

/** How samples are cut to the model's input. */
typedef struct shoali_crop {
    uint32_t height, width; /* of the result, at most the data set's */
    bool random;            /* training: place drawn by (seed, serial); else the centre */
    uint32_t pad;           /* with random: it may lie so far outside, where all is black */
    bool mirror; /* training: left and right swapped by (seed, serial), every second time */
    uint64_t seed;
} shoali_crop;

/**
 * Normalise samples into a batch.
 * @param indices      uint32[count] into split; unchecked.
 * @param first_serial number of sample 0 in the whole run: keys crop and mirror.
 * @param x_out        float32[count][channels][crop.height][crop.width].
 * @param labels_out   uint32[count].
 * Pairs: float32[count][crop.height][2], the id -1 behind the last.
 */
void shoali_dataset_fill(const shoali_dataset *dataset, const shoali_split *split,
                         const uint32_t *indices, uint32_t count, uint64_t first_serial,
                         const shoali_crop *crop, float *x_out, uint32_t *labels_out);

/** The same of sequences, each from its start: float32[count][frames][width], 0 behind its end;
 * frames is at least the longest one's; uint32[count][frames], uint32[count]. */
void shoali_dataset_fill_sequences(const shoali_dataset *dataset, const shoali_split *split,
                                   const uint32_t *indices, uint32_t count, uint32_t frames,
                                   float *x_out, uint32_t *labels_out, uint32_t *lengths_out);

/** So of texts (token_file.c). */
void shoali_dataset_fill_tokens(const shoali_dataset *dataset, const shoali_split *split,
                                const uint32_t *indices, uint32_t count, uint32_t frames,
                                float *x_out, uint32_t *labels_out, uint32_t *lengths_out);

/** Bits per byte of text of the split's first samples, whose mean loss this is, in nats per token:
 * all bits of their labels by all bytes that these stand for. NaN: no text. */
double shoali_dataset_bits_per_byte(const shoali_dataset *dataset, const shoali_split *split,
                                    uint64_t samples, double loss);

/** A format. */
typedef struct shoali_loader_row {
    const char *name, *help;
    const char
        *probe; /* a directory that holds this file, or it with .gz behind, is of this format */
    /** Fill all of *dataset but mean and deviation; memory from its arena. */
    shoal_status (*load)(const char *dir, shoali_dataset *dataset);
} shoali_loader_row;
const shoali_loader_row *shoali_loader_at(size_t i); /* NULL at the end */

/** dir/name or dir/name.gz, whichever is there, into arena; NULL with the error set if neither is.
 */
const char *shoali_data_path(shoal_arena *arena, const char *dir, const char *name);

#endif
