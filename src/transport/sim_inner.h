/* SPDX-License-Identifier: Apache-2.0 */
/* What sim.c (the transport row) and sim_fabric.c (links and time) share. Everything that an event or
 * a notice needs is allocated before it can be needed: with a frame at send, with a pair at create. */
#ifndef SHOALI_TRANSPORT_SIM_INNER_H
#define SHOALI_TRANSPORT_SIM_INNER_H

#include "transport/sim.h"

/** A notice waiting for an endpoint's progress. */
enum { SIM_SENT, SIM_PLACE, SIM_BODY, SIM_UNPLACE, SIM_UP, SIM_DOWN };
typedef struct sim_notice {
    struct sim_notice *next;
    struct sim_frame *frame; /* SENT, PLACE, BODY, UNPLACE */
    uint32_t peer;
    uint8_t kind;
    bool queued;
    shoal_status status; /* SENT, DOWN */
} sim_notice;

/** A frame between two endpoints, until nobody refers to it. */
typedef struct sim_frame {
    struct sim_frame *next;                 /* in the queue of its pair */
    struct sim_frame *all_next, **all_prev; /* in the list of its pair */
    uint32_t from, to, refs;                /* refs: notices, segments under way, the queue */
    uint32_t reserved;                      /* event slots */
    shoal_data head;
    const uint8_t *source; /* the sender's body, until sent */
    uint64_t cookie;
    uint64_t left_up, left_down; /* bytes, header included */
    uint64_t whole;
    uint16_t control;
    bool is_control, is_goodbye, dropped, was_sent;
    uint8_t *placed;
    sim_notice sent, place, body, unplace;
    uint8_t copy[]; /* len_bytes */
} sim_frame;

/** From one endpoint to another. */
typedef struct sim_pair {
    sim_frame *data, **data_end, *control, **control_end; /* to be serialised */
    sim_frame *all;
    uint64_t outstanding_bytes, last_arrival_ns;
    bool wanted, up, down_told;
    sim_notice up_notice, down_notice; /* to `from`, about `to` */
    shoal_peer_stats stats;            /* of `from`, about `to` */
} sim_pair;

typedef struct sim_port {
    uint64_t up_bps, down_bps, down_free_ns;
    uint32_t turn; /* peer served last */
    bool serving, open, dead, cut, ready;
    uint64_t deadline_us, join_us;
    sim_notice *inbox, **inbox_end;
    uint32_t next_ready;
} sim_port;

enum { SIM_SERIALISED, SIM_ARRIVED, SIM_DELIVERED, SIM_CONNECTED, SIM_LATE, SIM_LOST, SIM_CALL };
typedef struct sim_event {
    uint64_t time_ns, sequence;
    sim_frame *frame;
    void (*fn)(void *ctx);
    void *ctx;
    uint64_t bytes, tail_ns; /* ARRIVED: when its last bit has left the uplink, plus latency */
    uint32_t a, b;           /* CONNECTED, LATE, LOST: the pair */
    shoal_status status;     /* LOST */
    uint8_t kind;
} sim_event;

struct shoali_sim {
    shoali_sim_desc desc;
    sim_port *ports;
    sim_pair *pairs; /* [from * endpoints + to] */
    sim_event *heap;
    size_t heap_count, heap_reserved, heap_capacity;
    uint64_t now_ns, sequence, events, chances;
    uint32_t ready_head, ready_tail; /* list of ports; UINT32_MAX: empty */
};

sim_pair *sim_pair_of(shoali_sim *sim, uint32_t from, uint32_t to);
SHOAL_MUST_USE shoal_status sim_reserve(shoali_sim *sim, size_t events);
void sim_schedule(shoali_sim *sim, sim_event event);
void sim_notify(shoali_sim *sim, uint32_t endpoint, sim_notice *notice);
void sim_frame_unref(shoali_sim *sim, sim_frame *frame);
/** Let a new frame queue on its uplink. Slots for its events are reserved. */
void sim_enqueue(shoali_sim *sim, sim_frame *frame);
/** Frames that have not arrived come back; unsent_only: those that have left the sender go on. */
void sim_drop_frames(shoali_sim *sim, uint32_t from, uint32_t to, bool unsent_only,
                     shoal_status why);
/** Both directions end: frames come back, and both sides are told why unless they know. */
void sim_sever(shoali_sim *sim, uint32_t a, uint32_t b, shoal_status why);
uint64_t sim_segments(uint64_t bytes);

#endif
