/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of tokenizer.json have in common: tokenizer_json.c (BPE), pieces_json.c
 * (WordPiece). */
#ifndef SHOALI_DATA_TOKENIZER_READ_H
#define SHOALI_DATA_TOKENIZER_READ_H

#include <jansson.h>

#include "data/tokenizer_inner.h"

enum { SHOALI_TOKENIZER_TOKEN_MAX = 4096 }; /* bytes of one token and NUL */

typedef struct shoali_tokenizer_reader {
    const char *name;
    const json_t *root, *model;
    shoali_tokenizer *t;
} shoali_tokenizer_reader;

/** EINVAL: what is honest and not done here. */
shoal_status shoali_tokenizer_refuse(const shoali_tokenizer_reader *r, const char *what);
/** ECORRUPT. */
shoal_status shoali_tokenizer_bad(const shoali_tokenizer_reader *r, const char *what,
                                  const char *which);
bool shoali_tokenizer_is_type(const json_t *part, const char *type);
/** null, false, 0, "" or not there. */
bool shoali_tokenizer_absent(const json_t *value);
/** Ids below, of a vocabulary and of added tokens; 0: one is out of bounds. */
uint32_t shoali_tokenizer_count_ids(const json_t *vocab, const json_t *added);
/** Added tokens into r->t. */
SHOAL_MUST_USE shoal_status shoali_tokenizer_read_added(shoali_tokenizer_reader *r,
                                                        const json_t *added, const json_t *vocab);
/** A root whose model is WordPiece. */
SHOAL_MUST_USE shoal_status shoali_pieces_read(shoali_tokenizer_reader *r,
                                               shoali_tokenizer **tokenizer_out);
bool shoali_pieces_are(const json_t *model);

#endif
