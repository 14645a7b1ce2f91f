/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that a data set is made of: files, and all below folders. */
#ifndef SHOALI_DATA_DOCUMENTS_H
#define SHOALI_DATA_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "shoal/status.h"

enum { SHOALI_DOCUMENT_BYTES_MAX = 1 << 28 };

typedef struct shoali_documents {
    char **paths; /* of the arena; by path within each folder */
    size_t count, room;
} shoali_documents;

/** Regular files of these paths. Folders are entered; links in them are not followed, and names
 * that begin with a dot are left out.
 * @return SHOAL_OK | EIO (names the path) | EINVAL (one of them is empty) | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_documents_find(shoal_arena *arena, const char *const *paths,
                                                  uint32_t count, shoali_documents *documents_out);

/** What an installed Debian holds that is meant to be read: licences, and of /usr/share/doc what is
 * called copyright, README, NEWS, FAQ, *.txt or *.md. Two hosts hold different packages. */
SHOAL_MUST_USE shoal_status shoali_documents_of_debian(shoal_arena *arena,
                                                       shoali_documents *documents_out);

/** Read one, plain or gzip's. Caller frees *text_out (shoali_free); NULL: it holds a zero byte near
 * its begin, so it is no text.
 * @return SHOAL_OK | EIO | ECORRUPT (a broken .gz; too long) | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_document_read(const char *path, char **text_out,
                                                 size_t *len_bytes_out);

#endif
