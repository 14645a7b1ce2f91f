/* SPDX-License-Identifier: Apache-2.0 */
/* Life and death of connections and peers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/stream.h"
#include "transport/tcp.h"
#include "wire/guard.h"

enum { DRAIN_READS = 64 };

static shoali_conn **list_of(shoali_conn *conn)
{
    shoali_tcp *tcp = conn->tcp;
    return conn->peer == SHOALI_TCP_NOBODY ? &tcp->strangers : &tcp->peers[conn->peer].conns;
}

shoali_conn *shoali_conn_create(shoali_tcp *tcp, int64_t peer, bool control, bool dialled)
{
    shoali_conn *conn = shoali_alloc(sizeof *conn);
    if (conn == NULL)
        return NULL;
    *conn = (shoali_conn){.tcp = tcp,
                          .fd = -1,
                          .peer = peer,
                          .control = control,
                          .dialled = dialled,
                          .state = SHOALI_CONN_WAITING,
                          .wake_us = UINT64_MAX};
    shoali_conn **list = list_of(conn);
    conn->next = *list;
    *list = conn;
    return conn;
}

void shoali_conn_mark(shoali_conn *conn, uint8_t tos)
{
    conn->tos = tos;
    conn->tx.box.guarded = tos == SHOALI_TOS_FLOATS;
}

void shoali_conn_set_timer(shoali_conn *conn, uint64_t wake_us)
{
    conn->wake_us = wake_us;
    if (wake_us < conn->tcp->wake_us)
        conn->tcp->wake_us = wake_us;
}

shoal_status shoali_conn_watch(shoali_conn *conn, bool write)
{
    struct epoll_event event = {.events = EPOLLIN | (write ? (uint32_t)EPOLLOUT : 0),
                                .data.ptr = conn};
    if (conn->watched && conn->watches_write == write)
        return SHOAL_OK;
    if (epoll_ctl(conn->tcp->epoll, conn->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, conn->fd,
                  &event) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot watch a connection");
    conn->watched = true;
    conn->watches_write = write;
    return SHOAL_OK;
}

void shoali_conn_unwatch(shoali_conn *conn)
{
    if (conn->watched)
        (void)epoll_ctl(conn->tcp->epoll, EPOLL_CTL_DEL, conn->fd, NULL);
    conn->watched = conn->watches_write = false;
}

static void unlink_from(shoali_conn **list, shoali_conn *conn)
{
    while (*list != NULL && *list != conn)
        list = &(*list)->next;
    if (*list == conn)
        *list = conn->next;
}

static void unlink_dirty(shoali_conn *conn)
{
    shoali_conn **at = &conn->tcp->dirty[conn->control ? 0 : 1];
    while (*at != NULL && *at != conn)
        at = &(*at)->next_dirty;
    if (*at == conn)
        *at = conn->next_dirty;
    conn->dirty = false;
}

void shoali_conn_kill(shoali_conn *conn, shoal_status status)
{
    shoali_tcp *tcp = conn->tcp;
    if (conn->state == SHOALI_CONN_DEAD)
        return;
    conn->state = SHOALI_CONN_DEAD;
    shoali_conn_unwatch(conn);
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    unlink_from(list_of(conn), conn);
    unlink_dirty(conn);
    if (conn->peer == SHOALI_TCP_NOBODY)
        tcp->stranger_count--;
    else if (tcp->peers[conn->peer].control == conn)
        tcp->peers[conn->peer].control = NULL;
    conn->next = tcp->dead;
    tcp->dead = conn;
    shoali_rx_return_all(conn);
    shoali_tx_return_all(conn, status);
}

void shoali_conn_free_dead(shoali_tcp *tcp)
{
    while (tcp->dead != NULL) {
        shoali_conn *conn = tcp->dead;
        tcp->dead = conn->next;
        shoali_free(conn->opening);
        shoali_tls_destroy(conn->tls);
        shoali_free(conn->rx.stage);
        shoali_outbox_free(&conn->tx.box);
        shoali_free(conn->tx.bytes);
        shoali_free(conn);
    }
}

/* Closing a socket with unread bytes makes the kernel send a reset, which would overtake our
 * goodbye. */
static void drain(int fd)
{
    char waste[4096];
    for (int i = 0; i < DRAIN_READS; i++)
        if (recv(fd, waste, sizeof waste, MSG_DONTWAIT) <= 0)
            return;
}

void shoali_conn_part(shoali_conn *conn)
{
    if (conn->state == SHOALI_CONN_OPEN && shoali_tx_goodbye(conn) == SHOAL_OK)
        shoali_tx_flush(conn);
    if (conn->state == SHOALI_CONN_OPEN) {
        (void)shutdown(conn->fd, SHUT_WR);
        drain(conn->fd);
    }
    shoali_conn_kill(conn, SHOAL_ECANCELLED);
}

ssize_t shoali_conn_read(shoali_conn *conn, struct iovec *parts, int count, bool more)
{
    return conn->tls != NULL ? shoali_tls_read(conn->tls, parts, count, more)
                             : shoali_stream_read(conn->fd, parts, count);
}

ssize_t shoali_conn_write(shoali_conn *conn, struct iovec *parts, size_t count)
{
    return conn->tls != NULL ? shoali_tls_write(conn->tls, parts, count)
                             : shoali_stream_write(conn->fd, parts, count);
}

/* ---------------------------------------------------------------- peers */

void shoali_peer_set_timer(shoali_tcp *tcp, shoali_tcp_peer *p, uint64_t in_us)
{
    p->wake_us = tcp->now_us + in_us;
    if (p->wake_us < tcp->wake_us)
        tcp->wake_us = p->wake_us;
}

static void kill_conns(shoali_tcp *tcp, uint32_t peer, shoal_status status)
{
    while (tcp->peers[peer].conns != NULL)
        shoali_conn_kill(tcp->peers[peer].conns, status);
}

static void peer_down(shoali_tcp *tcp, uint32_t peer, shoal_status why, const char *what)
{
    char text[SHOALI_TCP_TEXT_BYTES + SHOALI_HOST_BYTES + 32];
    shoali_tcp_peer *p = &tcp->peers[peer];
    snprintf(text, sizeof text, "rank %u (%s): %s", peer, p->address.host, what);
    p->state = SHOALI_PEER_DOWN;
    p->wake_us = UINT64_MAX;
    kill_conns(tcp, peer, why == SHOAL_OK ? SHOAL_EPEER : why);
    tcp->events.peer_down(tcp->events.ctx, peer, why, text);
}

void shoali_peer_fail(shoali_tcp *tcp, uint32_t peer, shoal_status status, const char *what)
{
    char copy
        [SHOALI_TCP_TEXT_BYTES]; /* what may live in the last error, which callbacks overwrite */
    shoali_peer_state state = tcp->peers[peer].state;
    if (state == SHOALI_PEER_NONE || state == SHOALI_PEER_DOWN)
        return;
    snprintf(copy, sizeof copy, "%s", what);
    peer_down(tcp, peer, status, copy);
}

void shoali_peer_left(shoali_tcp *tcp, uint32_t peer)
{
    shoali_tcp_peer *p = &tcp->peers[peer];
    p->state = SHOALI_PEER_LEAVING;
    shoali_peer_set_timer(tcp, p, (uint64_t)tcp->args.deadline_us);
    shoali_peer_try_finish(tcp, peer);
}

/* Its data connections end with a goodbye each, and may lag behind the control connection's. */
static bool may_still_send(const shoali_tcp *tcp, uint32_t peer)
{
    for (const shoali_conn *c = tcp->peers[peer].conns; c != NULL; c = c->next)
        if (!c->control && !c->dialled)
            return true;
    for (const shoali_conn *c = tcp->strangers; c != NULL; c = c->next)
        if (c->opening != NULL && c->opening->greeted && c->opening->peer.endpoint == peer)
            return true;
    return false;
}

void shoali_peer_try_finish(shoali_tcp *tcp, uint32_t peer)
{
    if (tcp->peers[peer].state == SHOALI_PEER_LEAVING && !may_still_send(tcp, peer))
        peer_down(tcp, peer, SHOAL_OK, "said goodbye");
}

/* If the relay itself is gone, its own connection ends as well, in a moment, and is to be named
 * first: what went by way of it is its fault. */
static void lost_by_way(shoali_conn *conn, shoal_status status, const char *what)
{
    shoali_tcp *tcp = conn->tcp;
    shoali_tcp_peer *p = &tcp->peers[conn->peer];
    if (p->wake_us == UINT64_MAX) {
        p->reason = status;
        snprintf(p->reason_text, sizeof p->reason_text, "by way of rank %u: %.200s",
                 p->address.via_rank, what);
        shoali_peer_set_timer(tcp, p, SHOALI_TCP_GRACE_US);
    }
    shoali_conn_kill(conn, status);
}

void shoali_conn_lost(shoali_conn *conn, shoal_status status, const char *what)
{
    char copy[SHOALI_TCP_TEXT_BYTES], links[SHOALI_LINKS_TEXT_BYTES];
    shoali_tcp *tcp = conn->tcp;
    uint32_t peer = (uint32_t)conn->peer;
    shoali_conn *control = tcp->peers[peer].control;
    bool torn = conn->rx.in_body || conn->rx.begin != conn->rx.end;
    snprintf(copy, sizeof copy, "%s", what);
    if (!conn->control && control != NULL && control->state == SHOALI_CONN_OPEN)
        shoali_rx_pump(control); /* its last words may already be there */
    if (conn->state == SHOALI_CONN_DEAD)
        return;
    if (tcp->peers[peer].state == SHOALI_PEER_LEAVING && !torn) {
        shoali_conn_kill(conn, SHOAL_EPEER);
        shoali_peer_try_finish(tcp, peer);
        return;
    }
    if (tcp->peers[peer].tunnelled && tcp->peers[peer].state == SHOALI_PEER_UP) {
        lost_by_way(conn, status, copy);
        return;
    }
    if (shoali_lane_is_one_of_several(conn)) {
        shoali_lane_lost(conn, status, copy);
        return;
    }
    if (status == SHOAL_ETIMEDOUT) {
        shoali_lanes_text(tcp, peer, links);
        snprintf(copy, sizeof copy, "%.90s%s%s", what, links[0] != '\0' ? ": " : "", links);
    }
    shoali_peer_fail(tcp, peer, status, copy);
    shoali_conn_kill(conn, status);
}

void shoali_peer_release(shoali_tcp *tcp, uint32_t peer, shoal_status status, bool polite)
{
    shoali_tcp_peer *p = &tcp->peers[peer];
    p->state = SHOALI_PEER_NONE; /* from here on no callback but sent and unplace */
    p->wake_us = UINT64_MAX;
    while (p->conns != NULL) {
        if (polite)
            shoali_conn_part(p->conns);
        else
            shoali_conn_kill(p->conns, status);
    }
}
