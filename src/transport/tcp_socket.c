/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/tcp_socket.h"

static bool set_int(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* No Nagle delay, and a peer that stops acknowledging is noticed within deadline_us. While data is
 * unacknowledged, TCP_USER_TIMEOUT decides; on an idle connection keepalive probes do, once the
 * same time has passed (tcp(7)). */
static bool set_options(int fd, int64_t deadline_us)
{
    int64_t third_s = deadline_us / 3000000;
    int probe_s = third_s < 1 ? 1 : third_s > 60 ? 60 : (int)third_s;
    return set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
           set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(deadline_us / 1000)) &&
           set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1) &&
           set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, probe_s) &&
           set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_s) &&
           set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
}

shoal_status shoali_tcp_set_tos(int fd, uint8_t tos)
{
    int family = AF_UNSPEC;
    socklen_t bytes = sizeof family;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) == 0 &&
        (family == AF_INET6 ? set_int(fd, IPPROTO_IPV6, IPV6_TCLASS, tos)
                            : set_int(fd, IPPROTO_IP, IP_TOS, tos)))
        return SHOAL_OK;
    return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot set ToS %#x", tos);
}

shoal_status shoali_tcp_receive(int fd, uint8_t *bytes, size_t want, size_t *got_out)
{
    ssize_t got = recv(fd, bytes, want, 0);
    if (got == 0)
        return shoali_fail(SHOAL_EPEER, "the other side closed the connection");
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return SHOAL_PENDING;
    if (got < 0)
        return shoali_fail_os(SHOAL_EPEER, errno, "the connection broke");
    *got_out = (size_t)got;
    return SHOAL_OK;
}

/* Close fd and report what failed on it. */
static int give_up(int fd, const char *what, const shoali_ip *ip)
{
    char text[SHOALI_IP_TEXT_BYTES];
    int os_error = errno;
    if (fd >= 0)
        close(fd);
    shoali_ip_format(ip, text);
    (void)shoali_fail_os(SHOAL_ESYSTEM, os_error, "cannot %s %s port %u", what, text,
                         shoali_ip_port(ip));
    return -1;
}

int shoali_tcp_listen(const shoali_ip *ip, uint16_t port, shoali_ip *bound_out)
{
    shoali_ip at = *ip, bound = {0};
    socklen_t bytes = sizeof bound;
    shoali_ip_set_port(&at, port);
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* a port of the kernel's choice must not be one that somebody holds for a listener to come */
    if (fd < 0 || (port != 0 && !set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1)) ||
        bind(fd, &at.any, shoali_ip_bytes(&at)) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, &bound.any, &bytes) != 0)
        return give_up(fd, "listen on", &at);
    *bound_out = bound;
    return fd;
}

int shoali_tcp_dial(const shoali_ip *ip, uint8_t tos, int64_t deadline_us)
{
    int fd = socket(ip->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || !set_options(fd, deadline_us) ||
        (tos != 0 && shoali_tcp_set_tos(fd, tos) != SHOAL_OK) ||
        !shoali_ip_connect(fd, &ip->any, shoali_ip_bytes(ip)))
        return give_up(fd, "connect to", ip);
    return fd;
}

int shoali_tcp_accept(int listener, int64_t deadline_us, bool *none_out)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    *none_out = fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (fd >= 0 && set_options(fd, deadline_us))
        return fd;
    int os_error = errno;
    if (fd >= 0)
        close(fd);
    (void)shoali_fail_os(SHOAL_ESYSTEM, os_error, "cannot accept a connection");
    return -1;
}

uint64_t shoali_tcp_unacked(int fd)
{
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

bool shoali_tcp_is_local(int fd)
{
    shoali_ip here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    if (getsockname(fd, &here.any, &here_bytes) != 0 ||
        getpeername(fd, &there.any, &there_bytes) != 0)
        return false;
    return shoali_ip_equal(&here, &there) ||
           (shoali_ip_is_loopback(&here) && shoali_ip_is_loopback(&there));
}

/* There is no congestion between two sockets of one host, but some systems default to bbr, whose
 * pacing halves what loopback carries. Reno is in every kernel and allowed to everybody; no harm
 * where it is refused. */
void shoali_tcp_tune_local(int fd)
{
    if (shoali_tcp_is_local(fd))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

/* When a process of this host ends, the kernel closes its sockets, and when it stops, its
 * heartbeats do. Between many, probes do harm: the queue behind loopback holds 1000 packets, those
 * of 10,000 connections at once overrun it, and connections between the living are cut. */
void shoali_tcp_probe_less(int fd)
{
    if (!shoali_tcp_is_local(fd))
        return;
    (void)set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
    (void)set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
}

shoal_status shoali_tcp_status_of(int os_error)
{
    switch (os_error) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
        return SHOAL_ETIMEDOUT;
    case EBADMSG:
        return SHOAL_ECORRUPT; /* a record of TLS that is not what was sent */
    default:
        return SHOAL_EPEER;
    }
}
