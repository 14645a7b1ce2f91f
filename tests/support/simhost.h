/* SPDX-License-Identifier: Apache-2.0 */
/* Flows of one operation over transport `sim`, each on its own endpoint, in virtual time: what a
 * comm does between a flow and a transport, and no more. Members are endpoints 0 .. size - 1. */
#ifndef SHOALI_TESTS_SUPPORT_SIMHOST_H
#define SHOALI_TESTS_SUPPORT_SIMHOST_H

#include "support/enginecase.h"
#include "transport/sim.h"

typedef struct simhost simhost;

typedef struct simhost_result {
    bool done;
    shoal_status status;
    uint64_t done_ns; /* since the start */
    shoali_flow_stats stats;
    char why[256];
} simhost_result;

/** Told of each frame that a member sends; before it goes. */
typedef void (*simhost_watcher)(void *ctx, uint32_t member, uint64_t now_ns, uint64_t len_bytes);
/** Of hosts that are started from now on; NULL: nobody. */
void simhost_watch(simhost_watcher watcher, void *ctx);

/** Endpoints opened and connected; run's operation started on all of them. */
simhost *simhost_start(const engine_run *run, const shoali_fabric_desc *desc);
shoali_fabric *simhost_fabric(simhost *host);
/** Let an endpoint that is ready hear what happened. */
void simhost_progress(simhost *host, uint32_t endpoint);
/** Until all are done or nothing happens any more; returns the time of the last done, since the
 * start. */
uint64_t simhost_run(simhost *host);
const simhost_result *simhost_result_of(const simhost *host, uint32_t member);
void simhost_destroy(simhost *host);

#endif
