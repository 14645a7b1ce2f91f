/* SPDX-License-Identifier: Apache-2.0 */
#include "screen.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum {
    LINE_BYTES = 6 * SCREEN_COLUMNS,
    STYLE_BYTES = 16, /* a colour and its end */
    MOVE_BYTES = 24,  /* to a line, and the rest of it away */
    PUT_BYTES = 4096
};

typedef struct line {
    size_t bytes;
    unsigned cells;
    char text[LINE_BYTES];
} line;

struct screen {
    bool colour, unicode, stale;
    unsigned columns, rows;
    locale_t utf8; /* 0: there is none, and all beyond ASCII is '?' */
    line page[SCREEN_ROWS], shown[SCREEN_ROWS];
    char out[SCREEN_ROWS * (LINE_BYTES + MOVE_BYTES) + MOVE_BYTES];
};

screen *screen_new(bool colour, bool unicode)
{
    screen *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    s->colour = colour;
    s->unicode = unicode && s->utf8 != (locale_t)0;
    s->stale = true;
    return s;
}

void screen_free(screen *s)
{
    if (s != NULL && s->utf8 != (locale_t)0)
        freelocale(s->utf8);
    free(s);
}

bool screen_unicode(const screen *s)
{
    return s->unicode;
}

void screen_resize(screen *s, unsigned columns, unsigned rows)
{
    columns = columns < SCREEN_COLUMNS ? columns : SCREEN_COLUMNS;
    rows = rows < SCREEN_ROWS ? rows : SCREEN_ROWS;
    s->stale = s->stale || columns != s->columns || rows != s->rows;
    s->columns = columns;
    s->rows = rows;
}

void screen_forget(screen *s)
{
    s->stale = true;
}

unsigned screen_width(const screen *s)
{
    return s->columns > 1 ? s->columns - 1 : 1;
}

unsigned screen_height(const screen *s)
{
    return s->rows > 0 ? s->rows : 1;
}

void screen_clear(screen *s)
{
    for (unsigned row = 0; row < SCREEN_ROWS; row++)
        s->page[row].bytes = s->page[row].cells = 0;
}

/* ------------------------------------------------------------------ putting */

static void add(line *to, const char *bytes, size_t count)
{
    memcpy(to->text + to->bytes, bytes, count);
    to->bytes += count;
}

/* One character of text, as it may be shown. @return bytes that it takes; 0: at the end. */
static size_t take(const screen *s, const char *text, const char **shown_out, int *cells_out)
{
    static const char unknown[] = "?";
    mbstate_t state = {0};
    wchar_t one = 0;
    size_t length = mbrtowc(&one, text, MB_CUR_MAX, &state);
    const bool is_text = length > 0 && length <= MB_CUR_MAX && wcwidth(one) >= 0;
    *shown_out = is_text && (s->unicode || one < 0x80) ? text : unknown;
    *cells_out = *shown_out == text ? wcwidth(one) : 1;
    if (is_text)
        return length;
    return *text == '\0' ? 0 : length > 0 && length <= MB_CUR_MAX ? length : 1;
}

static void put_text(screen *s, line *to, const char *text)
{
    const unsigned width = screen_width(s);
    const locale_t before = uselocale(s->utf8);
    const char *shown;
    int cells;
    for (size_t length = take(s, text, &shown, &cells); length > 0;
         text += length, length = take(s, text, &shown, &cells)) {
        const size_t bytes = shown == text ? length : 1;
        if (cells == 0) /* marks, and what turns the direction of writing */
            continue;
        if (to->cells + (unsigned)cells > width || to->bytes + bytes + STYLE_BYTES > LINE_BYTES)
            break;
        add(to, shown, bytes);
        to->cells += (unsigned)cells;
    }
    uselocale(before);
}

void screen_put(screen *s, unsigned row, screen_style style, const char *format, ...)
{
    static const char *const begins[] = {"", "\033[1m", "\033[2m", "\033[31m", "\033[33m"};
    const bool styled = s->colour && style != SCREEN_PLAIN;
    char text[PUT_BYTES];
    va_list args;
    if (row >= screen_height(s) || row >= SCREEN_ROWS)
        return;
    line *to = &s->page[row];
    if (to->bytes + STYLE_BYTES > LINE_BYTES)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (styled)
        add(to, begins[style], strlen(begins[style]));
    put_text(s, to, text);
    if (styled)
        add(to, "\033[m", 3);
}

void screen_pad(screen *s, unsigned row, unsigned column)
{
    if (row < screen_height(s) && row < SCREEN_ROWS && s->page[row].cells < column)
        screen_put(s, row, SCREEN_PLAIN, "%*s", (int)(column - s->page[row].cells), "");
}

/* ------------------------------------------------------------------ drawing */

static bool is_shown(const screen *s, unsigned row)
{
    const line *page = &s->page[row], *shown = &s->shown[row];
    return page->bytes == shown->bytes && memcmp(page->text, shown->text, page->bytes) == 0;
}

size_t screen_draw(screen *s, const char **text_out)
{
    size_t used = 0;
    if (s->stale) {
        used += (size_t)snprintf(s->out, MOVE_BYTES, "\033[H\033[2J");
        for (unsigned row = 0; row < SCREEN_ROWS; row++)
            s->shown[row].bytes = 0;
    }
    for (unsigned row = 0; row < screen_height(s) && row < SCREEN_ROWS; row++) {
        const line *page = &s->page[row];
        if (is_shown(s, row))
            continue;
        used += (size_t)snprintf(s->out + used, MOVE_BYTES, "\033[%u;1H", row + 1);
        memcpy(s->out + used, page->text, page->bytes);
        used += page->bytes;
        memcpy(s->out + used, "\033[K", 3);
        used += 3;
        s->shown[row].bytes = page->bytes;
        memcpy(s->shown[row].text, page->text, page->bytes);
    }
    s->stale = false;
    *text_out = s->out;
    return used;
}
