/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that may be lost. */
#ifndef SHOALI_CARRY_DATAGRAMS_H
#define SHOALI_CARRY_DATAGRAMS_H

#include "endpoint/endpoint.h"
#include "transport/address.h"

typedef struct shoali_datagrams shoali_datagrams;

/** Open the socket if it is not, and fill in what the operation's flow has to know of it. */
SHOAL_MUST_USE shoal_status shoali_datagrams_give(shoal_op *op, shoali_flow_args *args);
/** Where an endpoint's packets come from; family 0: not known. */
const shoali_ip *shoali_datagrams_at(const shoal_comm *comm, uint32_t endpoint);
void shoali_datagrams_close(shoal_comm *comm);
void shoali_datagrams_forked(shoal_comm *comm);
void shoali_datagrams_send(shoal_op *op, uint32_t member, const void *bytes, size_t len_bytes);
/** False: malformed. */
bool shoali_datagrams_on_place(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes,
                               size_t len_bytes);
/** What went to an endpoint and came from it so far. */
void shoali_datagrams_add_stats(const shoal_comm *comm, uint32_t endpoint, shoal_peer_stats *stats);
void shoali_datagrams_receive(shoal_comm *comm);
/** Whether some lie in the socket still, so that nobody may call an answer late. */
bool shoali_datagrams_unread(const shoal_comm *comm);
void shoali_datagrams_flush(shoal_comm *comm);

#endif
