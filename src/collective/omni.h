/* SPDX-License-Identifier: Apache-2.0 */
/* OmniReduce without I/O: where blocks lie, what a worker sends, what an aggregator sums and asks
 * for. Whoever owns sockets or virtual time moves the bodies; omnireduce.c is the flow that does.
 *
 *   blocks   0  1  2  3 | 4  5  6  7 | 8 ..   C columns: block b is in column b mod C
 *   columns  0  1  2  3   0  1  2  3   0      a slot owns `fusion` neighbours, here {0,1} and {2,3}
 *
 *   contribution  k blocks of floats, then k x u32: the worker's next non-zero block of the column
 *   result        k blocks of floats, then k x (u32 block, u32 the block that is asked for)
 *
 * All words are little-endian; the last block is padded with zeros. Columns of a message ascend. A
 * column's end is a number beyond all blocks that is congruent to the column, so every number names
 * its column. A flagged body ends with a packed shoali_not_finite.
 *
 * Key-value input (omni_pairs.c) is the other form: a buffer of rows, of which each worker names
 * those that it has. A row's index is its key, and slot s has the keys k with k mod slots = s.
 *
 *   contribution  k rows of floats, then k x u32: their keys; then u32: the worker's next key
 *   result        k rows of floats, then k x u32: their keys; then u32: the key that is asked for
 *
 * Keys of a message ascend. SHOALI_OMNI_NO_KEY comes behind the last one.
 *
 * Source: Fei et al., "Efficient sparse collective communication and its application to accelerate
 *         distributed deep learning", SIGCOMM 2021, algorithm 1. */
#ifndef SHOALI_COLLECTIVE_OMNI_H
#define SHOALI_COLLECTIVE_OMNI_H

#include <stdbool.h>

#include "base/arena.h"
#include "shoal/shoal.h"
#include "shoal/sparse.h"
#include "wire/data.h"

enum { SHOALI_OMNI_FUSION_MAX = 64, SHOALI_OMNI_ORIGIN_BYTES = 24 };
#define SHOALI_OMNI_NO_KEY UINT32_MAX
#define SHOALI_OMNI_NONE UINT32_MAX

typedef struct shoali_omni_form shoali_omni_form;

/** Of blocks; of rows what stands in brackets. */
typedef struct shoali_omni_layout {
    const shoali_omni_form *form;
    size_t count;     /* elements */
    uint32_t block;   /* elements of a block [of a row] */
    uint32_t fusion;  /* columns of a slot [most rows of a contribution] */
    uint32_t columns; /* C [slots] */
    uint32_t blocks;  /* [rows] */
    uint32_t slots;   /* that have a block in the first row: the others are never used */
    uint32_t workers, aggregators;
} shoali_omni_layout;

/** @param slots of each aggregator.
 *  @return SHOAL_OK | EINVAL: more blocks than numbers. */
SHOAL_MUST_USE shoal_status shoali_omni_lay_out(size_t count, uint32_t block, uint32_t fusion,
                                                uint32_t slots, uint32_t workers,
                                                uint32_t aggregators, shoali_omni_layout *out);
/** Key-value form: rows of `row` elements, a contribution has at most about message_elems.
 *  @return SHOAL_OK | EINVAL: no whole rows, more than keys, or messages too long. */
SHOAL_MUST_USE shoal_status shoali_omni_lay_out_pairs(size_t count, uint32_t row,
                                                      uint32_t message_elems, uint32_t slots,
                                                      uint32_t workers, uint32_t aggregators,
                                                      shoali_omni_layout *out);
/** Elements that an aggregator sums where no block [row] stays out. */
uint64_t shoali_omni_share(const shoali_omni_layout *l, uint32_t aggregator);
/** Columns of a slot that have a block. */
uint32_t shoali_omni_width(const shoali_omni_layout *l, uint32_t slot);
/** Blocks of its longest column: most rounds that it can take. */
uint32_t shoali_omni_rows(const shoali_omni_layout *l, uint32_t slot);
uint32_t shoali_omni_end(const shoali_omni_layout *l, uint32_t column);
size_t shoali_omni_contribution_bytes(const shoali_omni_layout *l, uint32_t blocks);
size_t shoali_omni_result_bytes(const shoali_omni_layout *l, uint32_t blocks);
/** Number i behind the floats of a body of k blocks. */
uint32_t shoali_omni_word(const shoali_omni_layout *l, const uint8_t *body, uint32_t k, uint32_t i);
void shoali_omni_set_word(const shoali_omni_layout *l, uint8_t *body, uint32_t k, uint32_t i,
                          uint32_t value);
/** Whether b may be the next block of its column behind `before`; then its column. */
bool shoali_omni_follows(const shoali_omni_layout *l, uint32_t slot, uint32_t before, uint32_t b);

/** shoal_sparse_expect for a known share `together` of blocks that are not zero at some worker. */
SHOAL_MUST_USE shoal_status shoali_omni_cost(const shoal_sparse_desc *desc, double density,
                                             double together, shoal_sparse_cost *cost_out);

/* ------------------------------------------------------------------ worker */

typedef struct shoali_omni_worker {
    const shoali_omni_layout *l;
    float *x;
    bool check_finite;
    uint32_t *next;   /* [columns] own next non-zero block that is not sent, or the end
                         [slots: index in order of the next row that is not sent] */
    uint32_t *taken;  /* [slots] results taken */
    uint32_t *rounds; /* [slots] of them there are; 0: not known yet */
    uint64_t *seen;   /* [slots][seen_words] rounds whose result has come */
    uint32_t seen_words;
    uint32_t open;     /* slots that have results to come */
    size_t not_finite; /* first such element sent; SIZE_MAX: none */
    uint64_t work;     /* elements looked at or moved, ever */
    uint64_t *live;    /* of blocks: a bit for each of the first `scanned` that is not zero */
    uint32_t scanned;
    uint32_t *order; /* of rows: [keys] own keys, slot by slot */
    uint32_t *last;  /* of rows: [slots] where a slot's end */
    uint64_t *came;  /* of rows: a bit for each that a result had; NULL: nobody asks */
} shoali_omni_worker;

SHOAL_MUST_USE shoal_status shoali_omni_worker_init(shoali_omni_worker *w,
                                                    const shoali_omni_layout *l, float *x,
                                                    bool check_finite, shoal_arena *arena);
/** The contribution to a slot's first row, zero or not; returns its blocks. flagged_out: it holds
 *  NaN or infinity, for the first time at element not_finite. */
uint32_t shoali_omni_worker_first(shoali_omni_worker *w, uint32_t slot, uint8_t *body,
                                  bool *flagged_out);
/** Claim the result of a round, or give the claim back; false: there can be no such result, or it
 *  has come before. */
bool shoali_omni_worker_claim(shoali_omni_worker *w, uint32_t slot, uint32_t round);
void shoali_omni_worker_unclaim(shoali_omni_worker *w, uint32_t slot, uint32_t round);
/**
 * Take a result of k blocks, in any order of rounds, and write what it asks of this worker.
 * @param reply_out room for the largest contribution.
 * @param blocks_out of the reply; 0: nothing was asked, stay silent.
 * @return SHOAL_OK | ECORRUPT
 */
SHOAL_MUST_USE shoal_status shoali_omni_worker_result(shoali_omni_worker *w, uint32_t slot,
                                                      uint32_t round, const uint8_t *body,
                                                      uint32_t k, uint8_t *reply_out,
                                                      uint32_t *blocks_out, bool *flagged_out);

/* ------------------------------------------------------------------ aggregator */

typedef struct shoali_omni_slot {
    uint32_t round, open;  /* open: columns that are not at their end */
    uint32_t waiting;      /* blocks of this round that workers owe */
    uint32_t *cur;         /* [fusion] block of this round, or the end */
    uint32_t *next;        /* [workers][fusion] */
    uint8_t **body;        /* [workers] contributions of this round that are not given back */
    uint32_t *body_blocks; /* [workers] */
    uint8_t *sum;          /* by arrival: the result under construction */
    uint64_t started;      /* bit i: block i of the sum has its first summand */
    uint32_t *used;        /* of rows: [workers] rows of body that are in results already */
} shoali_omni_slot;

typedef struct shoali_omni_aggregator {
    const shoali_omni_layout *l;
    uint32_t me;             /* shard: has the slots s with s mod aggregators = me */
    shoali_omni_slot *slots; /* [layout's slots]; only own ones are set up */
    uint32_t open;           /* own slots that are not finished */
    uint64_t work;           /* elements summed, ever */
    uint32_t *keys;          /* of rows: [workers x fusion] of the result under construction */
} shoali_omni_aggregator;

SHOAL_MUST_USE shoal_status shoali_omni_aggregator_init(shoali_omni_aggregator *a,
                                                        const shoali_omni_layout *l, uint32_t me,
                                                        shoal_arena *arena);
/** Blocks that a worker owes to this round of a slot; 0: it has to be silent. */
uint32_t shoali_omni_aggregator_owed(const shoali_omni_aggregator *a, uint32_t slot,
                                     uint32_t worker);
/** A contribution: exactly the k blocks that are owed. body is borrowed until it is given back.
 *  @return SHOAL_OK | ECORRUPT */
SHOAL_MUST_USE shoal_status shoali_omni_aggregator_take(shoali_omni_aggregator *a, uint32_t slot,
                                                        uint32_t worker, uint8_t *body, uint32_t k);
/** All that is owed is here. */
bool shoali_omni_aggregator_ready(const shoali_omni_aggregator *a, uint32_t slot);
/** By arrival: add one worker's contribution to the sum now, and give it back. */
void shoali_omni_aggregator_add(shoali_omni_aggregator *a, uint32_t slot, uint32_t worker,
                                uint8_t *result);
/** A contribution that is no longer needed; NULL: none. */
uint8_t *shoali_omni_aggregator_give_back(shoali_omni_aggregator *a, uint32_t slot,
                                          uint32_t worker);
/** Blocks of the result of this round. */
uint32_t shoali_omni_aggregator_blocks(const shoali_omni_aggregator *a, uint32_t slot);
/** End the round: contributions not given back are summed in order of ranks; returns the blocks of
 *  the result and moves on. */
uint32_t shoali_omni_aggregator_sum(shoali_omni_aggregator *a, uint32_t slot, uint8_t *result);

#endif
