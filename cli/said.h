/* SPDX-License-Identifier: Apache-2.0 */
/* What a command says of itself on standard error, beside the bar that a terminal has: lines of
 * text, or with --log-format json (SHOAL_LOG_FORMAT=json) objects as the library's log has them, so
 * that what collects lines can read each. */
#ifndef SHOAL_CLI_SAID_H
#define SHOAL_CLI_SAID_H

#include <stdbool.h>
#include <stddef.h>

#include "shoal/status.h"

typedef enum said_level { SAID_INFO, SAID_WARN, SAID_ERROR } said_level;

bool said_as_json(void);
/** A line, "shoal train: ..."; advice: NULL, or lines below it, in an object a field. */
void said_line(said_level level, const char *text, const char *advice);
/** The same, of what a verb says, made of a format: cut after 1 KB. */
void said(said_level level, const char *verb, const char *format, ...) SHOAL_PRINTF(3, 4);
/** The line in `out`, with its end, for who may not make one when it is due; an object has no time
 *  then. */
void said_later(said_level level, const char *text, char *out, size_t bytes);

#endif
