/* SPDX-License-Identifier: Apache-2.0 */
/* What a process of a job that may change its members keeps from epoch to epoch: how it joined, and
 * its door, where members that reform and newcomers are taken in. Visitors prove the job's token
 * (wire/handshake.h), then say who they are:
 *
 *   member     proposal (its doubts) ->    newcomer   record   ->
 *              come                  ->                        <- held (wait here, or elsewhere)
 *                                    <- admit                  <- admit
 *
 * Admitted visitors meet at the same door for the next epoch, with the store of meet/serve.c, and
 * begin it when all of them are connected (reform.c).
 * Between two reforms a thread of its own answers; during one, the thread that reforms does. */
#ifndef SHOALI_MEET_DOOR_H
#define SHOALI_MEET_DOOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "meet/visitors.h"
#include "member/member.h"
#include "transport/address.h"

enum { SHOALI_DOOR_PLACES = 4 };

typedef struct shoali_caller {
    shoali_visitor base; /* known: it has said which of the two it is */
    bool member, newcomer;
    bool held;         /* it has been told to wait */
    bool leaves;       /* the end, once everything is sent */
    shoali_guest call; /* of a member */
    shoali_proposal *doubts;
    uint32_t doubt_count;
} shoali_caller;

/** Who keeps the door: a communicator, of one epoch. It may be asked from any thread. */
typedef struct shoali_door_owner {
    void *ctx;
    uint32_t me, size;
    uint64_t epoch;
    bool (*here)(void *ctx, uint32_t rank); /* not of itself */
    uint64_t (*incarnation)(void *ctx, uint32_t rank);
    /** Where that member takes visitors; false: it has not said so. */
    bool (*door_of)(void *ctx, uint32_t rank, char out[SHOALI_DOOR_BYTES]);
    /** There is a reason to reform. False: ask again. */
    bool (*want)(void *ctx);
} shoali_door_owner;

/** How a process joined first, and where it is reached. All copied. */
typedef struct shoali_door_first {
    const shoal_comm_desc *desc;
    const shoali_token *token;
    const char *job, *rendezvous;
    const shoali_record *mine;
    const shoali_address *at;
} shoali_door_first;

typedef struct shoali_door {
    /* constant */
    shoal_arena *arena;
    shoal_comm_desc desc; /* how it joined first; strings in arena */
    shoali_token token;
    char job[SHOALI_JOB_BYTES], rendezvous[SHOALI_RENDEZVOUS_BYTES];
    shoali_record mine; /* of the first join; its world size is how many members there may be */
    shoali_meeting meeting;
    shoali_record host; /* as mine, but every door is called for as endpoint 0 */
    shoali_meeting hosting;
    shoali_address at;                    /* where this process is reached */
    char address[SHOALI_DOOR_BYTES];      /* by the first of them */
    int listener;                         /* at all of them */
    shoali_ip places[SHOALI_DOOR_PLACES]; /* of a rendezvous that is a name, when it was opened: */
    uint32_t place_count;                 /* a leader does not wait for a name server */

    int named;                /* listener at an address that newcomers know beforehand; -1: none */
    shoali_visitors visitors; /* shoali_caller each */
    struct pollfd *polls;
    shoali_door_owner owner; /* whose door it is now; ctx NULL: nobody's */
    pthread_t thread;
    bool running;
    int wake_fd;
    atomic_bool quit;
    pthread_mutex_t lock; /* held during a round, so that fork falls between two */
} shoali_door;

SHOAL_MUST_USE shoal_status shoali_door_open(const shoali_door_first *first,
                                             shoali_door **door_out);
/** Newcomers that wait hear that the job is over. NULL is allowed. */
void shoali_door_close(shoali_door *door);
/** In a forked child. */
void shoali_door_forked(shoali_door *door);

/** One round: sleep up to timeout_ms, take in and answer visitors. */
void shoali_door_poll(shoali_door *door, int timeout_ms);
/** The thread for the time between reforms. From now on it is owner's, and is where newcomers look
 * (the rendezvous, SHOAL_DOORS, PLACE.doors). */
SHOAL_MUST_USE shoal_status shoali_door_start(shoali_door *door, const shoali_door_owner *owner);
void shoali_door_stop(shoali_door *door);
static inline shoali_caller *shoali_door_caller(const shoali_door *door, uint32_t index)
{
    return (shoali_caller *)door->visitors.all[index];
}

/* doors.c */
/** PATH.doors of a rendezvous file://PATH, into path; NULL: it is another kind. */
const char *shoali_doors_file(const shoali_door *door, char *path, size_t path_bytes);
/** This door and those of the owner's others, a line each. */
void shoali_doors_write(const shoali_door *door, const char *path);
/** Where a newcomer may look for members: i-th address; false: no more. */
bool shoali_door_known(const shoali_door *door, uint32_t i, char address_out[SHOALI_DOOR_BYTES]);

/** The addresses that a rendezvous tcp://NAME:PORT has now, 0 where it is a number or nobody knows
 * the name. May ask a name server, as shoali_meet_resolve. */
uint32_t shoali_door_resolve(const shoali_door *door, shoali_ip ips_out[SHOALI_DOOR_PLACES]);

/* knock.c */
/** What a visit brings and gets. */
typedef struct shoali_visit_words {
    const shoali_guest *call; /* NULL: a newcomer */
    shoali_held held;         /* what it was told last, if it was held */
    shoali_proposal proposal; /* admitted: who is to be in the next epoch, */
    shoali_admit admit;       /* and its place there */
} shoali_visit_words;

/**
 * Visit a door. words->call NULL: as a newcomer.
 * @param fd connected to it already, by way of others; -1: address leads there. Closed in the end
 * @param goes_on asked every few milliseconds; false ends the visit. NULL: until the deadline
 * @param words admit: a member's door is `address` (unless fd was given), which is known to work
 * @return SHOAL_OK: admitted | PENDING: nobody there, or not any more, or sent elsewhere |
 *         EVERSION, EMISMATCH: never | ECANCELLED: the job is over
 */
SHOAL_MUST_USE shoal_status shoali_knock(const shoali_door *door, const char *address, int fd,
                                         uint64_t deadline_us, bool (*goes_on)(void *ctx),
                                         void *ctx, shoali_visit_words *words);
/** Look for the running job at all known doors and at those that it is told of. PENDING: once round
 * and nobody there (wait: at deadline_us). */
SHOAL_MUST_USE shoal_status shoali_seek(const shoali_door *door, bool wait, uint64_t deadline_us,
                                        shoali_admit *admit_out);

#endif
