/* SPDX-License-Identifier: Apache-2.0 */
/* Transports in use: opening, adding peers, what is said to them. */
#ifndef SHOALI_CARRY_LINK_H
#define SHOALI_CARRY_LINK_H

#include "endpoint/endpoint.h"

void shoali_links_init(shoali_transports *links, shoal_comm *comm);
/** What a communicator of one would open if it were of more: a wrong spec or interface is refused
 * by all alike. */
SHOAL_MUST_USE shoal_status shoali_links_check(const shoal_comm_desc *desc);
/** events: what they report; the ctx of each is its shoali_link. */
SHOAL_MUST_USE shoal_status shoali_links_open(shoal_comm *comm, const shoal_comm_desc *desc,
                                              uint64_t incarnation,
                                              const shoali_transport_events *events);
/** Connect to endpoint; near, too, where that works. */
SHOAL_MUST_USE shoal_status shoali_links_add(shoal_comm *comm, uint32_t endpoint,
                                             const char *address, const char *near_address);
void shoali_links_close(shoali_transports *links);
void shoali_links_drop(shoal_comm *comm, uint32_t endpoint, bool polite);
void shoali_links_forked(shoali_transports *links);
/** Failures end in the loss of the peer. */
void shoali_control(shoal_comm *comm, uint32_t endpoint, uint16_t kind, const void *bytes,
                    size_t len_bytes);

#endif
