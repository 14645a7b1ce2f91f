/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between flows of datagrams and one UDP socket, which is opened for the first such
 * operation. Every endpoint then tells all others, on the authenticated control connection, where
 * it is; as READY follows on the same connection, whoever has been granted knows the way. What
 * comes from elsewhere is dropped, and so is what no open operation takes for its own: it looks for
 * its key, which only members know. */
#include "carry/datagrams.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/rng.h"
#include "carry/link.h"
#include "transport/udp.h"
#include "wire/messages.h"

/* Of the event loop, of 128 packets each: more than the kernel keeps for a socket, so that whoever
 * floods it cannot hold up timers for ever. */
enum { UNREAD_MOST = 256 };

typedef struct traffic {
    uint64_t sent, sent_bytes, received, received_bytes;
} traffic;

struct shoali_datagrams {
    shoali_udp *udp;
    uint64_t secret;
    shoali_ip *at;    /* [size] of the others; family 0: not known */
    traffic *traffic; /* [size] with each */
    uint32_t last;    /* who sent last: most packets come in turn */
    bool blocked;     /* waits for the descriptor to be writable */
    shoali_rng faults;
    uint32_t unread; /* rounds in a row that have left some in the socket */
    double drop;     /* as the fault decorator's, for tests */
    uint64_t strange;
};

/* ------------------------------------------------------------------ open and close */

static shoal_status own_address(const shoal_comm *comm, shoali_ip *ip_out)
{
    char text[SHOALI_ADDRESS_BYTES];
    shoali_address address;
    comm->links.control.row->address(comm->links.control.state, text);
    SHOALI_TRY(shoali_address_parse(text, &address));
    if (address.ip_count == 0)
        return shoali_fail(SHOAL_ENOTSUP, "the transport %s has no address for datagrams",
                           comm->links.control.kind->name);
    *ip_out = address.ips[0];
    return SHOAL_OK;
}

static shoal_status watch(shoal_comm *comm, int op, bool out)
{
    const int fd = shoali_udp_fd(comm->datagrams->udp);
    struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.fd = fd};
    return epoll_ctl(comm->loop.epoll_fd, op, fd, &event) == 0
               ? SHOAL_OK
               : shoali_fail(SHOAL_ESYSTEM, "cannot watch the UDP socket");
}

static void tell_all(shoal_comm *comm)
{
    const shoali_ip *at = shoali_udp_address(comm->datagrams->udp);
    shoali_datagram_place place = {.port = shoali_ip_port(at),
                                   .len_bytes = shoali_udp_bytes(comm->datagrams->udp)};
    uint8_t body[SHOALI_DATAGRAM_BYTES];
    shoali_ip_format(at, place.ip);
    const size_t bytes = shoali_datagram_encode(&place, body);
    for (uint32_t i = 0; i < comm->size; i++)
        if (i != comm->me && atomic_load(&comm->peers[i].state) == SHOALI_PEER_HERE)
            shoali_control(comm, i, SHOALI_MESSAGE_datagram, body, bytes);
}

static shoal_status make(shoal_comm *comm)
{
    shoali_datagrams *d = comm->datagrams;
    shoali_ip at;
    SHOALI_TRY(shoali_random(&d->secret, sizeof d->secret));
    SHOALI_TRY(own_address(comm, &at));
    SHOALI_TRY(shoali_udp_open(&at, &d->udp));
    if (comm->links.control.fault != NULL &&
        (comm->links.control.fault->rank < 0 ||
         comm->links.control.fault->rank == (int64_t)comm->me)) {
        d->drop = comm->links.control.fault->drop;
        d->faults = (shoali_rng){(uint64_t)comm->links.control.fault->seed, 1000 + comm->me, 0};
    }
    return watch(comm, EPOLL_CTL_ADD, false);
}

/* The table of places may be needed before the socket. */
static shoal_status have(shoal_comm *comm)
{
    if (comm->datagrams == NULL)
        comm->datagrams = shoali_alloc(sizeof *comm->datagrams);
    shoali_datagrams *d = comm->datagrams;
    if (d == NULL)
        return SHOAL_ENOMEM;
    if (d->at == NULL)
        d->at = shoali_alloc_array(comm->size, sizeof *d->at);
    if (d->traffic == NULL)
        d->traffic = shoali_alloc_array(comm->size, sizeof *d->traffic);
    return d->at != NULL && d->traffic != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status open_socket(shoal_comm *comm)
{
    SHOALI_TRY(have(comm));
    if (comm->datagrams->udp != NULL)
        return SHOAL_OK;
    const shoal_status status = make(comm);
    if (status != SHOAL_OK) {
        shoali_udp_close(comm->datagrams->udp);
        comm->datagrams->udp = NULL;
        return status;
    }
    tell_all(comm);
    return SHOAL_OK;
}

void shoali_datagrams_close(shoal_comm *comm)
{
    shoali_datagrams *d = comm->datagrams;
    if (d == NULL)
        return;
    if (d->udp != NULL) {
        const shoali_udp_stats stats = shoali_udp_counted(d->udp);
        shoali_log(DEBUG, "datagrams: %llu sent, %llu received, %llu dropped here, %llu strange",
                   (unsigned long long)stats.sent, (unsigned long long)stats.received,
                   (unsigned long long)stats.dropped, (unsigned long long)d->strange);
    }
    shoali_udp_close(d->udp);
    shoali_free(d->at);
    shoali_free(d->traffic);
    shoali_free(d);
    comm->datagrams = NULL;
}

void shoali_datagrams_forked(shoal_comm *comm)
{
    if (comm->datagrams != NULL && comm->datagrams->udp != NULL)
        shoali_udp_forked(comm->datagrams->udp);
}

/* ------------------------------------------------------------------ what flows are given */

shoal_status shoali_datagrams_give(shoal_op *op, shoali_flow_args *args)
{
    const shoali_wire_id *id = &op->id;
    if (op->comm->size == 1)
        return SHOAL_OK; /* nobody to send to */
    SHOALI_TRY(open_socket(op->comm));
    args->datagram_bytes = shoali_udp_bytes(op->comm->datagrams->udp);
    args->datagram_key = shoali_mix(op->comm->datagrams->secret,
                                    shoali_mix(shoali_mix(id->group, id->sequence), id->round));
    return SHOAL_OK;
}

const shoali_ip *shoali_datagrams_at(const shoal_comm *comm, uint32_t endpoint)
{
    return &comm->datagrams->at[endpoint];
}

void shoali_datagrams_send(shoal_op *op, uint32_t member, const void *bytes, size_t len_bytes)
{
    shoali_datagrams *d = op->comm->datagrams;
    const shoali_ip *to = &d->at[op->plan->members[member]];
    if (d->drop > 0 && shoali_rng_next_double(&d->faults) < d->drop)
        return;
    if (to->any.sa_family != shoali_udp_address(d->udp)->any.sa_family)
        return;
    traffic *with = &d->traffic[op->plan->members[member]];
    with->sent++;
    with->sent_bytes += len_bytes;
    shoali_udp_send(d->udp, to, bytes, len_bytes);
}

void shoali_datagrams_add_stats(const shoal_comm *comm, uint32_t endpoint, shoal_peer_stats *stats)
{
    const shoali_datagrams *d = comm->datagrams;
    if (d == NULL || d->traffic == NULL)
        return;
    const traffic *with = &d->traffic[endpoint];
    stats->sent_frames += with->sent;
    stats->sent_payload_bytes += with->sent_bytes;
    stats->sent_wire_bytes += with->sent_bytes;
    stats->received_frames += with->received;
    stats->received_payload_bytes += with->received_bytes;
    stats->received_wire_bytes += with->received_bytes;
}

/* ------------------------------------------------------------------ what comes in */

bool shoali_datagrams_on_place(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes,
                               size_t len_bytes)
{
    shoali_datagram_place place;
    shoali_ip ip;
    if (!shoali_datagram_decode(bytes, len_bytes, &place) || !shoali_ip_parse(place.ip, &ip))
        return false;
    if (have(comm) != SHOAL_OK)
        return true; /* its packets are strange then, and the operation says so at its deadline */
    shoali_ip_set_port(&ip, place.port);
    comm->datagrams->at[endpoint] = ip;
    return true;
}

static uint32_t endpoint_at(shoal_comm *comm, const shoali_ip *from)
{
    shoali_datagrams *d = comm->datagrams;
    for (uint32_t i = 1; i <= comm->size; i++) {
        const uint32_t endpoint = (d->last + i) % comm->size;
        const shoali_ip *at = &d->at[endpoint];
        if (at->any.sa_family == from->any.sa_family &&
            shoali_ip_port(at) == shoali_ip_port(from) && shoali_ip_equal(at, from))
            return d->last = endpoint;
    }
    return SHOALI_NONE;
}

static void take(void *ctx, const shoali_ip *from, const uint8_t *bytes, size_t len_bytes)
{
    shoal_comm *comm = ctx;
    const uint32_t endpoint = endpoint_at(comm, from);
    comm->loop.busy = true;
    if (endpoint == SHOALI_NONE || !shoali_take_datagram(&comm->ops, endpoint, bytes, len_bytes)) {
        comm->datagrams->strange++;
        return;
    }
    comm->datagrams->traffic[endpoint].received++;
    comm->datagrams->traffic[endpoint].received_bytes += len_bytes;
    shoali_peer_heard(comm, endpoint);
}

void shoali_datagrams_receive(shoal_comm *comm)
{
    shoali_datagrams *d = comm->datagrams;
    if (d == NULL || d->udp == NULL)
        return;
    const bool more = shoali_udp_receive(d->udp, take, comm);
    d->unread = more && d->unread < UNREAD_MOST ? d->unread + 1 : 0;
}

bool shoali_datagrams_unread(const shoal_comm *comm)
{
    return comm->datagrams != NULL && comm->datagrams->unread > 0;
}

void shoali_datagrams_flush(shoal_comm *comm)
{
    shoali_datagrams *d = comm->datagrams;
    if (d == NULL || d->udp == NULL)
        return;
    const bool blocked = !shoali_udp_flush(d->udp);
    if (blocked != d->blocked && watch(comm, EPOLL_CTL_MOD, blocked) == SHOAL_OK)
        d->blocked = blocked;
}
