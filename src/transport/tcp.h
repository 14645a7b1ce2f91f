/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the tcp transport. Per peer: one control connection, dialled by the higher endpoint, and
 * data connections, dialled by whoever sends, one direction each, `lanes` per ToS and link that
 * both hosts share. Lane 0 tries all addresses; another one tries its link once, carries nothing
 * before it stands, and is given up if that fails. Every connection goes through
 *
 *   WAITING -> CONNECTING -> OPENING -> OPEN -> DEAD     dialled (back to WAITING until give_up_us)
 *                            OPENING -> PARKED -> OPEN   accepted; PARKED until add_peer (control)
 *                                                        or until the peer is UP (data)
 *
 * and every peer through NONE -> JOINING -> UP -> (LEAVING ->) DOWN -> NONE by drop_peer.
 *
 * Callbacks may call back into the transport, so a connection that ends is only marked DEAD and
 * freed at the end of progress(); whoever holds a pointer across a callback checks for DEAD. */
#ifndef SHOALI_TRANSPORT_TCP_H
#define SHOALI_TRANSPORT_TCP_H

#include <stdbool.h>

#include "transport/address.h"
#include "transport/outbox.h"
#include "transport/tls.h"
#include "transport/transport.h"
#include "wire/frame.h"
#include "wire/handshake.h"

enum {
    SHOALI_TCP_LISTENERS = SHOALI_ADDRESS_IPS,
    SHOALI_TCP_MAX_LANES = 16,
    SHOALI_TCP_TEXT_BYTES = 256,
    SHOALI_TCP_BATCH = 16,           /* frames per callback */
    SHOALI_TCP_GRACE_US = 300000,    /* between the ends of connections that end for one reason */
    SHOALI_TCP_OPENING_US = 5000000, /* a stranger has this long to prove itself */
    SHOALI_TCP_PROBED = 32,
    SHOALI_TCP_NOBODY = -1
};

/* auto: between hosts, but not in a lab. */
enum { SHOALI_TCP_TLS_AUTO, SHOALI_TCP_TLS_ON, SHOALI_TCP_TLS_OFF };

typedef struct shoali_tcp_params {
    int64_t port;  /* to listen on, 0: the kernel's choice */
    int64_t lanes; /* data connections per peer and ToS */
    bool checksum; /* of bodies */
    bool shm;      /* read by the comm: use shm beside tcp for peers on the same host */
    int32_t tls;   /* SHOALI_TCP_TLS_* */
    bool ktls;
} shoali_tcp_params;

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

typedef enum {
    SHOALI_PEER_NONE,
    SHOALI_PEER_JOINING,
    SHOALI_PEER_UP,
    SHOALI_PEER_LEAVING,
    SHOALI_PEER_DOWN
} shoali_peer_state;

typedef struct shoali_tcp_peer {
    shoali_peer_state state;
    shoali_address address; /* what worked for the control connection first, then links */
    uint32_t links;         /* of them, from the front, are links of their own; at least 1 */
    bool tunnelled;         /* no address of its own works, but the relay's does */
    uint32_t links_off;     /* bit i: link i carries nothing */
    double best_rate;       /* of its lanes, bytes per us; 0: not known */
    shoali_conn *conns;     /* all, the control connection too */
    shoali_conn *control;
    uint64_t incarnation;
    uint64_t wake_us; /* JOINING: not there by then; LEAVING: stop waiting for its last data */
    uint64_t last_seen_us;
    shoal_status reason; /* of the last failed attempt to meet, and its text */
    char reason_text[SHOALI_TCP_TEXT_BYTES];
    shoal_peer_stats stats;
} shoali_tcp_peer;

typedef struct shoali_tcp {
    shoali_transport_args args;
    shoali_transport_events events;
    shoali_tcp_params params;
    char *job;
    uint8_t *token;
    shoali_tls_keys *keys; /* NULL: no connection can have TLS */
    shoali_address address;
    uint64_t line_bytes_s; /* of its interfaces; 0: not known */
    int epoll;
    int listeners[SHOALI_TCP_LISTENERS];
    uint32_t listener_count;
    shoali_tcp_peer *peers; /* args.size */
    shoali_conn *strangers; /* accepted, not authenticated; newest first */
    uint32_t stranger_count, max_strangers;
    uint64_t refused; /* strangers turned away */
    shoali_conn *dead;
    shoali_conn *dirty[2];    /* [0] control connections, flushed first; [1] data */
    uint64_t wake_us;         /* earliest timer */
    uint64_t listen_again_us; /* after accept() failed for want of descriptors; 0: listening */
    uint64_t now_us;          /* of the running progress() */
    bool closing;
    bool pump_again;  /* a connection holds bytes that epoll does not see */
    uint8_t *scratch; /* bodies nobody wants */
} shoali_tcp;

/* tcp_socket.c: descriptors and their options. All return -1 with the last error set. */
int shoali_tcp_listen(const shoali_ip *ip, uint16_t port, shoali_ip *bound_out);
int shoali_tcp_dial(const shoali_ip *ip, uint8_t tos, int64_t deadline_us);
int shoali_tcp_accept(int listener, int64_t deadline_us, bool *none_out);
/** Up to `want` bytes. @return SHOAL_OK | PENDING: nothing there now | EPEER */
SHOAL_MUST_USE shoal_status shoali_tcp_receive(int fd, uint8_t *bytes, size_t want,
                                               size_t *got_out);
shoal_status shoali_tcp_set_tos(int fd, uint8_t tos);
/** tcp_info.c: add what the peer has acknowledged, and for how long there was something to send. */
void shoali_tcp_count(int fd, uint64_t *acked_bytes_add, uint64_t *busy_us_add);
/** Bytes that the kernel holds for the connection and that are not acknowledged. */
uint64_t shoali_tcp_unacked(int fd);
/** tcp_info.c: since anything came by it, acknowledgements of keepalive probes too. */
uint64_t shoali_tcp_silent_us(int fd);
/** Both ends of the connection are on this host, in this network namespace. */
bool shoali_tcp_is_local(int fd);
/** For a connection just made: no congestion control that paces when both ends are here. */
void shoali_tcp_tune_local(int fd);
/** In a job of more endpoints than SHOALI_TCP_PROBED: no probes, when both ends are here. */
void shoali_tcp_probe_less(int fd);
/** ETIMEDOUT when the error says that nothing comes through, else EPEER. */
shoal_status shoali_tcp_status_of(int os_error);

/* tcp_lanes.c: the data connection of this ToS that has a frame of so many bytes through first.
 * Another one is opened when even that has something before it. NULL: no memory. */
shoali_conn *shoali_tcp_pick_lane(shoali_tcp *tcp, uint32_t peer, uint8_t tos, uint32_t len_bytes);
/** A data connection that breaks while the control connection may stand on another link. */
bool shoali_lane_is_one_of_several(const shoali_conn *conn);
/** It broke: nothing more travels by its link. The peer is told about once it is sure that it has
 * not ended altogether. */
void shoali_lane_lost(shoali_conn *conn, shoal_status status, const char *what);
/** A lane could not be opened: its link carries nothing. */
void shoali_lane_give_up(shoali_conn *conn, shoal_status status, const char *what);
/** A while after a lane was closed by the other side: is the peer still there? */
void shoali_lanes_judge(shoali_tcp *tcp, uint32_t peer);
/** As transport.h has it for `links`. */
void shoali_lanes_text(const shoali_tcp *tcp, uint32_t peer, char out[SHOALI_LINKS_TEXT_BYTES]);

/* tcp_conn.c: connections and peers. */
static inline uint64_t shoali_tcp_now(const shoali_tcp *tcp)
{
    return tcp->args.now_us(tcp->args.now_ctx);
}
shoali_conn *shoali_conn_create(shoali_tcp *tcp, int64_t peer, bool control, bool dialled);
void shoali_peer_set_timer(shoali_tcp *tcp, shoali_tcp_peer *peer, uint64_t in_us);
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
void shoali_conn_free_dead(shoali_tcp *tcp);
void shoali_peer_fail(shoali_tcp *tcp, uint32_t peer, shoal_status status, const char *what);
/** The control connection brought a goodbye. */
void shoali_peer_left(shoali_tcp *tcp, uint32_t peer);
/** Report a leaving peer once nothing more can come from it. */
void shoali_peer_try_finish(shoali_tcp *tcp, uint32_t peer);
void shoali_peer_release(shoali_tcp *tcp, uint32_t peer, shoal_status status, bool polite);

/* tcp_open.c: from a socket to an authenticated connection. */
void shoali_tcp_accept_all(shoali_tcp *tcp, int listener);
void shoali_conn_dial(shoali_conn *conn);
/** An attempt to connect failed: try again later, or report the peer. */
void shoali_conn_retry(shoali_conn *conn, shoal_status status, const char *what);
void shoali_conn_connected(shoali_conn *conn);
void shoali_conn_advance_opening(shoali_conn *conn);
void shoali_peer_unpark(shoali_tcp *tcp, uint32_t peer);

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

/** Unauthenticated connections turned away so far (tests, doctor). */
uint64_t shoali_tcp_refused(const void *state);

#endif
