/* SPDX-License-Identifier: Apache-2.0 */
/* Several workers of one process; see simulated.c. */
#ifndef SHOALI_WORKER_SIMULATED_H
#define SHOALI_WORKER_SIMULATED_H

#include "worker/worker.h"

/** train->workers of them. On a failure, destroy. */
SHOAL_MUST_USE shoal_status shoali_simulated_create(shoal_train *train);
void shoali_simulated_destroy(shoal_train *train);
/** The gradients in train->grads are this worker's. */
void shoali_simulated_keep(shoal_train *train, uint32_t worker);
/** Exchange what all workers have kept; train->grads becomes the sum. finite_out false: some value
 * was not finite, and the step is to be skipped. stats_out: bytes and elements of all workers. */
SHOAL_MUST_USE shoal_status shoali_simulated_sum(shoal_train *train, bool *finite_out,
                                                 shoal_sync_stats *stats_out);

#endif
