/* SPDX-License-Identifier: Apache-2.0 */
/* What is said in the generated speech corpus, by whom, and what its sounds are called. */
#ifndef SHOALI_DATA_SPEECH_TEXT_H
#define SHOALI_DATA_SPEECH_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOALI_PHONEMES = 40, SHOALI_UTTERANCE_BYTES = 256 };

/** One of the speakers of a split: an accent and a voice; no voice is in both splits. */
void shoali_speech_voice(bool test, uint64_t draw, char *out, size_t out_bytes);

/** Words with spaces, of real English and of made-up syllables, drawn by (seed, number). */
void shoali_speech_words(uint64_t seed, uint64_t number, char out[SHOALI_UTTERANCE_BYTES]);

/** Class 1 .. 39 of espeak-ng's mnemonic of a phoneme (8 bytes, 0 behind its end), 0 of a pause.
 * The longest known beginning decides; what is not known at all counts as a schwa. */
uint32_t shoali_speech_class(const char mnemonic[8]);

/** Name of a class in ARPAbet, TIMIT's letters. NULL: no such class. */
const char *shoali_speech_class_name(uint32_t class_);

#endif
