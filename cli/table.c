/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <libsmartcols.h>
#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli.h"
#include "terminal.h"

enum { CUT_LEAST = 8, TEXT_LEAST = 24, NOTE = 2 };

struct table {
    struct libscols_table *cells;
    struct libscols_line *row;
    table_column columns[TABLE_COLUMNS_MOST];
    struct libscols_column *made[TABLE_COLUMNS_MOST];
    unsigned width[TABLE_COLUMNS_MOST]; /* 0: left out */
    size_t count, filled;
    unsigned indent;
    bool failed;
    locale_t utf8; /* how wide characters are; 0: there is none, and all is ASCII */
};

/* ---------------------------------------------------------------- filling */

table *table_new(unsigned indent, const table_column *columns, size_t count)
{
    table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->cells = scols_new_table();
    t->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    t->indent = indent;
    t->count = count < TABLE_COLUMNS_MOST ? count : TABLE_COLUMNS_MOST;
    t->failed = t->cells == NULL || scols_table_enable_noencoding(t->cells, 1) != 0 ||
                scols_table_set_termforce(t->cells, SCOLS_TERMFORCE_NEVER) != 0;
    for (size_t i = 0; i < t->count && !t->failed; i++) {
        const int right = (columns[i].may & TABLE_RIGHT) != 0 ? SCOLS_FL_RIGHT : 0;
        const int wraps = (columns[i].may & TABLE_TEXT) != 0 ? SCOLS_FL_WRAP : 0;
        t->columns[i] = columns[i];
        t->made[i] = scols_table_new_column(t->cells, columns[i].name, 0, right | wraps);
        t->failed = t->made[i] == NULL ||
                    (wraps != 0 && scols_column_set_wrapfunc(t->made[i], scols_wrapnl_chunksize,
                                                             scols_wrapnl_nextchunk, NULL) != 0);
    }
    return t;
}

void table_row(table *t)
{
    if (t == NULL || t->failed)
        return;
    t->row = scols_table_new_line(t->cells, NULL);
    t->filled = 0;
    t->failed = t->row == NULL;
}

/* NULL: no memory. */
static char *text_of(const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return NULL;
    cli_make_printable(text);
    return text;
}

void table_add(table *t, const char *format, ...)
{
    va_list args;
    if (t == NULL || t->failed || t->row == NULL || t->filled == t->count)
        return;
    va_start(args, format);
    char *text = text_of(format, args);
    va_end(args);
    t->failed = text == NULL || scols_line_refer_data(t->row, t->filled++, text) != 0;
}

void table_note(table *t, const char *format, ...)
{
    va_list args;
    char *both = NULL;
    if (t == NULL || t->failed || t->row == NULL)
        return;
    va_start(args, format);
    char *text = text_of(format, args);
    va_end(args);
    char *before = scols_line_get_userdata(t->row);
    t->failed = text == NULL || asprintf(&both, "%s%s\n", before != NULL ? before : "", text) < 0;
    free(text);
    if (t->failed)
        return;
    free(before);
    (void)scols_line_set_userdata(t->row, both);
}

/* ---------------------------------------------------------------- fitting */

/* Cells of a terminal that the first bytes take. */
static unsigned cells_of(const char *text, size_t bytes)
{
    mbstate_t state = {0};
    wchar_t one;
    unsigned cells = 0;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = mbrtowc(&one, text + at, bytes - at, &state);
        if (length == 0 || length > bytes - at)
            return cells + (unsigned)(bytes - at);
        cells += wcwidth(one) > 0 ? (unsigned)wcwidth(one) : 0;
    }
    return cells;
}

/* Bytes of the most characters that fit into the cells. */
static size_t bytes_in(const char *text, unsigned cells)
{
    size_t bytes = 0, next = 0;
    do {
        bytes = next;
        if (text[next] == '\0')
            break;
        do
            next++;
        while ((text[next] & 0xC0) == 0x80);
    } while (cells_of(text, next) <= cells);
    return bytes;
}

/* "runs/a-long...name/step-20" */
static void cut(char *text, unsigned width)
{
    const unsigned tail_cells = (width - 3) / 2;
    if (cells_of(text, strlen(text)) <= width)
        return;
    char *head = text + bytes_in(text, width - 3 - tail_cells);
    const char *tail = head;
    while (cells_of(tail, strlen(tail)) > tail_cells)
        do
            tail++;
        while ((*tail & 0xC0) == 0x80);
    memcpy(head, "...", 3); /* something of at least four cells is left out, or of three bytes */
    memmove(head + 3, tail, strlen(tail) + 1);
}

/* A word that is longer than a line has one of its own, and is left whole, as paths are. */
static void wrap(char *text, unsigned width)
{
    char *line = text;
    for (char *blank = strchr(text, ' '); blank != NULL; blank = strchr(blank + 1, ' ')) {
        const size_t word = strcspn(blank + 1, " ");
        if (cells_of(line, (size_t)(blank + 1 - line) + word) <= width)
            continue;
        *blank = '\n';
        line = blank + 1;
    }
}

/* As wide as the library makes it: it prints the heads once only, so that it cannot be asked. */
static void measure(table *t)
{
    for (size_t i = 0; i < t->count; i++)
        t->width[i] = cells_of(t->columns[i].name, strlen(t->columns[i].name));
    for (size_t r = 0; r < scols_table_get_nlines(t->cells); r++)
        for (size_t i = 0; i < t->count; i++) {
            struct libscols_line *row = scols_table_get_line(t->cells, r);
            const char *data = scols_cell_get_data(scols_line_get_cell(row, i));
            const unsigned width = data != NULL ? cells_of(data, strlen(data)) : 0;
            t->width[i] = width > t->width[i] ? width : t->width[i];
        }
}

/* Never less than its head. */
static unsigned least_of(const table *t, size_t i)
{
    const int may = t->columns[i].may;
    const unsigned head = cells_of(t->columns[i].name, strlen(t->columns[i].name));
    const unsigned least = (may & TABLE_CUT) != 0    ? CUT_LEAST
                           : (may & TABLE_TEXT) != 0 ? TEXT_LEAST
                                                     : t->width[i];
    return least >= t->width[i] ? t->width[i] : least > head ? least : head;
}

/* With a blank behind each column but the last. */
static unsigned total(const table *t, bool least)
{
    unsigned sum = t->indent;
    for (size_t i = 0; i < t->count; i++)
        if (t->width[i] > 0)
            sum += (least ? least_of(t, i) : t->width[i]) + 1;
    return sum > 0 ? sum - 1 : 0;
}

static void leave_out(table *t, unsigned width)
{
    for (size_t i = t->count; i-- > 0 && total(t, true) > width;)
        if ((t->columns[i].may & TABLE_SPARE) != 0) {
            t->width[i] = 0;
            (void)scols_column_set_flags(t->made[i],
                                         scols_column_get_flags(t->made[i]) | SCOLS_FL_HIDDEN);
        }
}

/* The widest of those that can, again and again. */
static void narrow(table *t, unsigned width)
{
    for (unsigned sum = total(t, false); sum > width; sum--) {
        size_t widest = t->count;
        for (size_t i = 0; i < t->count; i++)
            if (t->width[i] > least_of(t, i) &&
                (widest == t->count || t->width[i] > t->width[widest]))
                widest = i;
        if (widest == t->count)
            return;
        t->width[widest]--;
    }
}

static void rewrite(table *t, struct libscols_line *row)
{
    for (size_t i = 0; i < t->count && !t->failed; i++) {
        const int may = t->columns[i].may & (TABLE_CUT | TABLE_TEXT);
        const char *data = scols_cell_get_data(scols_line_get_cell(row, i));
        char *text = may != 0 && t->width[i] > 0 && data != NULL ? strdup(data) : NULL;
        if (text == NULL)
            continue;
        if ((may & TABLE_CUT) != 0)
            cut(text, t->width[i]);
        else
            wrap(text, t->width[i]);
        t->failed = scols_line_set_data(row, i, text) != 0;
        free(text);
    }
}

static void fit(table *t, unsigned width)
{
    measure(t);
    leave_out(t, width);
    if (total(t, false) <= width)
        return;
    narrow(t, width);
    for (size_t i = 0; i < scols_table_get_nlines(t->cells); i++)
        rewrite(t, scols_table_get_line(t->cells, i));
}

/* ---------------------------------------------------------------- printing */

/* Without the blanks that end its lines. */
static void print_lines(const char *text, unsigned indent, FILE *out)
{
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        size_t shown = length;
        while (shown > 0 && text[shown - 1] == ' ')
            shown--;
        fprintf(out, "%*s%.*s\n", shown > 0 ? (int)indent : 0, "", (int)shown, text);
        text += length + (text[length] == '\n');
    }
}

/* Each of its lines, for the width; 0: as long as it is. */
static void print_notes(const table *t, char *notes, unsigned width, FILE *out)
{
    for (char *note = notes, *end; (end = strchr(note, '\n')) != NULL; note = end + 1) {
        *end = '\0';
        if (width > t->indent + NOTE)
            wrap(note, width - t->indent - NOTE);
        print_lines(note, t->indent + NOTE, out);
    }
}

/* Rows up to the next that has a note, which follows it. @return the row behind them */
static size_t print_rows(table *t, size_t from, unsigned width, FILE *out)
{
    size_t to = from;
    char *text = NULL;
    while (to + 1 < scols_table_get_nlines(t->cells) &&
           scols_line_get_userdata(scols_table_get_line(t->cells, to)) == NULL)
        to++;
    struct libscols_line *last = scols_table_get_line(t->cells, to);
    t->failed = scols_table_print_range_to_string(t->cells, scols_table_get_line(t->cells, from),
                                                  last, &text) != 0;
    if (!t->failed)
        print_lines(text, t->indent, out);
    free(text);
    if (!t->failed && scols_line_get_userdata(last) != NULL)
        print_notes(t, scols_line_get_userdata(last), width, out);
    return to + 1;
}

static void print_left_out(const table *t, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < t->count; i++)
        if (t->width[i] == 0) {
            fprintf(out, "%*s%s%s", any ? 0 : (int)t->indent, "",
                    any ? ", " : "no room here for: ", t->columns[i].name);
            any = true;
        }
    if (any)
        fputc('\n', out);
}

static void release(table *t)
{
    for (size_t i = 0; t->cells != NULL && i < scols_table_get_nlines(t->cells); i++)
        free(scols_line_get_userdata(scols_table_get_line(t->cells, i)));
    scols_unref_table(t->cells);
    if (t->utf8 != (locale_t)0)
        freelocale(t->utf8);
    free(t);
}

void table_print(table *t, FILE *out)
{
    unsigned columns = 0, rows;
    if (t == NULL) {
        fputs("shoal: no memory for a table\n", stderr);
        return;
    }
    const locale_t before = uselocale(t->utf8);
    if (isatty(fileno(out)))
        terminal_size(&columns, &rows);
    if (columns > 0 && !t->failed)
        fit(t, columns);
    for (size_t at = 0; !t->failed && at < scols_table_get_nlines(t->cells);)
        at = print_rows(t, at, columns, out);
    if (columns > 0 && !t->failed)
        print_left_out(t, out);
    if (t->failed)
        fputs("shoal: no memory for a table\n", stderr);
    uselocale(before);
    release(t);
}
