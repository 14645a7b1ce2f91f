/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as one row of tokens, `train.shoaltok` and `test.shoaltok`, beside the tokenizer.json that
 * made them. All numbers are little-endian:
 *
 *     0   "SHOALTOK"
 *     8   u32 version 1       12  u32 tokens of the vocabulary, 1 .. 65536
 *     16  u64 tokens, above the length      24  u64 shoali_tokenizer_mark
 *     32  u32 length of a sample, 1 .. 65536     36  u32 0
 *     40  u16 token, below the vocabulary's
 *
 * Sample i is tokens [i length, i length + length), each labelled with the next one. Files are
 * mapped, never copied: memory is the kernel's to give back. */
#ifndef SHOALI_DATA_TOKEN_FILE_H
#define SHOALI_DATA_TOKEN_FILE_H

#include "base/new_file.h"
#include "data/loader.h"
#include "data/tokenizer.h"

typedef struct shoali_token_writer {
    shoali_new_file file;
    uint64_t count;
} shoali_token_writer;

/** Ends in finish or shoali_new_file_discard(&writer->file). */
SHOAL_MUST_USE shoal_status shoali_tokens_begin(const char *path, shoali_token_writer *writer_out);
void shoali_tokens_append(shoali_token_writer *writer, const shoali_ids *ids);
/** Head and disk. */
SHOAL_MUST_USE shoal_status shoali_tokens_finish(shoali_token_writer *writer,
                                                 const shoali_tokenizer *tokenizer,
                                                 uint32_t length);

#endif
