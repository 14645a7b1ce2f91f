/* SPDX-License-Identifier: Apache-2.0 */
/* One way through a relay, from a stranger's first byte to the end of both directions. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "relay/inner.h"
#include "transport/tcp_socket.h"

enum {
    MOVE_BYTES = 1 << 20, /* per turn: then others get theirs */
    OPEN_US = 5000000     /* from a caller's proof to an open way */
};

void shoali_tunnel_end(shoali_relay *r, uint32_t index)
{
    shoali_tunnel *t = r->tunnels[index];
    for (int i = 0; i < 2; i++) {
        if (t->fd[i] >= 0)
            close(t->fd[i]);
        shoali_free(t->half[i].bytes);
    }
    shoali_free(t);
    r->tunnels[index] = r->tunnels[--r->tunnel_count];
}

static shoal_status open_up(shoali_tunnel *t)
{
    for (int i = 0; i < 2; i++)
        if ((t->half[i].bytes = shoali_alloc(SHOALI_TUNNEL_BYTES)) == NULL)
            return SHOAL_ENOMEM;
    t->state = SHOALI_TUNNEL_OPEN;
    return SHOAL_OK;
}

/* The caller has proved itself. */
static shoal_status go_on(const shoali_relay *r, shoali_tunnel *t, uint64_t now_us)
{
    const shoali_hello *hello = &t->handshake.peer;
    t->from = hello->endpoint;
    t->to = hello->lane;
    t->hops = hello->tos & (SHOALI_RELAY_DOOR - 1);
    t->door = hello->tos & SHOALI_RELAY_DOOR;
    if (hello->purpose != SHOALI_PURPOSE_RELAY || t->hops >= SHOALI_RELAY_HOPS)
        return shoali_fail(SHOAL_ECORRUPT, "it wants something else than to be passed on");
    if (!shoali_relay_find_way(r, t->to, &t->way))
        return shoali_fail(SHOAL_EPEER, "rank %u does not know the way to rank %u either",
                           r->desc.me, t->to);
    if (t->way.relayed && t->way.rank == t->from)
        return shoali_fail(SHOAL_EPEER, "from rank %u the way leads back to rank %u", r->desc.me,
                           t->from);
    if (t->door != 0 && !t->way.relayed && t->to != SHOALI_RELAY_STORE)
        shoali_ip_set_port(&t->way.ip, r->doors[t->to]);
    t->fd[1] = shoali_tcp_dial(&t->way.ip, 0, r->desc.deadline_us);
    if (t->fd[1] < 0)
        return SHOAL_EPEER;
    t->state = SHOALI_TUNNEL_CONNECTING;
    t->until_us = now_us + OPEN_US;
    return SHOAL_OK;
}

static shoal_status connected(const shoali_relay *r, shoali_tunnel *t)
{
    int os_error = 0;
    socklen_t bytes = sizeof os_error;
    if (getsockopt(t->fd[1], SOL_SOCKET, SO_ERROR, &os_error, &bytes) != 0 || os_error != 0)
        return shoali_fail_os(SHOAL_EPEER, os_error != 0 ? os_error : errno, "cannot connect");
    if (!t->way.relayed)
        return open_up(t);
    t->state = SHOALI_TUNNEL_CALLING;
    SHOALI_TRY(shoali_relay_greet(r, true, t->way.rank, t->to, (uint8_t)((t->hops + 1) | t->door),
                                  &t->handshake));
    shoal_status status = shoali_relay_advance(t->fd[1], &t->handshake);
    return status == SHOAL_OK ? open_up(t) : status == SHOAL_PENDING ? SHOAL_OK : status;
}

/* From one end to the other as far as both allow. False: one of them is broken. */
static bool move(shoali_stream_half *half, int from, int to)
{
    for (size_t moved = 0; moved < MOVE_BYTES;) {
        if (half->begin == half->end && !half->ended) {
            ssize_t got = recv(from, half->bytes, SHOALI_TUNNEL_BYTES, MSG_DONTWAIT);
            if (got < 0)
                return errno == EAGAIN || errno == EINTR;
            half->begin = 0;
            half->end = (size_t)got;
            half->ended = got == 0;
        }
        if (half->begin == half->end) {
            half->told = half->told || shutdown(to, SHUT_WR) == 0;
            return half->told;
        }
        ssize_t sent = send(to, half->bytes + half->begin, half->end - half->begin,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        half->begin += (size_t)sent;
        moved += (size_t)sent;
    }
    return true;
}

shoal_status shoali_tunnel_advance(const shoali_relay *r, shoali_tunnel *t,
                                   const struct pollfd polls[2], uint64_t now_us)
{
    shoal_status status = SHOAL_PENDING;
    if (t->state == SHOALI_TUNNEL_OPEN) {
        bool woken = (polls[0].revents | polls[1].revents) != 0;
        for (int i = 0; i < 2 && woken; i++)
            if (!t->half[i].told && !move(&t->half[i], t->fd[i], t->fd[1 - i]))
                return shoali_fail_os(SHOAL_EPEER, errno, "the connection broke");
        return t->half[0].told && t->half[1].told ? SHOAL_OK : SHOAL_PENDING;
    }
    if (now_us >= t->until_us)
        return shoali_fail(SHOAL_ETIMEDOUT, "no answer");
    if (t->state == SHOALI_TUNNEL_GREETED && polls[0].revents != 0) {
        status = shoali_relay_advance(t->fd[0], &t->handshake);
        if (status == SHOAL_OK)
            status = go_on(r, t, now_us);
    } else if (t->state == SHOALI_TUNNEL_CONNECTING && polls[1].revents != 0) {
        status = connected(r, t);
    } else if (t->state == SHOALI_TUNNEL_CALLING && polls[1].revents != 0) {
        status = shoali_relay_advance(t->fd[1], &t->handshake);
        if (status == SHOAL_OK)
            status = open_up(t);
    }
    return status == SHOAL_OK ? SHOAL_PENDING : status;
}

void shoali_tunnel_want(const shoali_tunnel *t, struct pollfd polls[2])
{
    short events[2] = {0, 0};
    if (t->state == SHOALI_TUNNEL_GREETED)
        events[0] = POLLIN;
    else if (t->state == SHOALI_TUNNEL_CONNECTING)
        events[1] = POLLOUT;
    else if (t->state == SHOALI_TUNNEL_CALLING)
        events[1] = POLLIN;
    for (int i = 0; i < 2 && t->state == SHOALI_TUNNEL_OPEN; i++) {
        if (t->half[i].end > t->half[i].begin)
            events[1 - i] |= POLLOUT;
        else if (!t->half[i].ended)
            events[i] |= POLLIN;
    }
    for (int i = 0; i < 2; i++)
        shoali_relay_want(&polls[i], t->fd[i], events[i]);
}
