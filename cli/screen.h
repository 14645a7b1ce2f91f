/* SPDX-License-Identifier: Apache-2.0 */
/* A page of lines on a terminal, of which only those that differ from what is there are written
 * again, all in one piece. Nothing here reads a terminal, a clock or the environment: terminal.h
 * does. Escapes are those that every terminal since the VT102 knows. */
#ifndef SHOAL_CLI_SCREEN_H
#define SHOAL_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "shoal/status.h"

/** Larger terminals are used so far; a cell takes four bytes at most, and there are colours. */
enum { SCREEN_COLUMNS = 320, SCREEN_ROWS = 200 };

typedef enum screen_style {
    SCREEN_PLAIN,
    SCREEN_BOLD,
    SCREEN_DIM,
    SCREEN_RED,
    SCREEN_YELLOW
} screen_style;

typedef struct screen screen;

/** NULL: no memory. colour: styles are shown; unicode: characters beyond ASCII are. */
screen *screen_new(bool colour, bool unicode);
/** NULL is allowed. */
void screen_free(screen *s);
bool screen_unicode(const screen *s);

/** So large it is now; another size than before is drawn as a whole. */
void screen_resize(screen *s, unsigned columns, unsigned rows);
/** Whatever was shown is there no more (another program wrote): draw it as a whole. */
void screen_forget(screen *s);
/** Cells of a line that may be used: one less than there are, as some terminals wrap. */
unsigned screen_width(const screen *s);
unsigned screen_height(const screen *s);

/** A new page: no line has anything on it. */
void screen_clear(screen *s);
/** Behind what the line has; cut at the width. What a terminal would obey, bytes that are no UTF-8
 * and, without unicode, all beyond ASCII become '?', marks without a width vanish. */
void screen_put(screen *s, unsigned row, screen_style style, const char *format, ...)
    SHOAL_PRINTF(4, 5);
/** Blanks up to a column, from 0. */
void screen_pad(screen *s, unsigned row, unsigned column);
/** Bytes that make the terminal show the page; 0: it does. *text_out lives until the next call. */
size_t screen_draw(screen *s, const char **text_out);

#endif
