/* SPDX-License-Identifier: Apache-2.0 */
#include "data/table_file.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"

enum { VALUES_MAX = 1 << 20, SHOWN = 24 };

typedef struct cursor {
    const char *what, *at;
    uint64_t row, column; /* from 1, as people count */
} cursor;

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

static size_t field_length(const char *at)
{
    return strcspn(at, ",\r\n");
}

static bool is_number(const char *at, size_t length)
{
    size_t digits = 0;
    while (digits < length && at[digits] >= '0' && at[digits] <= '9')
        digits++;
    return digits > 0 && digits == length;
}

/* A whole number up to most, and what ends its field. */
static shoal_status read_number(cursor *c, uint32_t most, uint32_t *value_out)
{
    c->at = skip_blanks(c->at);
    size_t length = field_length(c->at), used = length;
    uint32_t value = 0;
    while (used > 0 && (c->at[used - 1] == ' ' || c->at[used - 1] == '\t'))
        used--;
    bool good = is_number(c->at, used) && used <= 6;
    for (size_t i = 0; good && i < used; i++)
        value = 10 * value + (uint32_t)(c->at[i] - '0');
    if (!good || value > most)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s, row %llu, column %llu: '%.*s' instead of a whole number from 0 to "
                           "%u",
                           c->what, (unsigned long long)c->row, (unsigned long long)c->column,
                           (int)(length < SHOWN ? length : SHOWN), c->at, most);
    c->at += length;
    *value_out = value;
    return SHOAL_OK;
}

/* Behind the end of a line and of empty ones. */
static const char *next_line(const char *at)
{
    at += strspn(at, "\r\n");
    return at;
}

static uint32_t count_fields(const char *line)
{
    uint32_t fields = 1;
    for (; *line != '\0' && *line != '\r' && *line != '\n'; line++)
        fields += *line == ',';
    return fields;
}

static bool is_label_name(const char *at, size_t length)
{
    static const char *const names[] = {"label", "class", "target", "y"};
    const size_t quote = length >= 2 && at[0] == '"' && at[length - 1] == '"' ? 1 : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length - 2 * quote &&
            strncmp(names[i], at + quote, length - 2 * quote) == 0)
            return true;
    return false;
}

/* Where the class is, and where the first row of numbers begins. */
static void read_names(cursor *c, uint32_t *label_out)
{
    const char *at = skip_blanks(c->at);
    *label_out = 0;
    if (is_number(at, field_length(at)))
        return;
    for (uint32_t column = 0;; column++) {
        const size_t length = field_length(at);
        if (is_label_name(at, length))
            *label_out = column;
        at += length;
        if (*at != ',')
            break;
        at++;
    }
    c->at = next_line(at);
    c->row++;
}

static shoal_status read_row(cursor *c, uint32_t label_at, uint32_t row, shoali_table *t)
{
    uint8_t *pixel = t->pixels + (size_t)row * t->values;
    for (uint32_t column = 0; column <= t->values; column++) {
        uint32_t value = 0;
        c->column = column + 1;
        SHOALI_TRY(read_number(c, column == label_at ? UINT16_MAX : UINT8_MAX, &value));
        if (column == label_at)
            t->labels[row] = (uint16_t)value;
        else
            *pixel++ = (uint8_t)value;
        const bool last = column == t->values;
        if (last ? *c->at == ',' : *c->at != ',')
            return shoali_fail(SHOAL_ECORRUPT,
                               "%s, row %llu has %s than %u columns, as those before", c->what,
                               (unsigned long long)c->row, last ? "more" : "fewer", t->values + 1);
        c->at += !last;
    }
    c->at = next_line(c->at);
    c->row++;
    return SHOAL_OK;
}

static uint64_t count_rows(const char *at)
{
    uint64_t rows = 0;
    while (*at != '\0') {
        at = next_line(at + strcspn(at, "\r\n"));
        rows++;
    }
    return rows;
}

shoal_status shoali_table_read(const char *what, const char *text, size_t len_bytes,
                               shoal_arena *arena, shoali_table *table_out)
{
    cursor c = {what, text, 1, 0};
    uint32_t label_at = 0;
    if (strlen(text) != len_bytes)
        return shoali_fail(SHOAL_ECORRUPT, "%s, byte %zu: a zero byte, so it is no CSV file", what,
                           strlen(text));
    c.at = next_line(c.at);
    read_names(&c, &label_at);
    const uint64_t rows = count_rows(c.at);
    const uint32_t fields = count_fields(c.at);
    if (rows == 0 || fields < 2 || fields > VALUES_MAX || label_at >= fields || rows > UINT32_MAX)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s: %llu rows of %u columns; a row needs a class and 1 to %d pixels, "
                           "with commas between",
                           what, (unsigned long long)rows, fields, VALUES_MAX - 1);
    shoali_table t = {.rows = (uint32_t)rows, .values = fields - 1};
    if (rows * fields > len_bytes) /* a value has a character at least, and one behind it */
        return shoali_fail(SHOAL_ECORRUPT, "%s: its rows have not all %u columns of the first",
                           what, fields);
    t.labels = shoali_arena_array(arena, t.rows, sizeof *t.labels);
    t.pixels = shoali_arena_array(arena, t.rows, t.values);
    if (t.labels == NULL || t.pixels == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t row = 0; row < t.rows; row++)
        SHOALI_TRY(read_row(&c, label_at, row, &t));
    *table_out = t;
    return SHOAL_OK;
}
