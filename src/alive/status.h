/* SPDX-License-Identifier: Apache-2.0 */
/* What is told to those who watch. */
#ifndef SHOALI_ALIVE_STATUS_H
#define SHOALI_ALIVE_STATUS_H

#include "endpoint/endpoint.h"

/** number: that all ranks of the job share, and no other job has. */
SHOAL_MUST_USE shoal_status shoali_status_open(shoal_comm *comm, uint32_t number);
/** What this rank measured of itself so far. The progress thread. */
void shoali_status_fares(shoal_comm *comm, shoali_heartbeat *beat);

#endif
