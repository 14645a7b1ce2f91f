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
#include "transport/tcp_conn.h"
#include "transport/tcp_socket.h"
#include "transport/transport.h"

enum {
    SHOALI_TCP_LISTENERS = SHOALI_ADDRESS_IPS,
    SHOALI_TCP_MAX_LANES = 16,
    SHOALI_TCP_TEXT_BYTES = 256,
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

/* tcp_lanes.c: the data connection of this ToS that has a frame of so many bytes through first.
 * Another one is opened when even that has something before it. NULL: no memory. */
shoali_conn *shoali_tcp_pick_lane(shoali_tcp *tcp, uint32_t peer, uint8_t tos, uint32_t len_bytes);
/** A while after a lane was closed by the other side: is the peer still there? */
void shoali_lanes_judge(shoali_tcp *tcp, uint32_t peer);
/** As transport.h has it for `links`. */
void shoali_lanes_text(const shoali_tcp *tcp, uint32_t peer, char out[SHOALI_LINKS_TEXT_BYTES]);

/* tcp_conn.c: connections and peers. */
static inline uint64_t shoali_tcp_now(const shoali_tcp *tcp)
{
    return tcp->args.now_us(tcp->args.now_ctx);
}
void shoali_peer_set_timer(shoali_tcp *tcp, shoali_tcp_peer *peer, uint64_t in_us);
void shoali_peer_fail(shoali_tcp *tcp, uint32_t peer, shoal_status status, const char *what);
/** The control connection brought a goodbye. */
void shoali_peer_left(shoali_tcp *tcp, uint32_t peer);
/** Report a leaving peer once nothing more can come from it. */
void shoali_peer_try_finish(shoali_tcp *tcp, uint32_t peer);
void shoali_peer_release(shoali_tcp *tcp, uint32_t peer, shoal_status status, bool polite);

/* tcp_open.c: from a socket to an authenticated connection. */
void shoali_tcp_accept_all(shoali_tcp *tcp, int listener);
void shoali_peer_unpark(shoali_tcp *tcp, uint32_t peer);

/** Unauthenticated connections turned away so far (tests, doctor). */
uint64_t shoali_tcp_refused(const void *state);

#endif
