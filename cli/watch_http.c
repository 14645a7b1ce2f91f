/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_http.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli.h"
#include "terminal.h"
#include "watch_stream.h"

enum {
    CONNECTION_S = 5,          /* without a byte either way */
    REQUEST_BYTES = 32 * 1024, /* head of a request, and what of an answer is on its way */
    SESSION_BYTES = 32
};

struct watch_http {
    watch_http_desc desc;
    struct MHD_Daemon *daemon;
    http_crowd crowd;
    watch_streams *streams;
    char cookie[32];                     /* its name: other ports of this host have others */
    char session[2 * SESSION_BYTES + 1]; /* and its value: what else is at this host gets it, too,
                                             and could not bring the token */
};

static const unsigned char page_html[] = {
#include "watch_html.inc"
};
static const unsigned char page_css[] = {
#include "watch_css.inc"
};
static const unsigned char page_js[] = {
#include "watch_js.inc"
};

/* ------------------------------------------------------------------ who may read */

/* A site of somebody's that gives its own name this address (DNS rebinding) is not let in: no
 * browser takes an address for a name. */
static bool is_our_name(const watch_http *http, const char *said)
{
    char name[256], own[256] = "";
    unsigned char address[sizeof(struct in6_addr)];
    if (said == NULL || strlen(said) >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%s", said);
    char *colon = strrchr(name, ':');
    if (colon != NULL && strchr(colon, ']') == NULL)
        *colon = '\0';
    if (name[0] == '[') {
        name[strcspn(name, "]")] = '\0';
        return inet_pton(AF_INET6, name + 1, address) == 1;
    }
    if (gethostname(own, sizeof own - 1) != 0)
        own[0] = '\0';
    return inet_pton(AF_INET, name, address) == 1 || strcasecmp(name, "localhost") == 0 ||
           strcasecmp(name, http->desc.host) == 0 || (own[0] != '\0' && strcasecmp(name, own) == 0);
}

static bool may_read(const watch_http *http, struct MHD_Connection *connection)
{
    return http_brings(connection, http->desc.token) ||
           http_token_is(http->session,
                         MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, http->cookie));
}

/* ------------------------------------------------------------------ answers */

typedef struct header {
    const char *name, *value;
} header;

/* Nothing comes from elsewhere, nothing is kept, nobody frames it, and no text becomes a script. */
static const header always[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"}};

/* The response is gone afterwards. */
static enum MHD_Result reply(struct MHD_Connection *connection, unsigned code, const char *type,
                             const header *more, struct MHD_Response *response)
{
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result = MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; result == MHD_YES && i < sizeof always / sizeof always[0]; i++)
        result = MHD_add_response_header(response, always[i].name, always[i].value);
    if (result == MHD_YES && more != NULL)
        result = MHD_add_response_header(response, more->name, more->value);
    if (result == MHD_YES)
        result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

/* What lives as long as the process. */
static enum MHD_Result reply_with(struct MHD_Connection *connection, unsigned code,
                                  const char *type, const header *more, const void *bytes,
                                  size_t length)
{
    return reply(
        connection, code, type, more,
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned code, const header *more,
                           const char *sentence)
{
    return reply_with(connection, code, "text/plain; charset=utf-8", more, sentence,
                      strlen(sentence));
}

/* The token was brought: from now on the cookie is, and no script can read it. */
static enum MHD_Result let_in(const watch_http *http, struct MHD_Connection *connection)
{
    char value[200];
    snprintf(value, sizeof value, "%s=%s; Path=/; HttpOnly; SameSite=Strict%s", http->cookie,
             http->session, http->desc.certificate != NULL ? "; Secure" : "");
    return say(connection, MHD_HTTP_OK, &(header){"Set-Cookie", value}, "Come in.\n");
}

static enum MHD_Result stream(watch_http *http, struct MHD_Connection *connection, bool head)
{
    static const char type[] = "text/event-stream; charset=utf-8";
    if (head)
        return reply_with(connection, MHD_HTTP_OK, type, NULL, "", 0);
    struct MHD_Response *response = watch_streams_open(http->streams, connection);
    if (response == NULL)
        return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, &(header){"Retry-After", "5"},
                   "Too many watch already.\n");
    http_crowd_let_stay(&http->crowd, connection);
    return reply(connection, MHD_HTTP_OK, type, NULL, response);
}

/* ------------------------------------------------------------------ what there is */

static const struct {
    const char *url, *type;
    const unsigned char *bytes;
    size_t length;
} files[] = {{"/", "text/html; charset=utf-8", page_html, sizeof page_html},
             {"/watch.css", "text/css; charset=utf-8", page_css, sizeof page_css},
             {"/watch.js", "text/javascript; charset=utf-8", page_js, sizeof page_js}};

/* Nobody's secrets: the page itself asks for the token. */
static enum MHD_Result answer_file(struct MHD_Connection *connection, const char *url)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(url, files[i].url) == 0)
            return reply_with(connection, MHD_HTTP_OK, files[i].type, NULL, files[i].bytes,
                              files[i].length);
    if (strcmp(url, "/favicon.ico") == 0) /* all browsers ask for it */
        return reply_with(connection, MHD_HTTP_NO_CONTENT, "image/png", NULL, "", 0);
    return say(connection, MHD_HTTP_NOT_FOUND, NULL, "There is nothing of that name here.\n");
}

static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request)
{
    watch_http *http = ctx;
    const bool head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    const bool told = strcmp(url, "/events") == 0 || strcmp(url, "/state") == 0;
    (void)version, (void)upload, (void)upload_bytes, (void)request;
    if (!is_our_name(http, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host")))
        return say(connection, MHD_HTTP_MISDIRECTED_REQUEST, NULL,
                   "This host does not know the name that you called it by.\n");
    if (!head && strcmp(method, MHD_HTTP_METHOD_GET) != 0)
        return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, &(header){"Allow", "GET, HEAD"},
                   "Only to be looked at.\n");
    if (!told && strcmp(url, "/enter") != 0)
        return answer_file(connection, url);
    if (told ? !may_read(http, connection) : !http_brings(connection, http->desc.token))
        return say(connection, MHD_HTTP_UNAUTHORIZED, &(header){"WWW-Authenticate", "Bearer"},
                   "The token is missing, or another one.\n");
    if (!told)
        return let_in(http, connection);
    if (strcmp(url, "/events") == 0)
        return stream(http, connection, head);
    return reply(connection, MHD_HTTP_OK, "application/json", NULL,
                 watch_streams_last(http->streams));
}

/* ------------------------------------------------------------------ beginning and end */

static bool draw_session(watch_http *http)
{
    unsigned char bytes[SESSION_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(http->session + 2 * i, 3, "%02x", bytes[i]);
    snprintf(http->cookie, sizeof http->cookie, "shoal-watch-%u", http_port(http->desc.listener));
    return true;
}

static struct MHD_Daemon *start(watch_http *http)
{
    const bool tls = http->desc.certificate != NULL;
    const unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           (tls ? MHD_USE_TLS : 0u);
    struct MHD_OptionItem secret[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)http->desc.certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)http->desc.key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0,
         (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(
        flags, 0, NULL, NULL, answer, http, MHD_OPTION_LISTEN_SOCKET, http->desc.listener,
        MHD_OPTION_CONNECTION_LIMIT, 2u * HTTP_CONNECTIONS + WATCH_STREAMS,
        MHD_OPTION_NOTIFY_CONNECTION, http_crowd_note, &http->crowd, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)CONNECTION_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
        MHD_OPTION_ARRAY, tls ? secret : none, MHD_OPTION_END);
}

watch_http *watch_http_start(const char *verb, const watch_http_desc *desc)
{
    watch_http *http = calloc(1, sizeof *http);
    if (http == NULL || (http->streams = watch_streams_new()) == NULL) {
        free(http);
        (void)cli_fail(verb, "no memory for a page");
        return NULL;
    }
    http->desc = *desc;
    if (draw_session(http) && (http->daemon = start(http)) != NULL)
        return http;
    (void)cli_fail(verb, desc->certificate != NULL
                             ? "cannot serve: --tls-cert and --tls-key are not a certificate and "
                               "its key, or there is no thread for it"
                             : "cannot serve: no thread, or no memory, for it");
    watch_streams_free(http->streams);
    free(http);
    return NULL;
}

bool watch_http_publish(watch_http *http, const char *json)
{
    return watch_streams_publish(http->streams, json, terminal_now_ms());
}
