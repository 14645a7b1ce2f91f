/* SPDX-License-Identifier: Apache-2.0 */
/* Transports in use: opening, adding peers, and what they report. */
#ifndef SHOALI_COMM_LINK_H
#define SHOALI_COMM_LINK_H

#include "shoal/shoal.h"
#include "transport/fault.h"
#include "transport/transport.h"

/** A transport in use. row NULL: none. */
typedef struct shoali_link {
    shoal_comm *comm;
    const shoali_transport_row *row; /* what is used: kind, or the fault decorator in front of it */
    const shoali_transport_row *kind;
    void *state, *params;       /* of row; of kind */
    shoali_fault_params *fault; /* NULL: none */
    bool open;
} shoali_link;

typedef struct shoali_transports {
    shoali_link control, near; /* near: to those on the same host, beside the first */
} shoali_transports;

void shoali_links_init(shoali_transports *links, shoal_comm *comm);
/** What a communicator of one would open if it were of more: a wrong spec or interface is refused
 * by all alike. */
SHOAL_MUST_USE shoal_status shoali_links_check(const shoal_comm_desc *desc);
SHOAL_MUST_USE shoal_status shoali_links_open(shoal_comm *comm, const shoal_comm_desc *desc,
                                              uint64_t incarnation);
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
