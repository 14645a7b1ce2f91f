/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the OmniReduce flow; only omnireduce.c (the row: start, events, reports) and
 * omni_flow.c (bodies, rounds, what is due) include it. */
#ifndef SHOALI_COLLECTIVE_OMNI_FLOW_H
#define SHOALI_COLLECTIVE_OMNI_FLOW_H

#include "collective/flow.h"
#include "collective/omni_form.h"

/* A body in the transport's hands, maybe for several members; its cookie is its index. */
typedef struct shoali_omni_flight {
    uint8_t *body;
    uint32_t refs;
    uint32_t slot; /* of a result, else SHOALI_OMNI_NONE */
    uint32_t next_free;
} shoali_omni_flight;

typedef struct shoali_omni_peer {
    uint32_t slot;
    bool granted;
} shoali_omni_peer;

typedef struct shoali_omni_flow {
    shoali_flow_args args;
    shoal_sink sink;
    bool arrival, pairs;
    shoal_arena *arena;
    shoali_scratch *scratch, *own_scratch;
    shoali_omni_layout layout;
    uint32_t first_aggregator;
    bool works, aggregates;
    shoali_omni_worker worker;
    shoali_omni_aggregator aggregator;
    shoali_omni_peer *peers;
    uint32_t ungranted;  /* workers that have not granted this aggregator */
    bool *begun;         /* [slots] the first row is on its way */
    uint32_t to_begin;   /* slots that are not */
    uint32_t begin_from; /* every slot before has begun or waits for a grant */
    bool *placed;        /* [slots][workers] a contribution is coming in */
    uint8_t *results;    /* [slots] in flight */
    bool *dirty;         /* [slots] in the queue */
    uint32_t *queue;     /* [slots] that may have a round to end */
    uint32_t queue_head, queue_count;
    shoali_omni_flight *flights;
    uint32_t flight_count, flight_free;
    uint32_t sends, bodies; /* in others' hands */
    bool busy, failed, done;
    shoal_status status;
    char why[256];
    uint32_t culprit; /* endpoint, or UINT32_MAX */
    bool origin_known;
    shoali_not_finite origin;
    shoali_flow_stats stats;
} shoali_omni_flow;

/** The member that aggregates a slot. */
uint32_t shoali_omni_owner(const shoali_omni_flow *f, uint32_t slot);
/** Scratch for bytes and an origin; NULL: failed. */
uint8_t *shoali_omni_body(shoali_omni_flow *f, size_t bytes);
void shoali_omni_fail(shoali_omni_flow *f, shoal_status status, const char *why);
void shoali_omni_note_origin(shoali_omni_flow *f, const shoali_not_finite *origin);
/** A contribution for the own shard has come. */
void shoali_omni_take(shoali_omni_flow *f, uint32_t slot, uint32_t worker, uint8_t *body,
                      uint32_t units);
/** A result of k units has come; body stays the caller's. */
void shoali_omni_take_result(shoali_omni_flow *f, uint32_t slot, uint32_t round,
                             const uint8_t *body, uint32_t k);
/** A slot may have a round to end. */
void shoali_omni_wake(shoali_omni_flow *f, uint32_t slot);
/** body, of len_bytes, is the transport's to fill, until it came; false: failed, it is gone. */
bool shoali_omni_expect(shoali_omni_flow *f, uint8_t *body, uint32_t len_bytes);
void shoali_omni_came(shoali_omni_flow *f, const uint8_t *body, uint32_t len_bytes);
/** A send has come back. */
void shoali_omni_land(shoali_omni_flow *f, uint32_t index);
bool shoali_omni_complete(const shoali_omni_flow *f);
void shoali_omni_end_if_complete(shoali_omni_flow *f);
/** What is due, as far as one call may work. Never entered twice: sinks may call back. */
void shoali_omni_go(shoali_omni_flow *f);

#endif
