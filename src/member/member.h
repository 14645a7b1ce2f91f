/* SPDX-License-Identifier: Apache-2.0 */
/* One member's way from an epoch to the next: who is there, who leads, who may be left out, and
 * what it has agreed to. Pure: what it sees goes in, what to do comes out; reform/reform.c and the
 * simulated world of the tests do it.
 *
 * Each epoch has one successor at most that goes on:
 *   - Members come to the door of the lowest that is there, one door at a time; who has come takes
 *     part in nothing else until it leaves again. With a quorum (quorum.h) that one proposes.
 *   - A proposal is agreed to by being kept as a doubt. All of its members meet and say READY to
 *     the leader, in connections of the epoch to come; when all have, it says GO, and is in. GO is
 *     the only way in. Who hears no GO comes back with its doubt; who has not been READY has none.
 *   - A leader proposes only when no doubt of those who have come is left open: when its leader has
 *     come, too, and so has not said GO; or one of its members, that has not been READY; or when
 *     those of its members who have not come, and are not dead, would have no quorum in it, so that
 *     it cannot go on without those who have. (Its newcomers are with those who have not: one that
 *     comes again may have been in it.)
 *   - Who leaves somebody out that may be alive has been quiet towards that one for as long as
 *     life.h says, before it is READY.
 * So two successors would need two quorums of one epoch, which have a member in common, who had
 * agreed to one of them first: and that one cannot go on without it. */
#ifndef SHOALI_MEMBER_MEMBER_H
#define SHOALI_MEMBER_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/member.h"

typedef enum shoali_member_state {
    SHOALI_MEMBER_HERE,
    SHOALI_MEMBER_LEFT,   /* said goodbye */
    SHOALI_MEMBER_SILENT, /* out of reach, and may be alive */
    SHOALI_MEMBER_ASTRAY, /* the same, but there are other ways to it */
    SHOALI_MEMBER_DYING,  /* life.h */
    SHOALI_MEMBER_DEAD,
    SHOALI_MEMBER_MOVED /* it is in the next epoch */
} shoali_member_state;

typedef struct shoali_member {
    /* constant */
    uint32_t me, size;
    uint64_t epoch, peer_timeout_us;
    uint64_t done;      /* steps */
    uint8_t *states;    /* [size] shoali_member_state, as of the last look */
    uint64_t *identity; /* [size] incarnations */
    uint64_t *said_us;  /* [size] when it last said a word to each: life.h */
    /* what it has done */
    uint64_t tried;     /* the highest epoch that it has agreed to */
    uint64_t failed_us; /* when it last gave up an epoch to come, to whose members it had spoken */
    uint64_t wait_us;   /* leading: for those astray, until then; 0: it has not led yet */
    uint32_t doubt_count;
    shoali_proposal doubts[SHOALI_DOUBTS];
} shoali_member;

/** Who stands at a leader's door. */
typedef struct shoali_guest {
    shoali_come come;
    const shoali_proposal *doubts; /* [come.doubts] */
} shoali_guest;
typedef struct shoali_guests {
    const shoali_guest *const *members; /* [size] by rank; NULL: has not come */
    uint32_t newcomers;
    uint32_t room; /* how many members the next epoch may have */
} shoali_guests;

/** Whether this member is to look for the next epoch as a newcomer: others are in one already. */
bool shoali_member_is_behind(const shoali_member *m);
/** The lowest member from `first` on that may lead; m->me: this one. */
uint32_t shoali_member_candidate(const shoali_member *m, uint32_t first);
/** Whether it is still right to stand at that member's door. */
bool shoali_member_stays(const shoali_member *m, uint32_t leader);

typedef enum shoali_lead {
    SHOALI_LEAD_WAIT,     /* some have not come yet */
    SHOALI_LEAD_GIVE_WAY, /* others are in the next epoch */
    SHOALI_LEAD_MINORITY, /* those who are here may not decide */
    SHOALI_LEAD_DOUBT,    /* others may have gone on by what some here have agreed to */
    SHOALI_LEAD_PROPOSE
} shoali_lead;
shoali_lead shoali_member_lead(shoali_member *m, const shoali_guests *calls, uint64_t now_us);
/** After LEAD_PROPOSE: who, and the leader's own place; the members' in their old order, then the
 * newcomers', follow it. door is left to the caller. */
void shoali_member_propose(const shoali_member *m, const shoali_guests *calls,
                           shoali_proposal *proposal_out, shoali_admit *place_out);

/** Agree to what the leader, at whose door it stands, or which it is, has proposed. False: it
 * cannot, and has to look again. */
bool shoali_member_agree(shoali_member *m, const shoali_proposal *proposal);
/** From when on it may say READY (the leader: GO). */
uint64_t shoali_member_ready_us(const shoali_member *m, const shoali_proposal *proposal);
/** It heard no GO, and is out of the epoch to come.
 *  @param unready what it had agreed to and was not READY for, so that it does not begin; NULL: it
 *                 was READY, or had come as a newcomer */
void shoali_member_failed(shoali_member *m, const shoali_proposal *unready, uint64_t now_us);

#endif
