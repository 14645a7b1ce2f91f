/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a tokenizer: tokenizer.c makes and asks it, tokenizer_json.c reads and writes it,
 * words.c cuts texts into words, merges.c joins what is in a word; of WordPiece, bert_text.c cuts,
 * pieces.c matches, pieces_json.c reads. */
#ifndef SHOALI_DATA_TOKENIZER_INNER_H
#define SHOALI_DATA_TOKENIZER_INNER_H

#include "base/arena.h"
#include "data/bert_text.h"
#include "data/tokenizer.h"
#include "data/words.h"

typedef struct shoali_token {
    const char *text; /* in the arena; NULL: no token has this id */
    uint32_t len_bytes;
    bool added, special;
} shoali_token;

/** What two neighbours become; rank: the smaller one is joined first. */
typedef struct shoali_merge {
    uint32_t left, right, rank, id;
} shoali_merge;

/** An added token: found in the text before it is cut into words. */
typedef struct shoali_added {
    uint32_t id;
    bool normalized; /* found after those that are not */
} shoali_added;

typedef struct shoali_symbol {
    uint32_t id;
    int32_t before, next; /* -1: none; id SHOALI_NO_TOKEN: was joined to the one before */
} shoali_symbol;

typedef struct shoali_candidate {
    uint32_t rank, at, id;
} shoali_candidate;

/** WordPiece: the longest token first, those inside a word behind a prefix. */
typedef struct shoali_pieces {
    shoali_bert_text *text; /* NULL: no WordPiece */
    const char *prefix;     /* "##", in the arena */
    char *word;             /* [characters' bytes and prefix] */
    uint32_t prefix_bytes, longest;
    uint32_t unknown; /* the token of words that have none */
    bool cleanup;     /* no blank before punctuation when tokens become text */
} shoali_pieces;

struct shoali_tokenizer {
    shoal_arena *arena;
    shoali_pieces pieces;
    bool characters;
    bool whole_words; /* a word that is a token stays whole (ignore_merges) */
    shoali_token *tokens;
    uint32_t count, end;
    uint32_t byte_ids[256];
    uint32_t *by_text; /* [text_slots] ids by their text's hash, SHOALI_NO_TOKEN: free */
    uint32_t text_slots;
    shoali_merge *merges; /* [merge_slots] by the pair's hash; id SHOALI_NO_TOKEN: free */
    uint32_t merge_slots, merge_count;
    shoali_added *added;
    uint32_t added_count;
    shoali_words *words; /* NULL: nothing is cut */
    /* of merges.c, grown as needed */
    shoali_symbol *symbols;
    shoali_candidate *heap;
    size_t symbol_room, heap_room;
};

/** Room for ids below count and so many merges. */
SHOAL_MUST_USE shoal_status shoali_tokenizer_create(uint32_t count, uint32_t merges,
                                                    shoali_tokenizer **tokenizer_out);
/** Give an id its text; false: no memory. */
bool shoali_tokenizer_set(shoali_tokenizer *t, uint32_t id, const char *text, size_t len_bytes);
/** Enter the texts of all ids into the table, and find the bytes. */
void shoali_tokenizer_index(shoali_tokenizer *t);
/** SHOALI_NO_TOKEN: none, or an added one. */
uint32_t shoali_tokenizer_find(const shoali_tokenizer *t, const char *text, size_t len_bytes);
void shoali_merges_add(shoali_tokenizer *t, shoali_merge merge);
const shoali_merge *shoali_merges_find(const shoali_tokenizer *t, uint32_t left, uint32_t right);
/** The token of merge `rank`; the merges in the order in which they were learned. */
void shoali_merges_in_order(const shoali_tokenizer *t, shoali_merge *out);

/** Make it WordPiece, once its tokens are there and indexed; prefix and unknown are texts.
 * @return SHOAL_OK | EINVAL (no token `unknown`) | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_pieces_set(shoali_tokenizer *t, const shoali_bert_manner *manner,
                                              const char *prefix, const char *unknown,
                                              bool cleanup);
/** Append a text's tokens. */
SHOAL_MUST_USE shoal_status shoali_pieces_apply(shoali_tokenizer *t, const char *text,
                                                size_t len_bytes, shoali_ids *ids);
/** What a token adds to a text, in front of which others stand or, first, none. */
const char *shoali_pieces_text(const shoali_tokenizer *t, uint32_t id, bool first,
                               size_t *len_bytes_out);
/** vocab.txt of BERT, which stands at path: the manners are those of the tokenizer_config.json
 * beside it, if there is one. */
SHOAL_MUST_USE shoal_status shoali_pieces_open(const char *path, const char *text, size_t len_bytes,
                                               shoali_tokenizer **tokenizer_out);
/** As tokenizer.json, without added tokens; NULL: no memory. */
struct json_t *shoali_pieces_to_json(const shoali_tokenizer *t, struct json_t *added,
                                     struct json_t *vocab);

/** Append a word's tokens. */
SHOAL_MUST_USE shoal_status shoali_merges_apply(shoali_tokenizer *t, const char *word,
                                                size_t len_bytes, shoali_ids *ids);
/** Room for `more` ids. */
SHOAL_MUST_USE shoal_status shoali_ids_reserve(shoali_ids *ids, size_t more);

/** lstm-text's characters (text.c): of small letters, ids from 1. */
extern const char shoali_characters[];
/** Tokens of a text's bytes: uint8[len_bytes]; returns how many. */
size_t shoali_characters_clean(const char *text, size_t len_bytes, uint8_t *out);

#endif
