/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting a text into words by a regular expression, as tokenizers do before they merge: matches
 * are words, and so is what lies between two matches. PCRE2 does the matching. Texts are bytes:
 * those that are not UTF-8 are never part of a match. */
#ifndef SHOALI_DATA_WORDS_H
#define SHOALI_DATA_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_words shoali_words;

/** GPT-2's pattern: contractions, letters, digits, other signs, each with one blank before, blanks.
 * White space is Unicode's White_Space. */
extern const char shoali_words_gpt2[];

/** @return SHOAL_OK | EINVAL (what is wrong in the pattern, and where) | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_words_create(const char *pattern, shoali_words **words_out);
void shoali_words_destroy(shoali_words *words);
const char *shoali_words_pattern(const shoali_words *words);

/** Called for each word, in order; words are never empty and make up the whole text. */
typedef shoal_status (*shoali_word_found)(void *ctx, const char *word, size_t len_bytes);
/** @return SHOAL_OK | what found returned | EINVAL: the pattern backtracks beyond a limit */
SHOAL_MUST_USE shoal_status shoali_words_cut(const shoali_words *words, const char *text,
                                             size_t len_bytes, shoali_word_found found, void *ctx);

#endif
