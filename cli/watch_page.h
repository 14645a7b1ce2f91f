/* SPDX-License-Identifier: Apache-2.0 */
/* shoal watch --http: the jobs as a page that a browser shows, until a signal ends it. */
#ifndef SHOAL_CLI_WATCH_PAGE_H
#define SHOAL_CLI_WATCH_PAGE_H

#include <stdbool.h>

typedef struct watch_page_options {
    const char *address; /* [HOST:]PORT; NULL: a free port of this host alone */
    const char *place;   /* the job; NULL: all of this user */
    double interval_s;
    bool json;
    const char *token_file;         /* NULL: draw one */
    const char *tls_cert, *tls_key; /* NULL: plain */
} watch_page_options;

/** @return an exit code: it could not begin */
int watch_page(const watch_page_options *options);

#endif
