/* SPDX-License-Identifier: Apache-2.0 */
/* How far a long command is. On a terminal one line with a bar, fitted to its width, from the
 * second second on; elsewhere a line of text every ten seconds. Nothing here reads a clock, a
 * terminal or the environment: progress_show.c does. */
#ifndef SHOAL_CLI_PROGRESS_H
#define SHOAL_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct progress_bar {
    const char *verb;   /* "train" */
    const char *unit;   /* "steps" */
    bool terminal;      /* the bar; else lines */
    double done, total; /* total 0: not known */
    char note[120];     /* what else there is to say, "": nothing */

    /* kept by the functions below */
    double first;               /* what was done when it began */
    int64_t began_ms, shown_ms; /* shown_ms < 0: not yet */
    bool counting, visible, hidden;
} progress_bar;

/** A longest line, with what moves the cursor. */
enum { PROGRESS_BYTES = 400 };

void progress_init(progress_bar *p, const char *verb, const char *unit, bool terminal,
                   int64_t now_ms);
/** So much is done; the rate counts from the first call. note NULL: as before. */
void progress_set(progress_bar *p, double done, double total, const char *note);
/** What is to be written now; 0 bytes: nothing. columns: of the terminal. */
size_t progress_tick(progress_bar *p, int64_t now_ms, unsigned columns, char out[PROGRESS_BYTES]);
/** What takes the bar away, until the next progress_set; 0 bytes: none is visible. */
size_t progress_hide(progress_bar *p, char out[PROGRESS_BYTES]);

#endif
