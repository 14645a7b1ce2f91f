/* SPDX-License-Identifier: Apache-2.0 */
/* What transports report, and to whom it goes: data to operations, control frames to operations,
 * liveness, those who reform, protocol machines. */
#include <stdio.h>

#include "alive/listen.h"
#include "alive/tell.h"
#include "alive/view.h"
#include "base/log.h"
#include "carry/datagrams.h"
#include "carry/flight.h"
#include "comm/inner.h"
#include "wire/messages.h"

/* ------------------------------------------------------------------ events: data */

static uint8_t *on_place(void *ctx, uint32_t peer, const shoal_data *head)
{
    shoal_comm *comm = ((shoali_link *)ctx)->comm;
    uint32_t member;
    shoali_peer_heard(comm, peer);
    shoal_op *op = shoali_take_for(&comm->ops, peer, head, &member);
    return op != NULL ? op->row->place(op->flow, member, head) : NULL;
}

static float *on_place_add(void *ctx, uint32_t peer, const shoal_data *head)
{
    uint32_t member;
    shoal_op *op = shoali_take_for(&((shoali_link *)ctx)->comm->ops, peer, head, &member);
    return op != NULL && op->row->place_add != NULL ? op->row->place_add(op->flow, member, head)
                                                    : NULL;
}

static void on_frames(void *ctx, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                      size_t count)
{
    shoal_comm *comm = ((shoali_link *)ctx)->comm;
    comm->loop.busy = true;
    shoali_peer_heard(comm, peer);
    shoali_take_frames(&comm->ops, peer, heads, bodies, count);
}

static void on_unplace(void *ctx, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    uint32_t member;
    shoal_op *op = shoali_take_for(&((shoali_link *)ctx)->comm->ops, peer, head, &member);
    if (op != NULL)
        op->row->unplace(op->flow, member, head, body);
}

static void on_sent(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status)
{
    (void)peer;
    shoali_flight_sent(((shoali_link *)ctx)->comm, cookie, status);
}

/* ------------------------------------------------------------------ events: control */

/* False: nothing that this version may send. */
static bool dispatch(shoal_comm *comm, uint32_t peer, uint16_t kind, const uint8_t *bytes,
                     size_t len_bytes)
{
    union {
        shoali_heartbeat beat;
        shoali_reform reform;
        shoali_missed missed;
    } m;
    bool good = true;
    const shoali_taken taken = shoali_take_control(&comm->ops, peer, kind, bytes, len_bytes);
    if (taken != SHOALI_TAKEN_NOT)
        return taken == SHOALI_TAKEN;
    switch (kind) {
    case SHOALI_MESSAGE_heartbeat:
        if ((good = shoali_heartbeat_decode(bytes, len_bytes, &m.beat)))
            shoali_view_heartbeat(comm, peer, &m.beat);
        return good;
    case SHOALI_MESSAGE_reform:
        if ((good = shoali_reform_decode(bytes, len_bytes, &m.reform)))
            shoali_reform_on_message(comm, peer, &m.reform);
        return good;
    case SHOALI_MESSAGE_missed:
        if ((good = shoali_missed_decode(bytes, len_bytes, &m.missed)))
            shoali_view_missed(comm, &m.missed);
        return good;
    case SHOALI_MESSAGE_there:
        if ((good = shoali_missed_decode(bytes, len_bytes, &m.missed)))
            shoali_view_asked(comm, peer, &m.missed);
        return good;
    case SHOALI_MESSAGE_protocol:
        shoali_listen_message(comm, peer, bytes, len_bytes);
        return true;
    case SHOALI_MESSAGE_datagram:
        return shoali_datagrams_on_place(comm, peer, bytes, len_bytes);
    default:
        return false;
    }
}

static void on_control(void *ctx, uint32_t peer, uint16_t kind, const uint8_t *bytes,
                       size_t len_bytes)
{
    shoal_comm *comm = ((shoali_link *)ctx)->comm;
    comm->loop.busy = true;
    shoali_peer_heard(comm, peer);
    if (!dispatch(comm, peer, kind, bytes, len_bytes)) {
        char text[80];
        snprintf(text, sizeof text, "it sent a malformed message of kind %u", kind);
        shoali_peer_gone(comm, peer, SHOAL_EPEER, text);
    }
}

static void on_peer_up(void *ctx, uint32_t peer)
{
    shoali_link *link = ctx;
    shoal_comm *comm = link->comm;
    shoali_peer_heard(comm, peer);
    comm->loop.busy = true;
    if (link == &comm->links.near)
        comm->peers[peer].near_up = true;
    else
        comm->peers[peer].up = true;
}

static void on_peer_down(void *ctx, uint32_t peer, shoal_status why, const char *text)
{
    shoali_link *link = ctx;
    shoal_comm *comm = link->comm;
    shoali_peer *p = &comm->peers[peer];
    if (link == &comm->links.near &&
        !p->near_up) { /* during the join: then by the other transport */
        shoali_log(WARN, "no %s to rank %u: %s", link->kind->name, peer, text);
        p->near = false;
        return;
    }
    shoali_peer_gone(comm, peer, why, text);
}

static void on_link_down(void *ctx, uint32_t peer, bool lost, const char *text)
{
    shoali_view_link_down(((shoali_link *)ctx)->comm, peer, lost, text);
}

const shoali_transport_events shoali_link_events = {.place = on_place,
                                                    .place_add = on_place_add,
                                                    .frames = on_frames,
                                                    .unplace = on_unplace,
                                                    .sent = on_sent,
                                                    .control = on_control,
                                                    .peer_up = on_peer_up,
                                                    .peer_down = on_peer_down,
                                                    .link_down = on_link_down};
