/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator, as the rooms see it that make it work. Who may touch what:
 *
 *   constant     set before the threads start, read by all
 *   lock         under comm->loop.lock: queues between threads, numbering, what has completed
 *   progress     the progress thread only (and, before it starts, the thread that creates the comm)
 *
 * What one room works with is a struct of parts.h, made and freed there.
 */
#ifndef SHOALI_ENDPOINT_ENDPOINT_H
#define SHOALI_ENDPOINT_ENDPOINT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "endpoint/parts.h"
#include "endpoint/peer.h"
#include "loop/loop.h"
#include "loop/work.h"
#include "meet/launch.h"
#include "member/life.h"
#include "ops/ops.h"
#include "relay/relay.h"
#include "watch/watch.h"

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
    struct shoali_datagrams *datagrams; /* NULL: no operation has needed them yet */
    shoali_ears ears;
    bool watched;     /* somebody speaks to the status socket */
    uint64_t look_us; /* when it is looked at although nobody is known to */
};

/** Time since then; an instant taken within this round may be younger than the round's own. */
static inline uint64_t shoali_since(const shoal_comm *comm, uint64_t then_us)
{
    return comm->loop.now_us > then_us ? comm->loop.now_us - then_us : 0;
}

#endif
