/* SPDX-License-Identifier: Apache-2.0 */
/* What a reform (src/reform) asks of communicators: the next one, and the end of the old. */
#ifndef SHOALI_COMM_ENTER_H
#define SHOALI_COMM_ENTER_H

#include "endpoint/endpoint.h"

/** A communicator of an epoch after the first. */
SHOAL_MUST_USE shoal_status shoali_comm_enter(const shoali_admission *in, shoal_comm **comm_out);
/** Wait until no operation is open, no longer than a peer may be silent. */
void shoali_comm_quiet(shoal_comm *comm);
/** The comm's door, which is the caller's from now on; the progress thread knows of none. */
shoali_door *shoali_comm_take_door(shoal_comm *comm);

#endif
