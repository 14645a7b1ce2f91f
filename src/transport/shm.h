/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the shm transport: data between processes of one host and one network namespace. An
 * abstract unix socket per pair brings the two together (same user, same hello as everywhere),
 * carries the descriptors of two rings and two bells, and stays open: its end is the end of the
 * peer.
 *
 *   dialled:  WAITING -> OPENING -> MEETING -> OPEN        higher endpoint calls lower
 *   accepted:            OPENING -> MEETING -> OPEN        MEETING: descriptors are exchanged
 *
 * One copy into the ring, one out of it, both between user memory: no system call while both sides
 * are awake. */
#ifndef SHOALI_TRANSPORT_SHM_H
#define SHOALI_TRANSPORT_SHM_H

#include "transport/address.h"
#include "transport/outbox.h"
#include "transport/shm_ring.h"
#include "wire/handshake.h"

enum {
    SHOALI_SHM_BATCH = 16,
    SHOALI_SHM_TEXT_BYTES = 256,
    SHOALI_SHM_OPENING_US = 5000000 /* a stranger has this long to prove itself */
};

typedef struct shoali_shm_params {
    int64_t ring_bytes; /* per direction and peer */
} shoali_shm_params;

typedef enum {
    SHOALI_SHM_LINK_WAITING,
    SHOALI_SHM_LINK_OPENING,
    SHOALI_SHM_LINK_MEETING,
    SHOALI_SHM_LINK_OPEN,
    SHOALI_SHM_LINK_DEAD
} shoali_shm_link_state;

/* The connection to one peer, or to a stranger who may become one. */
typedef struct shoali_shm_link {
    struct shoali_shm *shm;
    struct shoali_shm_link *next; /* of the strangers or the dead */
    shoali_shm_link_state state;
    int64_t peer; /* -1: a stranger */
    bool dialled;
    int socket;
    uint64_t wake_us, give_up_us; /* dial again or end the attempt; dialled: the last attempt */
    uint64_t incarnation;
    shoali_handshake *opening;
    shoali_ring out, in;
    shoali_bell bell; /* the peer's */
    bool met, ended;  /* the other's descriptors are here; its socket has ended */
    bool blocked;     /* the ring was full */
    shoali_outbox box;
    /* receiving half */
    bool in_body;
    shoali_frame frame;
    uint8_t *body;
    float *sum; /* body is to be added to what lies there; NULL: copied */
    uint32_t got;
    shoal_data heads[SHOALI_SHM_BATCH];
    uint8_t *bodies[SHOALI_SHM_BATCH];
    size_t complete;
} shoali_shm_link;

typedef enum {
    SHOALI_SHM_NONE,
    SHOALI_SHM_JOINING,
    SHOALI_SHM_UP,
    SHOALI_SHM_DOWN
} shoali_shm_peer_state;

typedef struct shoali_shm_peer {
    shoali_shm_peer_state state;
    shoali_address address;
    shoali_shm_link *link;
    uint64_t wake_us; /* JOINING: not there by then */
    uint64_t last_seen_us;
    shoal_peer_stats stats;
} shoali_shm_peer;

typedef struct shoali_shm {
    shoali_transport_args args;
    shoali_transport_events events;
    shoali_shm_params params;
    char *job;
    uint8_t *token;
    shoali_address address;
    int epoll, listener;
    shoali_bell bell;
    shoali_shm_peer *peers;
    shoali_shm_link *strangers, *dead;
    uint32_t stranger_count;
    uint64_t refused, wake_us, now_us;
    bool more; /* work was left when progress() ended */
} shoali_shm;

/* shm_open.c: from a socket to two mapped rings. */
shoal_status shoali_shm_listen(shoali_shm *shm);
void shoali_shm_accept_all(shoali_shm *shm);
shoali_shm_link *shoali_shm_link_create(shoali_shm *shm, int64_t peer, bool dialled);
void shoali_shm_link_dial(shoali_shm_link *link);
/** Something came on the socket while the link is not open yet. */
void shoali_shm_link_advance(shoali_shm_link *link);
/** An attempt failed or took too long. */
void shoali_shm_link_failed(shoali_shm_link *link, shoal_status status, const char *what);
/** Report the peer as up if the link is ready and the peer was added. */
void shoali_shm_link_settle(shoali_shm_link *link);
void shoali_shm_link_kill(shoali_shm_link *link, shoal_status status);
void shoali_shm_link_free_dead(shoali_shm *shm);

/* shm_move.c: frames through the rings. */
void shoali_shm_link_pump_in(shoali_shm_link *link);
void shoali_shm_link_pump_out(shoali_shm_link *link);
bool shoali_shm_link_has_work(const shoali_shm_link *link);
void shoali_shm_link_return_all(shoali_shm_link *link, shoal_status status);

/* shm.c */
void shoali_shm_peer_fail(shoali_shm *shm, uint32_t peer, shoal_status status, const char *what);

#endif
