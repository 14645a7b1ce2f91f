/* SPDX-License-Identifier: Apache-2.0 */
/* What one room works with of an endpoint, by subject. Made and freed there. */
#ifndef SHOALI_ENDPOINT_PARTS_H
#define SHOALI_ENDPOINT_PARTS_H

#include <stdatomic.h>

#include "endpoint/listener.h"
#include "meet/door.h"
#include "ops/op.h"
#include "ops/residual.h"
#include "wire/control.h"
#include "wire/member.h"

/* ------------------------------------------------------------------ carry: frames on their way */

/** A data frame between a flow and a transport; its cookie is its index in comm->flights. */
typedef struct shoali_comm_flight {
    struct shoal_op *op; /* NULL: free */
    const void *body;
    uint64_t cookie; /* the flow's */
    shoal_data head;
    uint32_t member, endpoint;
    uint32_t next; /* in the peer's waiting list, the list of returned ones or the free list */
    shoal_status status; /* returned: how */
} shoali_comm_flight;

enum {
    SHOALI_FLIGHTS = 4 /* per peer in the transport's hands; the rest waits in order of age */
};

/** Of a communicator. Indices; SHOALI_NONE: none. */
typedef struct shoali_flights {
    shoali_comm_flight *all;
    uint32_t count, free, returned_first, returned_last;
} shoali_flights;

/* ------------------------------------------------------------------ calls: handles */

/** The caller's side of operations. Under the loop's lock. */
typedef struct shoali_handles {
    shoal_op *done_first, *done_last; /* completed, neither waited for nor handed out */
    shoal_op *all;                    /* every operation with a handle */
    uint32_t waiters, open_ops;
    uint32_t keeping_ops; /* of open_ops: those that write residuals or a transform's state */
} shoali_handles;

/* ------------------------------------------------------------------ alive: who is there */

/** The progress thread's, of all peers together; peer.h is what is kept of each. */
typedef struct shoali_liveness {
    bool joined; /* every connection stands */
    uint64_t next_beat_us, beats;
    uint64_t beat_cpu_us;       /* of this thread's processor time, at the last beat */
    _Atomic uint64_t paused_us; /* in pauses of SHOALI_PAUSE_US and more, since the beginning */
    uint64_t pauses;            /* so many */
    bool peers_changed;         /* some peer is gone or has left */
    bool look_for_missed;       /* some peer's `missed` is new */
    bool answers;               /* some peer `asks` */
    uint64_t deaf_us;           /* until then nothing is a word: member/life.h */
    uint64_t outdated_us; /* until then a lost peer means that the others gave this rank up: */
    uint64_t stood_us;    /* it stood still for so long, beyond the peer timeout */
    uint64_t minority_us; /* since when this rank reaches no quorum; 0: it does */
    bool minority_told;   /* the listener has heard so */
    bool expelled;        /* the others go on without this rank: it says no goodbye */
} shoali_liveness;

enum { SHOALI_EARLY_BYTES = 16 << 20 }; /* protocol messages that wait for a listener */

/** The progress thread's. */
typedef struct shoali_ears {
    bool listening, tells_all; /* tells_all: a protocol that goes on without the lost has begun */
    shoali_comm_listener listener;
    struct shoali_early *early, **early_last; /* messages before a listener came */
    size_t early_bytes;
} shoali_ears;

/* ------------------------------------------------------------------ the next epoch */

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

#endif
