/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a communicator; only src/comm includes it. Who may touch what:
 *
 *   constant     set before the threads start, read by all
 *   lock         under comm->loop.lock: queues between threads, numbering, what has completed
 *   progress     the progress thread only (and, before it starts, the thread that creates the comm)
 *
 * What one source works with is a struct of that source's header, made and freed by it.
 */
#ifndef SHOALI_COMM_INNER_H
#define SHOALI_COMM_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "comm/comm.h"
#include "comm/datagrams.h"
#include "comm/flight.h"
#include "comm/link.h"
#include "comm/listen.h"
#include "comm/peer.h"
#include "comm/reform.h"
#include "comm/serve.h"
#include "comm/view.h"
#include "comm/wait.h"
#include "loop/loop.h"
#include "loop/work.h"
#include "meet/launch.h"
#include "member/life.h"
#include "ops/ops.h"
#include "relay/relay.h"
#include "watch/watch.h"
#include "wire/control.h"

struct shoal_comm {
    /* constant */
    uint32_t me, size, workers, chunk_elems; /* size: of all endpoints */
    uint32_t ranks, aggregators;             /* endpoints ranks.. of size are aggregators */
    struct shoali_service *service;          /* this is one of them; NULL: a rank */
    uint64_t epoch, incarnation;
    shoali_door *door; /* NULL: the members are fixed */
    int64_t join_timeout_us, peer_timeout_us, op_timeout_us;
    uint64_t seed;
    uint64_t protocols; /* driver/real.c counts here, on the caller's thread */
    shoali_launch launch;
    shoali_token token;
    char job[64], host[SHOALI_RECORD_HOST_BYTES];
    shoali_watch *watch; /* NULL: alone */
    shoali_transports links;
    shoali_relay *relay;       /* NULL: all ranks are on this host, or there is no token */
    shoali_address *addresses; /* [size] of all; others' first those on links that both share */
    shoali_peer *peers;

    shoali_loop loop;

    /* lock */
    shoali_worker work;
    shoali_handles handles;

    shoali_epoch_change reform;

    /* progress */
    shoali_ops ops;
    shoali_liveness view;
    struct { /* what training steps took and reached; told by any thread */
        pthread_mutex_t lock;
        double data_us, disk_us;
        uint64_t samples;
        shoali_progress progress;
        char note[256]; /* a line, or empty */
    } stepped;
    shoali_flights flights;
    shoali_datagrams *datagrams; /* NULL: no operation has needed them yet */
    shoali_ears ears;
    bool watched;     /* somebody speaks to the status socket */
    uint64_t look_us; /* when it is looked at although nobody is known to */
};

/* ------------------------------------------------------------------ between the files */

/** Time since then; an instant taken within this round may be younger than the round's own. */
static inline uint64_t shoali_since(const shoal_comm *comm, uint64_t then_us)
{
    return comm->loop.now_us > then_us ? comm->loop.now_us - then_us : 0;
}

/* join.c: from a descriptor to records of all and connections to all. */
/** in: into an epoch after the first. NULL: into the job. Where that turns out to run already,
 * EEPOCH, and comm->reform.in says how to enter it. */
SHOAL_MUST_USE shoal_status shoali_join(shoal_comm *comm, const shoal_comm_desc *desc,
                                        const shoali_admission *in);

/* host.c: what operations ask of this communicator. */
SHOAL_MUST_USE shoal_status shoali_host_init(shoal_comm *comm);
/** Start an operation that is counted. op: a shoal_op. */
void shoali_host_start(void *op);

/* serve.c */
/** Who else can sum for the operation; NULL: nobody. */
const shoali_offload *shoali_serve_offload(shoal_op *op);

/* status.c: what is told to those who watch. */
/** number: that all ranks of the job share, and no other job has. */
SHOAL_MUST_USE shoal_status shoali_status_open(shoal_comm *comm, uint32_t number);
/** What this rank measured of itself so far. The progress thread. */
void shoali_status_fares(shoal_comm *comm, shoali_heartbeat *beat);

/* round.c: what the loop asks of this communicator. */
SHOAL_MUST_USE shoal_status shoali_round_init(shoal_comm *comm);

#endif
