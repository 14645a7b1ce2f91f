/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the schedule executor; only engine*.c include it. engine.c: the flow row and its
 * events. engine_plan.c: tables from the schedule. engine_step.c: what a step does to a chunk.
 * engine_send.c: ready queues and frames out. engine_recv.c: frames in. engine_report.c: texts and
 * counters. */
#ifndef SHOALI_COLLECTIVE_ENGINE_H
#define SHOALI_COLLECTIVE_ENGINE_H

#include "collective/flow.h"
#include "collective/pace.h"

/** Chunks per peer in the transport's hands. */
enum { SHOALI_ENGINE_FLIGHTS = 4 };
enum { SHOALI_ORIGIN_BYTES = 24 };

/** A schedule step, cut: it touches the consecutive chunks [first_chunk, first_chunk +
 * chunk_count). */
typedef struct shoali_engine_step {
    shoal_step s;
    uint32_t first_chunk, chunk_count;
    uint32_t match;    /* k: among the sends to (receives from) its peer */
    uint32_t arrivals; /* RECV: index of its first chunk's arrival */
} shoali_engine_step;

enum {
    SHOALI_CHUNK_QUEUED = 1u << 0,   /* in the run queue */
    SHOALI_CHUNK_READY = 1u << 1,    /* in a peer's ready queue, to be PUSHed */
    SHOALI_CHUNK_JOB = 1u << 2,      /* its owner job runs */
    SHOALI_CHUNK_JOB_DONE = 1u << 3, /* its owner job has run: OWN goes on */
    SHOALI_CHUNK_FLAGGED = 1u << 4,  /* not finite: origin says where from */
    SHOALI_CHUNK_CLOSED = 1u << 5    /* nothing more to do, nobody reads it */
};

typedef struct shoali_chunk {
    size_t offset;  /* elements in the operation's buffer */
    uint32_t count; /* elements */
    uint32_t block;
    uint32_t pc;    /* program counter: position in the list of its block */
    uint32_t reads; /* sends queued or under way of the buffer, the kept bytes or the origin */
    uint32_t kept_bytes;
    uint32_t flags;
    uint8_t *kept; /* coded bytes of the complete sum; NULL with RAW_BYTES: the buffer is it */
    uint8_t origin[SHOALI_ORIGIN_BYTES]; /* as on the wire */
} shoali_chunk;

/** A frame of a RECV step on one chunk: NONE -> PLACED (body promised to the transport) -> HERE ->
 * USED. */
enum { SHOALI_ARRIVAL_NONE, SHOALI_ARRIVAL_PLACED, SHOALI_ARRIVAL_HERE, SHOALI_ARRIVAL_USED };
typedef struct shoali_arrival {
    uint8_t *body; /* scratch, or the chunk itself when direct */
    uint32_t len_bytes;
    uint8_t state;
    bool direct, flagged;
    bool added; /* direct, and the transport adds */
} shoali_arrival;

/** A body in the transport's hands; its cookie is its index. */
typedef struct shoali_flight {
    uint8_t *scratch; /* coded for this frame alone; NULL: counted in the chunk's reads */
    uint32_t chunk;
    bool used;
} shoali_flight;

/** A member that this rank sends to. ready: by leg, binary heaps of step << 32 | chunk. */
typedef struct shoali_engine_peer {
    uint64_t *ready[2];
    uint32_t ready_count[2];
    uint32_t member, slot, in_flight;
    uint32_t ahead; /* chunks pushed to it that have not come back */
    uint32_t round; /* of the last frame to it */
    bool granted, queued;
} shoali_engine_peer;

/** A queue of distinct numbers below capacity. */
typedef struct shoali_fifo {
    uint32_t *items;
    uint32_t head, count, capacity;
} shoali_fifo;

/** Trait SLOTS: chunk = block * positions + position. */
typedef struct shoali_engine_slots {
    bool used;
    uint32_t positions;
    uint32_t *kept, *added; /* [positions] */
} shoali_engine_slots;

/** Why an operation ends early; values that are not finite let it go on to its end. */
typedef struct shoali_engine_failure {
    bool failed;
    shoal_status status;
    char why[256];
    uint32_t culprit; /* endpoint, or UINT32_MAX */
    bool origin_known;
    shoali_not_finite origin;
} shoali_engine_failure;

typedef struct shoali_engine_state {
    shoali_flow_args args;
    shoal_sink sink;
    shoal_arena *arena;
    shoali_scratch *scratch, *own_scratch;
    float *decoded; /* chunk_elems floats, only with error feedback */

    shoali_engine_step *steps;
    uint32_t step_count, blocks;
    uint32_t ahead, site;  /* of the schedule */
    uint32_t *block_first; /* [blocks + 1] into block_steps */
    uint32_t *block_steps; /* steps that touch a block, in list order */
    uint32_t *recv_first;  /* [size + 1] into recv_steps */
    uint32_t *recv_steps;  /* RECV steps by peer, in list order: index = match */
    shoali_arrival *arrivals;
    uint32_t arrival_count;
    shoali_chunk *chunks;
    uint32_t chunk_count, open_chunks;
    uint32_t *peer_of; /* [size] index in peers, UINT32_MAX: not sent to */
    shoali_engine_peer *peers;
    uint32_t peer_count;
    shoali_flight *flights; /* [peer_count * SHOALI_ENGINE_FLIGHTS] */
    shoali_fifo run, dirty; /* chunks to advance, peers to serve */

    shoali_engine_slots slots;
    bool raw[2]; /* by leg: coded bytes are the floats, sent, kept and received in place. Inside
                         a site they are, too: shoali_engine_raw */
    bool feedback[2]; /* by leg: residuals are kept */
    uint64_t stream;  /* of the operation */
    bool held_back;   /* some peer waits for frames of an earlier round to others */
    int64_t budget;   /* elements that this call may still work on */
    shoali_pace pace; /* while *args.pace_us is set */

    uint32_t sends, placed, jobs; /* in others' hands */
    bool running, done;
    shoali_engine_failure failure;
    shoali_flow_stats stats;
} shoali_engine_state;

/* engine_plan.c */
SHOAL_MUST_USE shoal_status shoali_engine_plan(shoali_engine_state *e);
/** As behind shoali_engine_plan: only tables, and what follows from the schedule, stay. */
void shoali_engine_rewind(shoali_engine_state *e);

/* engine_step.c */
const shoali_engine_step *shoali_engine_current(const shoali_engine_state *e,
                                                uint32_t chunk); /* NULL: at its end */
void shoali_engine_advance(shoali_engine_state *e, uint32_t chunk);
void shoali_engine_settle(shoali_engine_state *e, uint32_t chunk);
/** First touch of this rank's own contribution: false, and the chunk is flagged, if elements
 *  [first, first + count) of it hold NaN or infinity. */
bool shoali_engine_touch(shoali_engine_state *e, uint32_t chunk, size_t first, size_t count);
void shoali_engine_flag(shoali_engine_state *e, uint32_t chunk, const shoali_not_finite *origin);
/** Put this rank's own values of a chunk through a SUMMABLE codec, before others are added to them;
 *  other codecs leave them. False: flagged, or the operation failed. */
bool shoali_engine_contribute(shoali_engine_state *e, uint32_t chunk);
/** Encode a chunk of leg; false: flagged, or the operation failed. */
bool shoali_engine_encode(shoali_engine_state *e, uint32_t chunk, const shoal_step *step,
                          uint8_t **body_out, uint32_t *len_out);

/* engine_send.c */
/** Queue a SEND; true: the chunk may go on at once. */
bool shoali_engine_ready(shoali_engine_state *e, uint32_t step, uint32_t chunk);
void shoali_engine_serve(shoali_engine_state *e, uint32_t peer_index);
void shoali_engine_mark_dirty(shoali_engine_state *e, uint32_t peer_index);
void shoali_engine_sent(shoali_engine_state *e, uint64_t cookie);
bool shoali_engine_paced(const shoali_engine_state *e);
/** args.pace_us: the time for all sends begins now. */
void shoali_engine_pace(shoali_engine_state *e);
/** Peers that waited for their time are looked at again. */
void shoali_engine_go_on(shoali_engine_state *e);

/* engine_recv.c */
uint8_t *shoali_engine_place(shoali_engine_state *e, uint32_t peer, const shoal_data *head);
float *shoali_engine_place_add(shoali_engine_state *e, uint32_t peer, const shoal_data *head);
bool shoali_engine_arrived(shoali_engine_state *e, uint32_t peer, const shoal_data *head,
                           const uint8_t *body);
void shoali_engine_unplace(shoali_engine_state *e, uint32_t peer, const shoal_data *head,
                           const uint8_t *body);
/** Do the RECV step that chunk is at; false: its frame is not here, or the chunk is still being
 * read. */
bool shoali_engine_receive(shoali_engine_state *e, uint32_t chunk, const shoali_engine_step *step);

/* engine.c */
void shoali_engine_wake(shoali_engine_state *e, uint32_t chunk);
void shoali_engine_fail(shoali_engine_state *e, shoal_status status, const char *format, ...)
    SHOAL_PRINTF(3, 4);
shoali_codec_span shoali_engine_span(const shoali_engine_state *e, uint32_t chunk,
                                     const shoal_step *step, uint32_t encoder);
const shoal_codec *shoali_engine_codec(const shoali_engine_state *e, const shoal_step *step);
/** Whether what step moves is floats. */
bool shoali_engine_raw(const shoali_engine_state *e, const shoal_step *step);
uint64_t shoali_engine_now_ns(const shoali_engine_state *e);

/* engine_report.c */
void shoali_engine_describe(const shoali_engine_state *e, char *text, size_t text_bytes,
                            uint32_t *peer_out);
void shoali_origin_pack(const shoali_not_finite *origin, uint8_t out[SHOALI_ORIGIN_BYTES]);
shoali_not_finite shoali_origin_unpack(const uint8_t bytes[SHOALI_ORIGIN_BYTES]);
bool shoali_origin_before(const shoali_not_finite *a, const shoali_not_finite *b);

#endif
