/* SPDX-License-Identifier: Apache-2.0 */
/* The tcp row: plain TCP over epoll. Structure in tcp.h. */
#include "transport/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "transport/iface.h"

enum {
    EVENTS_PER_TURN = 64,
    FLUSH_ROUNDS = 4,
    MIN_STRANGERS = 64,
    DEFAULT_DEADLINE_US = 2500000,
    DEFAULT_JOIN_US = 30000000
};

static const shoali_key keys[] = {
    {"port", SHOALI_KEY_INT, offsetof(shoali_tcp_params, port), 0, 65535, NULL, "0",
     "port to listen on; 0: the kernel's choice"},
    {"lanes", SHOALI_KEY_INT, offsetof(shoali_tcp_params, lanes), 1, SHOALI_TCP_MAX_LANES, NULL,
     "1", "data connections per peer and link; chunks are spread over them"},
    {"checksum", SHOALI_KEY_FLAG, offsetof(shoali_tcp_params, checksum), 0, 0, NULL, "off",
     "CRC-32C over every body (headers always have one)"},
    {"shm", SHOALI_KEY_FLAG, offsetof(shoali_tcp_params, shm), 0, 0, NULL, "on",
     "shared memory between ranks of one host and network namespace"},
    {"tls", SHOALI_KEY_CHOICE, offsetof(shoali_tcp_params, tls), 0, 0, "auto|on|off", "auto",
     "TLS 1.3 by the job's token; auto: between hosts, but not in a lab (docs/security.md)"},
    {"ktls", SHOALI_KEY_FLAG, offsetof(shoali_tcp_params, ktls), 0, 0, NULL, "off",
     "leave encryption to the kernel where it can (CONFIG_TLS); else it is OpenSSL's"},
};

/* ---------------------------------------------------------------- open and close */

static shoal_status copy_args(shoali_tcp *tcp, const shoali_transport_args *args)
{
    tcp->args = *args;
    if (args->me >= args->size || strlen(args->job) >= SHOALI_JOB_BYTES || args->deadline_us < 0 ||
        args->join_us < 0)
        return shoali_fail(SHOAL_EINVAL,
                           "transport: endpoint %u of %u, job of %zu bytes (at most %d)", args->me,
                           args->size, strlen(args->job), SHOALI_JOB_BYTES - 1);
    if (args->deadline_us == 0)
        tcp->args.deadline_us = DEFAULT_DEADLINE_US;
    if (args->join_us == 0)
        tcp->args.join_us = DEFAULT_JOIN_US;
    tcp->params = *(const shoali_tcp_params *)args->params;
    tcp->job = shoali_strdup(args->job);
    tcp->token = shoali_alloc(args->token_bytes);
    tcp->peers = shoali_alloc_array(args->size, sizeof *tcp->peers);
    if (tcp->job == NULL || tcp->token == NULL || tcp->peers == NULL)
        return SHOAL_ENOMEM;
    if (args->token_bytes > 0)
        memcpy(tcp->token, args->token, args->token_bytes);
    tcp->args.job = tcp->job;
    tcp->args.token = tcp->token;
    tcp->args.interface = tcp->args.toward = NULL; /* used by open alone */
    for (uint32_t i = 0; i < args->size; i++)
        tcp->peers[i].wake_us = UINT64_MAX;
    if (args->token_bytes == 0 && tcp->params.tls == SHOALI_TCP_TLS_ON)
        return shoali_fail(SHOAL_EINVAL, "tls=on needs a job token (SHOAL_TOKEN_FILE)");
    if (args->token_bytes > 0 && tcp->params.tls != SHOALI_TCP_TLS_OFF)
        SHOALI_TRY(shoali_tls_keys_create(args->token, args->token_bytes, &tcp->keys));
    if (tcp->params.ktls && tcp->keys != NULL)
        shoali_tls_keys_use_kernel(tcp->keys);
    tcp->max_strangers = MIN_STRANGERS + 2 * args->size;
    return SHOAL_OK;
}

static shoal_status watch_listeners(shoali_tcp *tcp)
{
    for (uint32_t i = 0; i < tcp->listener_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &tcp->listeners[i]};
        if (epoll_ctl(tcp->epoll, EPOLL_CTL_ADD, tcp->listeners[i], &event) != 0)
            return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot watch a listening socket");
    }
    return SHOAL_OK;
}

/* One port number, on every address; the first must work. */
static shoal_status listen_on(shoali_tcp *tcp, const shoali_iface_choice *choice)
{
    uint16_t port = (uint16_t)tcp->params.port;
    for (uint32_t i = 0; i < choice->ip_count; i++) {
        shoali_ip bound;
        int fd = shoali_tcp_listen(&choice->ips[i], port, &bound);
        if (fd < 0 && i == 0)
            return SHOAL_ESYSTEM;
        if (fd < 0)
            continue;
        port = shoali_ip_port(&bound);
        tcp->address.subnet_bits[tcp->address.ip_count] = choice->subnet_bits[i];
        tcp->address.wires[tcp->address.ip_count] = choice->wire[i];
        tcp->address.ips[tcp->address.ip_count++] = bound;
        tcp->listeners[tcp->listener_count++] = fd;
    }
    tcp->address.port = port;
    return SHOAL_OK;
}

static shoal_status try_open(shoali_tcp *tcp, const shoali_transport_args *args)
{
    shoali_iface_choice choice;
    SHOALI_TRY(copy_args(tcp, args));
    SHOALI_TRY(shoali_address_local(&tcp->address));
    SHOALI_TRY(shoali_iface_choose(args->interface, args->toward, args->token_bytes == 0, &choice));
    tcp->line_bytes_s = choice.line_bytes_s;
    tcp->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (tcp->epoll < 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot create an epoll descriptor");
    SHOALI_TRY(listen_on(tcp, &choice));
    return watch_listeners(tcp);
}

static void tcp_forked(void *state)
{
    shoali_tcp *tcp = state;
    for (uint32_t i = 0; i < tcp->listener_count; i++)
        close(tcp->listeners[i]);
    tcp->listener_count = 0;
    for (uint32_t peer = 0; tcp->peers != NULL && peer < tcp->args.size; peer++)
        for (shoali_conn *c = tcp->peers[peer].conns; c != NULL; c = c->next)
            if (c->fd >= 0)
                close(c->fd);
    for (shoali_conn *c = tcp->strangers; c != NULL; c = c->next)
        close(c->fd);
    if (tcp->epoll >= 0)
        close(tcp->epoll);
    tcp->epoll = -1;
}

static void tcp_close(void *state)
{
    shoali_tcp *tcp = state;
    for (uint32_t peer = 0; tcp->peers != NULL && peer < tcp->args.size; peer++)
        shoali_peer_release(tcp, peer, SHOAL_ECANCELLED, true);
    while (tcp->strangers != NULL)
        shoali_conn_kill(tcp->strangers, SHOAL_ECANCELLED);
    shoali_conn_free_dead(tcp);
    tcp_forked(tcp);
    if (tcp->token != NULL)
        explicit_bzero(tcp->token, tcp->args.token_bytes);
    shoali_free(tcp->token);
    shoali_tls_keys_destroy(tcp->keys);
    shoali_free(tcp->job);
    shoali_free(tcp->peers);
    shoali_free(tcp->scratch);
    *tcp = (shoali_tcp){.epoll = -1};
}

static shoal_status tcp_open(void *state, const shoali_transport_args *args,
                             const shoali_transport_events *events)
{
    shoali_tcp *tcp = state;
    *tcp = (shoali_tcp){.events = *events, .epoll = -1, .wake_us = UINT64_MAX};
    shoal_status status = try_open(tcp, args);
    if (status != SHOAL_OK) {
        shoal_error error;
        shoali_error_get(&error);
        tcp_close(tcp);
        (void)shoali_error_set(&error);
    }
    return status;
}

static void tcp_address(const void *state, char out[SHOALI_ADDRESS_BYTES])
{
    const shoali_tcp *tcp = state;
    shoali_address_format(&tcp->address, out);
}

/* ---------------------------------------------------------------- peers */

static shoal_status start_joining(shoali_tcp *tcp, uint32_t peer)
{
    shoali_tcp_peer *p = &tcp->peers[peer];
    uint64_t give_up_us = shoali_tcp_now(tcp) + (uint64_t)tcp->args.join_us;
    if (tcp->args.me > peer) {
        shoali_conn *conn = shoali_conn_create(tcp, peer, true, true);
        if (conn == NULL)
            return SHOAL_ENOMEM;
        conn->give_up_us = give_up_us;
        shoali_conn_set_timer(conn, 0);
    } else {
        p->wake_us = give_up_us;
    }
    p->state = SHOALI_PEER_JOINING;
    tcp->wake_us = 0; /* it may have called already */
    return SHOAL_OK;
}

static shoal_status tcp_add_peer(void *state, uint32_t peer, const char *address)
{
    shoali_tcp *tcp = state;
    if (peer >= tcp->args.size || peer == tcp->args.me ||
        tcp->peers[peer].state != SHOALI_PEER_NONE)
        return shoali_fail(SHOAL_EINVAL, "endpoint %u cannot be added: %s", peer,
                           peer < tcp->args.size && peer != tcp->args.me ? "it is there already"
                                                                         : "no such peer");
    shoali_tcp_peer *p = &tcp->peers[peer];
    shoali_address to;
    SHOALI_TRY(shoali_address_parse(address, &to));
    if (to.ip_count == 0)
        return shoali_fail(SHOAL_EINVAL, "endpoint %u has no TCP address: '%.200s'", peer, address);
    if (tcp->args.token_bytes == 0 && !shoali_address_same_host(&to, &tcp->address)) {
        (void)shoali_fail(SHOAL_EAUTH,
                          "rank %u runs on another host (%s), and there is no job token", peer,
                          to.host);
        shoali_error_advice("Give every process the same token by SHOAL_TOKEN_FILE; shoal run "
                            "makes one by itself.");
        return SHOAL_EAUTH;
    }
    p->address = to;
    p->links = shoali_address_choose(&tcp->address, &p->address);
    p->tunnelled = false;
    p->links_off = 0;
    p->best_rate = 0;
    p->reason = SHOAL_OK;
    p->reason_text[0] = '\0';
    memset(&p->stats, 0, sizeof p->stats);
    return start_joining(tcp, peer);
}

static void tcp_drop_peer(void *state, uint32_t peer, bool polite)
{
    shoali_tcp *tcp = state;
    if (peer < tcp->args.size)
        shoali_peer_release(tcp, peer, SHOAL_ECANCELLED, polite);
}

static void tcp_peer_stats(const void *state, uint32_t peer, shoal_peer_stats *add)
{
    const shoali_tcp *tcp = state;
    const shoali_tcp_peer *p = &tcp->peers[peer];
    const shoal_peer_stats *s = &p->stats;
    snprintf(add->host, sizeof add->host, "%s", p->address.host);
    snprintf(add->transport, sizeof add->transport, "tcp");
    add->sent_frames += s->sent_frames;
    add->sent_payload_bytes += s->sent_payload_bytes;
    add->sent_wire_bytes += s->sent_wire_bytes;
    add->received_frames += s->received_frames;
    add->received_payload_bytes += s->received_payload_bytes;
    add->received_wire_bytes += s->received_wire_bytes;
    add->control_bytes += s->control_bytes;
    add->dropped_frames += s->dropped_frames;
    uint64_t longest_us = 0; /* lanes are busy at the same time */
    for (const shoali_conn *c = p->conns; c != NULL; c = c->next) {
        uint64_t busy_us = 0;
        if (c->dialled && !c->control && c->state == SHOALI_CONN_OPEN)
            shoali_tcp_count(c->fd, &add->acked_bytes, &busy_us);
        longest_us = busy_us > longest_us ? busy_us : longest_us;
    }
    add->busy_us += longest_us;
    add->line_bytes_s = tcp->line_bytes_s;
    uint64_t now_us = shoali_tcp_now(tcp);
    add->last_seen_us = now_us > p->last_seen_us ? now_us - p->last_seen_us : 0;
}

static void tcp_links(const void *state, uint32_t peer, char out[SHOALI_LINKS_TEXT_BYTES])
{
    shoali_lanes_text(state, peer, out);
}

/* ---------------------------------------------------------------- sending */

static shoali_tcp_peer *peer_if_up(shoali_tcp *tcp, uint32_t peer)
{
    if (peer < tcp->args.size && tcp->peers[peer].state == SHOALI_PEER_UP)
        return &tcp->peers[peer];
    (void)shoali_fail(SHOAL_EPEER, "no connection to rank %u", peer);
    return NULL;
}

static shoal_status tcp_send(void *state, uint32_t peer, uint8_t tos, const shoal_data *head,
                             const void *body, uint64_t cookie)
{
    shoali_tcp *tcp = state;
    shoali_tcp_peer *p = peer_if_up(tcp, peer);
    if (p == NULL)
        return SHOAL_EPEER;
    if (head->len_bytes > SHOALI_FRAME_MAX_BODY_BYTES)
        return shoali_fail(SHOAL_EINVAL, "frame of %u bytes, at most %d", head->len_bytes,
                           SHOALI_FRAME_MAX_BODY_BYTES);
    shoali_conn *conn = shoali_tcp_pick_lane(tcp, peer, tos, head->len_bytes);
    return conn != NULL ? shoali_tx_data(conn, head, body, cookie) : SHOAL_ENOMEM;
}

static shoal_status tcp_control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                                size_t len_bytes)
{
    shoali_tcp *tcp = state;
    shoali_tcp_peer *p = peer_if_up(tcp, peer);
    if (p == NULL)
        return SHOAL_EPEER;
    if (kind < SHOALI_MESSAGE_FIRST_CONTROL || kind > SHOALI_MESSAGE_LAST_CONTROL ||
        len_bytes > SHOALI_CONTROL_MAX_BYTES)
        return shoali_fail(SHOAL_EINVAL, "control frame of kind %u and %zu bytes", kind, len_bytes);
    if (p->control == NULL)
        return SHOAL_OK; /* lost with its relay; the word of that is to come */
    return shoali_tx_control(p->control, kind, bytes, len_bytes);
}

/* ---------------------------------------------------------------- progress */

static void not_joined(shoali_tcp *tcp, uint32_t peer)
{
    char text[SHOALI_TCP_TEXT_BYTES];
    shoali_tcp_peer *p = &tcp->peers[peer];
    shoal_status status = p->reason == SHOAL_EAUTH || p->reason == SHOAL_EVERSION ? p->reason
                                                                                  : SHOAL_ETIMEDOUT;
    snprintf(text, sizeof text, "did not connect within %.1f s%s%.160s",
             (double)tcp->args.join_us / 1e6,
             p->reason_text[0] != '\0' ? "; someone in its name failed: " : "", p->reason_text);
    shoali_peer_fail(tcp, peer, status, text);
}

static bool is_joining(const shoali_tcp *tcp)
{
    for (uint32_t peer = 0; peer < tcp->args.size; peer++)
        if (tcp->peers[peer].state == SHOALI_PEER_JOINING)
            return true;
    return false;
}

/* A stranger's time is over. But while many ranks join on one busy machine, it may not have had its
 * turn: it may stay, as long as there is room, until nobody is missing. */
static void end_stranger(shoali_conn *conn)
{
    if (is_joining(conn->tcp)) {
        shoali_conn_set_timer(conn, conn->tcp->now_us + SHOALI_TCP_OPENING_US);
        return;
    }
    conn->tcp->refused++;
    shoali_conn_kill(conn, SHOAL_ETIMEDOUT);
}

static void conn_timer(shoali_conn *conn)
{
    switch (conn->state) {
    case SHOALI_CONN_WAITING:
        shoali_conn_dial(conn);
        return;
    case SHOALI_CONN_CONNECTING:
        shoali_conn_retry(conn, SHOAL_ETIMEDOUT, "no answer");
        return;
    case SHOALI_CONN_OPENING:
        if (conn->dialled)
            shoali_conn_retry(conn, SHOAL_ETIMEDOUT, "connected, but its process does not answer");
        else
            end_stranger(conn);
        return;
    default:
        conn->wake_us = UINT64_MAX;
    }
}

static void peer_timer(shoali_tcp *tcp, uint32_t peer)
{
    shoali_tcp_peer *p = &tcp->peers[peer];
    if (p->state == SHOALI_PEER_JOINING)
        not_joined(tcp, peer);
    else if (p->state == SHOALI_PEER_UP && p->tunnelled)
        shoali_peer_fail(tcp, peer, p->reason, p->reason_text);
    else if (p->state == SHOALI_PEER_UP)
        shoali_lanes_judge(tcp, peer);
    else if (p->state == SHOALI_PEER_LEAVING)
        shoali_peer_fail(tcp, peer, SHOAL_ETIMEDOUT,
                         "said goodbye, but its last data did not come");
    p->wake_us = UINT64_MAX;
}

/* Run what is due in one list; false: the list may have changed, look again. */
static bool list_timers(shoali_conn *list, uint64_t now_us, uint64_t *next_us)
{
    for (shoali_conn *conn = list; conn != NULL; conn = conn->next) {
        if (conn->wake_us <= now_us) {
            conn_timer(conn);
            return false;
        }
        if (conn->wake_us < *next_us)
            *next_us = conn->wake_us;
    }
    return true;
}

static void timers(shoali_tcp *tcp, uint64_t now_us)
{
    uint64_t next_us = UINT64_MAX;
    tcp->wake_us = UINT64_MAX;
    if (tcp->listen_again_us != 0 && tcp->listen_again_us <= now_us) {
        tcp->listen_again_us = 0;
        if (watch_listeners(tcp) != SHOAL_OK)
            tcp->listen_again_us = now_us + 1000000;
    }
    if (tcp->listen_again_us != 0)
        next_us = tcp->listen_again_us;
    for (uint32_t peer = 0; peer < tcp->args.size; peer++) {
        shoali_tcp_peer *p = &tcp->peers[peer];
        if (p->state == SHOALI_PEER_NONE)
            continue;
        shoali_peer_unpark(tcp, peer);
        if (p->wake_us <= now_us)
            peer_timer(tcp, peer);
        while (!list_timers(p->conns, now_us, &next_us))
            continue;
        if (p->wake_us < next_us)
            next_us = p->wake_us;
    }
    while (!list_timers(tcp->strangers, now_us, &next_us))
        continue;
    if (next_us < tcp->wake_us)
        tcp->wake_us = next_us; /* unless a callback asked for less meanwhile */
}

static void flush_list(shoali_conn **dirty)
{
    shoali_conn *list = *dirty, *conn;
    *dirty = NULL;
    while ((conn = list) != NULL) {
        list = conn->next_dirty;
        conn->dirty = false;
        shoali_tx_flush(conn);
    }
}

static bool is_dirty(const shoali_tcp *tcp)
{
    return tcp->dirty[0] != NULL || tcp->dirty[1] != NULL;
}

static void flush_dirty(shoali_tcp *tcp)
{
    for (int round = 0; round < FLUSH_ROUNDS && is_dirty(tcp); round++) {
        flush_list(&tcp->dirty[0]);
        flush_list(&tcp->dirty[1]);
    }
}

static void handle(shoali_tcp *tcp, const struct epoll_event *event)
{
    int *listener = event->data.ptr;
    if (listener >= tcp->listeners && listener < tcp->listeners + SHOALI_TCP_LISTENERS) {
        shoali_tcp_accept_all(tcp, *listener);
        return;
    }
    shoali_conn *conn = event->data.ptr;
    if (conn->state == SHOALI_CONN_CONNECTING)
        shoali_conn_connected(conn);
    else if (conn->state == SHOALI_CONN_OPENING)
        shoali_conn_advance_opening(conn);
    if (conn->state == SHOALI_CONN_OPEN && (event->events & (uint32_t)~EPOLLOUT) != 0)
        shoali_rx_pump(conn);
    if (conn->state == SHOALI_CONN_OPEN && (event->events & EPOLLOUT) != 0)
        shoali_tx_flush(conn);
}

static shoali_conn *find_unread(const shoali_tcp *tcp)
{
    for (uint32_t peer = 0; peer < tcp->args.size; peer++)
        for (shoali_conn *c = tcp->peers[peer].conns; c != NULL; c = c->next)
            if (c->state == SHOALI_CONN_OPEN && c->tls != NULL && shoali_tls_unread(c->tls))
                return c;
    return NULL;
}

/* Frames that came in one segment with the end of an opening lie in the buffers of TLS. */
static void pump_unread(shoali_tcp *tcp)
{
    shoali_conn *conn;
    tcp->pump_again = false;
    while ((conn = find_unread(tcp)) != NULL)
        shoali_rx_pump(conn);
}

/* True: there may be more. */
static bool handle_events(shoali_tcp *tcp)
{
    struct epoll_event events[EVENTS_PER_TURN];
    const int count = epoll_wait(tcp->epoll, events, EVENTS_PER_TURN, 0);
    for (int i = 0; i < count; i++)
        handle(tcp, &events[i]);
    shoali_conn_free_dead(tcp);
    return count == EVENTS_PER_TURN;
}

/* On a busy machine this process may have slept beyond a deadline of its own, and what it waited
 * for have come long ago: before a timer counts, all events are handled. */
static void tcp_progress(void *state, uint64_t now_us)
{
    shoali_tcp *tcp = state;
    const bool due = tcp->wake_us <= now_us;
    const uint32_t turns = due ? tcp->args.size / EVENTS_PER_TURN + 1 : 0;
    tcp->now_us = now_us;
    flush_dirty(tcp);
    for (uint32_t i = 0; handle_events(tcp) && i < turns; i++)
        continue;
    if (due)
        timers(tcp, now_us);
    if (tcp->pump_again)
        pump_unread(tcp);
    flush_dirty(tcp);
    shoali_conn_free_dead(tcp);
}

static uint64_t tcp_next_wake_us(const void *state)
{
    const shoali_tcp *tcp = state;
    return is_dirty(tcp) || tcp->pump_again ? 0 : tcp->wake_us;
}

static int tcp_fd(const void *state)
{
    const shoali_tcp *tcp = state;
    return tcp->epoll;
}

uint64_t shoali_tcp_refused(const void *state)
{
    const shoali_tcp *tcp = state;
    return tcp->refused;
}

const shoali_transport_row shoali_transport_tcp = {
    .name = "tcp",
    .about = "connections between all pairs, TLS between hosts; ranks of one host use shm",
    .traits = SHOALI_TRANSPORT_STREAM | SHOALI_TRANSPORT_CONTROL,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(shoali_tcp_params)},
    .state_size = sizeof(shoali_tcp),
    .open = tcp_open,
    .address = tcp_address,
    .add_peer = tcp_add_peer,
    .send = tcp_send,
    .control = tcp_control,
    .fd = tcp_fd,
    .progress = tcp_progress,
    .next_wake_us = tcp_next_wake_us,
    .drop_peer = tcp_drop_peer,
    .peer_stats = tcp_peer_stats,
    .links = tcp_links,
    .close = tcp_close,
    .forked = tcp_forked,
};
