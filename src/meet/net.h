/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the rendezvous: resolving, listening, and who must show a token. */
#ifndef SHOALI_MEET_NET_H
#define SHOALI_MEET_NET_H

#include <netdb.h>

#include "meet/meet.h"

enum { SHOALI_MEET_FROM_BYTES = 80 };

/** Addresses of the meeting's host, to be freed with freeaddrinfo. Refuses addresses off loopback
 * without a token (EAUTH). Names may ask a name server, which blocks for as long as the resolver's
 * own timeouts. */
SHOAL_MUST_USE shoal_status shoali_meet_resolve(const shoali_meeting *meeting,
                                                struct addrinfo **list_out);

/** A listening socket at the meeting point. */
SHOAL_MUST_USE shoal_status shoali_meet_listen(const shoali_meeting *meeting, int *fd_out);

/** "10.0.0.7:40123" */
void shoali_meet_from(const struct sockaddr *address, socklen_t length,
                      char out[SHOALI_MEET_FROM_BYTES]);

#endif
