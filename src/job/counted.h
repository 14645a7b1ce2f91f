/* SPDX-License-Identifier: Apache-2.0 */
/* Codec and optimiser that count the same steps (onebit with adam): counted.c. */
#ifndef SHOALI_JOB_COUNTED_H
#define SHOALI_JOB_COUNTED_H

#include "shoal/job.h"

/**
 * Whether job->codec and job->optimizer (NULL: nobody knows it) have the same keys where both
 * count, and whether everything else lets them.
 * @param sync        the opened protocol's spec
 * @param sync_traits its SHOALI_SYNC_*
 */
SHOAL_MUST_USE shoal_status shoali_job_counted(const shoal_job *job, const char *sync,
                                               uint32_t sync_traits);

#endif
