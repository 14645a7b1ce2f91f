/* SPDX-License-Identifier: Apache-2.0 */
/* A text as BERT's tokenizers see it: cleaned, words without accents and in small letters where
 * that is asked for, cut at white space and around punctuation and ideographs; as Hugging Face's
 * BertNormalizer and BertPreTokenizer have it. Classes of characters are those of PCRE2's Unicode.
 *
 * Spacing marks that stay are not put into canonical order, which no vocabulary has any of. */
#ifndef SHOALI_DATA_BERT_TEXT_H
#define SHOALI_DATA_BERT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_bert_manner {
    bool clean;              /* controls are left out */
    bool chinese;            /* an ideograph is a word */
    bool strip;              /* without accents */
    bool lower;              /* in small letters */
    uint32_t characters_max; /* of a word, at most SHOALI_BERT_CHARACTERS_MAX */
} shoali_bert_manner;
enum { SHOALI_BERT_CHARACTERS_MAX = 4096 };

typedef struct shoali_bert_text shoali_bert_text;
SHOAL_MUST_USE shoal_status shoali_bert_text_create(const shoali_bert_manner *manner,
                                                    shoali_bert_text **text_out);
void shoali_bert_text_destroy(shoali_bert_text *text);
const shoali_bert_manner *shoali_bert_text_manner(const shoali_bert_text *text);

/** Called for each word. word: UTF-8, NULL if it has more than characters_max characters. */
typedef shoal_status (*shoali_bert_word)(void *ctx, const char *word, size_t len_bytes);
/** Bytes that are not UTF-8 are U+FFFD, which cleaning leaves out. @return SHOAL_OK | what found
 * returned */
SHOAL_MUST_USE shoal_status shoali_bert_text_cut(shoali_bert_text *text, const char *bytes,
                                                 size_t len_bytes, shoali_bert_word found,
                                                 void *ctx);
/** The character at s, which is in UTF-8 (RFC 3629), and its length; else U+FFFD and 1. left > 0 */
size_t shoali_utf8_next(const char *s, size_t left, uint32_t *character_out);
/** Into at most 4 bytes; returns how many. */
size_t shoali_utf8_put(uint32_t character, char out[4]);

#endif
