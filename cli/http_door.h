/* SPDX-License-Identifier: Apache-2.0 */
/* What the pages of the command share: at which address they are, who may read them, and that
 * callers who say nothing keep nobody out. */
#ifndef SHOAL_CLI_HTTP_DOOR_H
#define SHOAL_CLI_HTTP_DOOR_H

#include <microhttpd.h>
#include <stdbool.h>

enum {
    HTTP_CONNECTIONS = 64, /* that are not let stay: then the oldest makes room */
    HTTP_TOKEN_LEAST = 16,
    HTTP_TOKEN_MOST = 256
};

typedef enum http_reach {
    HTTP_NOWHERE, /* it is no address, or does not resolve */
    HTTP_HERE,    /* this host alone can reach it */
    HTTP_OPEN
} http_reach;

/** Of "9464", ":9464" (both: this host only), "127.0.0.1:9464", "[::1]:0", "host:9464". */
http_reach http_address_reach(const char *text);
/** Its host, as it was given and without brackets; "127.0.0.1" where it has none. */
void http_address_host(const char *text, char out[256]);
/** Listen there; option is the one that names the address. @return a descriptor that programs
 * started later inherit, or -1: printed why. */
int http_listen(const char *verb, const char *option, const char *text);
/** The port that it listens at; 0: it does not listen. */
unsigned http_port(int listener);

/** The first line of a file that nobody else can read. False: printed why. */
bool http_read_token(const char *verb, const char *option, const char *path,
                     char token[HTTP_TOKEN_MOST + 1]);
/** Whether it is that token; takes as long whatever is wrong. said NULL: no. */
bool http_token_is(const char *token, const char *said);
/** Whether the caller brings it ("Authorization: Bearer"). */
bool http_brings(struct MHD_Connection *connection, const char *token);

/** Who is connected, the oldest first; the daemon's thread's. It takes 2 * HTTP_CONNECTIONS. */
typedef struct http_crowd {
    struct MHD_Connection *open[2 * HTTP_CONNECTIONS];
    unsigned count;
} http_crowd;

/** For MHD_OPTION_NOTIFY_CONNECTION, with the crowd as its ctx. */
void http_crowd_note(void *crowd, struct MHD_Connection *connection, void **socket_ctx,
                     enum MHD_ConnectionNotificationCode code);
/** This one may stay: it makes room for nobody. */
void http_crowd_let_stay(http_crowd *crowd, const struct MHD_Connection *connection);
void http_hang_up(struct MHD_Connection *connection);

#endif
