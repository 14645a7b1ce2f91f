/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of protocols in which workers meet now and then: each says when it is there; the lowest
 * live worker, the leader, calls the round and names who takes part. With a quorum it goes on
 * without those who come late. Who finishes or is gone is not waited for (finale.h knows), and when
 * the leader is gone the next one is told who is there.
 *
 *                AWAY              THERE                       leader, in both
 *   arrive       HERE -> THERE     .                           all there, or quorum and time: CALL
 *   CALL         late (see below)  -> AWAY, the row's turn     HERE, TIMER, gone, FINISHED: again
 *   leader gone  .                 HERE to the next one        lead
 *
 * A call may find a worker still busy with the one before, whose operations then fail: the row
 * finishes that first. */
#ifndef SHOALI_SYNC_MEETING_H
#define SHOALI_SYNC_MEETING_H

#include "sync/finale.h"
#include "sync/tempo.h"

enum { SHOALI_MEETING_FIRST = 0xe0, SHOALI_MEETING_TIMER = 0xe0, SHOALI_MEETING_IDS = 4 };

typedef struct shoali_meeting_options {
    uint32_t quorum;   /* so many workers are enough; 0: all have to be there */
    uint64_t grace_us; /* and so long the others are waited for; UINT64_MAX: as long as those who
                          are there usually take, see tempo.h */
} shoali_meeting_options;

/** A round. */
typedef struct shoali_call {
    uint64_t id;        /* first of SHOALI_MEETING_IDS names for its operations */
    uint64_t version;   /* highest version among members */
    uint64_t weight;    /* sum over members */
    uint64_t spare_us;  /* until a member waits for the round; 0: one does, or may */
    uint32_t *members;  /* [member_count], ascending */
    uint32_t *outdated; /* [outdated_count]: root, then the members with a lower version */
    uint32_t member_count, outdated_count;
} shoali_call;

typedef struct shoali_meeting {
    const shoali_world *world;
    const shoali_finale *finale;
    shoali_meeting_options options;
    shoali_call call;
    uint32_t leader;
    bool there;               /* I am, and wait for a call */
    bool called;              /* call is new: the row has not taken it yet */
    uint64_t version, weight; /* as I said when I arrived */
    uint64_t spare_us; /* how long I go on computing behind it; the row sets it before it arrives */
    /* as leader */
    uint64_t calls, quorum_us; /* since when the quorum is there; 0: it is not */
    uint64_t timer_us;
    uint64_t *versions, *weights; /* [workers] of those who are here */
    uint64_t *until_us;           /* [workers] and until when they have something else to do */
    uint64_t *called_us;          /* [workers] when it was called last; 0: never */
    shoali_tempo *tempos;         /* [workers] from a call to the next arrival */
    uint8_t *here;                /* [workers] */
} shoali_meeting;

size_t shoali_meeting_bytes(const shoali_world *world);
/** memory: shoali_meeting_bytes() of zeroes, aligned to 8. */
void shoali_meeting_start(shoali_meeting *meeting, const shoali_world *world,
                          const shoali_finale *finale, const shoali_meeting_options *options,
                          void *memory);
/** I am there, with a version of what rounds make, and a weight. */
void shoali_meeting_arrive(shoali_meeting *meeting, uint64_t version, uint64_t weight,
                           uint64_t now_us, shoali_actions *actions);
/** MESSAGE and TIMER; false: not of a meeting. */
bool shoali_meeting_event(shoali_meeting *meeting, const shoali_event *event,
                          shoali_actions *actions);
/** To be called after every event: the leader looks whom it can call. True: a call for me is in
 * meeting->call; take it with shoali_meeting_take. */
bool shoali_meeting_poll(shoali_meeting *meeting, uint64_t now_us, shoali_actions *actions);
/** The row runs the call now. */
void shoali_meeting_take(shoali_meeting *meeting);

#endif
