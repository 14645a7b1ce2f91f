/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side of operations: handles, and who waits for them. */
#ifndef SHOALI_CALLS_WAIT_H
#define SHOALI_CALLS_WAIT_H

#include "endpoint/endpoint.h"

/** Operations that nobody has waited for. */
void shoali_handles_free(shoali_handles *handles);

SHOAL_MUST_USE shoal_status shoali_op_usable(const shoal_comm *comm);
/** Start a run of a plan; desc brings what differs from run to run. */
SHOAL_MUST_USE shoal_status shoali_op_run(shoal_comm *comm, shoal_op_plan *plan,
                                          const shoal_op_desc *desc, const shoali_op_extras *extras,
                                          shoal_op **op_out);
void shoali_op_complete(shoal_op *op); /* progress thread: hand it to its owner */

#endif
