/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of what is kept, as text. */
#ifndef SHOALI_FILES_DIGEST_H
#define SHOALI_FILES_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "data/loader.h"

enum { SHOALI_DIGEST_CHARS = 64 };

/** Under construction; all zero: not begun. Ends in shoali_digest_end. */
typedef struct shoali_digest {
    void *hash;
    bool failed;
} shoali_digest;

void shoali_digest_begin(shoali_digest *digest);
void shoali_digest_add(shoali_digest *digest, const void *bytes, size_t len_bytes);
/** In lower-case hexadecimal; may be called again after more is added. False: no memory for one of
 * these calls. */
bool shoali_digest_text(const shoali_digest *digest, char text_out[SHOALI_DIGEST_CHARS + 1]);
void shoali_digest_end(shoali_digest *digest);

/** Of all samples and labels as they are in memory, whatever their files are called and however
 * they are packed. */
SHOAL_MUST_USE shoal_status shoali_digest_of_data(const shoali_dataset *dataset,
                                                  char text_out[SHOALI_DIGEST_CHARS + 1]);

#endif
