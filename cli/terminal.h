/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal of this process, taken for a page and given back as it was: on return, on exit, on
 * the signals that end a process and on those that stop it. One per process. */
#ifndef SHOAL_CLI_TERMINAL_H
#define SHOAL_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum terminal_event {
    TERMINAL_TIME,    /* nothing came until then */
    TERMINAL_RESIZED, /* or continued after a stop: draw all of it */
    TERMINAL_QUIT,    /* q, Ctrl-D, or a signal: see terminal_leave */
    TERMINAL_UP,      /* keys */
    TERMINAL_DOWN,
    TERMINAL_PAGE_UP,
    TERMINAL_PAGE_DOWN,
    TERMINAL_TOP,
    TERMINAL_BOTTOM
} terminal_event;

/** stdout is a terminal that knows how to move its cursor. */
bool terminal_usable(void);
/** NO_COLOR is not set (https://no-color.org). */
bool terminal_has_colours(void);
/** The locale's characters are UTF-8, and the terminal's font has blocks. */
bool terminal_has_unicode(void);
/** Of stdout, as it is now; 80 and 24 where nobody knows. */
void terminal_size(unsigned *columns_out, unsigned *rows_out);

/** Take it: an alternate page, no cursor, keys without echo. Signals wait for terminal_wait. */
void terminal_enter(void);
/** Bytes, all at once; given up where the terminal is gone, or a signal waits. */
void terminal_write(const char *text, size_t bytes);
/** Wait until CLOCK_MONOTONIC says so, or something comes. */
terminal_event terminal_wait(int64_t until_ms);
/** Give it back. A signal that was to end the process does so now: does not return then. */
void terminal_leave(void);
/** CLOCK_MONOTONIC */
int64_t terminal_now_ms(void);

#endif
