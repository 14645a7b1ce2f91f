/* SPDX-License-Identifier: Apache-2.0 */
/* The helper program that speaks (speech/speak.c): a process of its own behind two pipes. What it
 * says is bounded and checked like a file. */
#ifndef SHOALI_DATA_SPEAKER_H
#define SHOALI_DATA_SPEAKER_H

#include <stdint.h>
#include <stdio.h>

#include "shoal/status.h"

enum { SHOALI_SPOKEN_SAMPLES_MAX = 1 << 22, SHOALI_SPOKEN_PHONEMES_MAX = 8192 };

typedef struct shoali_speaker {
    const char *program; /* borrowed */
    int pid, in, out;    /* in: what it reads */
} shoali_speaker;

typedef struct shoali_phoneme {
    uint32_t sample; /* first one */
    char name[8];
} shoali_phoneme;

/** One utterance; the arrays are SHOALI_SPOKEN_*_MAX long. */
typedef struct shoali_spoken {
    uint32_t rate, samples, phonemes;
    int16_t *sample;
    shoali_phoneme *phoneme;
} shoali_spoken;

SHOAL_MUST_USE shoal_status shoali_speaker_start(const char *program, shoali_speaker *speaker_out);
/** @param line VOICE, RATE, PITCH, TEXT with tabs between and no line end. */
SHOAL_MUST_USE shoal_status shoali_speaker_say(shoali_speaker *speaker, const char *line,
                                               shoali_spoken *spoken);
void shoali_speaker_stop(shoali_speaker *speaker);

#endif
