/* SPDX-License-Identifier: Apache-2.0 */
/* Click logs: samples of categorical fields, each an id of one vocabulary, and whether there was a
 * click. A file, little-endian, plain or .gz:
 *
 *     0 "SHOALCLK" | 8 version 1, u32 | 12 fields u32 | 16 vocabulary u32 | 20 samples u32
 *     u8 click of each sample, 0 or 1
 *     u32 ids, sample by sample, field by field */
#ifndef SHOALI_DATA_CLICKS_H
#define SHOALI_DATA_CLICKS_H

#include "data/loader.h"

/** Ids are exact in float32. */
enum { SHOALI_CLICKS_FIELDS_MAX = 1024, SHOALI_CLICKS_VOCAB_MAX = 1 << 24 };

typedef struct shoali_clicks {
    uint32_t fields, vocab, count;
    uint8_t *clicks; /* [count] */
    uint32_t *ids;   /* [count][fields] */
} shoali_clicks;

SHOAL_MUST_USE shoal_status shoali_clicks_write(const char *path, const shoali_clicks *clicks);
/** Into memory of arena. path: without .gz. */
SHOAL_MUST_USE shoal_status shoali_clicks_read(const char *dir, const char *name,
                                               shoal_arena *arena, shoali_clicks *clicks_out);

#endif
