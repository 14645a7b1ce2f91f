/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving. One system call reads the rest of the current body straight to its place and, behind
 * it, what comes next into the stage: just a header after a large body (so that the next body lands
 * in place, too), much after a small one (so that small frames come many per call). */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "transport/stream.h"
#include "transport/tcp.h"
#include "wire/crc32c.h"
#include "wire/guard.h"

enum {
    STAGE_BYTES = 16 << 10,
    SMALL_BODY_BYTES = 8 << 10,
    PUMP_BYTES = 4 << 20, /* per turn: then others get theirs */
    SCRATCH_BYTES = 64 << 10
};

static void deliver(shoali_conn *conn)
{
    shoali_tcp *tcp = conn->tcp;
    size_t count = conn->rx.complete;
    conn->rx.complete = 0;
    if (count > 0)
        tcp->events.frames(tcp->events.ctx, (uint32_t)conn->peer, conn->rx.heads, conn->rx.bodies,
                           count);
}

void shoali_rx_return_all(shoali_conn *conn)
{
    shoali_tcp *tcp = conn->tcp;
    shoali_tcp_rx *rx = &conn->rx;
    size_t count = rx->complete;
    bool pending = rx->in_body && rx->body != NULL;
    rx->complete = 0;
    rx->in_body = false;
    for (size_t i = 0; i < count; i++)
        tcp->events.unplace(tcp->events.ctx, (uint32_t)conn->peer, &rx->heads[i], rx->bodies[i]);
    if (pending)
        tcp->events.unplace(tcp->events.ctx, (uint32_t)conn->peer, &rx->frame.head, rx->body);
}

static void broken(shoali_conn *conn, shoal_status status, const char *what)
{
    char copy[SHOALI_TCP_TEXT_BYTES]; /* callbacks overwrite the last error */
    snprintf(copy, sizeof copy, "%s", what);
    deliver(conn);
    if (conn->state == SHOALI_CONN_OPEN)
        shoali_peer_fail(conn->tcp, (uint32_t)conn->peer, status, copy);
}

/* ---------------------------------------------------------------- one frame */

static void end_data(shoali_conn *conn)
{
    shoali_tcp_rx *rx = &conn->rx;
    shoal_peer_stats *stats = &conn->tcp->peers[conn->peer].stats;
    if (rx->body == NULL) {
        rx->in_body = false;
        stats->dropped_frames++;
        return;
    }
    if (rx->frame.summed && shoali_crc32c(0, rx->body, rx->got) != rx->frame.body_crc) {
        broken(conn, SHOAL_ECORRUPT, "a frame's body arrived damaged (checksum)");
        return; /* the body goes back by unplace */
    }
    rx->in_body = false;
    stats->received_frames++;
    stats->received_payload_bytes += rx->got;
    stats->received_wire_bytes += rx->got + SHOALI_FRAME_BYTES;
    rx->heads[rx->complete] = rx->frame.head;
    rx->bodies[rx->complete] = rx->body;
    if (++rx->complete == SHOALI_TCP_BATCH)
        deliver(conn);
}

static void begin_data(shoali_conn *conn)
{
    shoali_tcp *tcp = conn->tcp;
    shoali_tcp_rx *rx = &conn->rx;
    if (conn->control || conn->dialled) {
        broken(conn, SHOAL_ECORRUPT, "a data frame on a connection that carries none");
        return;
    }
    rx->body = tcp->events.place(tcp->events.ctx, (uint32_t)conn->peer, &rx->frame.head);
    if (conn->state != SHOALI_CONN_OPEN) { /* dropped from inside the callback */
        if (rx->body != NULL)
            tcp->events.unplace(tcp->events.ctx, (uint32_t)conn->peer, &rx->frame.head, rx->body);
        rx->in_body = false;
        return;
    }
    rx->in_body = true;
    rx->got = 0;
    if (rx->frame.head.len_bytes == 0)
        end_data(conn);
}

static void on_goodbye(shoali_conn *conn)
{
    deliver(conn);
    if (conn->state != SHOALI_CONN_OPEN)
        return;
    shoali_tcp *tcp = conn->tcp;
    uint32_t peer = (uint32_t)conn->peer;
    conn->goodbye_got = true;
    if (conn->control) {
        shoali_peer_left(tcp, peer);
        return;
    }
    shoali_conn_kill(conn, SHOAL_EPEER);
    shoali_peer_try_finish(tcp, peer);
}

/* A control frame whose body is all in the stage. */
static void on_control(shoali_conn *conn, const uint8_t *body)
{
    shoali_tcp *tcp = conn->tcp;
    const shoali_frame *frame = &conn->rx.frame;
    uint32_t bytes = frame->head.len_bytes;
    if (frame->summed && shoali_crc32c(0, body, bytes) != frame->body_crc)
        broken(conn, SHOAL_ECORRUPT, "a control frame arrived damaged (checksum)");
    else if (frame->kind == SHOALI_MESSAGE_goodbye && bytes == 0)
        on_goodbye(conn);
    else if (!conn->control || frame->kind < SHOALI_MESSAGE_FIRST_CONTROL)
        broken(conn, SHOAL_ECORRUPT,
               "a control frame on a connection that carries none of its kind");
    else
        tcp->events.control(tcp->events.ctx, (uint32_t)conn->peer, frame->kind, body, bytes);
}

/* ---------------------------------------------------------------- the stage */

/* Make room for `want` unread bytes in all. Only control frames ever need more than the first
 * size. */
static bool make_room(shoali_tcp_rx *rx, size_t want)
{
    if (rx->begin > 0 && rx->begin + want > rx->stage_bytes) {
        memmove(rx->stage, rx->stage + rx->begin, rx->end - rx->begin);
        rx->end -= rx->begin;
        rx->begin = 0;
    }
    if (want <= rx->stage_bytes)
        return true;
    uint8_t *stage = shoali_realloc(rx->stage, rx->stage_bytes, want);
    if (stage == NULL)
        return false;
    rx->stage = stage;
    rx->stage_bytes = want;
    return true;
}

/* Bytes of the current body that lie in the stage. */
static void take_body(shoali_conn *conn)
{
    shoali_tcp_rx *rx = &conn->rx;
    size_t rest = rx->frame.head.len_bytes - rx->got, there = rx->end - rx->begin;
    size_t take = rest < there ? rest : there;
    if (rx->body != NULL && take > 0)
        memcpy(rx->body + rx->got, rx->stage + rx->begin, take);
    rx->begin += take;
    rx->got += (uint32_t)take;
    if (take == rest)
        end_data(conn);
}

/* A header, unharmed by a codec in the network where the connection's ToS admits one. */
static shoal_status read_header(const shoali_conn *conn, const uint8_t *at, shoali_frame *frame_out)
{
    uint8_t bytes[SHOALI_FRAME_BYTES];
    if (conn->control || conn->tos != SHOALI_TOS_FLOATS)
        return shoali_frame_decode(at, frame_out);
    memcpy(bytes, at, sizeof bytes);
    if (!shoali_unguard(bytes, sizeof bytes / 4))
        return shoali_fail(SHOAL_ECORRUPT, "frame header without its guard (ToS %#x)", conn->tos);
    return shoali_frame_decode(bytes, frame_out);
}

/* Cut frames out of the stage until it holds no whole one. */
static void cut(shoali_conn *conn)
{
    shoali_tcp_rx *rx = &conn->rx;
    while (conn->state == SHOALI_CONN_OPEN) {
        if (rx->in_body) {
            if (rx->begin == rx->end)
                break;
            take_body(conn);
            continue;
        }
        if (rx->end - rx->begin < SHOALI_FRAME_BYTES)
            break;
        shoal_status status = read_header(conn, rx->stage + rx->begin, &rx->frame);
        if (status != SHOAL_OK) {
            broken(conn, status, shoal_last_error()->text);
            return;
        }
        size_t whole = SHOALI_FRAME_BYTES;
        bool data = rx->frame.kind == SHOALI_MESSAGE_data;
        if (!data)
            whole += rx->frame.head.len_bytes;
        if (rx->end - rx->begin < whole) {
            if (!make_room(rx, whole))
                broken(conn, SHOAL_ENOMEM, "no memory for a control frame");
            return;
        }
        const uint8_t *body = rx->stage + rx->begin + SHOALI_FRAME_BYTES;
        rx->begin += whole;
        if (data)
            begin_data(conn);
        else
            on_control(conn, body);
    }
    if (rx->begin == rx->end)
        rx->begin = rx->end = 0;
}

/* ---------------------------------------------------------------- reading */

/* Where the next read puts its bytes: the rest of the body, then the stage. */
static int aim(shoali_conn *conn, struct iovec parts[2], size_t *body_bytes_out)
{
    shoali_tcp_rx *rx = &conn->rx;
    size_t rest = rx->in_body ? rx->frame.head.len_bytes - rx->got : 0;
    size_t unread = rx->end - rx->begin, ahead = rx->stage_bytes - rx->end;
    int count = 0;
    *body_bytes_out = 0;
    if (rest > 0) {
        parts[count].iov_base = rx->body != NULL ? rx->body + rx->got : conn->tcp->scratch;
        parts[count].iov_len = rx->body != NULL || rest < SCRATCH_BYTES ? rest : SCRATCH_BYTES;
        *body_bytes_out = parts[count++].iov_len;
        if (*body_bytes_out < rest)
            return count;
    }
    bool large = !conn->control && rx->frame.head.len_bytes >= SMALL_BODY_BYTES;
    if (large && unread < SHOALI_FRAME_BYTES && ahead > SHOALI_FRAME_BYTES - unread)
        ahead = SHOALI_FRAME_BYTES - unread;
    parts[count++] = (struct iovec){rx->stage + rx->end, ahead};
    return count;
}

static void took(shoali_conn *conn, size_t got, size_t body_bytes)
{
    shoali_tcp_rx *rx = &conn->rx;
    size_t body = got < body_bytes ? got : body_bytes;
    rx->end += got - body;
    rx->got += (uint32_t)body;
    if (rx->in_body && body > 0 && rx->got == rx->frame.head.len_bytes)
        end_data(conn);
    cut(conn);
    deliver(conn);
}

static bool ready(shoali_conn *conn)
{
    shoali_tcp *tcp = conn->tcp;
    if (tcp->scratch == NULL && (tcp->scratch = shoali_alloc(SCRATCH_BYTES)) == NULL)
        return false;
    return make_room(&conn->rx, conn->rx.stage_bytes > 0 ? conn->rx.stage_bytes : STAGE_BYTES);
}

void shoali_rx_pump(shoali_conn *conn)
{
    size_t total = 0;
    if (!ready(conn)) {
        broken(conn, SHOAL_ENOMEM, "no memory to receive");
        return;
    }
    while (conn->state == SHOALI_CONN_OPEN &&
           (total < PUMP_BYTES || (conn->tls != NULL && shoali_tls_unread(conn->tls)))) {
        struct iovec parts[2];
        size_t body_bytes, want = 0;
        (void)make_room(&conn->rx, conn->rx.stage_bytes); /* moves a cut header to the front */
        int count = aim(conn, parts, &body_bytes);
        for (int i = 0; i < count; i++)
            want += parts[i].iov_len;
        ssize_t got = shoali_conn_read(conn, parts, count, total < PUMP_BYTES);
        if (got == SHOALI_STREAM_LATER)
            return;
        if (got < 0) {
            int os_error = errno;
            if (got == SHOALI_STREAM_END)
                shoali_conn_lost(conn, SHOAL_EPEER, "it closed its connection without a goodbye");
            else
                shoali_conn_lost(conn, shoali_tcp_status_of(os_error), strerror(os_error));
            return;
        }
        total += (size_t)got;
        conn->tcp->peers[conn->peer].last_seen_us = conn->heard_us = conn->tcp->now_us;
        if (conn->control)
            conn->tcp->peers[conn->peer].stats.control_bytes += (size_t)got;
        took(conn, (size_t)got, body_bytes);
        if ((size_t)got < want)
            return; /* the socket is empty; epoll tells when it is not */
    }
}
