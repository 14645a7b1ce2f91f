/* SPDX-License-Identifier: Apache-2.0 */
/* Proof that a process has ended, as opposed to what a network may make look like it. Witnesses:
 *
 *   the kernel     of the same host and PID namespace: the process is not there any more
 *   the launcher   of this job saw it fail or killed, and has added its identity to a file that
 *                  only this user may write (SHOAL_LAUNCH_PROOF)
 *
 * A connection that ends, in whatever way, proves nothing: whoever can reset both ends can make two
 * living halves call each other dead. And a proof is of now: who was out of reach for a while may
 * have gone on with others, and ended well, before it (shoali_view_look). */
#ifndef SHOALI_MEET_PROOF_H
#define SHOALI_MEET_PROOF_H

#include <stdbool.h>

#include "transport/address.h"

/** pid and its PID namespace; both 0 where /proc does not say. */
void shoali_proof_self(shoali_address *address);
/** This process's identity with its launcher (SHOAL_LAUNCH_ID), or "". */
void shoali_proof_name(const char *name, shoali_address *address);
/** Whether the process behind `theirs` has certainly ended, by this host's kernel. */
bool shoali_proof_by_kernel(const shoali_address *mine, const shoali_address *theirs);
/** The same by the launcher's file `ledger`; "": there is none. It names those alone that were
 * killed or failed.
 * @param at_us_out it had ended by then, by the monotonic clock that a launcher on this host shares
 * with its ranks; 0: the launcher says no moment */
bool shoali_proof_by_launcher(const shoali_address *theirs, const char *ledger,
                              uint64_t *at_us_out);

#endif
