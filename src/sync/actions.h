/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine may ask for: one ordered queue per machine, over all its events. A driver carries
 * actions out in order; MIX and APPLY hold the queue up until they are done, so they need no
 * completion event, and everything behind them sees their result. All other actions return at once.
 *
 * Tensors are names, not memory: GRAD and PARAM are the caller's, slots the protocol's own. */
#ifndef SHOALI_SYNC_ACTIONS_H
#define SHOALI_SYNC_ACTIONS_H

#include "shoal/sync.h"

/** Names of tensors; SHOALI_SLOT + i is slot i. */
enum { SHOALI_GRAD, SHOALI_PARAM, SHOALI_SLOT };

/** As peer of a SEND: every other endpoint of the world. */
#define SHOALI_EVERYBODY UINT32_MAX

typedef enum shoali_action_kind {
    SHOALI_ACT_SEND,
    SHOALI_ACT_OP,
    SHOALI_ACT_CANCEL,
    SHOALI_ACT_HURRY,
    SHOALI_ACT_MIX,
    SHOALI_ACT_APPLY,
    SHOALI_ACT_GO,
    SHOALI_ACT_TIMER,
    SHOALI_ACT_FAIL
} shoali_action_kind;

/** Kinds of operation. */
typedef enum shoali_sync_op_kind {
    SHOALI_SYNC_ALL_REDUCE,
    SHOALI_SYNC_BROADCAST
} shoali_sync_op_kind;

/** An operation on [offset, offset + count) of a tensor, which it borrows until OP_DONE. */
typedef struct shoali_sync_op {
    /** The name that all members give it: unique in the protocol's life, never reused. */
    uint64_t id;
    shoali_sync_op_kind kind;
    /** Endpoint ids, contributors first, in the same order everywhere; NULL: all of the world. */
    const uint32_t *members;
    uint32_t member_count, contributors;
    uint32_t root; /* BROADCAST: index in members */
    uint32_t tensor;
    size_t offset, count;
    const char *collective;      /* spec; NULL: the user's */
    bool push_coded, pull_coded; /* the user's codec on that leg, else identity */
    bool owner_job; /* the owner of a range turns its sum into weights: the caller's optimiser */
    bool patient;   /* no deadline of its own: members may enter whenever they want */
    bool checked;   /* BROADCAST: a value that is not finite is ENOTFINITE for all members */
    uint64_t within_us; /* nobody waits for it sooner: its bytes may take so long; 0: no time */
    uint64_t iteration; /* for the owner job, and for the text of errors */
} shoali_sync_op;

typedef struct shoali_mix_term {
    uint32_t tensor;
    float weight;
} shoali_mix_term;

typedef struct shoali_action {
    shoali_action_kind kind;
    union {
        struct {
            uint32_t peer;
            const uint8_t *bytes;
            size_t len_bytes;
        } send;
        shoali_sync_op op;
        struct {
            uint64_t id;
        } cancel, hurry;
        struct { /* dst = sum of weight * tensor over the terms; dst may be among them */
            uint32_t dst, term_count;
            const shoali_mix_term *terms;
            size_t offset, count;
            /* the terms are updates of workers, tensor - first each, and judged: sync/trust.h.
             * dst is none of them; weights count for nothing */
            bool judged;
            uint32_t me, first;
            uint64_t iteration; /* for what is said of them */
        } mix;
        struct { /* optimiser step: PARAM, stepped by scale * tensor, ends in PARAM and tensor */
            uint32_t tensor;
            float scale;
            size_t offset, count;
            uint64_t iteration;
        } apply;
        shoal_verdict go;
        struct { /* UINT64_MAX: forget the timer */
            uint64_t id, at_us;
        } timer;
        struct {
            shoal_status status;
            int32_t peer; /* the culprit, -1: none */
            const char *text;
        } fail;
    };
} shoali_action;

/** The queue. Zero bytes are an empty one. */
typedef struct shoali_actions {
    uint8_t *bytes;
    size_t head, tail, capacity;
    shoal_status status; /* sticky: ENOMEM once an action could not be queued */
} shoali_actions;

/* Machines append; arguments are copied. */
void shoali_act_send(shoali_actions *actions, uint32_t peer, const void *bytes, size_t len_bytes);
void shoali_act_op(shoali_actions *actions, const shoali_sync_op *op);
/** A whole tensor from one endpoint to another: a put on one side and a take with the same id on
 * the other, each whenever it wants. A broadcast of two, checked and patient. Coded: both end
 * with what the codec leaves of it, bit for bit. */
void shoali_act_put(shoali_actions *actions, uint64_t id, uint32_t me, uint32_t to, uint32_t tensor,
                    size_t count, bool coded, uint64_t iteration);
void shoali_act_take(shoali_actions *actions, uint64_t id, uint32_t me, uint32_t from,
                     uint32_t tensor, size_t count, bool coded, uint64_t iteration);
void shoali_act_cancel(shoali_actions *actions, uint64_t op_id);
/** Somebody waits for the operation after all: within_us is over. */
void shoali_act_hurry(shoali_actions *actions, uint64_t op_id);
void shoali_act_mix(shoali_actions *actions, uint32_t dst, size_t offset, size_t count,
                    const shoali_mix_term *terms, uint32_t term_count);
/** dst = the sum of those updates of workers (tensor first + worker) that can be trusted. */
void shoali_act_trust(shoali_actions *actions, const shoali_action *mix);
void shoali_act_apply(shoali_actions *actions, uint32_t tensor, size_t offset, size_t count,
                      uint64_t iteration, float scale);
void shoali_act_go(shoali_actions *actions, const shoal_verdict *verdict);
void shoali_act_timer(shoali_actions *actions, uint64_t id, uint64_t at_us);
void shoali_act_fail(shoali_actions *actions, shoal_status status, int32_t peer, const char *format,
                     ...) SHOAL_PRINTF(4, 5);

/* Drivers take. */
/** The oldest action, NULL if there is none; valid until the next append or pop. */
const shoali_action *shoali_actions_front(shoali_actions *actions);
void shoali_actions_pop(shoali_actions *actions);
/** Forget everything queued (after FAIL). */
void shoali_actions_clear(shoali_actions *actions);
/** Free the memory; the queue is empty and usable again. */
void shoali_actions_fini(shoali_actions *actions);

#endif
