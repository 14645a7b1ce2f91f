/* SPDX-License-Identifier: Apache-2.0 */
/* N flows of one operation in memory. Nothing is ordered but what the contract orders: grants,
 * bodies read by the transport, completions of sends, frames, owner jobs and timers that are due
 * each happen at a random time (from the seed), frames of one pair overtake each other (control
 * frames do not), some sends complete inside send. Time passes only when nothing else can happen.
 * Bodies are copied as late as allowed and placed memory is scribbled over first, so a flow that
 * reads too early or reuses too early ends with wrong numbers. */
#ifndef SHOALI_TESTS_SUPPORT_MEMNET_H
#define SHOALI_TESTS_SUPPORT_MEMNET_H

#include "collective/flow.h"

typedef struct memnet memnet;

/** How one member ended; counters are taken just before fini. */
typedef struct memnet_result {
    bool started, done, dead;
    shoal_status status;
    char why[256];
    bool origin_known;
    shoali_not_finite origin;
    shoali_flow_stats stats;
    uint64_t grants; /* members that this one receives from */
} memnet_result;

/** An owner job; runs when the harness pleases. */
typedef shoal_status (*memnet_owner)(void *ctx, uint32_t member, float *x, size_t offset,
                                     size_t count);

memnet *memnet_create(uint32_t size, uint64_t seed);
void memnet_destroy(memnet *net);
void memnet_set_owner(memnet *net, memnet_owner owner, void *ctx);

/** Start member args->me. args is copied, what it points to is not. A failure is its result. */
shoal_status memnet_start(memnet *net, const shoali_flow_row *row, const shoali_flow_args *args);

/**
 * Let events happen until all living members are done.
 * @param events at most so many more events; SIZE_MAX: no limit.
 * @return false: the limit came first, or nothing can happen any more (text says who waits for
 *         what)
 */
bool memnet_run(memnet *net, size_t events, char *text, size_t text_bytes);

/** member vanishes: its frames are lost, and every other member's flow is told to fail, later. */
void memnet_kill(memnet *net, uint32_t member);
/** member's flow is told to fail, later; when it has, the others are, too. */
void memnet_fail(memnet *net, uint32_t member, shoal_status status);

const memnet_result *memnet_result_of(const memnet *net, uint32_t member);
/** The state of a living member's flow, for direct calls; NULL once it is done. */
void *memnet_state(const memnet *net, uint32_t member);
/** Frames that place refused. */
size_t memnet_refused(const memnet *net);

#endif
