/* SPDX-License-Identifier: Apache-2.0 */
/* From samples to frames of features, every 10 ms over 25 ms: pre-emphasis, Hamming window, power
 * spectrum, triangles on the mel scale, logarithm; then either that (log-mel) or its cosine
 * transform with first and second differences (MFCC). */
#ifndef SHOALI_DATA_FEATURES_H
#define SHOALI_DATA_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "shoal/status.h"

enum {
    SHOALI_FEATURES_RATE = 16000, /* samples per second that the frames are made of */
    SHOALI_FEATURES_STEP = 160,
    SHOALI_FEATURES_WINDOW = 400,
    SHOALI_FEATURES_MFCC = 39,
    SHOALI_FEATURES_LOG_MEL = 40
};

typedef struct shoali_features shoali_features;

/** Tables, from the arena. log_mel: 40 logarithms, else 39 MFCC. */
SHOAL_MUST_USE shoal_status shoali_features_create(shoal_arena *arena, bool log_mel,
                                                   shoali_features **features_out);
/** Values of a frame. */
uint32_t shoali_features_values(const shoali_features *f);
/** Whole frames in so many samples. */
size_t shoali_features_frames(size_t samples);
/** float32[frames][values] from frames * 160 + 240 samples (16 kHz, any scale). */
void shoali_features_run(const shoali_features *f, const float *samples, size_t frames,
                         float *x_out);
/** Take an utterance's mean out of what is no difference (cepstral mean normalisation): most of
 * what voice and room add to all frames alike. */
void shoali_features_centre(const shoali_features *f, size_t frames, float *x);

/** Samples at 16 kHz from 22.05 kHz, by a windowed sinc of 32 taps. out: room for
 * shoali_resample_count. */
size_t shoali_resample_count(size_t count);
void shoali_resample(const int16_t *in, size_t count, float *out);

#endif
