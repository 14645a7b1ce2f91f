/* SPDX-License-Identifier: Apache-2.0 */
/* The end of protocols whose replicas differ: when every worker that is still there has finished,
 * all take the exact mean of their parameters. And the book of who is still there: losses, and
 * goodbyes of workers that leave early.
 *
 * A machine keeps one, hands it events first, and asks it who is gone. Its messages
 * start with a byte from SHOALI_FINALE_FIRST on, its operations have the bit SHOALI_FINALE_OP. */
#ifndef SHOALI_SYNC_FINALE_H
#define SHOALI_SYNC_FINALE_H

#include "sync/sync.h"

enum { SHOALI_FINALE_FIRST = 0xf0, SHOALI_FINALE_WORKERS = 1 << 14 };
#define SHOALI_FINALE_OP (UINT64_C(1) << 62)

/** Of one worker, by endpoint. */
enum {
    SHOALI_PEER_FINISHED = 1,
    SHOALI_PEER_REPORTED = 2, /* how its operation of the attempt ended: well, or */
    SHOALI_PEER_FAILED = 4,
    SHOALI_PEER_GONE = 8,
    SHOALI_PEER_HELLO = 16, /* at a leader after the first: it follows me, and has not committed */
    SHOALI_PEER_AWAY = 32,  /* with GONE: it may be alive, and go on with others */
    SHOALI_PEER_DEAD = 64   /* with GONE: it has ended, and may have decided with others before */
};

typedef struct shoali_finale {
    const shoali_world *world;
    uint8_t *peers;    /* [workers] SHOALI_PEER_* */
    uint64_t *has;     /* [workers] at a leader after the first: whose sum each said to have */
    uint32_t *members; /* [workers] of the attempt that runs or comes next */
    uint32_t *misses;  /* [workers] at the leader: whom each says to have lost; UINT32_MAX: none */
    uint32_t slot, member_count, summands;
    uint32_t source;        /* tensor whose mean becomes PARAM; start: PARAM itself */
    uint64_t attempt, next; /* that runs or ran last; that was asked for; 0: none */
    uint64_t sum;           /* attempt that made the slot's sum; another one may have adopted it */
    uint64_t calls;         /* attempts that this worker called as leader */
    uint64_t iteration;     /* for the verdict */
    uint32_t follows;       /* leader that this worker said HELLO to; UINT32_MAX: none */
    uint64_t now_us, wait_us; /* last event's; leading, for a quorum until then; 0: it has one */
    bool timer;
    bool asked; /* FINISH came and has no GO yet */
    bool open;  /* attempt's operation */
    bool whole; /* the slot has the sum of `attempt` */
    bool over;  /* GO was said, or nothing will be any more */
} shoali_finale;

/** Bytes that it needs behind the machine's state, for peers and members. */
size_t shoali_finale_bytes(const shoali_world *world);
/** slot: index of a slot of its own. memory: shoali_finale_bytes() of zeroes, 8-byte aligned. */
void shoali_finale_start(shoali_finale *finale, const shoali_world *world, uint32_t slot,
                         void *memory);

typedef enum shoali_finale_news {
    SHOALI_NOT_MINE,     /* the machine's own event */
    SHOALI_TAKEN,        /* nothing is left to do */
    SHOALI_SOMEBODY_LEFT /* taken, and *peer_out is gone: it will answer nothing any more */
} shoali_finale_news;
/** FINISH, MESSAGE, OP_DONE, its TIMER and PEER_DOWN (again, once more is known of how). It answers
 * FINISH with GO, and FAILs where it cannot: with EEPOCH where the others end without this worker,
 * or may. */
shoali_finale_news shoali_finale_event(shoali_finale *finale, const shoali_event *event,
                                       uint32_t *peer_out, shoali_actions *actions);
/** This worker leaves before its end: tell the others. Cancels its operation; true: wait for that
 * one's OP_DONE before GO(stop). */
bool shoali_finale_leave(shoali_finale *finale, shoali_actions *actions);

/** FAIL, and a goodbye first: peers shall not wait for this worker. */
void shoali_finale_fail(shoali_finale *finale, shoal_status status, const char *text,
                        shoali_actions *actions);

/** FAIL, because losses have cut the protocol's graph, and all the others fail with it: were they
 * only left, their part would look whole to them. */
void shoali_finale_cut(shoali_finale *finale, shoal_status status, const char *text,
                       shoali_actions *actions);

bool shoali_finale_is_gone(const shoali_finale *finale, uint32_t endpoint);
/** All workers but those that are gone have finished: nobody will start anything new. */
bool shoali_finale_all_finished(const shoali_finale *finale);

#endif
