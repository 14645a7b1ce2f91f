/* SPDX-License-Identifier: Apache-2.0 */
/* What tokenizers make of single characters: letters without their accents, small letters. */
#ifndef SHOALI_DATA_UNICODE_FOLD_H
#define SHOALI_DATA_UNICODE_FOLD_H

#include <stddef.h>
#include <stdint.h>

enum { SHOALI_FOLD_MAX = 3 };

/** What a character decomposes to canonically, nonspacing marks left out; the character itself if
 * it does not. A mark alone is not looked at. @return how many, 1 .. SHOALI_FOLD_MAX */
uint32_t shoali_fold_bases(uint32_t c, uint32_t out[SHOALI_FOLD_MAX]);
/** The small letter, of one character; U+0130, whose small letter is two, stays. */
uint32_t shoali_fold_small(uint32_t c);

#endif
