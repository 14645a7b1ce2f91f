/* SPDX-License-Identifier: Apache-2.0 */
/* The group generator of Ripples (Prague): which workers average next. It hands out numbered groups
 * in one order; a worker executes those that it is in by rising number, so a group waits for lower
 * numbers only, and no cycle of waits can close.
 *
 * A pure data structure: ripples.c carries requests to it and groups away. Every worker has one,
 * and that of the controller works. */
#ifndef SHOALI_SYNC_GROUP_GENERATOR_H
#define SHOALI_SYNC_GROUP_GENERATOR_H

#include "sync/sync.h"
#include "sync/tempo.h"

/** How a worker without a group gets one. */
typedef enum shoali_division {
    SHOALI_DIVIDE_NONE,       /* itself and random others, whatever they still have to do */
    SHOALI_DIVIDE_RANDOM,     /* all that are free, in random groups of one size */
    SHOALI_DIVIDE_INTER_INTRA /* all that are free, twice: heads of hosts and the rest of each host,
                                 then whole hosts */
} shoali_division;

typedef struct shoali_generator_options {
    shoali_division division;
    uint32_t group;     /* size of random groups */
    uint32_t threshold; /* who lags behind the asking worker by so many takes no part; 0: all do */
    bool laggards;      /* instead of by numbers of iterations, tell laggards by their pace: one
                           waits for the next division that another worker starts, and is left out
                           of its second half */
} shoali_generator_options;

typedef struct shoali_group {
    uint64_t id;
    uint32_t first, count; /* in members */
} shoali_group;

typedef struct shoali_generator {
    const shoali_world *world;
    shoali_generator_options options;
    uint64_t next;        /* number of the next group */
    uint64_t draws;       /* random numbers used */
    uint64_t *asked;      /* [workers] iterations after which a worker has asked */
    uint32_t *pending;    /* [workers] groups that it has not executed yet */
    uint8_t *out;         /* [workers] takes no part any more */
    uint8_t *waiting;     /* [workers] a laggard that has asked */
    shoali_tempo *tempos; /* [workers] time from one group to the next request */
    uint64_t *paces;      /* [workers] scratch: medians of those */
    uint64_t crowd_us;    /* their median at the last division; 0: not known yet */
    uint32_t *order;      /* [workers] all, host by host */
    uint32_t *free;       /* [workers] scratch: who takes part, in that order */
    /* the groups of the last request, all or none handed out */
    shoali_group *groups;
    uint32_t group_count;
    uint32_t *members, member_count;
} shoali_generator;

/** Groups that a worker may have and not have executed: no more are handed out to it. A division
 * gives a worker two, and only if it has none. Without, every other may enrol it once before it has
 * to wait for it; but one that knows of a lost member before the controller does is through with
 * its group at once and asks again, and enrols others in groups that nobody will execute. Who is
 * full is not picked. */
uint32_t shoali_generator_room(const shoali_world *world, shoali_division division);

/** Workers host by host, those of one host ascending. */
void shoali_host_order(const shoali_world *world, uint32_t *order_out);

/** Memory behind a generator. */
size_t shoali_generator_bytes(const shoali_world *world);
/** memory: shoali_generator_bytes, zero, aligned to 8. */
void shoali_generator_init(shoali_generator *generator, const shoali_world *world,
                           const shoali_generator_options *options, void *memory);
/** A worker asks for the asked-th time, busy_us after its last group; UINT64_MAX: the same request
 * again. New groups, if any had to be made, are in groups. */
void shoali_generator_request(shoali_generator *generator, uint32_t worker, uint64_t asked,
                              uint64_t busy_us);
/** A worker is through with one of its groups. */
void shoali_generator_done(shoali_generator *generator, uint32_t worker);
/** A worker takes no part any more. */
void shoali_generator_leave(shoali_generator *generator, uint32_t worker);
/** A worker that waits and is no laggard any more, as the fast ones have left: ask again for it.
 * UINT32_MAX: none. */
uint32_t shoali_generator_overdue(const shoali_generator *generator);

#endif
