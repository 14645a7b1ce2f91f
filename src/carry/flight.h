/* SPDX-License-Identifier: Apache-2.0 */
/* Data frames on their way from flows to transports and back. */
#ifndef SHOALI_CARRY_FLIGHT_H
#define SHOALI_CARRY_FLIGHT_H

#include "endpoint/endpoint.h"

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
