/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of steps in words, and their counted cost, for the tests of single rows. */
#ifndef SHOALI_TESTS_SUPPORT_STEPS_H
#define SHOALI_TESTS_SUPPORT_STEPS_H

#include "collective/schedule.h"

/** Which list: all members contribute unless contributors says otherwise (0: all). */
typedef struct steps_of {
    const char *spec;
    uint32_t size, me, contributors, root;
    shoal_op_kind kind;
} steps_of;

/**
 * Fails the running test unless the list reads like this:
 *   "1 push send 2-3 to 1 x1; 1 push add 0 from 3 x1; own 0 x4; 3 pull set 1 from 2 x4"
 * (round, leg, what with which blocks, peer, parts).
 */
void steps_are(const steps_of *which, const char *expected);

/** The counted cost of one list for count elements. */
shoali_cost steps_cost(const steps_of *which, size_t count);

/** The status of building a list; the last error is left for the caller to look at. */
shoal_status steps_status(const steps_of *which);

#endif
