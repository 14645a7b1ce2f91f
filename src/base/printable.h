/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of peers, files and command lines end on terminals, which obey what is in them: none may
 * hold control characters. */
#ifndef SHOALI_BASE_PRINTABLE_H
#define SHOALI_BASE_PRINTABLE_H

#include <stddef.h>

/** Bytes of the character at s, which ends with '\0'. 0: none that may be shown, which are control
 * characters (C1 in UTF-8, too) and what is not UTF-8; overlong forms are the reader's matter. */
size_t shoali_printable(const char *s);

/** Replace each byte that belongs to no such character with '?'. */
void shoali_make_printable(char *text);

/** Make a text fit into `bytes`, with its NUL, by leaving out the middles of its longest words: who
 * typed a name of a thousand letters knows it, and the sentence around it says what is wrong. */
void shoali_shorten(char *text, size_t bytes);

#endif
