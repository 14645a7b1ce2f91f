/* SPDX-License-Identifier: Apache-2.0 */
/* A transport moves frames between endpoints; it knows nothing of operations. Driven by one thread
 * (the comm's progress thread, or a test): no call blocks, no call starts a thread. Peers are
 * endpoint ids. */
#ifndef SHOALI_TRANSPORT_TRANSPORT_H
#define SHOALI_TRANSPORT_TRANSPORT_H

#include "base/spec.h"
#include "shoal/shoal.h"
#include "wire/data.h"

enum {
    SHOALI_TRANSPORT_STREAM = 1u << 0,
    SHOALI_TRANSPORT_DATAGRAM = 1u << 1,
    SHOALI_TRANSPORT_CONTROL = 1u << 2 /* carries control frames, too */
};
enum {
    SHOALI_ADDRESS_BYTES = 512,
    SHOALI_CONTROL_MAX_BYTES = 64 * 1024,
    SHOALI_LINKS_TEXT_BYTES = 160
};

/** What a transport tells its user; called only from inside progress() or the call that caused
 * it. */
typedef struct shoali_transport_events {
    void *ctx;
    /** Where the body of an incoming data frame goes; NULL: drop and count it. */
    uint8_t *(*place)(void *ctx, uint32_t peer, const shoal_data *head);
    void (*frames)(void *ctx, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                   size_t count);
    /** A placed body will not be completed (connection lost, or the transport closes). */
    void (*unplace)(void *ctx, uint32_t peer, const shoal_data *head, uint8_t *body);
    /** The transport no longer reads the body of this send; also called, with a failing status,
     * when it was dropped. */
    void (*sent)(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status);
    void (*control)(void *ctx, uint32_t peer, uint16_t kind, const uint8_t *bytes,
                    size_t len_bytes);
    /** The control connection to peer stands, both sides authenticated. */
    void (*peer_up)(void *ctx, uint32_t peer);
    /** peer left: OK = goodbye, EPEER = end without one, ETIMEDOUT = the link is cut, EAUTH,
     * EVERSION. Once per peer. */
    void (*peer_down)(void *ctx, uint32_t peer, shoal_status why, const char *text);
    /** One of several links to peer is not used any more; text names its addresses and says why.
     * lost: what travelled on it may not arrive. The peer is still up. May be NULL. */
    void (*link_down)(void *ctx, uint32_t peer, bool lost, const char *text);
    /** Asked before place by a transport that can add a body of floats to what lies there while it
     * reads it, so that nobody copies it first. NULL: place it as usual. What it returns is the
     * frame's body from then on. May be NULL. */
    float *(*place_add)(void *ctx, uint32_t peer, const shoal_data *head);
} shoali_transport_events;

typedef struct shoali_transport_args {
    uint32_t me, size;    /* endpoint id; how many may exist */
    uint64_t incarnation; /* of this process, random */
    const char *job;      /* name; strangers are refused */
    const uint8_t *token; /* secret for the hello's HMAC; may be empty on loopback only */
    size_t token_bytes;
    bool lab; /* an emulated network on one machine: nobody listens, and it counts as loopback */
    const char *interface; /* name, address or NULL: SHOAL_INTERFACE, then chosen */
    const char *
        toward; /* host of the rendezvous (numeric if known): says which interface; NULL: unknown */
    int64_t deadline_us; /* peer timeout: TCP_USER_TIMEOUT and keepalive follow from it; 0: 2.5 s */
    int64_t join_us;     /* add_peer that leads nowhere ends in peer_down after this; 0: 30 s */
    uint64_t (*now_us)(void *ctx);
    void *now_ctx;
    const void *params; /* of the row's schema */
    /* Faults (fault.c): may change the encoded header of an outgoing data frame; NULL: nobody
     * does. */
    void (*tamper)(void *ctx, uint8_t *header);
    void *tamper_ctx;
    void *fabric; /* row sim: the shoali_fabric that joins the endpoints; else unused */
} shoali_transport_args;

typedef struct shoali_transport_row {
    const char *name, *about;
    uint32_t traits;
    shoali_schema schema;
    size_t state_size;
    shoal_status (*open)(void *state, const shoali_transport_args *args,
                         const shoali_transport_events *events);
    /** Text by which others reach this endpoint ("10.0.0.3:40123 boot=.. netns=.."), to be spread
     * by the rendezvous. */
    void (*address)(const void *state, char out[SHOALI_ADDRESS_BYTES]);
    /** Start connecting to peer; peer_up or peer_down follows. ENOTSUP: this transport cannot reach
     * it (shm); EAUTH: there is no token and the peer is elsewhere. */
    shoal_status (*add_peer)(void *state, uint32_t peer, const char *address);
    /** Queue one data frame; body stays valid until sent(cookie). tos: IP ToS of the connection
     * used. Frames of one peer may overtake each other. EPEER: not up. A failing send calls no
     * sent. */
    shoal_status (*send)(void *state, uint32_t peer, uint8_t tos, const shoal_data *head,
                         const void *body, uint64_t cookie);
    /** Queue one control frame (copied). ENOTSUP without trait CONTROL. */
    shoal_status (*control)(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                            size_t len_bytes);
    int (*fd)(const void *state); /* its own epoll; -1: none (simulated) */
    void (*progress)(void *state, uint64_t now_us);
    /** When progress must run although fd is not readable; 0: now (frames are queued); UINT64_MAX:
     * never. */
    uint64_t (*next_wake_us)(const void *state);
    /** Forget peer: goodbye if polite, then close; pending bodies come back by sent(failing) and
     * unplace. */
    void (*drop_peer)(void *state, uint32_t peer, bool polite);
    void (*peer_stats)(const void *state, uint32_t peer, shoal_peer_stats *stats_add);
    /** Of a peer that is silent: "its host answers, its process does not", or "A - B is silent, C -
     * D answers", by addresses; "" where one link is all there is to say. NULL: this transport has
     * no links. */
    void (*links)(const void *state, uint32_t peer, char out[SHOALI_LINKS_TEXT_BYTES]);
    /** Goodbye to all peers as far as sockets take it without waiting, then free everything but
     * state itself. Frames still queued are dropped (sent(ECANCELLED)): wait for sent before. */
    void (*close)(void *state);
    /** In a forked child: close every descriptor and touch nothing else (no goodbye, no shutdown,
     * no lock, no free). */
    void (*forked)(void *state);
} shoali_transport_row;

size_t shoali_transport_count(void);
const shoali_transport_row *shoali_transport_row_at(size_t i);
const shoali_transport_row *shoali_transport_find(
    const char *spec); /* NULL with the last error set */

#endif
