/* SPDX-License-Identifier: Apache-2.0 */
/* What the two kinds of text data sets share. */
#ifndef SHOALI_DATA_TEXT_H
#define SHOALI_DATA_TEXT_H

#include "data/documents.h"
#include "shoal/data.h"

/** The files that a description names, or Debian's. */
SHOAL_MUST_USE shoal_status shoali_text_find(shoal_arena *arena, const shoal_text_desc *desc,
                                             shoali_documents *documents_out);
/** Make the folder. EINVAL: it holds a data set of another form than the loader's of this name. */
SHOAL_MUST_USE shoal_status shoali_text_folder(const char *dir, const char *loader);
/** shoal_text_make with tokens other than characters. */
SHOAL_MUST_USE shoal_status shoali_text_tokens(const shoal_text_desc *desc,
                                               shoal_text_info *info_out);

#endif
