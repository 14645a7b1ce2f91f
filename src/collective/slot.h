/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of int32 in the slots of an aggregator over a network that loses, repeats and reorders
 * packets: a worker's half and an aggregator's half, without I/O. switchml.c is the flow.
 *
 *   round        worker -> aggregator              aggregator -> all workers
 *   0            -         next B1, its exponent   -       next B1, largest exponent, after B2
 *   1            values B1 next B2, its exponent   sum B1  next B2, largest exponent, after B3
 *   2            values B2 next B3, its exponent   sum B2  next B3, ...
 *   r            values Br next none               sum Br  next none: the slot is finished
 *
 * So exponents travel one round ahead of their values, and everyone scales a block alike. A slot
 * holds one round that is being summed and the result of the one before: a worker that is at round
 * r has result r - 1, hence every worker has sent r - 1, hence has result r - 2. A packet says its
 * round: of an older one, or a second time, it is dropped. (A version bit alone, as published,
 * takes a packet that is two rounds late for a new one.) Every worker answers every result, with
 * no values where it has none.
 *
 * Which block comes next: dense, the aggregator hands out blocks in order to whichever slot is
 * free, so a slot that waits for a lost packet holds up only itself. Sparse, a slot is a column
 * (blocks congruent to it), a worker's next is its next block that is not zero, and the smallest
 * of them is next.
 *
 * A worker that waits too long sends a probe, a header alone. The answer is the stored result, or
 * who is missing; only a worker that is sends its contribution again: one lost packet is not
 * repeated by everybody. Mostly the aggregator knows before: workers answer results in the order
 * in which they were sent, so who has answered later ones has lost something of this slot, and is
 * told.
 *
 * Sources: Sapio et al., "Scaling distributed machine learning with in-network aggregation",
 *          NSDI 2021; Fei et al., SIGCOMM 2021, algorithm 2. */
#ifndef SHOALI_COLLECTIVE_SLOT_H
#define SHOALI_COLLECTIVE_SLOT_H

#include "base/arena.h"
#include "shoal/shoal.h"
#include "wire/packet.h"

/** One aggregator's part of a buffer. */
typedef struct shoali_slot_share {
    size_t count;    /* elements */
    uint32_t block;  /* elements of a block: the values of a packet */
    uint32_t blocks; /* the last may be short, and is padded with zeros */
    uint32_t slots;
    uint32_t workers;
    uint64_t key;
    bool sparse;
    bool whole; /* workers' scales are powers of two: whole multiples of such, as codecs make them,
                   are summed exactly */
} shoali_slot_share;

/** @return SHOAL_OK | EINVAL: too many workers, slots or blocks. */
SHOAL_MUST_USE shoal_status shoali_slot_lay_out(size_t count, uint32_t block, uint32_t slots,
                                                uint32_t workers, bool sparse,
                                                shoali_slot_share *share_out);
/** Bytes of the largest packet. */
size_t shoali_slot_packet_bytes(const shoali_slot_share *share);

/* ------------------------------------------------------------------ scale (slot_scale.c) */

/** Smallest e with 2^e > |x| for all of x, or SHOALI_EXPONENT_*. */
int16_t shoali_slot_exponent(const float *x, size_t n);
/** Integers are x times this: n values below 2^e in magnitude sum to at most 2^31 - 1. Formed, and
 *  multiplied, in double: a sum is then within n / 2 / scale of the exact one, before its rounding
 *  to float32. */
double shoali_slot_scale(int16_t exponent, uint32_t workers);
/** The same for a share: the power of two below, where it is `whole`. */
double shoali_slot_share_scale(const shoali_slot_share *share, int16_t exponent);
/** Round to nearest, in network byte order. |x| < 2^exponent. */
void shoali_slot_quantise(const float *x, size_t n, double scale, uint8_t *out);
void shoali_slot_dequantise(const uint8_t *in, size_t n, double scale, float *x_out);
/** acc = or += values in network byte order, modulo 2^32. */
void shoali_slot_set(int32_t *acc, const uint8_t *in, size_t n);
void shoali_slot_add(int32_t *acc, const uint8_t *in, size_t n);
void shoali_slot_put(const int32_t *acc, size_t n, uint8_t *out);

/* ------------------------------------------------------------------ worker */

typedef struct shoali_slot_sender {
    uint32_t round;       /* whose result is awaited */
    uint32_t block, next; /* of this round; what this worker says comes after it */
    int16_t exponent;     /* of block, as agreed */
    int16_t ahead;        /* own, of next */
    bool owns;            /* has values of block that are not zero */
    bool finished;
    bool timed; /* nothing was sent twice: the time until the result is a round trip */
    bool lost;  /* a contribution of this round: the aggregator said so */
    uint8_t others, unanswered; /* answers that others are missing; probes since the aggregator
                                   spoke of the slot */
    uint32_t missing;           /* a worker that the aggregator misses; NONE: not known */
    uint64_t sent_us, due_us, probed_us;
    uint32_t again;     /* results of the round before that came behind the first */
    uint64_t resent_us; /* the contribution, because it was said to be missing; 0: not yet */
} shoali_slot_sender;

/** Called once for each block of a share, before anything of it is looked at: changes what this
 * worker contributes. */
typedef void (*shoali_slot_prepare)(void *ctx, float *x, size_t n);

typedef struct shoali_slot_worker {
    shoali_slot_share share;
    shoali_slot_prepare prepare; /* set after init; NULL: nothing to do */
    void *prepare_ctx;
    float *x; /* of the share; results are written over what was sent */
    uint32_t me;
    shoali_slot_sender *slots;
    uint32_t open;       /* slots that are not finished */
    uint64_t wake_us;    /* no timer is due before */
    double rtt_us;       /* lower quartile of the round trips, followed as they come */
    double echo_us;      /* median of the round trips of probes, which nobody else's losses delay */
    bool echoed;         /* a probe was answered: echo_us is no guess any more */
    double lost;         /* share of the last rounds of which a contribution was lost */
    double early_us;     /* what patience lacked lately: results came again and again */
    uint64_t raised_us;  /* when that grew last */
    size_t not_finite;   /* first own such element; SIZE_MAX: none */
    bool sum_not_finite; /* somebody has brought one */
    uint64_t resent, probes;
} shoali_slot_worker;

typedef enum shoali_slot_verdict {
    SHOALI_SLOT_IGNORED, /* late, twice, or nothing that could be */
    SHOALI_SLOT_TAKEN,   /* nothing to send */
    SHOALI_SLOT_SEND,    /* worker: the contribution of this slot; aggregator: its result, to all */
    SHOALI_SLOT_RESEND,  /* aggregator: an answer to the sender alone */
    SHOALI_SLOT_PROBE    /* worker: a probe of this slot */
} shoali_slot_verdict;

SHOAL_MUST_USE shoal_status shoali_slot_worker_init(shoali_slot_worker *w,
                                                    const shoali_slot_share *share, float *x,
                                                    uint32_t me, shoal_arena *arena);
/** The first packets: set every slot to round 0. The caller sends a contribution for each. */
void shoali_slot_worker_begin(shoali_slot_worker *w, uint64_t now_us);
/** The contribution of a slot's round, the same bytes whenever it is asked for; returns its
 *  bytes. */
size_t shoali_slot_worker_contribution(shoali_slot_worker *w, uint32_t slot, uint8_t *out);
size_t shoali_slot_worker_probe(shoali_slot_worker *w, uint32_t slot, uint8_t *out);
/** A packet of the aggregator, decoded; values: behind its head. */
shoali_slot_verdict shoali_slot_worker_take(shoali_slot_worker *w, const shoali_packet *head,
                                            const uint8_t *values, uint32_t count, uint64_t now_us);
/** A slot that has waited too long, and now waits for a probe's answer; NONE: no other. */
uint32_t shoali_slot_worker_due(shoali_slot_worker *w, uint64_t now_us);
/** When a timer is due, or earlier; UINT64_MAX: never. */
uint64_t shoali_slot_worker_wake_us(const shoali_slot_worker *w);
/** How long a slot waits before its first probe. */
uint64_t shoali_slot_worker_patience_us(const shoali_slot_worker *w);

/* ------------------------------------------------------------------ aggregator */

typedef struct shoali_slot_cell {
    uint32_t round, block, next, after;
    uint32_t count;               /* workers of this round that have sent */
    uint64_t seen[4];             /* which */
    uint64_t told[4];             /* which have been told that something of theirs is lost */
    uint64_t opened, last_opened; /* rounds completed before this one, the last one, began */
    uint32_t older, newer;        /* cells by that */
    uint32_t teller;              /* whose probes make the others be told, too; NONE: nobody's */
    int16_t exponent;             /* largest of next so far */
    bool any, finished;           /* any: acc holds values of this round */
    uint32_t result_bytes;
    int32_t *acc;    /* [block] */
    uint8_t *result; /* of the round before, as sent */
} shoali_slot_cell;

typedef struct shoali_slot_pool {
    shoali_slot_share share;
    shoali_slot_cell *cells;
    uint32_t unassigned; /* dense: first block that no slot has */
    uint32_t open;       /* slots that are not finished */
    uint32_t oldest, newest;
    uint64_t completed; /* rounds, ever */
    uint64_t stale, repeated;
} shoali_slot_pool;

SHOAL_MUST_USE shoal_status shoali_slot_pool_init(shoali_slot_pool *pool,
                                                  const shoali_slot_share *share,
                                                  shoal_arena *arena);
/** Bytes that init takes. */
uint64_t shoali_slot_pool_bytes(const shoali_slot_share *share);
/** A packet of a worker, decoded. */
shoali_slot_verdict shoali_slot_pool_take(shoali_slot_pool *pool, const shoali_packet *head,
                                          const uint8_t *values, uint32_t count);
/** After SEND: the slot's newest result. After RESEND: the answer to this packet. Returns where it
 *  lies; valid until the next call. */
const uint8_t *shoali_slot_pool_result(const shoali_slot_pool *pool, uint32_t slot,
                                       size_t *bytes_out);
size_t shoali_slot_pool_answer(const shoali_slot_pool *pool, const shoali_packet *head,
                               uint8_t *out);
/** After a contribution was taken: what else its worker must be told; returns bytes, 0: nothing
 *  (more). */
size_t shoali_slot_pool_tell(shoali_slot_pool *pool, const shoali_packet *head, uint8_t *out);
/** After a probe of a worker that has sent: who else must be told that the round waits for it, from
 * worker *from on, which becomes it; returns bytes, 0: nobody. The probes of one worker a round do
 * so, or all missing would send as often as others wait. */
size_t shoali_slot_pool_tell_missing(shoali_slot_pool *pool, const shoali_packet *head,
                                     uint32_t *from, uint8_t *out);
/** A worker of which a slot still misses something; false: none. */
bool shoali_slot_pool_missing(const shoali_slot_pool *pool, uint32_t *slot_out,
                              uint32_t *worker_out);

#endif
