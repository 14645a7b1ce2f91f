/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about members: who is missed, between members on the control connections; and of a
 * job whose members may change, there (reform) and at a member's door (come, admit, held;
 * meet/door.h). Pure, as control.h. */
#ifndef SHOALI_WIRE_MEMBER_H
#define SHOALI_WIRE_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOALI_DOOR_BYTES = 64 }; /* "10.0.0.3:40123", "[fd00::3]:40123" */

enum {
    SHOALI_REFORM_DOOR,    /* door: where the sender takes visitors */
    SHOALI_REFORM_WANTED,  /* please reform at your next boundary */
    SHOALI_REFORM_LEAVING, /* the sender reforms: nothing more of this epoch comes from it */
    SHOALI_REFORM_MOVED,   /* the sender is in the next epoch */
    SHOALI_REFORM_READY,   /* to the leader, in the epoch to come: it is connected to all */
    SHOALI_REFORM_GO,      /* from the leader, there: all are; the epoch has begun */
    SHOALI_REFORM_ENDING,  /* the sender has made all its steps: it waits for the others' */
    SHOALI_REFORM_GOING,   /* the sender goes over to reform, and leaves its protocol before */
    SHOALI_REFORM_KINDS
};

/** reform: from member to member. */
typedef struct shoali_reform {
    uint32_t what; /* SHOALI_REFORM_* */
    char door[SHOALI_DOOR_BYTES];
} shoali_reform;
enum { SHOALI_REFORM_MESSAGE_BYTES = 4 + SHOALI_DOOR_BYTES };

/** come: a member of an epoch visits who leads the next one, after its doubts, a proposal each. A
 * newcomer brings its record. */
typedef struct shoali_come {
    uint64_t epoch, tried; /* that it is in; the highest that it has tried to enter */
    uint64_t done;         /* steps */
    uint64_t incarnation;  /* of its record in that epoch */
    uint32_t rank;         /* in that epoch */
    uint32_t doubts;       /* how many came before this, of that epoch */
} shoali_come;
enum { SHOALI_COME_BYTES = 40, SHOALI_DOUBTS = 8 };

/** proposal: who is to be a member of the next epoch; behind an admit, or before a come. */
enum { SHOALI_PROPOSAL_MEMBERS = 4096 };
typedef struct shoali_proposal {
    uint64_t epoch;     /* the next one */
    uint64_t leader;    /* the incarnation of who proposes it */
    uint32_t size;      /* members of the epoch that ends */
    uint32_t newcomers; /* how many, besides those who stay */
    uint32_t certain;   /* 1: nobody who may be alive is left out; no need to be quiet first */
    uint8_t stays[SHOALI_PROPOSAL_MEMBERS / 8]; /* bit i: rank i of the epoch that ends goes on */
} shoali_proposal;
enum { SHOALI_PROPOSAL_BYTES = 28 + SHOALI_PROPOSAL_MEMBERS / 8 };
static inline bool shoali_proposal_stays(const shoali_proposal *proposal, uint32_t rank)
{
    return (proposal->stays[rank / 8] >> rank % 8 & 1) != 0;
}

/** admit: the visitor's place in the next epoch, whose members meet at a door. A proposal of that
 * epoch lies behind it. */
typedef struct shoali_admit {
    uint64_t epoch, done_min, done_max;
    uint32_t rank, size, done_rank; /* done_rank: the first with done_max */
    char door[SHOALI_DOOR_BYTES];   /* where they meet */
} shoali_admit;
enum { SHOALI_ADMIT_BYTES = 36 + SHOALI_DOOR_BYTES };

/** held: a newcomer has to wait here (stay), or to go to the first of these doors. */
enum { SHOALI_HELD_DOORS = 16 };
typedef struct shoali_held {
    uint32_t stay, count;
    char doors[SHOALI_HELD_DOORS][SHOALI_DOOR_BYTES];
} shoali_held;
enum { SHOALI_HELD_BYTES = 8 + SHOALI_HELD_DOORS * SHOALI_DOOR_BYTES };

/** missed: the sender watches this endpoint (member/beats.h), and has heard nothing of it for the
 * peer timeout. */
typedef struct shoali_missed {
    uint32_t endpoint;
} shoali_missed;
enum { SHOALI_MISSED_BYTES = 4 };

size_t shoali_reform_encode(const shoali_reform *message, uint8_t out[SHOALI_REFORM_MESSAGE_BYTES]);
bool shoali_reform_decode(const uint8_t *bytes, size_t len_bytes, shoali_reform *message_out);
size_t shoali_come_encode(const shoali_come *message, uint8_t out[SHOALI_COME_BYTES]);
bool shoali_come_decode(const uint8_t *bytes, size_t len_bytes, shoali_come *message_out);
size_t shoali_proposal_encode(const shoali_proposal *message, uint8_t out[SHOALI_PROPOSAL_BYTES]);
/** False also where there are more members than may be, or nobody stays. */
bool shoali_proposal_decode(const uint8_t *bytes, size_t len_bytes, shoali_proposal *message_out);
size_t shoali_admit_encode(const shoali_admit *message, uint8_t out[SHOALI_ADMIT_BYTES]);
/** False also where rank or done_rank is none of size. */
bool shoali_admit_decode(const uint8_t *bytes, size_t len_bytes, shoali_admit *message_out);
size_t shoali_held_encode(const shoali_held *message, uint8_t out[SHOALI_HELD_BYTES]);
bool shoali_held_decode(const uint8_t *bytes, size_t len_bytes, shoali_held *message_out);
size_t shoali_missed_encode(const shoali_missed *message, uint8_t out[SHOALI_MISSED_BYTES]);
bool shoali_missed_decode(const uint8_t *bytes, size_t len_bytes, shoali_missed *message_out);

#endif
