/* SPDX-License-Identifier: Apache-2.0 */
#include "http_door.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* ------------------------------------------------------------------ where */

void http_address_host(const char *text, char out[256])
{
    const char *colon = strrchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    const bool bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    snprintf(out, 256, "%.*s", (int)(bracketed ? length - 2 : length), bracketed ? text + 1 : text);
    if (length == 0)
        snprintf(out, 256, "127.0.0.1");
}

static struct addrinfo *resolve(const char *text)
{
    char host[256];
    const char *colon = strrchr(text, ':'), *port = colon != NULL ? colon + 1 : text;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *list = NULL;
    int64_t number;
    if ((colon != NULL && (size_t)(colon - text) >= sizeof host) ||
        !cli_parse_int(port, 0, 65535, &number))
        return NULL;
    http_address_host(text, host);
    return getaddrinfo(host, port, &hints, &list) == 0 ? list : NULL;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)a;
    return a->sa_family == AF_INET && ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

http_reach http_address_reach(const char *text)
{
    struct addrinfo *where = resolve(text);
    if (where == NULL)
        return HTTP_NOWHERE;
    const http_reach reach = is_loopback(where->ai_addr) ? HTTP_HERE : HTTP_OPEN;
    freeaddrinfo(where);
    return reach;
}

int http_listen(const char *verb, const char *option, const char *text)
{
    struct addrinfo *where = resolve(text);
    const int one = 1;
    if (where == NULL) {
        (void)cli_fail(verb,
                       "cannot serve at %s %s: that is no address of the form [HOST:]PORT that "
                       "resolves",
                       option, text);
        return -1;
    }
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        const int why = errno;
        (void)cli_fail(verb, "cannot serve at %s %s: %s%s", option, text, strerror(why),
                       why == EADDRINUSE ? "; each needs a port of its own, 0 is a free one" : "");
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(where);
    return fd;
}

unsigned http_port(int listener)
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

bool http_read_token(const char *verb, const char *option, const char *path,
                     char token[HTTP_TOKEN_MOST + 1])
{
    struct stat about;
    FILE *file = cli_open(path);
    if (file == NULL) {
        (void)cli_fail(verb, "cannot read %s %s: %s", option, path, strerror(errno));
        return false;
    }
    const bool own = fstat(fileno(file), &about) == 0 && (about.st_mode & 077) == 0;
    const size_t got = fread(token, 1, HTTP_TOKEN_MOST, file);
    fclose(file);
    token[got] = '\0';
    token[strcspn(token, "\r\n")] = '\0';
    const char *why = !own                               ? "others may read it: chmod 600"
                      : strlen(token) < HTTP_TOKEN_LEAST ? "it holds fewer than 16 characters"
                      : strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                      "0123456789-._~+/=") < strlen(token)
                          ? "it holds what no bearer token may: openssl rand -hex 32 makes one"
                          : NULL;
    if (why != NULL)
        (void)cli_fail(verb, "%s %s: %s", option, path, why);
    return why == NULL;
}

bool http_token_is(const char *token, const char *said)
{
    if (said == NULL)
        return false;
    const size_t length = strlen(token);
    unsigned differ = strlen(said) != length;
    for (size_t i = 0; i < length && said[i] != '\0'; i++)
        differ |= (unsigned char)(said[i] ^ token[i]);
    return differ == 0;
}

bool http_brings(struct MHD_Connection *connection, const char *token)
{
    static const char scheme[] = "Bearer ";
    const char *said = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    return said != NULL && strncmp(said, scheme, sizeof scheme - 1) == 0 &&
           http_token_is(token, said + sizeof scheme - 1);
}

/* ------------------------------------------------------------------ who is there */

void http_hang_up(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != NULL)
        (void)shutdown(info->connect_fd, SHUT_RDWR);
}

void http_crowd_let_stay(http_crowd *crowd, const struct MHD_Connection *connection)
{
    unsigned i = 0;
    while (i < crowd->count && crowd->open[i] != connection)
        i++;
    if (i == crowd->count)
        return;
    crowd->count--;
    memmove(&crowd->open[i], &crowd->open[i + 1], (crowd->count - i) * sizeof crowd->open[0]);
}

void http_crowd_note(void *ctx, struct MHD_Connection *connection, void **socket_ctx,
                     enum MHD_ConnectionNotificationCode code)
{
    http_crowd *crowd = ctx;
    (void)socket_ctx;
    if (code != MHD_CONNECTION_NOTIFY_STARTED) {
        http_crowd_let_stay(crowd, connection);
        return;
    }
    crowd->open[crowd->count++] = connection;
    if (crowd->count > HTTP_CONNECTIONS)
        http_hang_up(crowd->open[crowd->count - HTTP_CONNECTIONS - 1]);
}
