/* SPDX-License-Identifier: Apache-2.0 */
/* What sim.c (the transport row) and sim_fabric.c (links and time) share. Everything that an event
 * or a notice needs is allocated before it can be needed: with a frame at send, with a pair at
 * create. */
#ifndef SHOALI_TRANSPORT_SIM_FABRIC_H
#define SHOALI_TRANSPORT_SIM_FABRIC_H

#include "transport/sim.h"

/** A notice waiting for an endpoint's progress. */
enum { FABRIC_SENT, FABRIC_PLACE, FABRIC_BODY, FABRIC_UNPLACE, FABRIC_UP, FABRIC_DOWN };
typedef struct fabric_notice {
    struct fabric_notice *next;
    struct fabric_frame *frame; /* SENT, PLACE, BODY, UNPLACE */
    uint32_t peer;
    uint8_t kind;
    bool queued;
    shoal_status status; /* SENT, DOWN */
} fabric_notice;

/** A frame between two endpoints, until nobody refers to it. */
typedef struct fabric_frame {
    struct fabric_frame *next;                 /* in the queue of its pair */
    struct fabric_frame *all_next, **all_prev; /* in the list of its pair */
    uint32_t from, to, refs;                   /* refs: notices, segments under way, the queue */
    uint32_t reserved;                         /* event slots */
    shoal_data head;
    const uint8_t *source; /* the sender's body, until sent */
    uint64_t cookie;
    uint64_t left_up, left_down; /* bytes, header included */
    uint64_t whole;
    uint16_t control;
    bool is_control, is_goodbye, dropped, was_sent;
    uint8_t *placed;
    fabric_notice sent, place, body, unplace;
    uint8_t copy[]; /* len_bytes */
} fabric_frame;

/** From one endpoint to another. */
typedef struct fabric_pair {
    fabric_frame *data, **data_end, *control, **control_end; /* to be serialised */
    fabric_frame *all;
    uint64_t outstanding_bytes, last_arrival_ns;
    bool wanted, up, down_told;
    fabric_notice up_notice, down_notice; /* to `from`, about `to` */
    shoal_peer_stats stats;               /* of `from`, about `to` */
} fabric_pair;

typedef struct fabric_port {
    uint64_t up_bps, down_bps, down_free_ns;
    uint32_t turn; /* peer served last */
    bool serving, open, dead, cut, ready;
    uint64_t deadline_us, join_us;
    fabric_notice *inbox, **inbox_end;
    uint32_t next_ready;
} fabric_port;

enum {
    FABRIC_SERIALISED,
    FABRIC_ARRIVED,
    FABRIC_DELIVERED,
    FABRIC_CONNECTED,
    FABRIC_LATE,
    FABRIC_LOST,
    FABRIC_CALL
};
typedef struct fabric_event {
    uint64_t time_ns, sequence;
    fabric_frame *frame;
    void (*fn)(void *ctx);
    void *ctx;
    uint64_t bytes, tail_ns; /* ARRIVED: when its last bit has left the uplink, plus latency */
    uint32_t a, b;           /* CONNECTED, LATE, LOST: the pair */
    shoal_status status;     /* LOST */
    uint8_t kind;
} fabric_event;

struct shoali_fabric {
    shoali_fabric_desc desc;
    fabric_port *ports;
    fabric_pair *pairs; /* [from * endpoints + to] */
    fabric_event *heap;
    size_t heap_count, heap_reserved, heap_capacity;
    uint64_t now_ns, sequence, events, chances;
    uint32_t ready_head, ready_tail; /* list of ports; UINT32_MAX: empty */
};

fabric_pair *shoali_fabric_pair_of(shoali_fabric *sim, uint32_t from, uint32_t to);
SHOAL_MUST_USE shoal_status shoali_fabric_reserve(shoali_fabric *sim, size_t events);
void shoali_fabric_schedule(shoali_fabric *sim, fabric_event event);
void shoali_fabric_notify(shoali_fabric *sim, uint32_t endpoint, fabric_notice *notice);
void shoali_fabric_frame_unref(shoali_fabric *sim, fabric_frame *frame);
/** Let a new frame queue on its uplink. Slots for its events are reserved. */
void shoali_fabric_enqueue(shoali_fabric *sim, fabric_frame *frame);
/** Frames that have not arrived come back; unsent_only: those that have left the sender go on. */
void shoali_fabric_drop_frames(shoali_fabric *sim, uint32_t from, uint32_t to, bool unsent_only,
                               shoal_status why);
/** Both directions end: frames come back, and both sides are told why unless they know. */
void shoali_fabric_sever(shoali_fabric *sim, uint32_t a, uint32_t b, shoal_status why);
uint64_t shoali_fabric_segments(uint64_t bytes);

#endif
