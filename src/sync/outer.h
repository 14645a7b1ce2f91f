/* SPDX-License-Identifier: Apache-2.0 */
/* What local_sgd and diloco share: workers step on their own; now and then they meet, and what they
 * have moved since the last round, averaged, is the gradient of an outer optimiser that all hold
 * alike. Rows give the options; the machine is here. */
#ifndef SHOALI_SYNC_OUTER_H
#define SHOALI_SYNC_OUTER_H

#include "sync/meeting.h"
#include "sync/trust.h"

typedef struct shoali_outer_options {
    const char *name;
    uint64_t every;     /* iterations from one round of a fragment to its next */
    uint64_t delay;     /* iterations that a round may take behind the compute's back */
    uint32_t fragments; /* ranges of whole tensors that take turns */
    float lr, momentum; /* outer Nesterov step; 1 and 0: the plain mean */
    float keep;         /* part of the worker's own parameters that stays after a round */
    bool coded;         /* what moves is coded as gradients are, with error feedback */
    bool trust;         /* each update travels by itself and is judged: outer_trust.h */
    bool pace;          /* what has time to travel (delay) takes it, instead of filling links */
    shoali_meeting_options meeting;
} shoali_outer_options;

typedef struct shoali_outer {
    const shoali_world *world;
    shoali_outer_options options;
    shoali_finale finale;
    shoali_meeting meeting;
    uint64_t iteration;
    uint64_t counted, later;       /* samples since my last round; those since I arrived for one */
    uint64_t batch;                /* samples of an iteration on the mean of all workers */
    uint64_t version;              /* outer steps that the base has seen */
    uint64_t due;                  /* iteration that waits for the round; UINT64_MAX: none runs */
    uint64_t base_id;              /* first id of the running call's operations */
    uint64_t weight, next_version; /* of the running call */
    uint64_t within_us;            /* that they may take without anybody waiting; 0: none */
    uint64_t went_us;              /* GO of the last AFTER */
    shoali_tempo steps;            /* from GO of AFTER to the next AFTER */
    uint32_t open;                 /* its operations */
    size_t offset, count;          /* the fragment under way */
    uint32_t judged[SHOALI_TRUST_WORKERS], judged_count; /* trust: members of the running call */
    bool begun;                                          /* the base is there */
    bool lost;      /* the base is not to be trusted: a broadcast broke off */
    bool failed;    /* the running call */
    bool nonfinite; /* in it, something was not finite */
    bool waiting;   /* AFTER has no GO yet */
    bool finishing, leaving, over;
} shoali_outer;

/** To an operation by its name: cancel, hurry. */
typedef void (*shoali_outer_word)(shoali_actions *actions, uint64_t op_id);

enum { SHOALI_OUTER_SLOTS = 4, SHOALI_OUTER_MOVED = SHOALI_SLOT + 2 };

size_t shoali_outer_bytes(const shoali_world *world);
/** base, outer momentum, what travels, the finale's. */
/** Which slot holds the momentum of the outer step, where there is any. */
uint32_t shoali_outer_momentum_slot(void);
uint32_t shoali_outer_slots(const shoali_world *world);
/** Any event. options: those of START; ignored later. */
void shoali_outer_event(shoali_outer *outer, const shoali_outer_options *options,
                        const shoali_event *event, shoali_actions *actions);

#endif
