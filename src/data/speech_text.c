/* SPDX-License-Identifier: Apache-2.0 */
#include "data/speech_text.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const char *const accents[] = {"en-us", "en-gb-x-rp", "en-gb-scotland", "en-029"};
static const char *const train_voices[] = {
    "m1",     "m2",   "m3",     "m4",      "m5",     "f1",      "f2",       "f3",
    "f4",     "adam", "linda",  "klatt",   "klatt2", "klatt4",  "Alex",     "Andy",
    "Annie",  "Gene", "Lee",    "Michael", "Mike",   "antonio", "benjamin", "boris",
    "david",  "ed",   "edward", "john",    "max",    "miguel",  "pablo",    "paul",
    "quincy", "rob",  "robert", "sandro",  "shelby", "steph",   "travis",   "zac",
};
static const char *const test_voices[] = {"m6", "m7", "m8", "f5", "belinda", "klatt3"};

void shoali_speech_voice(bool test, uint64_t draw, char *out, size_t out_bytes)
{
    size_t voices = test ? COUNT(test_voices) : COUNT(train_voices);
    const char *voice = (test ? test_voices : train_voices)[draw / COUNT(accents) % voices];
    snprintf(out, out_bytes, "%s+%s", accents[draw % COUNT(accents)], voice);
}

/* ---------------------------------------------------------------- words */

static const char *const words[] = {
    "the",    "of",       "and",      "water",   "house",    "people",   "measure", "children",
    "think",  "through",  "another",  "because", "picture",  "church",   "judge",   "vision",
    "yellow", "young",    "voice",    "point",   "mountain", "about",    "round",   "again",
    "father", "mother",   "singing",  "morning", "evening",  "zero",     "seven",   "eight",
    "nine",   "hundred",  "thousand", "please",  "could",    "should",   "would",   "very",
    "many",   "green",    "orange",   "purple",  "garden",   "window",   "kitchen", "market",
    "letter", "winter",   "summer",   "thing",   "there",    "pleasure", "usual",   "joy",
    "object", "question", "answer",   "village", "machine",  "network",  "worker",  "ocean",
};
static const char *const onsets[] = {"b",  "d",  "f",  "g",  "h",  "j",  "k",  "l",  "m",
                                     "n",  "p",  "r",  "s",  "t",  "v",  "w",  "y",  "z",
                                     "ch", "sh", "th", "st", "pl", "br", "tr", "gr", "fl"};
static const char *const nuclei[] = {"a",  "e",  "i",  "o",  "u",  "ee", "oo", "ai",
                                     "oi", "ou", "oa", "ar", "or", "er", "ay", "igh"};
static const char *const codas[] = {"",  "b",  "d",  "g",  "k",  "l",  "m",  "n",  "p",  "s",
                                    "t", "ch", "sh", "th", "ng", "nt", "st", "ve", "ze", "dge"};

static const char *pick(shoali_rng *rng, const char *const *list, size_t count)
{
    return list[shoali_rng_next(rng) % count];
}

void shoali_speech_words(uint64_t seed, uint64_t number, char out[SHOALI_UTTERANCE_BYTES])
{
    shoali_rng rng = {seed, shoali_mix(0x776f726473, number), 0}; /* "words" */
    size_t count = 2 + shoali_rng_next(&rng) % 4, used = 0;
    for (size_t i = 0; i < count; i++) {
        const char *gap = i > 0 ? " " : "";
        if (shoali_rng_next(&rng) % 2 == 0) {
            used += (size_t)snprintf(out + used, SHOALI_UTTERANCE_BYTES - used, "%s%s", gap,
                                     pick(&rng, words, COUNT(words)));
            continue;
        }
        size_t syllables = 1 + shoali_rng_next(&rng) % 2;
        for (size_t s = 0; s < syllables; s++, gap = "") {
            const char *onset = pick(&rng, onsets, COUNT(onsets));
            const char *nucleus = pick(&rng, nuclei, COUNT(nuclei));
            used += (size_t)snprintf(out + used, SHOALI_UTTERANCE_BYTES - used, "%s%s%s%s", gap,
                                     onset, nucleus, pick(&rng, codas, COUNT(codas)));
        }
    }
}

/* ---------------------------------------------------------------- phonemes */

/* TIMIT's 39 folded phones but for the flap, which counts as t (specs as in Lee and Hon, 1989). */
static const char *const names[SHOALI_PHONEMES] = {
    "sil", "p",  "b",  "t",  "d",  "k",  "g",  "f",  "v",  "th", "dh", "s",  "z",  "sh",
    "ch",  "jh", "h",  "m",  "n",  "ng", "l",  "r",  "w",  "y",  "ih", "eh", "ae", "ah",
    "ao",  "uh", "ax", "er", "iy", "aa", "uw", "ey", "ay", "ow", "oy", "aw"};

/* Beginnings of espeak-ng's mnemonics. */
static const struct {
    const char *beginning, *name;
} mnemonics[] = {{"_", "sil"}, {"p", "p"},   {"b", "b"},   {"t", "t"},  {"?", "t"},   {"d", "d"},
                 {"k", "k"},   {"x", "k"},   {"g", "g"},   {"f", "f"},  {"v", "v"},   {"T", "th"},
                 {"D", "dh"},  {"s", "s"},   {"z", "z"},   {"S", "sh"}, {"Z", "sh"},  {"tS", "ch"},
                 {"dZ", "jh"}, {"h", "h"},   {"C", "h"},   {"m", "m"},  {"n", "n"},   {"N", "ng"},
                 {"l", "l"},   {"r", "r"},   {"R", "r"},   {"w", "w"},  {"j", "y"},   {";", "y"},
                 {"I", "ih"},  {"E", "eh"},  {"e", "eh"},  {"a", "ae"}, {"a#", "ax"}, {"V", "ah"},
                 {"0", "ao"},  {"O", "ao"},  {"o", "ao"},  {"U", "uh"}, {"@", "ax"},  {"3", "er"},
                 {"3:", "er"}, {"i", "iy"},  {"A", "aa"},  {"u", "uw"}, {"eI", "ey"}, {"aI", "ay"},
                 {"oU", "ow"}, {"@U", "ow"}, {"OI", "oy"}, {"aU", "aw"}};

const char *shoali_speech_class_name(uint32_t class_)
{
    return class_ < SHOALI_PHONEMES ? names[class_] : NULL;
}

uint32_t shoali_speech_class(const char mnemonic[8])
{
    const char *best = "ax";
    size_t longest = 0;
    for (size_t i = 0; i < COUNT(mnemonics); i++) {
        size_t length = strlen(mnemonics[i].beginning);
        if (length > longest && strncmp(mnemonic, mnemonics[i].beginning, length) == 0) {
            longest = length;
            best = mnemonics[i].name;
        }
    }
    uint32_t class_ = 0;
    while (strcmp(names[class_], best) != 0)
        class_++;
    return class_;
}
