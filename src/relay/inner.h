/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a relay: relay.c, tunnel.c and call.c. */
#ifndef SHOALI_RELAY_INNER_H
#define SHOALI_RELAY_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "relay/relay.h"
#include "wire/handshake.h"

enum { SHOALI_TUNNELS = 512, SHOALI_TUNNEL_BYTES = 128 << 10 };

/** Bytes on their way from one end to the other. */
typedef struct shoali_stream_half {
    uint8_t *bytes; /* SHOALI_TUNNEL_BYTES, once open */
    size_t begin, end;
    bool ended, told; /* no more will come; and the other end knows */
} shoali_stream_half;

/* GREETED by the caller -> CONNECTING to the next one -> (CALLING it, if it is a relay) -> OPEN */
typedef enum {
    SHOALI_TUNNEL_GREETED,
    SHOALI_TUNNEL_CONNECTING,
    SHOALI_TUNNEL_CALLING,
    SHOALI_TUNNEL_OPEN
} shoali_tunnel_state;

typedef struct shoali_tunnel {
    shoali_tunnel_state state;
    int fd[2];                  /* the caller's, the one onward; -1: none */
    uint64_t until_us;          /* it has to be open by then */
    uint32_t from, to;          /* endpoints, for texts */
    uint8_t hops;               /* before this one */
    uint8_t door;               /* SHOALI_RELAY_DOOR: that is where it leads; else 0 */
    shoali_handshake handshake; /* of GREETED, then of CALLING */
    shoali_way way;
    shoali_stream_half half[2]; /* [i]: from fd[i] */
} shoali_tunnel;

struct shoali_relay {
    /* constant once open */
    shoali_relay_desc desc; /* job and token point to what follows */
    char job[SHOALI_JOB_BYTES];
    uint8_t token[SHOALI_MAX_TOKEN_BYTES];
    shoali_address mine;
    int listeners[SHOALI_ADDRESS_IPS], listener_count, udp, wake_fd;
    uint16_t port;
    pthread_t thread;
    bool running;

    atomic_bool quit;
    pthread_mutex_t lock; /* held during a round, so that fork falls between two; guards what
                             follows */
    bool store_known;
    shoali_way store;
    shoali_address *all; /* [size], NULL before they have met */
    uint32_t *next;      /* [size] route.h */
    uint64_t *links;     /* [size] */
    uint16_t *doors;     /* [size] ports; 0: not known */
    uint32_t size;
    uint32_t seen, *seen_next, *queue; /* progress thread: as next, seen from another rank */
    uint64_t linger_us;                /* after quit: not beyond */
    shoali_tunnel *tunnels[SHOALI_TUNNELS];
    uint32_t tunnel_count;
    struct pollfd *polls;
};

/* relay.c */
/** How `to` is reached from here. False: it is not. Under the lock. */
bool shoali_relay_find_way(const shoali_relay *relay, uint32_t to, shoali_way *way_out);
void shoali_relay_want(struct pollfd *poll, int fd, short events);

/* tunnel.c */
void shoali_tunnel_end(shoali_relay *relay, uint32_t index);
void shoali_tunnel_want(const shoali_tunnel *tunnel, struct pollfd polls[2]);
/** @return PENDING: go on | SHOAL_OK: both ends are through | else it broke */
SHOAL_MUST_USE shoal_status shoali_tunnel_advance(const shoali_relay *relay, shoali_tunnel *tunnel,
                                                  const struct pollfd polls[2], uint64_t now_us);

/* call.c */
/** Prepare the opening between relays: onward to `to`. The listener's target follows from the
 * caller. */
SHOAL_MUST_USE shoal_status shoali_relay_greet(const shoali_relay *relay, bool dialler,
                                               uint32_t target, uint32_t to, uint8_t hops,
                                               shoali_handshake *handshake_out);
/** Go on with it as far as the socket allows. @return SHOAL_OK: done | PENDING | else with text */
SHOAL_MUST_USE shoal_status shoali_relay_advance(int fd, shoali_handshake *handshake);

#endif
