/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolic proof of a collective: all ranks' lists are run on sets of contributors instead of
 * numbers, by the engine's rule, and everything that docs/architecture.md section 4a promises of a
 * row is checked on the way. */
#ifndef SHOALI_TESTS_SUPPORT_PROVE_H
#define SHOALI_TESTS_SUPPORT_PROVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collective/schedule.h"

/** Contributors are bits of a word. */
enum { PROVE_MEMBERS_MAX = 32, PROVE_WHY_BYTES = 256 };

/** All members' lists of one operation, and what they promise. */
typedef struct prove_lists {
    uint32_t size, contributors, root;
    uint32_t traits; /* of the row with its keys */
    shoal_op_kind kind;
    shoal_schedule list[PROVE_MEMBERS_MAX];
} prove_lists;

/** Build every member's list as the engine would. lists_out is only valid as long as the arena. */
SHOAL_MUST_USE shoal_status prove_build(const shoali_collective *collective, shoal_op_kind kind,
                                        uint32_t size, uint32_t contributors, uint32_t root,
                                        shoal_arena *arena, prove_lists *lists_out);

/**
 * Prove that the lists do what their traits and kind say:
 * - the k-th SEND of i to j and the k-th RECV of j from i agree on blocks, leg, parts and round;
 * - nobody waits for ever when a step works on a block once all earlier steps on it are done;
 * - every contributor's value is in every result exactly once, and parts counts them;
 * - results come from one encoding each, so they have the same bits everywhere; no member encodes a
 *   block twice; PULL sends only kept bytes; what was never written is never read;
 * - rounds grow along the steps of a block, are the same at both ends, and the last one is
 *   `rounds`;
 * - SHARDED: block i belongs to member i; UNIFORM: all lists have the same shape.
 * @return false with the first violation in why.
 */
bool prove(const prove_lists *lists, char why[PROVE_WHY_BYTES]);

/** Open spec, build, prove for every kind that the row carries; fails the running test with the
 *  reason. */
void prove_spec(const char *spec, uint32_t size, uint32_t contributors, uint32_t root);
/** The same for a row outside the table that has no keys. */
void prove_row(const shoali_collective_row *row, uint32_t size);

#endif
