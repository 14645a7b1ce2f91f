/* SPDX-License-Identifier: Apache-2.0 */
/* A protocol that uses what the built-in ones do not: messages to one peer, long ones, timers set
 * anew and forgotten, operations of some members, broadcast, APPLY, a mix of several tensors.
 * Worker 0 leads; every iteration:
 *
 *   AFTER at 0: APPLY(GRAD), BROADCAST of PARAM in SLOT0 to all; OP_DONE: GO.
 *   AFTER at w: a long message to 0, joins the broadcast; OP_DONE: MIX(PARAM = SLOT0/2 + SLOT0/2),
 * GO. Pairs (2k, 2k+1) all-reduce SLOT1 at BEFORE, which changes nothing that counts. Each sets a
 * timer of 3 ms at START, sets it anew to 1 ms, and one that it forgets again. */
#ifndef SHOALI_TESTS_SUPPORT_TOY_SYNC_H
#define SHOALI_TESTS_SUPPORT_TOY_SYNC_H

#include "sync/sync.h"

extern const shoali_sync_row toy_sync;

enum { TOY_MESSAGE_BYTES = 100 };

/** State of one machine, for tests to look at. */
typedef struct toy_state {
    const shoali_world *world;
    uint64_t iteration, started_us;
    uint32_t messages, timers, broken; /* broken: something arrived that nobody sent */
    uint64_t timer_us;
    bool open, leaving;
} toy_state;

#endif
