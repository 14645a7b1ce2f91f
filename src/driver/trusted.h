/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of updates that are judged first (sync/trust.h). */
#ifndef SHOALI_DRIVER_TRUSTED_H
#define SHOALI_DRIVER_TRUSTED_H

#include "driver/tensors.h"

/** Carry out a MIX that is judged; counts what it refuses in tensors->refused[worker]. */
SHOAL_MUST_USE shoal_status shoali_trusted_sum(const shoali_tensors *tensors,
                                               const shoali_action *mix);
/** Say at the end whose updates were refused, and how often: one line a worker. */
void shoali_trusted_tell(const shoali_tensors *tensors);

#endif
