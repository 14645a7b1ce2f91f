/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people, by libsmartcols: columns are as wide as what stands in them. On a terminal
 * they are fitted to its width; a file or a pipe gets all of it, whatever COLUMNS says. */
#ifndef SHOAL_CLI_TABLE_H
#define SHOAL_CLI_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "shoal/status.h"

/** What a column may do where there is no room for it. */
enum {
    TABLE_PLAIN = 0,
    TABLE_RIGHT = 1, /* as numbers are */
    TABLE_CUT = 2,   /* the middle of what is longer is left out, down to eight characters */
    TABLE_TEXT = 4,  /* goes on in the next line, at a blank */
    TABLE_SPARE = 8  /* left out, the last one first, and its name is said below the table */
};
enum { TABLE_COLUMNS_MOST = 32 };

typedef struct table_column {
    const char *name;
    int may;
} table_column;

typedef struct table table;

/** All lines begin with so many blanks. NULL: no memory, which table_print tells. */
table *table_new(unsigned indent, const table_column *columns, size_t count);
/** The next row; cells that are not added are empty. */
void table_row(table *t);
/** The next cell of the row. What a terminal would obey becomes '?'. */
void table_add(table *t, const char *format, ...) SHOAL_PRINTF(2, 3);
/** A line below the row, two blanks to the right; it goes on in the next as texts do. */
void table_note(table *t, const char *format, ...) SHOAL_PRINTF(2, 3);
/** Nothing where there is no row. The table is gone then. */
void table_print(table *t, FILE *out);

#endif
