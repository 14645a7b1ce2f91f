/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: frames wait in the connection and leave many per system call, bodies straight from the
 * caller's memory. */
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "transport/stream.h"
#include "transport/tcp.h"
#include "wire/crc32c.h"

enum {
    FRAMES_PER_CALL = 16,
    FLUSH_BYTES = 4 << 20,      /* per turn: then others get theirs */
    MAX_CONTROL_BYTES = 8 << 20 /* queued to one peer that does not read */
};

bool shoali_tx_is_empty(const shoali_conn *conn)
{
    return conn->tx.box.count == 0 && conn->tx.begin == conn->tx.end;
}

/* Control frames go before data that waits as well: behind it, they would share its queue in the
 * network. A READY that is late by that much leaves the link that it grants idle for as long. */
static void mark_dirty(shoali_conn *conn)
{
    shoali_conn **list = &conn->tcp->dirty[conn->control ? 0 : 1];
    if (conn->dirty || conn->state != SHOALI_CONN_OPEN || conn->watches_write)
        return;
    conn->dirty = true;
    conn->next_dirty = *list;
    *list = conn;
}

/* ---------------------------------------------------------------- queueing */

shoal_status shoali_tx_data(shoali_conn *conn, const shoal_data *head, const void *body,
                            uint64_t cookie)
{
    shoali_tcp *tcp = conn->tcp;
    SHOALI_TRY(
        shoali_outbox_put(&conn->tx.box, &tcp->args, tcp->params.checksum, head, body, cookie));
    mark_dirty(conn);
    return SHOAL_OK;
}

/* Room for len_bytes at the end of the byte run. */
static uint8_t *push_bytes(shoali_tcp_tx *tx, size_t len_bytes)
{
    if (tx->begin > 0 && tx->end + len_bytes > tx->bytes_capacity) {
        memmove(tx->bytes, tx->bytes + tx->begin, tx->end - tx->begin);
        tx->end -= tx->begin;
        tx->begin = 0;
    }
    if (tx->end + len_bytes > tx->bytes_capacity) {
        size_t bigger = 2 * (tx->end + len_bytes);
        uint8_t *bytes = shoali_realloc(tx->bytes, tx->bytes_capacity, bigger);
        if (bytes == NULL)
            return NULL;
        tx->bytes = bytes;
        tx->bytes_capacity = bigger;
    }
    uint8_t *at = tx->bytes + tx->end;
    tx->end += len_bytes;
    return at;
}

shoal_status shoali_tx_control(shoali_conn *conn, uint16_t kind, const void *bytes,
                               size_t len_bytes)
{
    shoali_frame frame = {.kind = kind,
                          .summed = conn->tcp->params.checksum,
                          .head = {.len_bytes = (uint32_t)len_bytes}};
    if (conn->tx.end - conn->tx.begin > MAX_CONTROL_BYTES)
        return shoali_fail(SHOAL_EPEER,
                           "%u bytes of control frames wait for rank %d, which does not read them",
                           MAX_CONTROL_BYTES, (int)conn->peer);
    uint8_t *at = push_bytes(&conn->tx, SHOALI_FRAME_BYTES + len_bytes);
    if (at == NULL)
        return SHOAL_ENOMEM;
    if (frame.summed)
        frame.body_crc = shoali_crc32c(0, bytes, len_bytes);
    shoali_frame_encode(&frame, at);
    if (len_bytes > 0)
        memcpy(at + SHOALI_FRAME_BYTES, bytes, len_bytes);
    mark_dirty(conn);
    return SHOAL_OK;
}

shoal_status shoali_tx_goodbye(shoali_conn *conn)
{
    if (conn->control)
        return shoali_tx_control(conn, SHOALI_MESSAGE_goodbye, NULL, 0);
    SHOALI_TRY(shoali_outbox_put_goodbye(&conn->tx.box));
    mark_dirty(conn);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- writing */

static int add_part(struct iovec *parts, int count, const void *bytes, size_t len_bytes,
                    size_t *skip)
{
    if (*skip >= len_bytes) {
        *skip -= len_bytes;
        return count;
    }
    union {
        const void *in;
        void *out;
    } cast = {bytes}; /* iovec has no const */
    parts[count].iov_base = (uint8_t *)cast.out + *skip;
    parts[count].iov_len = len_bytes - *skip;
    *skip = 0;
    return count + 1;
}

/* What the next call may write: frames, then bytes (only one of them is ever in use). */
static int gather(const shoali_tcp_tx *tx, struct iovec parts[2 * FRAMES_PER_CALL + 1])
{
    int count = 0;
    size_t skip = tx->box.front_done;
    for (uint32_t i = 0; i < tx->box.count && i < FRAMES_PER_CALL; i++) {
        const shoali_out *out = shoali_outbox_at(&tx->box, i);
        count = add_part(parts, count, out->header, SHOALI_FRAME_BYTES, &skip);
        count = add_part(parts, count, out->body, out->body_bytes, &skip);
    }
    if (tx->end > tx->begin)
        count = add_part(parts, count, tx->bytes + tx->begin, tx->end - tx->begin, &skip);
    return count;
}

static void count_sent(shoali_conn *conn, const shoali_out *out)
{
    shoal_peer_stats *stats = &conn->tcp->peers[conn->peer].stats;
    stats->sent_frames++;
    stats->sent_payload_bytes += out->body_bytes;
    stats->sent_wire_bytes += out->body_bytes + SHOALI_FRAME_BYTES;
}

/* The kernel has taken `bytes` more: drop whole frames and tell their owners. */
static void advance(shoali_conn *conn, size_t bytes)
{
    shoali_tcp *tcp = conn->tcp;
    shoali_tcp_tx *tx = &conn->tx;
    if (conn->control) {
        tx->begin += bytes;
        if (tx->begin == tx->end)
            tx->begin = tx->end = 0;
        tcp->peers[conn->peer].stats.control_bytes += bytes;
        return;
    }
    shoali_out done;
    for (bool more = shoali_outbox_advance(&tx->box, bytes, &done); more;
         more = conn->state != SHOALI_CONN_DEAD && shoali_outbox_advance(&tx->box, 0, &done)) {
        if (done.goodbye)
            continue;
        count_sent(conn, &done);
        tcp->events.sent(tcp->events.ctx, (uint32_t)conn->peer, done.cookie, SHOAL_OK);
    }
}

void shoali_tx_flush(shoali_conn *conn)
{
    struct iovec parts[2 * FRAMES_PER_CALL + 1];
    size_t written = 0;
    while (conn->state == SHOALI_CONN_OPEN && !shoali_tx_is_empty(conn)) {
        if (written >= FLUSH_BYTES) {
            mark_dirty(conn);
            return;
        }
        int count = gather(&conn->tx, parts);
        size_t whole = 0;
        for (int i = 0; i < count; i++)
            whole += parts[i].iov_len;
        ssize_t got = shoali_conn_write(conn, parts, (size_t)count);
        if (got == SHOALI_STREAM_FAILED) {
            int os_error = errno;
            shoali_conn_lost(conn, shoali_tcp_status_of(os_error), strerror(os_error));
            return;
        }
        if (got > 0) {
            written += (size_t)got;
            advance(conn, (size_t)got);
        }
        if ((size_t)got < whole) { /* the socket is full: epoll tells when it is not */
            if (conn->state == SHOALI_CONN_OPEN && shoali_conn_watch(conn, true) != SHOAL_OK)
                shoali_conn_lost(conn, SHOAL_ESYSTEM, shoal_last_error()->text);
            return;
        }
    }
    if (conn->state == SHOALI_CONN_OPEN && conn->watches_write &&
        shoali_conn_watch(conn, false) != SHOAL_OK)
        shoali_conn_lost(conn, SHOAL_ESYSTEM, shoal_last_error()->text);
}

void shoali_tx_return_all(shoali_conn *conn, shoal_status status)
{
    conn->tx.begin = conn->tx.end = 0;
    shoali_outbox_return_all(&conn->tx.box, &conn->tcp->events, (uint32_t)conn->peer, status);
}
