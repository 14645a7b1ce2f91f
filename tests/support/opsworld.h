/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in one process whose operations (src/ops) run in virtual time, without sockets and threads.
 * Messages of a pair come in order; which pair or job is next is drawn from the seed. Time passes
 * only when nothing else can happen. */
#ifndef SHOALI_TESTS_SUPPORT_OPSWORLD_H
#define SHOALI_TESTS_SUPPORT_OPSWORLD_H

#include "ops/ops.h"

enum { OPSWORLD_MOST = 8, OPSWORLD_ENDS = 32 };

/** How an operation ended at a rank. */
typedef struct opsworld_end {
    char name[SHOALI_OP_TEXT_BYTES];
    shoal_status status;
    shoal_error error;
    shoal_op_stats stats;
    uint64_t at_us;
} opsworld_end;

typedef struct opsworld_rank {
    shoali_ops ops;
    char host[16];
    bool busy, dead;
    bool relays;    /* between ranks 0 and 1 others pass on */
    uint32_t begun; /* operations of its own */
    shoali_there sees[OPSWORLD_MOST];
    bool gone[OPSWORLD_MOST]; /* that it gave up */
    opsworld_end ends[OPSWORLD_ENDS];
    uint32_t end_count;
    uint32_t posted;  /* data frames */
    bool among_plans; /* host.plans */
} opsworld_rank;

typedef struct opsworld {
    uint32_t size;
    uint64_t seed, draws, now_us;
    uint64_t frame_us; /* that each data frame takes */
    opsworld_rank rank[OPSWORLD_MOST];
    struct opsworld_event *first[OPSWORLD_MOST][OPSWORLD_MOST]; /* from, to; to itself: jobs */
    bool cut[OPSWORLD_MOST][OPSWORLD_MOST]; /* from, to: nothing arrives; it waits */
} opsworld;

/** One at a time. All ranks are there, each on a host of its own; chunks of 64 elements. */
opsworld *opsworld_create(uint32_t size, uint64_t seed);
void opsworld_destroy(opsworld *world);

/** Start it; a public one. Fails the test if it cannot be made. */
shoal_op *opsworld_start(opsworld *world, uint32_t rank, const shoal_op_desc *desc);
shoal_op *opsworld_start_with(opsworld *world, uint32_t rank, const shoal_op_desc *desc,
                              const shoali_op_extras *extras);
/** Until nothing can happen but by time, no later than until_us; UINT64_MAX: until nothing is
 * open. */
void opsworld_run(opsworld *world, uint64_t until_us);
/** It vanishes, with what it had sent: its operations end, of which nobody hears; the others hear
 * of the loss at once. */
void opsworld_kill(opsworld *world, uint32_t rank);
/** The last end at a rank. Fails the test if there is none. */
const opsworld_end *opsworld_last(const opsworld *world, uint32_t rank);

#endif
