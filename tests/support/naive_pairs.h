/* SPDX-License-Identifier: Apache-2.0 */
/* Averages of pairs as one writes them down first: lock one's own replica, ask the partner for its
 * lock, and answer nobody meanwhile. Where any worker may ask any neighbour, those who ask in a
 * circle wait for each other for ever; where only one side of a bipartite graph asks, nobody who is
 * asked waits. A model to compare ad_psgd with: partners are drawn as there, so with one seed the
 * same worker's n-th average is with the same neighbour in both. Nobody may be lost. */
#ifndef SHOALI_TESTS_SUPPORT_NAIVE_PAIRS_H
#define SHOALI_TESTS_SUPPORT_NAIVE_PAIRS_H

#include "sync/sync.h"

enum { NAIVE_LOCK = 1, NAIVE_MESSAGE_BYTES = 9 }; /* the same on the wire as ad_psgd's */

/** "naive_pairs:graph=ring,all": with all every worker asks, else those with odd numbers. */
extern const shoali_sync_row naive_pairs;

/** Whom this worker waits for; UINT32_MAX: nobody. */
uint32_t naive_pairs_waits_for(const void *state);

#endif
