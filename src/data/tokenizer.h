/* SPDX-License-Identifier: Apache-2.0 */
/* Text as tokens and back: byte-level BPE (Sennrich et al., ACL 2016, over bytes as in Radford et
 * al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.2), read from Hugging
 * Face's tokenizer.json. A text is cut at its added tokens, then into words by a pattern; within a
 * word the pair of neighbours whose merge was learned first is joined until none is left. Plain
 * bytes are such a tokenizer without merges. WordPiece (Schuster, Nakajima, ICASSP 2012; Devlin et
 * al., 2019) is read, too, from tokenizer.json or BERT's vocab.txt: texts are made plain first
 * (bert_text.h), and a word is cut into the longest tokens, or is unknown. Character sets of
 * lstm-text are one of their own (`characters` below): many texts give the same tokens.
 *
 * tokenizer.json is hostile: what is malformed is ECORRUPT, what is honest but not done here (other
 * models, normalisers, prefixes, vocabularies beyond uint16) EINVAL; both name the member.
 *
 * A tokenizer keeps working memory between calls: one thread at a time. */
#ifndef SHOALI_DATA_TOKENIZER_H
#define SHOALI_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_tokenizer shoali_tokenizer;

enum {
    SHOALI_TOKENS_MAX = 65536,           /* ids are uint16 */
    SHOALI_TOKENIZER_TEXT_MAX = 1 << 30, /* bytes of one text */
    SHOALI_NO_TOKEN = 1 << 30
};

/** Ids that grow; all zero: empty. Free with shoali_ids_free. */
typedef struct shoali_ids {
    uint16_t *ids;
    size_t count, capacity;
} shoali_ids;
void shoali_ids_free(shoali_ids *ids);

/** The 256 bytes by their values, then the end of a text (id 256, "<|endoftext|>"). */
SHOAL_MUST_USE shoal_status shoali_tokenizer_of_bytes(shoali_tokenizer **tokenizer_out);
/** The 64 characters of lstm-text: 0 is every other one; small letters, blanks never repeated. */
SHOAL_MUST_USE shoal_status shoali_tokenizer_of_characters(shoali_tokenizer **tokenizer_out);
/** From a tokenizer.json, or its text (name is for errors); a path that ends in .txt: BERT's
 * vocab.txt. The token "<|endoftext|>" is the end of a text, else "</s>", of WordPiece "[SEP]". */
SHOAL_MUST_USE shoal_status shoali_tokenizer_open(const char *path,
                                                  shoali_tokenizer **tokenizer_out);
SHOAL_MUST_USE shoal_status shoali_tokenizer_parse(const char *name, const char *json,
                                                   size_t len_bytes,
                                                   shoali_tokenizer **tokenizer_out);
/** From the text of a vocab.txt: a token per line. */
SHOAL_MUST_USE shoal_status shoali_tokenizer_parse_vocab(const char *name, const char *text,
                                                         size_t len_bytes,
                                                         shoali_tokenizer **tokenizer_out);
void shoali_tokenizer_close(shoali_tokenizer *tokenizer);

/** Write it as tokenizer.json, which Hugging Face's `tokenizers` reads (but for characters). */
SHOAL_MUST_USE shoal_status shoali_tokenizer_write(const shoali_tokenizer *tokenizer,
                                                   const char *path);
/** A number of all that decides which tokens a text becomes: two of the same number are the same
 * tokenizer, to 64 bits. */
uint64_t shoali_tokenizer_mark(const shoali_tokenizer *tokenizer);

/** One more than the largest id. */
uint32_t shoali_tokenizer_count(const shoali_tokenizer *tokenizer);
/** What stands between texts; SHOALI_NO_TOKEN: there is none. */
uint32_t shoali_tokenizer_end(const shoali_tokenizer *tokenizer);
/** Whether it is that of lstm-text's characters. */
bool shoali_tokenizer_is_characters(const shoali_tokenizer *tokenizer);
/** Whether it is WordPiece: its tokens do not make up the text that they came from. */
bool shoali_tokenizer_is_pieces(const shoali_tokenizer *tokenizer);
/** Bytes of a token, not ended by NUL; an id that is no token has none. */
const char *shoali_tokenizer_text(const shoali_tokenizer *tokenizer, uint32_t id,
                                  size_t *len_bytes_out);
/** What a token adds to a text: of WordPiece a blank in front of words but the first, and no
 * prefix; else its bytes. */
const char *shoali_tokenizer_piece(const shoali_tokenizer *tokenizer, uint32_t id, bool first,
                                   size_t *len_bytes_out);
/** Bytes of text that a token stands for: 0 of the end of a text and of ids that are no token. */
uint32_t shoali_tokenizer_weight(const shoali_tokenizer *tokenizer, uint32_t id);

/**
 * Append the tokens of a text. Bytes that are not UTF-8 are words of their own.
 * @param special true: the texts of added tokens become these; false: they are text like any other.
 * @return SHOAL_OK | EINVAL (a byte that has no token: which; longer than
 * SHOALI_TOKENIZER_TEXT_MAX) | ENOMEM
 * Cost: linear in the text, for words of bounded length.
 */
SHOAL_MUST_USE shoal_status shoali_tokenizer_encode(shoali_tokenizer *tokenizer, const char *text,
                                                    size_t len_bytes, bool special,
                                                    shoali_ids *ids);

/* ---------------------------------------------------------------- learning */

typedef struct shoali_bpe_trainer shoali_bpe_trainer;

/** Learn merges from texts. @param count tokens in the end, 257 .. SHOALI_TOKENS_MAX */
SHOAL_MUST_USE shoal_status shoali_bpe_create(uint32_t count, shoali_bpe_trainer **trainer_out);
/** Count the words of a text. */
SHOAL_MUST_USE shoal_status shoali_bpe_add(shoali_bpe_trainer *trainer, const char *text,
                                           size_t len_bytes);
/** Join the most frequent pair (among equals the one with the smaller first, then second id), until
 * there are so many tokens or no pair occurs twice: ids 0 .. 255 are the bytes, then the merges,
 * the end of a text last. Cost: O(merges x pairs + occurrences of what is merged). */
SHOAL_MUST_USE shoal_status shoali_bpe_learn(shoali_bpe_trainer *trainer,
                                             shoali_tokenizer **tokenizer_out);
void shoali_bpe_destroy(shoali_bpe_trainer *trainer);

#endif
