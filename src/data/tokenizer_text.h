/* SPDX-License-Identifier: Apache-2.0 */
/* How tokenizer.json shows bytes: printable ones of Latin-1 as themselves, the others, in order, as
 * the characters from U+0100 on (GPT-2's table). */
#ifndef SHOALI_DATA_TOKENIZER_TEXT_H
#define SHOALI_DATA_TOKENIZER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define SHOALI_END_TEXT "<|endoftext|>"
#define SHOALI_CHARACTERS_TYPE "ShoalCharacters" /* lstm-text's; no type of anybody else's */

/** Bytes of a text in such characters; false: another one, or no room. */
bool shoali_text_to_bytes(const char *text, char *bytes_out, size_t room, size_t *len_bytes_out);
/** The reverse, with NUL; room: 2 len_bytes + 1. */
void shoali_bytes_to_text(const char *bytes, size_t len_bytes, char *text_out);

#endif
