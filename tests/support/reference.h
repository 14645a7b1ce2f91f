/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation must leave behind, computed the slow way: every rank's list of steps in
 * lockstep, a block at a time, without chunks, frames, kept bytes or queues. Bit for bit the answer
 * for every codec whose result does not depend on where a chunk ends. */
#ifndef SHOALI_TESTS_SUPPORT_REFERENCE_H
#define SHOALI_TESTS_SUPPORT_REFERENCE_H

#include "support/enginecase.h"

typedef struct reference {
    float **bufs;       /* [size][count] */
    float ***residuals; /* [size][tensors][count]; copied from the run's before, then updated */
} reference;

/** From run's inputs and residuals, before engine_run_go. owner: as for memnet, or NULL. */
void reference_open(const engine_run *run, memnet_owner owner, void *ctx, reference *out);
void reference_close(const engine_run *run, reference *ref);

/** Fails the test unless contributors' buffers (and all residuals) are those of ref, bit for
 * bit. */
void reference_assert_equal(const engine_run *run, const reference *ref);

#endif
