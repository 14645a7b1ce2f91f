/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP behind --metrics: GET /metrics at one address, on a thread of its own. */
#ifndef SHOAL_CLI_METRICS_HTTP_H
#define SHOAL_CLI_METRICS_HTTP_H

#include "metrics_page.h"

typedef struct metrics_http metrics_http;

typedef enum metrics_reach {
    METRICS_NOWHERE, /* it is no address, or does not resolve */
    METRICS_HERE,    /* this host alone can reach it */
    METRICS_OPEN
} metrics_reach;

/** Of "9464", ":9464" (both: this host only), "127.0.0.1:9464", "[::1]:0", "host:9464". */
metrics_reach metrics_address_reach(const char *text);
/** Listen there. @return a descriptor that programs started later inherit, or -1: printed why. */
int metrics_listen(const char *verb, const char *text);
/** The port that it listens at; 0: it does not listen. */
unsigned metrics_port(int listener);

/** Fills a page, on the server's thread. */
typedef void (*metrics_fill)(void *ctx, metrics_page *page);
/** Serve until ended. token_file: whose first line callers must bring ("Authorization: Bearer"),
 * NULL: anybody who can connect may read. listener stays the caller's; other processes may hold it,
 * too, and serve when this one is gone. NULL: printed why. */
metrics_http *metrics_http_start(const char *verb, int listener, const char *token_file,
                                 metrics_fill fill, void *ctx);
void metrics_http_end(metrics_http *http); /* NULL is allowed */

#endif
