/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the SwitchML flow; only switchml.c (the row: start, events, reports) and
 * switchml_talk.c (what members say to each other) include it. */
#ifndef SHOALI_COLLECTIVE_SWITCHML_H
#define SHOALI_COLLECTIVE_SWITCHML_H

#include "collective/flow.h"
#include "collective/slot.h"

enum { SHOALI_SWITCHML_DATAGRAM_MAX = SHOALI_PACKET_BYTES + 4 * SHOALI_PACKET_VALUES_MAX };

/** A worker's part with one aggregator. */
typedef struct shoali_switchml_session {
    uint32_t member;      /* the aggregator */
    size_t offset, count; /* of its share */
    bool set_up, told, over;
    shoali_slot_worker worker;
} shoali_switchml_session;

/** An aggregator's part with one worker. */
typedef struct shoali_switchml_guest {
    bool joined, finished, waits; /* waits: to hear who brought what is not finite */
} shoali_switchml_guest;

/** A packet to oneself: of a slot, to the own pool or from it. */
typedef struct shoali_switchml_own {
    uint32_t slot;
    bool to_pool;
} shoali_switchml_own;

typedef struct shoali_switchml {
    shoali_flow_args args;
    shoal_sink sink;
    uint32_t block, slots; /* keys; 0: chosen */
    bool sparse;
    shoal_arena *arena;
    uint32_t first_aggregator, aggregators;
    bool works, aggregates;
    shoali_switchml_session *sessions; /* [aggregators] */
    uint32_t sessions_over;
    shoali_switchml_guest *guests; /* [contributors] */
    uint32_t joined, finished;
    size_t own_count;     /* elements of the own pool */
    uint32_t least_bytes; /* that a member's datagrams can have */
    bool pool_open;
    bool elsewhere; /* the pool is in the hands of args.offload, and has a share alone */
    shoali_slot_pool pool;
    uint64_t *told_us;        /* [slots] when the last result of each went out */
    shoali_switchml_own *own; /* ring of [2 slots] */
    uint32_t own_head, own_count_queued, own_size;
    uint8_t *packet; /* room for one */
    bool codes;      /* contributions go through the codec first, once */
    uint8_t *coded;  /* room for a block, and for what becomes of it */
    size_t coded_bytes;
    float *decoded;
    uint64_t now_us;
    bool busy, failed, done;
    shoal_status status;
    char why[256];
    bool origin_known;
    shoali_not_finite origin;
    shoali_flow_stats stats;
} shoali_switchml;

void shoali_switchml_fail(shoali_switchml *f, shoal_status status, const char *why);
/** Slots of each aggregator. */
uint32_t shoali_switchml_slots(const shoali_switchml *f);
/** An aggregator is there: say that this worker is, too. */
void shoali_switchml_join(shoali_switchml *f, shoali_switchml_session *s);
void shoali_switchml_on_control(shoali_switchml *f, uint32_t peer, uint16_t kind,
                                const uint8_t *bytes, size_t len_bytes);
bool shoali_switchml_on_datagram(shoali_switchml *f, uint32_t peer, const uint8_t *bytes,
                                 size_t len_bytes);
/** Packets to oneself. */
void shoali_switchml_go(shoali_switchml *f);
/** Probes that are due. Once what has come is taken, and not before: of a process that did not run
 * for a while all slots are due, and their results lie in its socket. */
void shoali_switchml_due(shoali_switchml *f);
/** Which session's aggregator this member is; NULL: none. */
shoali_switchml_session *shoali_switchml_session_of(const shoali_switchml *f, uint32_t member);

#endif
