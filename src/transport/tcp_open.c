/* SPDX-License-Identifier: Apache-2.0 */
/* From a socket to an authenticated connection. Strangers are bounded in number (the oldest makes
 * room for the newest) and in time, and cost one connection object and a few hundred bytes each. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/stream.h"
#include "transport/tcp.h"

enum {
    CONNECT_US = 2000000,     /* one attempt at one address */
    FIRST_BACKOFF_US = 10000, /* between attempts; doubles */
    LAST_BACKOFF_US = 500000,
    LISTEN_PAUSE_US = 100000, /* after accept() failed */
    ACCEPTS_PER_TURN = 64,
    STRANGERS_LOGGED = 8,
    MAX_CONNS_PER_PEER = 256
};

/* ---------------------------------------------------------------- handshake */

/* Between hosts, unless all agree that nobody listens there. Both ends see the same. */
static bool wants_tls(const shoali_conn *conn)
{
    const shoali_tcp *tcp = conn->tcp;
    return tcp->keys != NULL && (tcp->params.tls == SHOALI_TCP_TLS_ON ||
                                 (!tcp->args.lab && !shoali_tcp_is_local(conn->fd)));
}

static shoali_hello say_who(const shoali_conn *conn)
{
    const shoali_transport_args *args = &conn->tcp->args;
    shoali_hello self = {.purpose = conn->control ? SHOALI_PURPOSE_CONTROL : SHOALI_PURPOSE_DATA,
                         .tos = conn->tos,
                         .lane = conn->lane,
                         .endpoint = args->me,
                         .target = conn->dialled ? (uint32_t)conn->peer : 0,
                         .incarnation = args->incarnation};
    if (conn->tunnel) {
        self.purpose = SHOALI_PURPOSE_RELAY;
        self.tos = 0;
        self.lane = (uint16_t)conn->peer;
        self.target = conn->tcp->peers[conn->peer].address.via_rank;
    }
    snprintf(self.job, sizeof self.job, "%s", args->job);
    return self;
}

/* With the relay first, where there is one; then with the peer, through it. */
static shoal_status start_opening(shoali_conn *conn)
{
    const shoali_transport_args *args = &conn->tcp->args;
    shoali_tls_destroy(conn->tls); /* of an attempt before */
    conn->tls = NULL;
    if (!conn->tunnel && wants_tls(conn))
        SHOALI_TRY(shoali_tls_create(conn->tcp->keys, conn->fd, conn->dialled, &conn->tls));
    shoali_hello self = say_who(conn);
    if (getrandom(self.nonce, sizeof self.nonce, 0) != (ssize_t)sizeof self.nonce)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "no random numbers for a hello");
    if (conn->opening == NULL && (conn->opening = shoali_alloc(sizeof *conn->opening)) == NULL)
        return SHOAL_ENOMEM;
    shoali_handshake_start(conn->opening, conn->dialled, &self, args->token, args->token_bytes);
    conn->state = SHOALI_CONN_OPENING;
    return SHOAL_OK;
}

/* The opening messages are shorter than any socket buffer: a short write is a failure. */
static shoal_status send_opening(shoali_conn *conn)
{
    shoali_handshake *h = conn->opening;
    struct iovec part = {h->out, h->out_len};
    if (h->out_len == 0)
        return SHOAL_OK;
    ssize_t sent = shoali_conn_write(conn, &part, 1);
    if (sent != (ssize_t)h->out_len)
        return shoali_fail_os(SHOAL_EIO, sent == SHOALI_STREAM_FAILED ? errno : EAGAIN,
                              "cannot send a hello");
    h->out_len = 0;
    return SHOAL_OK;
}

static uint32_t count_conns(const shoali_tcp_peer *p)
{
    uint32_t count = 0;
    for (const shoali_conn *c = p->conns; c != NULL; c = c->next)
        count++;
    return count;
}

/* What the hello cannot know: is this caller welcome here and now? NULL: yes. */
static const char *unwelcome(const shoali_conn *conn)
{
    const shoali_tcp *tcp = conn->tcp;
    const shoali_hello *hello = &conn->opening->peer;
    if (hello->endpoint >= tcp->args.size || hello->endpoint == tcp->args.me)
        return "this job has no such endpoint, or it is this one";
    if (hello->purpose != SHOALI_PURPOSE_CONTROL && hello->purpose != SHOALI_PURPOSE_DATA)
        return "this is a rank, no rendezvous, and shared memory is not opened over tcp";
    if (tcp->args.token_bytes == 0 && !shoali_tcp_is_local(conn->fd))
        return "a job token is required between hosts";
    const shoali_tcp_peer *p = &tcp->peers[hello->endpoint];
    if (p->state == SHOALI_PEER_DOWN)
        return "the endpoint has already been lost";
    if (count_conns(p) >= MAX_CONNS_PER_PEER)
        return "too many connections";
    if (hello->purpose == SHOALI_PURPOSE_CONTROL &&
        (hello->endpoint < tcp->args.me || p->control != NULL))
        return "the endpoint is already connected";
    return NULL;
}

static void remember(shoali_tcp *tcp, uint32_t peer, shoal_status status, const char *what)
{
    shoali_tcp_peer *p = &tcp->peers[peer];
    p->reason = status;
    snprintf(p->reason_text, sizeof p->reason_text, "%.255s", what);
}

/* Whoever it claims to be, a stranger must not be able to take a peer down: its failure is only
 * remembered as a possible reason, for the text when that peer does not come. */
static void turn_away(shoali_conn *conn, shoal_status status)
{
    shoali_tcp *tcp = conn->tcp;
    const char *what = shoal_last_error()->text;
    if (tcp->refused++ < STRANGERS_LOGGED)
        shoali_log(WARN, "refused a connection: %s", what);
    bool claims = conn->opening->greeted && conn->opening->peer.endpoint < tcp->args.size;
    uint32_t claimed = claims ? conn->opening->peer.endpoint : 0;
    if (claims)
        remember(tcp, claimed, status, what);
    for (uint32_t i = 0; !claims && status == SHOAL_EAUTH && i < tcp->args.size; i++)
        if (tcp->peers[i].state == SHOALI_PEER_JOINING && tcp->peers[i].reason == SHOAL_OK)
            remember(tcp, i, status, what); /* TLS ends before a caller has said who it is */
    shoali_conn_kill(conn, status);
    if (claims)
        shoali_peer_try_finish(tcp, claimed);
}

/* Its addresses, and the relay behind them. */
static uint32_t count_ways(const shoali_address *to)
{
    return to->ip_count + (to->via.any.sa_family != 0);
}

/* Somebody else may be at this address: there are others to try. */
static bool has_more_addresses(const shoali_conn *conn)
{
    return conn->dial_ip + 1 < count_ways(&conn->tcp->peers[conn->peer].address);
}

static void opening_failed(shoali_conn *conn, shoal_status status)
{
    bool final = status == SHOAL_EAUTH || status == SHOAL_EVERSION || status == SHOAL_EPEER;
    if (!conn->dialled)
        turn_away(conn, status);
    else if (final && !conn->spare && !has_more_addresses(conn))
        shoali_peer_fail(conn->tcp, (uint32_t)conn->peer, status, shoal_last_error()->text);
    else
        shoali_conn_retry(conn, status, shoal_last_error()->text);
}

/* ---------------------------------------------------------------- authenticated */

static void set_open(shoali_conn *conn)
{
    socklen_t here_bytes = sizeof conn->here, there_bytes = sizeof conn->there;
    conn->state = SHOALI_CONN_OPEN;
    conn->wake_us = UINT64_MAX;
    conn->heard_us = conn->tcp->now_us;
    (void)getsockname(conn->fd, &conn->here.any, &here_bytes);
    (void)getpeername(conn->fd, &conn->there.any, &there_bytes);
    if (conn->tls != NULL && shoali_tls_unread(conn->tls))
        conn->tcp->pump_again = true;
    if (shoali_conn_watch(conn, !shoali_tx_is_empty(conn)) != SHOAL_OK)
        shoali_conn_lost(conn, SHOAL_ESYSTEM, shoal_last_error()->text);
}

/* The way that the control connection has found is the first that data tries. */
static void prefer_proven(shoali_conn *conn)
{
    shoali_tcp_peer *p = &conn->tcp->peers[conn->peer];
    shoali_ip there = {0};
    socklen_t bytes = sizeof there;
    uint32_t i = 0;
    if (getpeername(conn->fd, &there.any, &bytes) != 0)
        return;
    while (i < p->address.ip_count && !shoali_ip_equal(&p->address.ips[i], &there))
        i++;
    p->tunnelled = i == p->address.ip_count && p->address.via.any.sa_family != 0;
    if (i == p->address.ip_count)
        return;
    shoali_address_prefer(&p->address, i);
    if (p->links == 0 || i >= p->links)
        p->links++;
}

static void come_up(shoali_conn *conn)
{
    shoali_tcp *tcp = conn->tcp;
    uint32_t peer = (uint32_t)conn->peer;
    shoali_tcp_peer *p = &tcp->peers[peer];
    p->control = conn;
    p->incarnation = conn->incarnation;
    p->state = SHOALI_PEER_UP;
    p->wake_us = UINT64_MAX;
    p->last_seen_us = tcp->now_us;
    prefer_proven(conn);
    set_open(conn);
    if (p->state == SHOALI_PEER_UP)
        tcp->events.peer_up(tcp->events.ctx, peer);
    shoali_peer_unpark(tcp, peer);
}

/* An accepted connection whose peer has been added (control) or is there (data). */
static void settle(shoali_conn *conn)
{
    const shoali_tcp_peer *p = &conn->tcp->peers[conn->peer];
    if (conn->control && p->state == SHOALI_PEER_JOINING)
        come_up(conn);
    else if (!conn->control && conn->incarnation == p->incarnation)
        set_open(conn);
    else
        shoali_conn_kill(
            conn, SHOAL_EPEER); /* a second control connection, or of a process that is no more */
}

static shoali_conn *find_settled(const shoali_tcp_peer *p)
{
    bool there = p->state == SHOALI_PEER_UP || p->state == SHOALI_PEER_LEAVING;
    bool expected = there || p->state == SHOALI_PEER_JOINING;
    for (shoali_conn *conn = p->conns; conn != NULL; conn = conn->next)
        if (conn->state == SHOALI_CONN_PARKED && (conn->control ? expected : there))
            return conn;
    return NULL;
}

void shoali_peer_unpark(shoali_tcp *tcp, uint32_t peer)
{
    shoali_conn *conn;
    while ((conn = find_settled(&tcp->peers[peer])) != NULL)
        settle(conn);
}

static void opened(shoali_conn *conn)
{
    shoali_tcp *tcp = conn->tcp;
    conn->incarnation = conn->opening->peer.incarnation;
    shoali_handshake *opening = conn->opening;
    conn->opening = NULL;
    if (conn->dialled) {
        shoali_free(opening);
        if (conn->control)
            come_up(conn);
        else
            set_open(conn);
        return;
    }
    shoali_conn **at = &tcp->strangers;
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    tcp->stranger_count--;
    conn->peer = opening->peer.endpoint;
    conn->control = opening->peer.purpose == SHOALI_PURPOSE_CONTROL;
    shoali_conn_mark(conn, opening->peer.tos);
    conn->lane = opening->peer.lane;
    conn->next = tcp->peers[conn->peer].conns;
    tcp->peers[conn->peer].conns = conn;
    conn->state = SHOALI_CONN_PARKED;
    conn->wake_us = UINT64_MAX;
    shoali_conn_unwatch(conn);
    shoali_free(opening);
    if (conn->tos != 0 && shoali_tcp_set_tos(conn->fd, conn->tos) != SHOAL_OK)
        shoali_log(DEBUG, "%s", shoal_last_error()->text); /* marks acknowledgements only */
    shoali_peer_unpark(tcp, (uint32_t)conn->peer);
}

/* ---------------------------------------------------------------- TLS before the opening */

enum { TLS_HANDSHAKE = 0x16 }; /* first byte of a caller that wants TLS; ours begins with 'S' */

static int first_byte(const shoali_conn *conn)
{
    uint8_t byte;
    return recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1 ? byte : -1;
}

/* A refusal that goes out as it is, since the other side would not understand it otherwise. */
static shoal_status refuse_in_clear(shoali_conn *conn, const char *to_them, const char *here)
{
    shoali_tls_destroy(conn->tls);
    conn->tls = NULL;
    shoali_handshake_refuse(conn->opening, SHOAL_EAUTH, to_them);
    (void)send_opening(conn);
    return shoali_fail(SHOAL_EAUTH, "%s", here);
}

/* The listener answered a TLS greeting in clear: nothing but its refusal is of interest. */
static shoal_status read_clear_refusal(const shoali_conn *conn)
{
    uint8_t bytes[SHOALI_REFUSAL_BYTES];
    char text[SHOALI_REFUSAL_TEXT_BYTES] = "it speaks no TLS";
    shoali_hello_type type;
    size_t whole;
    struct iovec part = {bytes, sizeof bytes};
    bool refusal = shoali_stream_read(conn->fd, &part, 1) == (ssize_t)sizeof bytes &&
                   shoali_prefix_decode(bytes, &type, &whole) == SHOAL_OK &&
                   type == SHOALI_TYPE_REFUSAL;
    shoal_status status = refusal ? shoali_refusal_decode(bytes, text) : SHOAL_EAUTH;
    return shoali_fail(status, "it refused this rank: %s", text);
}

static shoal_status agree_on_tls(shoali_conn *conn)
{
    if (first_byte(conn) == 'S' && conn->dialled)
        return read_clear_refusal(conn);
    if (first_byte(conn) == 'S')
        return refuse_in_clear(conn, "TLS is wanted here (tls=auto or on): set it alike everywhere",
                               "a caller speaks without TLS (tls=off, or an older version)");
    SHOALI_TRY(shoali_tls_handshake(conn->tls));
    return send_opening(conn);
}

/* ---------------------------------------------------------------- reading the opening */

static shoal_status read_opening(shoali_conn *conn)
{
    uint8_t bytes[SHOALI_HELLO_BYTES];
    bool greeted = conn->opening->greeted;
    struct iovec part = {bytes, shoali_handshake_want(conn->opening)};
    if (conn->tls == NULL && !conn->dialled && !greeted && first_byte(conn) == TLS_HANDSHAKE)
        return refuse_in_clear(conn, "no TLS here (tls=off, or in a lab): set it alike everywhere",
                               "a caller wants TLS, which is off here (tls=off, or in a lab)");
    ssize_t got = shoali_conn_read(conn, &part, 1, true);
    if (got == SHOALI_STREAM_LATER)
        return SHOAL_OK;
    if (got == SHOALI_STREAM_END)
        return shoali_fail(SHOAL_EIO,
                           "the other side closed the connection while it was being opened");
    if (got == SHOALI_STREAM_FAILED)
        return shoali_fail_os(SHOAL_EIO, errno, "connection failed while it was being opened");
    shoal_status status = shoali_handshake_feed(conn->opening, bytes, (size_t)got);
    if (status != SHOAL_OK && status != SHOAL_PENDING) {
        (void)send_opening(conn); /* the refusal; its own failure is of no interest */
        return status;
    }
    const char *why = !conn->dialled && !greeted && conn->opening->greeted ? unwelcome(conn) : NULL;
    if (why != NULL) {
        shoali_handshake_refuse(conn->opening, SHOAL_EAUTH, why);
        (void)send_opening(conn);
        return shoali_fail(SHOAL_EAUTH, "endpoint %u: %s", conn->opening->peer.endpoint, why);
    }
    SHOALI_TRY(send_opening(conn));
    return SHOAL_PENDING;
}

/* The relay has let us through: what follows is said to the peer. */
static shoal_status pass_through(shoali_conn *conn)
{
    conn->tunnel = false;
    SHOALI_TRY(start_opening(conn));
    return conn->tls != NULL ? SHOAL_PENDING : send_opening(conn);
}

static void advance_tunnel(shoali_conn *conn)
{
    shoal_status status = SHOAL_PENDING;
    while (status == SHOAL_PENDING && !conn->opening->done)
        status = read_opening(conn);
    if (status == SHOAL_PENDING)
        status = pass_through(conn);
    if (status != SHOAL_OK && status != SHOAL_PENDING)
        opening_failed(conn, status);
    else if (conn->tls != NULL)
        shoali_conn_advance_opening(conn);
}

void shoali_conn_advance_opening(shoali_conn *conn)
{
    shoal_status status = SHOAL_PENDING;
    if (conn->tunnel) {
        advance_tunnel(conn);
        return;
    }
    if (conn->tls != NULL && !shoali_tls_is_open(conn->tls)) {
        status = agree_on_tls(conn);
        if (status == SHOAL_PENDING)
            return;
        if (status == SHOAL_OK)
            status = SHOAL_PENDING;
    }
    while (status == SHOAL_PENDING && !conn->opening->done)
        status = read_opening(conn);
    if (status != SHOAL_OK && status != SHOAL_PENDING)
        opening_failed(conn, status);
    else if (conn->opening->done)
        opened(conn);
}

/* ---------------------------------------------------------------- dialling */

void shoali_conn_retry(shoali_conn *conn, shoal_status status, const char *what)
{
    char text[SHOALI_TCP_TEXT_BYTES];
    shoali_tcp *tcp = conn->tcp;
    uint32_t peer = (uint32_t)conn->peer;
    const shoali_address *to = &tcp->peers[peer].address;
    if (conn->dial_ip % count_ways(to) == to->ip_count)
        snprintf(text, sizeof text, "by way of rank %u: %.200s", to->via_rank, what);
    else
        snprintf(text, sizeof text, "%.255s", what);
    remember(tcp, peer, status, text);
    if (conn->spare) {
        shoali_lane_give_up(conn, status, what);
        return;
    }
    if (tcp->now_us >= conn->give_up_us) {
        snprintf(text, sizeof text, "cannot be reached: %.200s", tcp->peers[peer].reason_text);
        shoali_peer_fail(tcp, peer, SHOAL_ETIMEDOUT, text);
        return;
    }
    shoali_conn_unwatch(conn);
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    conn->state = SHOALI_CONN_WAITING;
    conn->dial_ip++;
    conn->backoff_us = conn->backoff_us == 0 ? FIRST_BACKOFF_US : 2 * conn->backoff_us;
    if (conn->backoff_us > LAST_BACKOFF_US)
        conn->backoff_us = LAST_BACKOFF_US;
    shoali_conn_set_timer(conn, tcp->now_us + conn->backoff_us);
}

void shoali_conn_dial(shoali_conn *conn)
{
    shoali_tcp *tcp = conn->tcp;
    const shoali_address *to = &tcp->peers[conn->peer].address;
    uint32_t way = conn->dial_ip % count_ways(to);
    conn->tunnel = way == to->ip_count;
    conn->fd = shoali_tcp_dial(conn->tunnel ? &to->via : &to->ips[way], conn->tos,
                               tcp->args.deadline_us);
    if (conn->fd < 0 || shoali_conn_watch(conn, true) != SHOAL_OK) {
        shoali_conn_retry(conn, SHOAL_ESYSTEM, shoal_last_error()->text);
        return;
    }
    conn->state = SHOALI_CONN_CONNECTING;
    shoali_conn_set_timer(conn, tcp->now_us + CONNECT_US);
}

void shoali_conn_connected(shoali_conn *conn)
{
    int os_error = 0;
    socklen_t bytes = sizeof os_error;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &os_error, &bytes) != 0)
        os_error = errno;
    if (os_error != 0) {
        shoali_conn_retry(conn, SHOAL_EPEER, strerror(os_error));
        return;
    }
    shoali_tcp_tune_local(conn->fd);
    if (conn->tcp->args.size > SHOALI_TCP_PROBED)
        shoali_tcp_probe_less(conn->fd);
    /* Its process may still be busy elsewhere while its kernel has accepted: no limit but the
     * last. */
    shoali_conn_set_timer(conn, conn->give_up_us);
    if (start_opening(conn) != SHOAL_OK || shoali_conn_watch(conn, false) != SHOAL_OK ||
        (conn->tls == NULL && send_opening(conn) != SHOAL_OK))
        shoali_conn_retry(conn, SHOAL_ESYSTEM, shoal_last_error()->text);
    else if (conn->tls != NULL)
        shoali_conn_advance_opening(conn);
}

/* ---------------------------------------------------------------- accepting */

static void evict_oldest(shoali_tcp *tcp)
{
    shoali_conn *oldest = tcp->strangers;
    while (oldest != NULL && oldest->next != NULL)
        oldest = oldest->next;
    if (oldest == NULL)
        return;
    (void)shoali_fail(SHOAL_EAUTH, "more than %u connections that have not proved themselves",
                      tcp->max_strangers);
    turn_away(oldest, SHOAL_EAUTH);
}

/* Out of descriptors, most likely: without a pause the listener would keep epoll busy. */
static void pause_listening(shoali_tcp *tcp)
{
    shoali_log(WARN, "%s; listening again in %d ms", shoal_last_error()->text,
               LISTEN_PAUSE_US / 1000);
    evict_oldest(tcp);
    for (uint32_t i = 0; i < tcp->listener_count; i++)
        (void)epoll_ctl(tcp->epoll, EPOLL_CTL_DEL, tcp->listeners[i], NULL);
    tcp->listen_again_us = tcp->now_us + LISTEN_PAUSE_US;
    if (tcp->listen_again_us < tcp->wake_us)
        tcp->wake_us = tcp->listen_again_us;
}

void shoali_tcp_accept_all(shoali_tcp *tcp, int listener)
{
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        bool none;
        int fd = shoali_tcp_accept(listener, tcp->args.deadline_us, &none);
        if (none)
            return;
        shoali_conn *conn = fd >= 0 ? shoali_conn_create(tcp, SHOALI_TCP_NOBODY, false, false)
                                    : NULL;
        if (conn == NULL) {
            if (fd >= 0)
                close(fd);
            pause_listening(tcp);
            return;
        }
        conn->fd = fd;
        if (tcp->args.size > SHOALI_TCP_PROBED)
            shoali_tcp_probe_less(fd);
        tcp->stranger_count++;
        shoali_conn_set_timer(conn, tcp->now_us + SHOALI_TCP_OPENING_US);
        if (start_opening(conn) != SHOAL_OK || shoali_conn_watch(conn, false) != SHOAL_OK)
            shoali_conn_kill(conn, SHOAL_ESYSTEM);
        else if (tcp->stranger_count > tcp->max_strangers)
            evict_oldest(tcp);
    }
}
