/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP behind shoal watch --http: the page, and what it shows as a stream of events, on a
 * thread of its own. Any thread may publish. */
#ifndef SHOAL_CLI_WATCH_HTTP_H
#define SHOAL_CLI_WATCH_HTTP_H

#include <stdbool.h>

#include "http_door.h"

typedef struct watch_http watch_http;

typedef struct watch_http_desc {
    int listener;
    const char *host;        /* as the user gave it: callers may name it, too */
    const char *token;       /* that callers must bring, once: then a cookie is enough */
    const char *certificate; /* PEM; NULL: plain */
    const char *key;
} watch_http_desc;

/** Serves until the process ends, as long as the texts live. NULL: printed why. */
watch_http *watch_http_start(const char *verb, const watch_http_desc *desc);
/** From now on this JSON, one line of it, is what the page shows. False: no memory. */
bool watch_http_publish(watch_http *http, const char *json);

#endif
