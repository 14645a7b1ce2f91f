/* SPDX-License-Identifier: Apache-2.0 */
/* Several endpoints of a real transport in one process and one thread, on loopback. */
#ifndef SHOALI_TESTS_SUPPORT_NET_H
#define SHOALI_TESTS_SUPPORT_NET_H

#include "support/check.h"

#include "transport/transport.h"

enum {
    NET_NODES = 4,
    NET_PARAMS_BYTES = 1024,
    NET_UNWANTED_SLOT = 0xdead /* place() answers NULL for it */
};

/* A body that was placed. */
typedef struct net_body {
    uint32_t from;
    shoal_data head;
    uint8_t *bytes; /* len_bytes long, heap: a sanitizer sees a write beyond the end */
    enum { NET_PENDING, NET_COMPLETE, NET_UNPLACED } state;
} net_body;

typedef struct net_node {
    const shoali_transport_row *row;
    void *state; /* NULL: not open */
    uint32_t me;
    char address[SHOALI_ADDRESS_BYTES];
    uint32_t ups[NET_NODES], downs[NET_NODES], link_downs[NET_NODES]; /* how often reported */
    shoal_status why[NET_NODES];
    char text[NET_NODES][512];
    net_body *bodies;
    size_t body_count, body_capacity, complete, unplaced, refused;
    size_t sent_ok, sent_failed; /* calls of sent() */
    uint64_t cookie_sum;         /* of all sent() */
    size_t controls;
    uint16_t last_kind;
    uint8_t last_control[SHOALI_CONTROL_MAX_BYTES];
    size_t last_control_bytes;
    void (*on_place)(struct net_node *node, uint32_t peer); /* hooks for tests, may be NULL */
    void (*on_control)(struct net_node *node, uint32_t peer);
    struct net *net;
    union {
        char bytes[NET_PARAMS_BYTES];
        uint64_t align;
    } params;
} net_node;

typedef struct net {
    uint32_t count;
    uint64_t skew_us; /* added to every node's clock: lets timeouts come at once */
    net_node nodes[NET_NODES];
} net;

/** Defaults that a test may change before net_open_with. */
shoali_transport_args net_args(uint32_t me, uint32_t size);
/** Open node me of net with spec; last error set on failure. */
shoal_status net_open_node(net *n, uint32_t me, const char *spec,
                           const shoali_transport_args *args);
/** False, with a line that says why: this build or host lacks what the spec needs (libfabric). */
bool net_is_here(const char *spec);
/** Open count nodes with default args, add all pairs, and wait until all see all. */
void net_open(net *n, uint32_t count, const char *spec);
/** add_peer for all pairs of open nodes, the other's address as it is now. */
void net_add_all(net *n);
void net_close(net *n);
void net_close_node(net *n, uint32_t me);

/** One turn of every node; waits up to wait_us for something to happen. */
void net_turn(net *n, int64_t wait_us);
/** Turn until done(n); fails the test after 10 s. */
void net_until(net *n, bool (*done)(const net *n));
/** Turn until this expression holds; fails after 10 s. */
#define NET_UNTIL(n, condition)                                                    \
    for (uint64_t net_end_us = net_deadline(); !(condition); net_turn((n), 10000)) \
    net_check_deadline(net_end_us, #condition, __FILE__, __LINE__)
uint64_t net_deadline(void);
void net_check_deadline(uint64_t end_us, const char *what, const char *file, int line);

/** The clock of all nodes. */
uint64_t net_now_us(const net *n);

/** A body of len bytes whose content depends on match; and the check of a received one. */
void net_fill(uint8_t *bytes, size_t len_bytes, uint32_t match);
bool net_is_filled(const uint8_t *bytes, size_t len_bytes, uint32_t match);
/** Send body (from net_fill) as frame `match` with cookie = match. */
shoal_status net_send(net *n, uint32_t from, uint32_t to, uint32_t match, const uint8_t *body,
                      uint32_t len_bytes);
/** Every body of node that is complete has the right content; every match once. */
void net_check_bodies(const net_node *node);

#endif
