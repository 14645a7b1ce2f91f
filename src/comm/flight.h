/* SPDX-License-Identifier: Apache-2.0 */
/* Data frames on their way from flows to transports and back. */
#ifndef SHOALI_COMM_FLIGHT_H
#define SHOALI_COMM_FLIGHT_H

#include "ops/op.h"

/** A data frame between a flow and a transport; its cookie is its index in comm->flights. */
typedef struct shoali_comm_flight {
    struct shoal_op *op; /* NULL: free */
    const void *body;
    uint64_t cookie; /* the flow's */
    shoal_data head;
    uint32_t member, endpoint;
    uint32_t next; /* in the peer's waiting list, the list of returned ones or the free list */
    shoal_status status; /* returned: how */
} shoali_comm_flight;

enum {
    SHOALI_FLIGHTS = 4 /* per peer in the transport's hands; the rest waits in order of age */
};

/** Of a communicator. Indices; SHOALI_NONE: none. */
typedef struct shoali_flights {
    shoali_comm_flight *all;
    uint32_t count, free, returned_first, returned_last;
} shoali_flights;

void shoali_flights_init(shoali_flights *flights);
void shoali_flights_free(shoali_flights *flights);
void shoali_flight_send(shoal_op *op, uint32_t member, const shoal_data *head, const void *body,
                        uint64_t cookie);
void shoali_flight_sent(shoal_comm *comm, uint64_t cookie,
                        shoal_status status); /* event of a transport */
/** Take back what has not reached a transport: of one operation, or (op NULL) to one endpoint. */
void shoali_flight_recall(shoal_comm *comm, const shoal_op *op, uint32_t endpoint);
/** Tell flows about frames that came back. True: there were some. */
bool shoali_flight_deliver(shoal_comm *comm);

#endif
