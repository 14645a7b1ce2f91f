/* SPDX-License-Identifier: Apache-2.0 */
/* From one epoch into the next: what reform.c, tell.c and comm.c say to each other. */
#ifndef SHOALI_COMM_REFORM_H
#define SHOALI_COMM_REFORM_H

#include <stdatomic.h>

#include "meet/door.h"
#include "ops/residual.h"
#include "wire/control.h"

/** The way into an epoch after the first. */
typedef struct shoali_admission {
    shoali_admit admit;
    uint64_t ready_us;   /* before then it may not say that it is ready: member/member.h */
    bool *said_ready;    /* set when it does; NULL: a newcomer, which nobody asks */
    shoali_door *keeper; /* this process's own door */
    shoali_residual_store *residuals;
} shoali_admission;

enum { SHOALI_PAST_LINKS_BYTES = 1024 };

/** How this epoch began, and what is known of the next one. */
typedef struct shoali_epoch_change {
    shoali_admission in;    /* constant; of an epoch after the first */
    atomic_bool wanted;     /* somebody wants to reform */
    atomic_bool going;      /* a member does already, or will at once */
    atomic_bool ending;     /* a member has made all its steps: nobody is let in any more */
    atomic_bool begun;      /* epoch > 0: its leader has said GO */
    _Atomic uint32_t ready; /* epoch > 0, its leader: how many others have said READY */
    /* progress */
    bool leaving;                             /* this rank reforms: no operation starts any more */
    char past_links[SHOALI_PAST_LINKS_BYTES]; /* lines: those that broke in earlier epochs */
} shoali_epoch_change;

/* comm.c, for reforms */
SHOAL_MUST_USE shoal_status shoali_comm_enter(const shoali_admission *in, shoal_comm **comm_out);
/** Wait until no operation is open, no longer than a peer may be silent. */
void shoali_comm_quiet(shoal_comm *comm);
/** The comm's door, which is the caller's from now on; the progress thread knows of none. */
shoali_door *shoali_comm_take_door(shoal_comm *comm);

/* tell.c: the tasks are for the progress thread; arg is the comm */
void shoali_reform_introduce(void *arg); /* tell all where this rank's door is */
/** Members that may change: newcomers find this one from now on. The caller's thread. */
SHOAL_MUST_USE shoal_status shoali_reform_open_door(shoal_comm *comm);
void shoali_reform_leave(void *arg); /* end all operations, and tell all */
void shoali_reform_say_moved(void *arg);
/** Connected to all of an epoch after the first: wait until it begins. */
SHOAL_MUST_USE shoal_status shoali_reform_begin(shoal_comm *comm);
void shoali_reform_want(void *arg);
void shoali_reform_on_message(shoal_comm *comm, uint32_t endpoint, const shoali_reform *message);

#endif
