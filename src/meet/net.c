/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

void shoali_meet_from(const struct sockaddr *address, socklen_t length,
                      char out[SHOALI_MEET_FROM_BYTES])
{
    char host[64], port[8];
    if (getnameinfo(address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(out, SHOALI_MEET_FROM_BYTES, "%s:%s", host, port);
    else
        snprintf(out, SHOALI_MEET_FROM_BYTES, "?");
}

shoal_status shoali_meet_resolve(const shoali_meeting *meeting, struct addrinfo **list_out)
{
    char host[256], port[8];
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    if (!shoali_meet_parse(meeting->place, host, sizeof host, port, sizeof port))
        return shoali_fail(SHOAL_EINVAL, "'%.200s' is no meeting point", meeting->place);
    int error = getaddrinfo(host, port, &hints, list_out);
    if (error != 0) {
        shoal_status status = shoali_fail(
            SHOAL_EINVAL, "the host of %s has no address: %s", meeting->place,
            error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
        shoali_error_advice("Use a name that every host can resolve, or an address.");
        return status;
    }
    for (const struct addrinfo *a = *list_out; a != NULL && meeting->token->len_bytes == 0;
         a = a->ai_next)
        if (!is_loopback(a->ai_addr)) {
            freeaddrinfo(*list_out);
            shoal_status status = shoali_fail(
                SHOAL_EAUTH, "meeting at %s needs a job token: anyone on that network could join",
                meeting->place);
            shoali_error_advice(
                "Put the same secret on every rank: SHOAL_TOKEN_FILE names a file made with "
                "`openssl rand -hex 32`, mode 600.");
            return status;
        }
    return SHOAL_OK;
}

/* What rank 0's own name resolves to may be a loopback address that others cannot reach (Debian's
 * 127.0.1.1) or an address in front of this host (NAT). The token guards the wider listening that
 * this asks for. */
static bool must_listen_everywhere(const shoali_meeting *meeting, const struct sockaddr *address)
{
    char host[256], port[8];
    struct in_addr v4;
    return meeting->token->len_bytes > 0 && is_loopback(address) &&
           shoali_meet_parse(meeting->place, host, sizeof host, port, sizeof port) &&
           strcmp(host, "localhost") != 0 && strcmp(host, "::1") != 0 &&
           inet_pton(AF_INET, host, &v4) != 1;
}

static int listen_at(const struct sockaddr *address, socklen_t length)
{
    int on = 1, fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, address, length) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int listen_everywhere(const struct sockaddr *like)
{
    if (like->sa_family == AF_INET) {
        struct sockaddr_in any = *(const struct sockaddr_in *)(const void *)like;
        any.sin_addr.s_addr = htonl(INADDR_ANY);
        return listen_at((const struct sockaddr *)&any, sizeof any);
    }
    struct sockaddr_in6 any = *(const struct sockaddr_in6 *)(const void *)like;
    any.sin6_addr = in6addr_any;
    return listen_at((const struct sockaddr *)&any, sizeof any);
}

shoal_status shoali_meet_listen(const shoali_meeting *meeting, int *fd_out)
{
    struct addrinfo *list;
    SHOALI_TRY(shoali_meet_resolve(meeting, &list));
    int fd = -1, error = 0;
    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = must_listen_everywhere(meeting, a->ai_addr) ? listen_everywhere(a->ai_addr)
                                                         : listen_at(a->ai_addr, a->ai_addrlen);
        error = errno;
        if (fd < 0 && error == EADDRNOTAVAIL && meeting->token->len_bytes > 0) {
            fd = listen_everywhere(a->ai_addr);
            error = errno;
        }
    }
    freeaddrinfo(list);
    if (fd < 0) {
        shoal_status status = shoali_fail_os(SHOAL_ESYSTEM, error, "cannot listen at %s",
                                             meeting->place);
        if (error == EADDRINUSE && meeting->another != NULL)
            shoali_error_advice("Is another job there? Name another port, %s.", meeting->another);
        else if (meeting->another != NULL)
            shoali_error_advice("Name another port or host, %s.", meeting->another);
        return status;
    }
    *fd_out = fd;
    return SHOAL_OK;
}
