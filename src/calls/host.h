/* SPDX-License-Identifier: Apache-2.0 */
/* What operations (src/ops) ask of their communicator. */
#ifndef SHOALI_CALLS_HOST_H
#define SHOALI_CALLS_HOST_H

#include "endpoint/endpoint.h"

/** The table of what they ask. */
SHOAL_MUST_USE shoal_status shoali_host_init(shoal_comm *comm);
/** Start an operation that is counted. op: a shoal_op. */
void shoali_host_start(void *op);

#endif
