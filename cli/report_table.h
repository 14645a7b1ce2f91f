/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the page, and what stands in their cells: everything is escaped. */
#ifndef SHOAL_CLI_REPORT_TABLE_H
#define SHOAL_CLI_REPORT_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum { REPORT_ROWS_MOST = 1024 }; /* of a table; what is left out is said below it */

/** A member of a column: how the values of a key are written. */
typedef struct report_column {
    const char *head, *key;
    double scale;       /* of numbers; 0: as they are */
    const char *format; /* "%.4g"; NULL: a text, or a whole number */
} report_column;

/** "" where it is no text; NAN where it is no number. */
const char *report_text(const json_t *object, const char *key);
double report_number(const json_t *object, const char *key);

/** The list's objects as rows, of which the first column heads each. Keyboards can scroll it. */
void report_table(FILE *out, const char *caption, const report_column *columns, size_t count,
                  const json_t *list);
/** The same that is there to be opened below a picture. */
void report_folded(FILE *out, const char *caption, const report_column *columns, size_t count,
                   const json_t *list);
void report_table_begin(FILE *out, const char *caption);
void report_table_end(FILE *out);
/** <th scope="col">; text is escaped. */
void report_head(FILE *out, const char *text);
/** A value as a cell: numbers by format, what is not known as a dash. */
void report_cell(FILE *out, const json_t *value, const report_column *column, bool heads_row);

#endif
