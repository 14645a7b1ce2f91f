/* SPDX-License-Identifier: Apache-2.0 */
/* Between the sources of src/comm; nobody else includes it. */
#ifndef SHOALI_COMM_INNER_H
#define SHOALI_COMM_INNER_H

#include "endpoint/endpoint.h"

/* join.c: from a descriptor to records of all and connections to all. */
/** in: into an epoch after the first. NULL: into the job. Where that turns out to run already,
 * EEPOCH, and comm->reform.in says how to enter it. */
SHOAL_MUST_USE shoal_status shoali_join(shoal_comm *comm, const shoal_comm_desc *desc,
                                        const shoali_admission *in);

/* events.c: what transports report, and to whom it goes. */
extern const shoali_transport_events shoali_link_events; /* but for ctx */

/* round.c: what the loop asks of this communicator. */
SHOAL_MUST_USE shoal_status shoali_round_init(shoal_comm *comm);

#endif
