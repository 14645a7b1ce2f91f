/* SPDX-License-Identifier: Apache-2.0 */
/* A flow runs one operation: frames, grants, timers and completions go in; frames, jobs and the end
 * come out through the sink. No clock, no socket, no thread: the comm drives it on the progress
 * thread, tests and the simulator drive it in virtual time. The schedule executor (engine.c) is
 * itself a flow row; OmniReduce and SwitchML are others. */
#ifndef SHOALI_COLLECTIVE_FLOW_H
#define SHOALI_COLLECTIVE_FLOW_H

#include "codec/codec.h"
#include "collective/schedule.h"
#include "collective/scratch.h"
#include "shoal/shoal.h"
#include "wire/data.h"

struct shoali_slot_share;

enum { SHOALI_FLOW_STREAM = 1u << 0, SHOALI_FLOW_DATAGRAM = 1u << 1 };

/** What a flow may ask for. Bodies stay valid until on_sent(cookie), which may come from inside
 * send. done is called once, and last: the flow touches nothing of its own after it, so done may
 * call fini. start calls none of these. */
typedef struct shoal_sink {
    void *ctx;
    void (*send)(void *ctx, uint32_t peer, const shoal_data *head, const void *body,
                 uint64_t cookie);
    void (*control)(void *ctx, uint32_t peer, uint16_t kind, const void *bytes, size_t len_bytes);
    void (*job)(void *ctx, const shoal_op_id *id, size_t offset, size_t count, uint64_t cookie);
    void (*done)(void *ctx, const shoal_op_id *id, shoal_status status, const char *why);
    /** A packet that may be lost, repeated or overtaken; copied. To members that have granted. NULL
     * for flows that use streams. */
    void (*datagram)(void *ctx, uint32_t peer, const void *bytes, size_t len_bytes);
} shoal_sink;

/** Who else can do an aggregator's half of lossy sums (slot.h), such as the kernel of a switch: a
 * flow that sums for others gives it its share, and takes none of that share's packets then. */
typedef struct shoali_offload {
    void *ctx;
    uint32_t block_most; /* values of a packet that it can take */
    /** Worker w is member w. False: the flow has to do it itself. */
    bool (*begin)(void *ctx, const struct shoali_slot_share *share);
    void (*end)(void *ctx); /* after begin */
    void (*counted)(void *ctx, uint64_t *received_bytes_out, uint64_t *sent_bytes_out);
    /** A worker of which a slot still misses something; false: none. */
    bool (*missing)(void *ctx, uint32_t *slot_out, uint32_t *round_out, uint32_t *worker_out);
} shoali_offload;

/** Everything a flow needs to know about its operation. Pointers stay valid until fini. */
typedef struct shoali_flow_args {
    shoal_op_id id;
    shoal_op_kind kind;
    shoal_reduce reduce;
    uint32_t me, size, contributors, root; /* indices in the member list */
    const uint32_t *endpoints; /* endpoint id of each member: randomness and origins use ids */
    float *buf;
    size_t count;
    const shoal_tensor *tensors;
    uint32_t tensor_count;
    float *const *residuals; /* per tensor, NULL: no error feedback for it; NULL: none at all */
    const float *shared;     /* measured and shared values, row->shared_count per tensor, or NULL */
    const shoal_codec *push, *pull;
    const shoali_collective *collective;
    const uint64_t *links; /* by endpoint id: bits of this host's links that lead to it; NULL: all
                              are reached by one */
    const shoali_rates *rates; /* for collectives with the trait RATED; NULL: none */
    bool owner_job;            /* OWN asks sink->job before it encodes; its error feedback is off */
    const float *weights; /* owner_job: [count] what buf shall hold at the end of ENOTFINITE where
                             the sum was not finite, as no owner stepped there; NULL: anything */
    const uint32_t *rows; /* the rows of buf that may be not zero, ascending: shoal_op_desc */
    size_t row_count;
    bool keep_rows; /* somebody will ask for row->rows */
    bool check_finite;
    uint32_t chunk_elems;
    uint64_t seed;
    shoali_scratch
        *scratch; /* of the comm, for receive and kept buffers; NULL: the flow makes its own */
    uint64_t (*now_ns)(void); /* for the times in stats; NULL: they stay 0 */
    const uint64_t *pace_us;  /* with now_ns, schedules only: nobody waits for the end before that
                                moment, so sends are spread over the time until then; it may become
                                0, which is now. NULL: as fast as they can */
    /* flows of datagrams: the most bytes of one that this endpoint can send and receive, and random
     * bits that nobody else knows */
    uint32_t datagram_bytes;
    uint64_t datagram_key;
    const shoali_offload *offload; /* NULL: nobody */
} shoali_flow_args;

/** Counters that every flow keeps, for shoal_op_stats. */
typedef struct shoali_flow_stats {
    uint64_t sent_payload_bytes, received_payload_bytes, sent_elems, received_elems;
    uint64_t dense_elems; /* that would be sent if no element could stay out */
    uint64_t encode_ns,
        decode_ns;   /* filled by flows that are given a clock through now_ns; else 0 */
    uint32_t rounds; /* of the schedule; 0: event driven */
} shoali_flow_stats;

/** Flows of datagrams alone have no bodies: place, on_frames, unplace,
 * on_sent and on_job may be NULL. */
typedef struct shoali_flow_row {
    const char *name;
    uint32_t transports; /* SHOALI_FLOW_* it can use */
    /** Bytes of state that the caller allocates, zeroed, 64-byte aligned. */
    size_t (*state_size)(const shoali_flow_args *args);
    /** Build everything, send nothing. After a failure, fini need not be called. */
    shoal_status (*start)(void *state, const shoali_flow_args *args, const shoal_sink *sink,
                          uint64_t now_us);
    /** Which members this rank receives data from / sends data to (the caller grants the
     * former). */
    bool (*receives_from)(const void *state, uint32_t peer);
    bool (*sends_to)(const void *state, uint32_t peer);
    /** peer is ready to receive into its slot. */
    void (*on_granted)(void *state, uint32_t peer, uint32_t slot);
    /** Where the body of a frame goes (len_bytes bytes); NULL: too long, twice, unknown: the caller
     * drops it. Each place ends in on_frames or unplace. */
    uint8_t *(*place)(void *state, uint32_t peer, const shoal_data *head);
    /** Where the floats of a frame may be added as they come, each once and in order; NULL: ask
     * place. May be NULL. */
    float *(*place_add)(void *state, uint32_t peer, const shoal_data *head);
    void (*on_frames)(void *state, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                      size_t count);
    void (*unplace)(void *state, uint32_t peer, const shoal_data *head, uint8_t *body);
    void (*on_sent)(void *state, uint32_t peer, uint64_t cookie);
    void (*on_job)(void *state, uint64_t cookie, shoal_status status);
    void (*on_control)(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                       size_t len_bytes);
    void (*on_timer)(void *state, uint64_t now_us);
    /** A datagram of a member, maybe of another operation; false: it is none of this one's. Flows
     * of datagrams only. */
    bool (*on_datagram)(void *state, uint32_t peer, const uint8_t *bytes, size_t len_bytes,
                        uint64_t now_us);
    /** When on_timer is due; UINT64_MAX: never; 0: now, a flow bounds its work per call and asks to
     * go on. */
    uint64_t (*next_wake_us)(const void *state);
    /** End early: no new sends; done(status) comes once every placed body and every send has come
     * back. */
    void (*fail)(void *state, shoal_status status, const char *why);
    /** Most bytes that summing for others takes here, for an aggregator's limit. NULL: none. */
    uint64_t (*memory)(const void *state);
    void (*stats)(const void *state, shoali_flow_stats *stats_out);
    /** First NaN or infinity known here after ENOTFINITE; false: none. */
    bool (*not_finite)(const void *state, shoali_not_finite *origin_out);
    /** After a failure: the endpoint whose bytes are to blame; UINT32_MAX: none. May be NULL. */
    uint32_t (*culprit)(const void *state);
    /** With keep_rows, at the end: the rows of the sum that some member named, ascending, valid
     *  until fini; NULL: no memory for them. May be NULL. */
    const uint32_t *(*rows)(void *state, size_t *count_out);
    /** One line on what is still missing, for timeouts: "chunk 17: waits for rank 3 (round 2)". */
    void (*describe)(const void *state, char *text, size_t text_bytes, uint32_t *peer_out);
    void (*fini)(void *state);
    /** Instead of fini, after an end that was OK: give back what is not its own. Then fini, by any
     *  thread, or again. Both or none may be NULL. */
    void (*rest)(void *state);
    /** As start, after rest: of start's args nothing has changed but id, buf, residuals, shared,
     *  weights and check_finite. */
    void (*again)(void *state, const shoali_flow_args *args, const shoal_sink *sink);
} shoali_flow_row;

/** The schedule executor. */
extern const shoali_flow_row shoali_engine;

#endif
