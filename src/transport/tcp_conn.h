/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the tcp transport (tcp.h says which there are): from a socket to an
 * authenticated connection, frames, its end. */
#ifndef SHOALI_TRANSPORT_TCP_CONN_H
#define SHOALI_TRANSPORT_TCP_CONN_H

#include <stdbool.h>

#include "transport/address.h"
#include "transport/outbox.h"
#include "transport/tls.h"
#include "transport/transport.h"
#include "wire/frame.h"
#include "wire/handshake.h"

struct shoali_tcp;

enum { SHOALI_TCP_BATCH = 16 }; /* frames per callback */

typedef enum {
    SHOALI_CONN_WAITING,
    SHOALI_CONN_CONNECTING,
    SHOALI_CONN_OPENING,
    SHOALI_CONN_PARKED,
    SHOALI_CONN_OPEN,
    SHOALI_CONN_DEAD
} shoali_conn_state;

/* The receiving half: frames are cut out of stage; a body's bytes that are not there yet go
 * straight to its place. */
typedef struct shoali_tcp_rx {
    uint8_t *stage;
    size_t stage_bytes, begin, end; /* capacity, unread part */
    bool in_body;
    shoali_frame frame;
    uint8_t *body;                      /* NULL: skip */
    uint32_t got;                       /* bytes of the body */
    shoal_data heads[SHOALI_TCP_BATCH]; /* frames completed, not yet told */
    uint8_t *bodies[SHOALI_TCP_BATCH];
    size_t complete;
} shoali_tcp_rx;

/* The sending half: frames (data) or a run of bytes (control, copied). */
typedef struct shoali_tcp_tx {
    shoali_outbox box;
    uint8_t *bytes;
    size_t bytes_capacity, begin, end;
} shoali_tcp_tx;

/* What a lane beside others carries. */
typedef struct shoali_lane_rate {
    double bytes_us; /* 0: not known */
    uint64_t acked_bytes, busy_us, used_us;
} shoali_lane_rate;

typedef struct shoali_conn {
    struct shoali_tcp *tcp;
    struct shoali_conn *next;       /* of the peer, the strangers or the dead */
    struct shoali_conn *next_dirty; /* to be flushed */
    shoali_conn_state state;
    int fd;
    int64_t peer; /* endpoint, NOBODY for a stranger */
    bool tunnel;  /* by way of a relay that has not let us through yet */
    bool spare;   /* a lane beside the first: it has its link to try, and may fail */
    bool control, dialled, dirty, watched, watches_write, goodbye_got;
    uint8_t tos;
    uint16_t lane;
    uint64_t incarnation; /* of the other side, once authenticated */
    uint64_t wake_us;     /* WAITING: dial again; CONNECTING, OPENING: give this attempt up */
    uint64_t give_up_us;  /* dialled: no attempt after this */
    uint64_t backoff_us;
    uint32_t dial_ip;
    shoali_ip here, there; /* of an open one; without ports' meaning */
    uint64_t heard_us;     /* when bytes came last */
    shoali_lane_rate rate;
    shoali_tls *tls; /* NULL: none on this connection */
    shoali_handshake *opening;
    shoali_tcp_rx rx;
    shoali_tcp_tx tx;
} shoali_conn;

/* tcp_lanes.c */
/** A data connection that breaks while the control connection may stand on another link. */
bool shoali_lane_is_one_of_several(const shoali_conn *conn);
/** It broke: nothing more travels by its link. The peer is told about once it is sure that it has
 * not ended altogether. */
void shoali_lane_lost(shoali_conn *conn, shoal_status status, const char *what);
/** A lane could not be opened: its link carries nothing. */
void shoali_lane_give_up(shoali_conn *conn, shoal_status status, const char *what);

/* tcp_conn.c */
shoali_conn *shoali_conn_create(struct shoali_tcp *tcp, int64_t peer, bool control, bool dialled);
void shoali_conn_set_timer(shoali_conn *conn, uint64_t wake_us);
/** The mark of a data connection, from its first frame to its goodbye, whichever end dialled. */
void shoali_conn_mark(shoali_conn *conn, uint8_t tos);
/** (Un)watch for reading, and for writing on request. */
shoal_status shoali_conn_watch(shoali_conn *conn, bool write);
void shoali_conn_unwatch(shoali_conn *conn);
/** End one connection: bodies go back by sent(status) and unplace; freed at the end of
 *  progress(). */
void shoali_conn_kill(shoali_conn *conn, shoal_status status);
/** Goodbye as far as the socket takes it without waiting, then kill. */
void shoali_conn_part(shoali_conn *conn);
/** The other side is gone, or speaks nonsense: judges whether that was its goodbye or its death. */
void shoali_conn_lost(shoali_conn *conn, shoal_status status, const char *what);
void shoali_conn_free_dead(struct shoali_tcp *tcp);

/* tcp_open.c */
void shoali_conn_dial(shoali_conn *conn);
/** An attempt to connect failed: try again later, or report the peer. */
void shoali_conn_retry(shoali_conn *conn, shoal_status status, const char *what);
void shoali_conn_connected(shoali_conn *conn);
void shoali_conn_advance_opening(shoali_conn *conn);

/* Through TLS where the connection has it. more: as for shoali_tls_read. */
ssize_t shoali_conn_read(shoali_conn *conn, struct iovec *parts, int count, bool more);
ssize_t shoali_conn_write(shoali_conn *conn, struct iovec *parts, size_t count);

/* tcp_rx.c, tcp_tx.c: frames. */
void shoali_rx_pump(shoali_conn *conn);
shoal_status shoali_tx_data(shoali_conn *conn, const shoal_data *head, const void *body,
                            uint64_t cookie);
shoal_status shoali_tx_control(shoali_conn *conn, uint16_t kind, const void *bytes,
                               size_t len_bytes);
shoal_status shoali_tx_goodbye(shoali_conn *conn);
void shoali_tx_flush(shoali_conn *conn);
bool shoali_tx_is_empty(const shoali_conn *conn);
/** Hand the bodies of all queued frames, or of all that are placed and not told, back. */
void shoali_rx_return_all(shoali_conn *conn);
void shoali_tx_return_all(shoali_conn *conn, shoal_status status);

#endif
