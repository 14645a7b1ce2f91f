/* SPDX-License-Identifier: Apache-2.0 */
/* All operations of one member of a job: a machine without sockets, threads and clocks. Calls,
 * messages, jobs and time go in; what it wants done goes out through the host table. One thread at
 * a time, but for making and freeing operations. */
#ifndef SHOALI_OPS_OPS_H
#define SHOALI_OPS_OPS_H

#include "ops/notes.h"
#include "ops/numbers.h"
#include "ops/op.h"
#include "ops/recent.h"
#include "ops/residual.h"
#include "ops/serve.h"

typedef enum shoali_there {
    SHOALI_THERE,         /* and stays */
    SHOALI_THERE_CHANGES, /* the members are about to change */
    SHOALI_THERE_LEFT,    /* it has said goodbye: what it had begun it has ended */
    SHOALI_THERE_NOT      /* it is lost */
} shoali_there;

/** What the owner does for operations. None may call back, but for `post` (a completion). */
typedef struct shoali_ops_host {
    void *ctx;
    /** A message to another endpoint; failures end in its loss. */
    void (*control)(void *ctx, uint32_t endpoint, uint16_t kind, const void *bytes,
                    size_t len_bytes);
    /** A data frame; on_sent comes back to the flow, later or at once. */
    void (*post)(void *ctx, shoal_op *op, uint32_t member, const shoal_data *head, const void *body,
                 uint64_t cookie);
    /** Frames of an operation that are not on their way yet come back. */
    void (*recall)(void *ctx, shoal_op *op);
    void (*datagram)(void *ctx, shoal_op *op, uint32_t member, const void *bytes, size_t len_bytes);
    void (*job)(void *ctx, shoali_job *job); /* comes back by job->done */
    /** The next number of a group; any thread. */
    shoal_status (*number)(void *ctx, uint64_t group, uint64_t *number_out);
    /** From plans(true) to plans(false) no other thread is among the plans; any thread. */
    void (*plans)(void *ctx, bool enter);
    /** Whether an endpoint is there; *why_out: why not, of one that is not. */
    shoali_there (*there)(void *ctx, uint32_t endpoint, const char **why_out);
    /** An operation starts that is no caller's; it ends by `over`. False: the owner is ending. */
    bool (*begins)(void *ctx);
    /** What goes from one rank to another takes links of others. */
    bool (*relayed)(void *ctx, uint32_t from, uint32_t to);
    /** Fill in what a flow has to know of the ways to the others. */
    shoal_status (*links)(void *ctx, shoal_op *op, shoali_flow_args *args);
    void (*gone)(void *ctx, uint32_t endpoint, const char *why); /* it misbehaves: give it up */
    /** "; it was last doing all-reduce 7 (...) for 0.4 s" or "". */
    void (*doing)(void *ctx, uint32_t endpoint, char *text, size_t text_bytes);
    void (*over)(void *ctx, shoal_op *op); /* has ended, and is the owner's */
    uint64_t (*now_ns)(void);              /* monotonic, the exact time */
} shoali_ops_host;

/** What is constant of an endpoint. */
typedef struct shoali_ops_peer {
    const char *host;
    uint32_t place; /* the lowest rank behind the same links */
} shoali_ops_peer;

typedef struct shoali_ops {
    /* constant */
    shoali_ops_host host;
    uint32_t me, size, ranks, aggregators, chunk_elems; /* size: of all endpoints */
    int64_t timeout_us;                                 /* of an operation that names none */
    uint64_t seed;
    const uint64_t *now_us;  /* of this round */
    bool *busy;              /* set: something is left to do */
    shoali_serving *serving; /* the owner's; NULL: this is a rank */
    shoali_ops_peer *peers;
    shoali_scratch *scratch;

    shoali_numbers numbers; /* host.number's */
    shoal_op_plan *plans;   /* host.plans'; the latest used comes first */
    uint32_t plans_kept;    /* of these: not prepared by a caller */

    shoal_op *open; /* in order of age */
    shoal_op **open_last;
    shoal_op *ended;
    shoal_op **slots; /* slot & slot_mask */
    uint32_t slot_mask, next_slot;
    uint64_t next_age;
    shoali_notes notes;
    shoali_recent recent;
    shoali_residual_store *residuals;     /* NULL: nothing is kept yet */
    struct shoali_gauge *gauge;           /* NULL: nobody has asked for rates */
    char last_name[SHOALI_OP_TEXT_BYTES]; /* of the last operation that ended */
    uint64_t last_us;                     /* when */
} shoali_ops;

/** me ... busy and host are set. */
SHOAL_MUST_USE shoal_status shoali_ops_init(shoali_ops *ops);
/** None is open; all zero is fine. gone: what callers are told who run a plan of theirs. */
void shoali_ops_free(shoali_ops *ops, shoal_status gone);

/** Time since then; an instant taken within this round may be younger than the round's own. */
static inline uint64_t shoali_ops_since(const shoali_ops *ops, uint64_t then_us)
{
    return *ops->now_us > then_us ? *ops->now_us - then_us : 0;
}

/* op.c */
/** A run of a plan that the caller holds; desc brings what differs from run to run: buffer, rows,
 * name, label, deadline, ToS. */
SHOAL_MUST_USE shoal_status shoali_op_of(shoal_op_plan *plan, const shoal_op_desc *desc,
                                         const shoali_op_extras *extras, uint32_t round,
                                         shoal_op **op_out);
/** As above, by the plan that desc describes. */
SHOAL_MUST_USE shoal_status shoali_op_make(shoali_ops *ops, const shoal_op_desc *desc,
                                           const shoali_op_extras *extras, uint32_t round,
                                           shoal_op **op_out);
void shoali_op_free(shoal_op *op); /* or let it rest, for the next run of its plan */
void shoali_op_discard(shoal_op *op);

/* run.c */
void shoali_run_start(shoal_op *op);
/** End op as failed; the last error is why. spread: tell the other members. */
void shoali_run_fail(shoal_op *op, bool spread);
/** What has time (extras.pace_us) has none any more. */
void shoali_run_hurry(shoal_op *op);
void shoali_run_reap(shoali_ops *ops);
shoal_op *shoali_run_find(const shoali_ops *ops, const shoali_wire_id *id);
shoal_op *shoali_run_slot(const shoali_ops *ops, uint32_t slot);
/** unread: packets have come that have not been handed out, so nobody may call an answer late. */
void shoali_run_timers(shoali_ops *ops, bool unread);
uint64_t shoali_run_next_us(const shoali_ops *ops);
/** Whether one is open that needs this endpoint still. */
bool shoali_run_involves(const shoali_ops *ops, uint32_t endpoint);

/* end.c: operations that end for reasons from outside. */
void shoali_run_peer_lost(shoali_ops *ops, uint32_t endpoint, shoal_status why, const char *text);
/** What was on its way between here and there is lost, the peer is not. */
void shoali_run_link_broke(shoali_ops *ops, uint32_t endpoint, const char *text);
/** End operations EEPOCH: those with a member that reforms; all. */
void shoali_run_peer_leaving(shoali_ops *ops, uint32_t endpoint);
void shoali_run_all_leaving(shoali_ops *ops);
/** All of them, ECANCELLED. */
void shoali_run_cancel_all(shoali_ops *ops);

/* agree.c: messages of others about operations. */
void shoali_agree_on_ready(shoali_ops *ops, uint32_t endpoint, const shoali_ready *ready);
void shoali_agree_on_abort(shoali_ops *ops, uint32_t endpoint, const shoali_abort *abort);
void shoali_agree_on_ask(shoali_ops *ops, uint32_t endpoint, const shoali_ask *ask);
void shoali_agree_on_answer(shoali_ops *ops, uint32_t endpoint, const shoali_answer *answer);
/** What a lost endpoint had said. */
void shoali_agree_forget(shoali_ops *ops, uint32_t endpoint);
/** An operation that has ended here, not long ago. */
bool shoali_agree_is_over(const shoali_ops *ops, const shoali_wire_id *id);

/* take.c: what another endpoint sent. */
typedef enum shoali_taken {
    SHOALI_TAKEN,
    SHOALI_TAKEN_NOT, /* of a kind that is not about operations */
    SHOALI_TAKEN_BAD  /* malformed */
} shoali_taken;
shoali_taken shoali_take_control(shoali_ops *ops, uint32_t endpoint, uint16_t kind,
                                 const uint8_t *bytes, size_t len_bytes);
/** The operation for which a data frame comes, and whose it is; NULL: nobody wants it. */
shoal_op *shoali_take_for(const shoali_ops *ops, uint32_t endpoint, const shoal_data *head,
                          uint32_t *member_out);
/** Frames that have arrived, each in its place. */
void shoali_take_frames(shoali_ops *ops, uint32_t endpoint, const shoal_data *heads,
                        uint8_t *const *bodies, size_t count);
/** False: no operation takes it for its own. */
bool shoali_take_datagram(shoali_ops *ops, uint32_t endpoint, const uint8_t *bytes,
                          size_t len_bytes);

/* serve.c */
/** All members are connected: enter what they have asked for meanwhile. */
void shoali_serve_begin(shoali_ops *ops);

/* keep.c */
bool shoali_op_feeds_back(const shoal_op *op); /* it reads and writes residuals */
bool shoali_op_keeps(const shoal_op *op);      /* residuals, or a transform's state */
/** NULL: no memory. */
shoali_residual_store *shoali_ops_kept(shoali_ops *ops);

#endif
