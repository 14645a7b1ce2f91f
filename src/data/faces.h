/* SPDX-License-Identifier: Apache-2.0 */
/* The digits of Debian's text fonts as grey bitmaps, drawn once by FreeType without hinting. Only
 * bitmaps leave here: no font is copied anywhere. */
#ifndef SHOALI_DATA_FACES_H
#define SHOALI_DATA_FACES_H

#include "base/arena.h"
#include "shoal/status.h"

enum {
    SHOALI_GLYPH_PIXELS = 96
}; /* em size at which glyphs are drawn: about five times what they become */

typedef struct shoali_glyph {
    const unsigned char *pixels; /* coverage, uint8[height][width] */
    int width, height;
} shoali_glyph;

/** One font: its ten digits. */
typedef struct shoali_face {
    const char *path;
    shoali_glyph digits[10];
} shoali_face;

typedef struct shoali_faces {
    shoali_face *faces; /* sorted by path */
    unsigned count;
} shoali_faces;

/** Load all faces that have ten digits. @return OK | ENOTSUP (a font package is missing) | EIO |
 * ENOMEM */
SHOAL_MUST_USE shoal_status shoali_faces_load(shoal_arena *arena, shoali_faces *faces_out);

#endif
