/* SPDX-License-Identifier: Apache-2.0 */
/* An all-reduce by switchml over a lossnet, and what has to come out: sums of integers that are
 * computed here, from the inputs and the formula of the specification. */
#ifndef SHOALI_TESTS_SUPPORT_LOSSY_CASE_H
#define SHOALI_TESTS_SUPPORT_LOSSY_CASE_H

#include "support/enginecase.h"
#include "support/lossnet.h"

typedef struct lossy_case {
    engine_run run;
    lossnet *net;
    char spec[96];
    uint32_t block;
    bool sparse;
} lossy_case;

/** Made and started. block: elements of a packet; density: part of the blocks that are not zero at
 *  a worker; servers > 0: dedicated aggregators. */
void lossy_open(lossy_case *c, uint32_t workers, uint32_t servers, size_t count, uint32_t block,
                uint32_t slots, bool sparse, double density, const lossnet_faults *faults,
                uint64_t seed);
/** The second half of it: a net for a run that is open, and its members started. */
void lossy_start(lossy_case *c, const lossnet_faults *faults, uint64_t seed);
void lossy_close(lossy_case *c);
/** Faults drawn from a seed: up to 20 % of each kind. */
lossnet_faults lossy_faults(uint64_t seed);
/** Every contributor holds the integers' sum, scaled back; empty: yes, else what is wrong. */
const char *lossy_wrong(const lossy_case *c);

#endif
