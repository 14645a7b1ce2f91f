/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_http.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum {
    CONNECTIONS = 64, /* then the oldest makes room */
    CONNECTION_S = 1, /* without a byte */
    TOKEN_LEAST = 16,
    TOKEN_MOST = 256
};

struct metrics_http {
    metrics_fill fill;
    void *ctx;
    struct MHD_Daemon *daemon;
    struct MHD_Connection *open[2 * CONNECTIONS]; /* the oldest first; its thread's */
    unsigned count;
    char token[TOKEN_MOST + 1]; /* "": none is asked for */
};

/* ------------------------------------------------------------------ where */

static struct addrinfo *resolve(const char *text)
{
    char host[256];
    const char *colon = strrchr(text, ':'), *port = colon != NULL ? colon + 1 : text;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *list = NULL;
    int64_t number;
    const size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    if (length >= sizeof host || !cli_parse_int(port, 0, 65535, &number))
        return NULL;
    const bool bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(bracketed ? length - 2 : length),
             bracketed ? text + 1 : text);
    return getaddrinfo(host[0] != '\0' ? host : "127.0.0.1", port, &hints, &list) == 0 ? list
                                                                                       : NULL;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)a;
    return a->sa_family == AF_INET && ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

metrics_reach metrics_address_reach(const char *text)
{
    struct addrinfo *where = resolve(text);
    if (where == NULL)
        return METRICS_NOWHERE;
    const metrics_reach reach = is_loopback(where->ai_addr) ? METRICS_HERE : METRICS_OPEN;
    freeaddrinfo(where);
    return reach;
}

int metrics_listen(const char *verb, const char *text)
{
    struct addrinfo *where = resolve(text);
    const int one = 1;
    if (where == NULL) {
        (void)cli_fail(verb,
                       "cannot serve metrics at --metrics %s: that is no address of the form "
                       "[HOST:]PORT that resolves",
                       text);
        return -1;
    }
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        const int why = errno;
        (void)cli_fail(verb, "cannot serve metrics at --metrics %s: %s%s", text, strerror(why),
                       why == EADDRINUSE ? "; give each job a port of its own, or 0 for a free one"
                                         : "");
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(where);
    return fd;
}

unsigned metrics_port(int listener)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.v6 = {.sin6_family = AF_UNSPEC}};
    socklen_t bytes = sizeof at;
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
        getsockname(listener, &at.any, &bytes) != 0)
        return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

/* ------------------------------------------------------------------ who may read */

/* A line of printable characters that nobody else can read. */
static bool read_token(const char *verb, const char *path, char token[TOKEN_MOST + 1])
{
    struct stat about;
    FILE *file = cli_open(path);
    if (file == NULL) {
        (void)cli_fail(verb, "cannot read --metrics-token-file %s: %s", path, strerror(errno));
        return false;
    }
    const bool own = fstat(fileno(file), &about) == 0 && (about.st_mode & 077) == 0;
    const size_t got = fread(token, 1, TOKEN_MOST, file);
    fclose(file);
    token[got] = '\0';
    token[strcspn(token, "\r\n")] = '\0';
    const char *why = !own                          ? "others may read it: chmod 600"
                      : strlen(token) < TOKEN_LEAST ? "it holds fewer than 16 characters"
                      : strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                      "0123456789-._~+/=") < strlen(token)
                          ? "it holds what no bearer token may: openssl rand -hex 32 makes one"
                          : NULL;
    if (why != NULL)
        (void)cli_fail(verb, "--metrics-token-file %s: %s", path, why);
    return why == NULL;
}

/* Takes as long whatever is wrong. */
static bool may_read(const metrics_http *http, struct MHD_Connection *connection)
{
    static const char scheme[] = "Bearer ";
    const char *said = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (http->token[0] == '\0')
        return true;
    if (said == NULL || strncmp(said, scheme, sizeof scheme - 1) != 0)
        return false;
    said += sizeof scheme - 1;
    const size_t length = strlen(http->token);
    unsigned differ = strlen(said) != length;
    for (size_t i = 0; i < length && said[i] != '\0'; i++)
        differ |= (unsigned char)(said[i] ^ http->token[i]);
    return differ == 0;
}

/* ------------------------------------------------------------------ HTTP */

static enum MHD_Result answer_with(struct MHD_Connection *connection, unsigned code,
                                   const char *type, char *text, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, mode);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (result == MHD_YES && code == MHD_HTTP_UNAUTHORIZED)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (result == MHD_YES)
        result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_page(const metrics_http *http, struct MHD_Connection *connection,
                                   const char *accept)
{
    char *text = NULL;
    size_t bytes;
    metrics_page page = {.out = open_memstream(&text, &bytes),
                         .open_metrics = accept != NULL &&
                                         strstr(accept, "application/openmetrics-text") != NULL,
                         .prefix = ""};
    if (page.out == NULL)
        return MHD_NO;
    http->fill(http->ctx, &page);
    metrics_end(&page);
    if (fclose(page.out) != 0) {
        free(text);
        return MHD_NO;
    }
    return answer_with(connection, MHD_HTTP_OK,
                       page.open_metrics
                           ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                           : "text/plain; version=0.0.4; charset=utf-8",
                       text, MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request)
{
    static char unknown[] = "There is /metrics here.\n", stranger[] = "The token is missing.\n",
                plain[] = "text/plain; charset=utf-8";
    const metrics_http *http = ctx;
    (void)version, (void)upload, (void)upload_bytes, (void)request;
    if (!may_read(http, connection))
        return answer_with(connection, MHD_HTTP_UNAUTHORIZED, plain, stranger,
                           MHD_RESPMEM_PERSISTENT);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
        return answer_with(connection, MHD_HTTP_METHOD_NOT_ALLOWED, plain, unknown,
                           MHD_RESPMEM_PERSISTENT);
    if (strcmp(url, "/metrics") != 0)
        return answer_with(connection, MHD_HTTP_NOT_FOUND, plain, unknown, MHD_RESPMEM_PERSISTENT);
    return answer_page(http, connection,
                       MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept"));
}

static void hang_up_on_oldest(const metrics_http *http)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        http->open[http->count - CONNECTIONS - 1], MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != NULL)
        (void)shutdown(info->connect_fd, SHUT_RDWR);
}

/* Called by the daemon's one thread. Who connects and says nothing keeps nobody else out. */
static void note(void *ctx, struct MHD_Connection *connection, void **socket_ctx,
                 enum MHD_ConnectionNotificationCode code)
{
    metrics_http *http = ctx;
    (void)socket_ctx;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        http->open[http->count++] = connection;
        if (http->count > CONNECTIONS)
            hang_up_on_oldest(http);
        return;
    }
    unsigned i = 0;
    while (i < http->count && http->open[i] != connection)
        i++;
    if (i == http->count)
        return;
    http->count--;
    memmove(&http->open[i], &http->open[i + 1], (http->count - i) * sizeof http->open[0]);
}

metrics_http *metrics_http_start(const char *verb, int listener, const char *token_file,
                                 metrics_fill fill, void *ctx)
{
    metrics_http *http = calloc(1, sizeof *http);
    if (http == NULL || (token_file != NULL && !read_token(verb, token_file, http->token))) {
        free(http);
        return NULL;
    }
    http->fill = fill;
    http->ctx = ctx;
    http->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC, 0, NULL, NULL, answer, http,
        MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, 2u * CONNECTIONS,
        MHD_OPTION_NOTIFY_CONNECTION, note, http, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)CONNECTION_S, MHD_OPTION_END);
    if (http->daemon != NULL)
        return http;
    (void)cli_fail(verb, "cannot serve metrics: no thread, or no memory, for it");
    free(http);
    return NULL;
}

void metrics_http_end(metrics_http *http)
{
    if (http == NULL)
        return;
    (void)MHD_quiesce_daemon(http->daemon); /* or it would shut the listener down for all */
    MHD_stop_daemon(http->daemon);
    free(http);
}
