/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the ripples machine: ripples.c is the worker's side and the row, ripples_control.c the
 * controller's. States and messages: ripples.c. */
#ifndef SHOALI_SYNC_RIPPLES_H
#define SHOALI_SYNC_RIPPLES_H

#include "sync/finale.h"
#include "sync/group_generator.h"

typedef struct shoali_ripples_params {
    bool fixed, random, smart, laggards;
    int32_t division;
    int64_t group, threshold, section;
} shoali_ripples_params;

typedef enum shoali_ripples_phase {
    COMPUTE,
    ASKING,
    AVERAGING,
    FINISHED,
    LEAVING,
    OVER
} shoali_ripples_phase;

enum { HEARD = 1, WANTS = 2 }; /* flags of a worker at a controller that is not ready */

/* Messages: a kind, two numbers, and GROUP's members as a bitmap. */
enum {
    REQUEST = 1,
    GROUP,
    DONE,
    HELLO,
    ENDED,
    SKIPPED,
    HEAD_BYTES = 17,
    BITMAP_MAX = (1 << 14) / 8
};
enum { TERM_SHIFT = 40 };

typedef struct shoali_ripples {
    const shoali_world *world;
    shoali_finale finale;
    shoali_generator generator;
    shoali_ripples_phase phase;
    uint64_t iteration, asked;   /* asked: how often I have */
    uint64_t seen, done;         /* highest group that I know, that I am through with */
    uint64_t begun;              /* static: groups that were before the iteration of START */
    uint64_t now_us, went_us;    /* of this event; when the last average was done */
    uint64_t open;               /* the group whose operation runs; 0: none */
    uint64_t open_op, open_hash; /* its operation; of its members */
    uint32_t open_count, controller;
    bool ready;        /* as controller: every worker has said HELLO */
    uint32_t capacity; /* of the fifo */
    uint32_t first, count;
    uint64_t *ids;     /* fifo of groups: [capacity] */
    uint64_t *ends;    /* [workers] last group that a worker executes; UINT64_MAX: all */
    uint64_t *skipped; /* [workers * SKIPS] static: steps that a worker went without */
    uint64_t *passed;  /* [SKIPS] static: members' hash of the groups that I am through with */
    uint32_t *members; /* [workers] of the open group */
    uint8_t *bitmaps;  /* fifo: [capacity * bitmap_bytes] */
    uint8_t *flags;    /* [workers] at a controller that is not ready */
    uint8_t *absent;   /* [workers] scratch of the static schedule */
} shoali_ripples;

static inline size_t shoali_ripples_bitmap_bytes(const shoali_world *world)
{
    return (world->workers + 7) / 8;
}

static inline bool shoali_ripples_in(const uint8_t *bitmap, uint32_t worker)
{
    return (bitmap[worker / 8] >> (worker % 8) & 1) != 0;
}

/* ripples.c */
void shoali_ripples_say(uint32_t peer, uint8_t kind, uint64_t a, uint64_t b,
                        shoali_actions *actions);
/** A group of the controller's arrives. Groups come by rising number: what does not is of an older
 * term. */
void shoali_ripples_keep(shoali_ripples *m, uint64_t id, const uint8_t *bitmap,
                         shoali_actions *actions);

/* ripples_control.c */
/** A worker asks for the asked-th time, busy_us after its last group; UINT64_MAX: once more. */
void shoali_ripples_request(shoali_ripples *m, uint32_t worker, uint64_t asked, uint64_t busy_us,
                            shoali_actions *actions);
/** What a worker tells the next controller: how often it asked, which groups it has seen. */
void shoali_ripples_hello(shoali_ripples *m, uint32_t worker, uint64_t asked, uint64_t seen,
                          bool wants, shoali_actions *actions);
/** A worker takes part no longer: who waited for it alone goes on. */
void shoali_ripples_fewer(shoali_ripples *m, shoali_actions *actions);
/** The controller is gone: the lowest live worker is the next one. */
void shoali_ripples_change(shoali_ripples *m, shoali_actions *actions);

#endif
