/* SPDX-License-Identifier: Apache-2.0 */
/* Data frames between flows and transports. A frame is WAITING at its peer (oldest operation
 * first), then HANDED to the transport (at most SHOALI_FLIGHTS per peer), then RETURNED, and its
 * flow hears of it at the end of the round: never from inside a call of its own. */
#include "carry/flight.h"

#include "base/error.h"

enum { FIRST_FLIGHTS = 64 };

void shoali_flights_init(shoali_flights *flights)
{
    flights->free = flights->returned_first = flights->returned_last = SHOALI_NONE;
}

void shoali_flights_free(shoali_flights *flights)
{
    shoali_free(flights->all);
    flights->all = NULL;
}

static bool grow(shoali_flights *flights)
{
    uint32_t old = flights->count, fresh = old == 0 ? FIRST_FLIGHTS : 2 * old;
    shoali_comm_flight *more = shoali_realloc(flights->all, old * sizeof *more,
                                              fresh * sizeof *more);
    if (more == NULL)
        return false;
    for (uint32_t i = fresh; i-- > old;) {
        more[i].next = flights->free;
        flights->free = i;
    }
    flights->all = more;
    flights->count = fresh;
    return true;
}

static void put_returned(shoal_comm *comm, uint32_t index, shoal_status status)
{
    shoali_comm_flight *f = &comm->flights.all[index];
    f->status = status;
    f->next = SHOALI_NONE;
    if (comm->flights.returned_first == SHOALI_NONE)
        comm->flights.returned_first = index;
    else
        comm->flights.all[comm->flights.returned_last].next = index;
    comm->flights.returned_last = index;
    comm->loop.busy = true;
}

/* Behind all frames of operations that are not younger. Nearly always at the end. */
static void put_waiting(shoal_comm *comm, shoali_peer *peer, uint32_t index)
{
    shoali_comm_flight *all = comm->flights.all;
    uint64_t age = all[index].op->age;
    uint32_t before = peer->waiting_last;
    if (before != SHOALI_NONE && all[before].op->age > age) {
        before = SHOALI_NONE;
        for (uint32_t i = peer->waiting_first; i != SHOALI_NONE && all[i].op->age <= age;
             i = all[i].next)
            before = i;
    }
    uint32_t *link = before == SHOALI_NONE ? &peer->waiting_first : &all[before].next;
    all[index].next = *link;
    *link = index;
    if (all[index].next == SHOALI_NONE)
        peer->waiting_last = index;
}

static void hand_over(shoal_comm *comm, uint32_t endpoint)
{
    shoali_peer *peer = &comm->peers[endpoint];
    while (peer->flights < SHOALI_FLIGHTS && peer->waiting_first != SHOALI_NONE) {
        uint32_t index = peer->waiting_first;
        shoali_comm_flight *f = &comm->flights.all[index];
        peer->waiting_first = f->next;
        if (peer->waiting_first == SHOALI_NONE)
            peer->waiting_last = SHOALI_NONE;
        peer->flights++;
        uint8_t tos = f->head.pull && f->op->extras.unmarked_pull ? 0 : f->op->tos;
        shoal_status status = peer->data->row->send(peer->data->state, endpoint, tos, &f->head,
                                                    f->body, index);
        if (status != SHOAL_OK)
            shoali_flight_sent(comm, index, status);
    }
}

void shoali_flight_send(shoal_op *op, uint32_t member, const shoal_data *head, const void *body,
                        uint64_t cookie)
{
    shoal_comm *comm = op->comm;
    uint32_t endpoint = op->plan->members[member];
    shoali_peer *peer = &comm->peers[endpoint];
    if (comm->flights.free == SHOALI_NONE && !grow(&comm->flights)) {
        /* without a flight the frame cannot come back later: it is back now, and the operation
         * fails */
        shoali_run_fail(op, true);
        op->row->on_sent(op->flow, member, cookie);
        return;
    }
    uint32_t index = comm->flights.free;
    shoali_comm_flight *f = &comm->flights.all[index];
    comm->flights.free = f->next;
    *f = (shoali_comm_flight){.op = op,
                              .body = body,
                              .cookie = cookie,
                              .head = *head,
                              .member = member,
                              .endpoint = endpoint};
    if (atomic_load_explicit(&peer->state, memory_order_relaxed) == SHOALI_PEER_LOST) {
        put_returned(comm, index, SHOAL_EPEER);
        return;
    }
    put_waiting(comm, peer, index);
    hand_over(comm, endpoint);
}

void shoali_flight_sent(shoal_comm *comm, uint64_t cookie, shoal_status status)
{
    if (cookie >= comm->flights.count || comm->flights.all[cookie].op == NULL)
        return;
    comm->peers[comm->flights.all[cookie].endpoint].flights--;
    put_returned(comm, (uint32_t)cookie, status);
}

static void recall_from(shoal_comm *comm, const shoal_op *op, shoali_peer *peer)
{
    uint32_t *link = &peer->waiting_first, last = SHOALI_NONE;
    while (*link != SHOALI_NONE) {
        uint32_t index = *link;
        shoali_comm_flight *f = &comm->flights.all[index];
        if (op != NULL && f->op != op) {
            last = index;
            link = &f->next;
            continue;
        }
        *link = f->next;
        put_returned(comm, index, SHOAL_ECANCELLED);
    }
    peer->waiting_last = last;
}

void shoali_flight_recall(shoal_comm *comm, const shoal_op *op, uint32_t endpoint)
{
    if (op == NULL) {
        recall_from(comm, NULL, &comm->peers[endpoint]);
        return;
    }
    for (uint32_t member = 0; member < op->plan->member_count; member++)
        recall_from(comm, op, &comm->peers[op->plan->members[member]]);
}

bool shoali_flight_deliver(shoal_comm *comm)
{
    bool some = comm->flights.returned_first != SHOALI_NONE;
    while (comm->flights.returned_first != SHOALI_NONE) {
        uint32_t index = comm->flights.returned_first;
        shoali_comm_flight flight = comm->flights.all[index];
        comm->flights.returned_first = flight.next;
        comm->flights.all[index].op = NULL;
        comm->flights.all[index].next = comm->flights.free;
        comm->flights.free = index;
        if (flight.status == SHOAL_ENOMEM || flight.status == SHOAL_ESYSTEM ||
            flight.status == SHOAL_EINVAL) {
            (void)shoali_fail(flight.status, "%s: data for rank %u could not be sent",
                              flight.op->name, flight.endpoint);
            shoali_run_fail(flight.op, true);
        }
        flight.op->row->on_sent(flight.op->flow, flight.member, flight.cookie);
        hand_over(comm, flight.endpoint);
    }
    return some;
}
