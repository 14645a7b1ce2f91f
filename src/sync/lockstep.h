/* SPDX-License-Identifier: Apache-2.0 */
/* What synchronous protocols share: cut the gradient into buckets, exchange each as soon as it is
 * READY, let the caller go on when all are done, on every rank alike. A row gives the template of a
 * bucket's operation. */
#ifndef SHOALI_SYNC_LOCKSTEP_H
#define SHOALI_SYNC_LOCKSTEP_H

#include "sync/sync.h"

/** A range of whole tensors that travels as one operation. */
typedef struct shoali_bucket {
    size_t offset, count;
    bool open; /* its operation runs */
} shoali_bucket;

typedef struct shoali_lockstep {
    const shoali_world *world;
    shoali_sync_op
        op;        /* template: everything but id, range and iteration. Set at START by the row. */
    bool commit;   /* GRAD comes back as weights: MIX(PARAM = GRAD) instead of apply */
    bool serving;  /* role SERVER: no caller, iterations follow each other until somebody stops */
    bool asked;    /* BEFORE came, its GO is due */
    bool updating; /* GO is out, AFTER is due */
    bool lost;     /* a peer was lost meanwhile: lost_peer, why */
    bool leaving;  /* STOP came */
    bool over;     /* FAIL or the last GO is out: nothing matters any more */
    uint64_t iteration;
    uint64_t stop_at; /* first iteration that some peer will not exchange; UINT64_MAX: none known */
    size_t low;       /* everything from here up is READY */
    uint32_t bucket_count;
    uint32_t started, done; /* of this iteration; back to front, started in this order */
    uint32_t bad;           /* buckets of this iteration that were not finite */
    uint32_t worst;         /* the first of them: it gives the error its text */
    int32_t lost_peer;
    char why[384];
    shoali_bucket *buckets; /* bucket_count */
} shoali_lockstep;

/** Bytes of the array behind step->buckets: a row lays it behind its state. */
size_t shoali_lockstep_bucket_bytes(const shoali_world *world);

/**
 * START: set everything up and let a server begin.
 * @param op      template of a bucket's operation; its strings have to stay valid.
 * @param commit  GRAD comes back as weights.
 * @param buckets memory of shoali_lockstep_bucket_bytes.
 */
void shoali_lockstep_start(shoali_lockstep *step, const shoali_world *world,
                           const shoali_sync_op *op, bool commit, shoali_bucket *buckets,
                           shoali_actions *actions);
/** All other events. */
void shoali_lockstep_event(shoali_lockstep *step, const shoali_event *event,
                           shoali_actions *actions);

#endif
