/* SPDX-License-Identifier: Apache-2.0 */
#include "data/faces.h"

#include <dirent.h>
#include <ft2build.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include FT_FREETYPE_H

#include "base/error.h"

/* Fixed, so that a host with more fonts makes the same images. */
static const struct {
    const char *dir, *package;
} sources[] = {{"/usr/share/fonts/opentype/comic-neue", "fonts-comic-neue"},
               {"/usr/share/fonts/opentype/urw-base35", "fonts-urw-base35"},
               {"/usr/share/fonts/truetype/croscore", "fonts-croscore"},
               {"/usr/share/fonts/truetype/dejavu", "fonts-dejavu"},
               {"/usr/share/fonts/truetype/freefont", "fonts-freefont-ttf"},
               {"/usr/share/fonts/truetype/lato", "fonts-lato"},
               {"/usr/share/fonts/truetype/liberation", "fonts-liberation"}};
enum { SOURCE_COUNT = sizeof sources / sizeof sources[0], FACES_MAX = 512 };

static shoal_status missing(const char *dir, const char *package)
{
    (void)shoali_fail(SHOAL_ENOTSUP, "no fonts in %s, of which the digits are drawn", dir);
    shoali_error_advice("apt-get install %s", package);
    return SHOAL_ENOTSUP;
}

/* ---------------------------------------------------------------- finding */

static int is_font(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    if (strncmp(entry->d_name, "D050000L", 8) == 0)
        return 0; /* dingbats: its digits are ornaments */
    return end != NULL && (strcmp(end, ".ttf") == 0 || strcmp(end, ".otf") == 0);
}

/* Byte order, not that of the user's locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static shoal_status list_fonts(shoal_arena *arena, const char *dir, const char *package,
                               const char **paths, unsigned *count)
{
    struct dirent **entries;
    char path[512];
    shoal_status status = SHOAL_OK;
    int found = scandir(dir, &entries, is_font, by_name);
    if (found <= 0)
        return missing(dir, package);
    for (int i = 0; i < found; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        if (status == SHOAL_OK && *count < FACES_MAX) {
            paths[*count] = shoali_arena_strdup(arena, path);
            status = paths[(*count)++] != NULL ? SHOAL_OK : SHOAL_ENOMEM;
        }
        (free)(entries[i]); /* scandir's own */
    }
    (free)(entries);
    return status;
}

/* ---------------------------------------------------------------- drawing */

/* One digit; a false *usable_out: the font has none, or an empty one. */
static shoal_status draw_digit(FT_Face face, int digit, shoal_arena *arena, shoali_glyph *glyph,
                               bool *usable_out)
{
    FT_UInt index = FT_Get_Char_Index(face, (FT_ULong)('0' + digit));
    *usable_out = false;
    if (index == 0 || FT_Load_Glyph(face, index, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) != 0 ||
        FT_Render_Glyph(face->glyph, FT_RENDER_MODE_NORMAL) != 0)
        return SHOAL_OK;
    const FT_Bitmap *bitmap = &face->glyph->bitmap;
    if (bitmap->rows == 0 || bitmap->width == 0 || bitmap->pixel_mode != FT_PIXEL_MODE_GRAY ||
        bitmap->pitch < 0)
        return SHOAL_OK;
    unsigned char *pixels = shoali_arena_array(arena, bitmap->rows, bitmap->width);
    if (pixels == NULL)
        return SHOAL_ENOMEM;
    for (unsigned row = 0; row < bitmap->rows; row++)
        memcpy(pixels + (size_t)row * bitmap->width,
               bitmap->buffer + (size_t)row * (unsigned)bitmap->pitch, bitmap->width);
    *glyph = (shoali_glyph){pixels, (int)bitmap->width, (int)bitmap->rows};
    *usable_out = true;
    return SHOAL_OK;
}

static shoal_status draw_face(FT_Library library, const char *path, shoal_arena *arena,
                              shoali_face *out, bool *usable_out)
{
    FT_Face face;
    shoal_status status = SHOAL_OK;
    *usable_out = false;
    if (FT_New_Face(library, path, 0, &face) != 0)
        return SHOAL_OK; /* a font that FreeType cannot read is none */
    *usable_out = FT_Set_Pixel_Sizes(face, 0, SHOALI_GLYPH_PIXELS) == 0;
    out->path = path;
    for (int digit = 0; digit < 10 && status == SHOAL_OK && *usable_out; digit++)
        status = draw_digit(face, digit, arena, &out->digits[digit], usable_out);
    FT_Done_Face(face);
    return status;
}

static shoal_status draw_all(FT_Library library, shoal_arena *arena, shoali_faces *out)
{
    const char *paths[FACES_MAX];
    unsigned count = 0;
    for (size_t i = 0; i < SOURCE_COUNT; i++)
        SHOALI_TRY(list_fonts(arena, sources[i].dir, sources[i].package, paths, &count));
    out->count = 0;
    out->faces = shoali_arena_array(arena, count, sizeof *out->faces);
    if (out->faces == NULL)
        return SHOAL_ENOMEM;
    for (unsigned i = 0; i < count; i++) {
        bool usable;
        SHOALI_TRY(draw_face(library, paths[i], arena, &out->faces[out->count], &usable));
        out->count += usable;
    }
    return SHOAL_OK;
}

shoal_status shoali_faces_load(shoal_arena *arena, shoali_faces *faces_out)
{
    FT_Library library;
    if (FT_Init_FreeType(&library) != 0)
        return shoali_fail(SHOAL_ESYSTEM, "FreeType does not start");
    shoal_status status = draw_all(library, arena, faces_out);
    FT_Done_FreeType(library);
    if (status == SHOAL_OK && faces_out->count < 10)
        return shoali_fail(SHOAL_ENOTSUP, "only %u fonts have ten digits", faces_out->count);
    return status;
}
