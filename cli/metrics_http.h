/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP behind --metrics: GET /metrics at one address, on a thread of its own. */
#ifndef SHOAL_CLI_METRICS_HTTP_H
#define SHOAL_CLI_METRICS_HTTP_H

#include "metrics_page.h"

typedef struct metrics_http metrics_http;

/** Fills a page, on the server's thread. */
typedef void (*metrics_fill)(void *ctx, metrics_page *page);
/** Serve until ended. token_file: whose first line callers must bring ("Authorization: Bearer"),
 * NULL: anybody who can connect may read. listener stays the caller's; other processes may hold it,
 * too, and serve when this one is gone. NULL: printed why. */
metrics_http *metrics_http_start(const char *verb, int listener, const char *token_file,
                                 metrics_fill fill, void *ctx);
void metrics_http_end(metrics_http *http); /* NULL is allowed */

#endif
