/* SPDX-License-Identifier: Apache-2.0 */
/* The transport row over a simulated fabric: turns calls into frames on it, and notices that the
 * fabric has left in the inbox into calls of the user, inside progress. */
#include "transport/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "transport/sim_fabric.h"
#include "wire/frame.h"

typedef struct endpoint {
    shoali_fabric *sim;
    uint32_t me;
    shoali_transport_events events;
} endpoint;

static shoal_status sim_open(void *state, const shoali_transport_args *args,
                             const shoali_transport_events *events)
{
    endpoint *e = state;
    shoali_fabric *sim = args->fabric;
    if (sim == NULL || args->me >= sim->desc.endpoints || sim->ports[args->me].open)
        return shoali_fail(SHOAL_EINVAL, "transport sim: no fabric, or no free place for %u on it",
                           args->me);
    *e = (endpoint){sim, args->me, *events};
    sim->ports[args->me].open = true;
    sim->ports[args->me].deadline_us = args->deadline_us > 0 ? (uint64_t)args->deadline_us
                                                             : 2500000;
    sim->ports[args->me].join_us = args->join_us > 0 ? (uint64_t)args->join_us : 30000000;
    return SHOAL_OK;
}

static void sim_address(const void *state, char out[SHOALI_ADDRESS_BYTES])
{
    const endpoint *e = state;
    snprintf(out, SHOALI_ADDRESS_BYTES, "sim=%u", e->me);
}

static shoal_status sim_add_peer(void *state, uint32_t peer, const char *address)
{
    endpoint *e = state;
    shoali_fabric *sim = e->sim;
    (void)address;
    if (peer >= sim->desc.endpoints || peer == e->me ||
        shoali_fabric_pair_of(sim, e->me, peer)->wanted)
        return shoali_fail(SHOAL_EINVAL, "transport sim: endpoint %u cannot add peer %u", e->me,
                           peer);
    shoali_fabric_pair_of(sim, e->me, peer)->wanted = true;
    const bool both = shoali_fabric_pair_of(sim, peer, e->me)->wanted;
    const uint64_t wait_ns = both ? 2 * sim->desc.latency_ns
                                  : sim->ports[e->me].join_us * UINT64_C(1000);
    shoali_fabric_schedule(sim, (fabric_event){.kind = both ? FABRIC_CONNECTED : FABRIC_LATE,
                                               .time_ns = sim->now_ns + wait_ns,
                                               .a = e->me,
                                               .b = peer});
    return SHOAL_OK;
}

/* A frame to peer with room for its body, and for all events of its way; NULL: ENOMEM. */
static fabric_frame *make_frame(endpoint *e, uint32_t peer, size_t len_bytes)
{
    const uint64_t whole = SHOALI_FRAME_BYTES + (uint64_t)len_bytes;
    const uint32_t slots = 2 * (uint32_t)shoali_fabric_segments(whole);
    if (shoali_fabric_reserve(e->sim, slots) != SHOAL_OK)
        return NULL;
    fabric_frame *frame = shoali_alloc(sizeof *frame + len_bytes);
    if (frame == NULL) {
        e->sim->heap_reserved -= slots;
        return NULL;
    }
    frame->from = e->me;
    frame->to = peer;
    frame->reserved = slots;
    frame->whole = frame->left_up = frame->left_down = whole;
    frame->head.len_bytes = (uint32_t)len_bytes;
    frame->sent = (fabric_notice){.kind = FABRIC_SENT, .frame = frame, .peer = peer};
    frame->place = (fabric_notice){.kind = FABRIC_PLACE, .frame = frame, .peer = e->me};
    frame->body = (fabric_notice){.kind = FABRIC_BODY, .frame = frame, .peer = e->me};
    frame->unplace = (fabric_notice){.kind = FABRIC_UNPLACE, .frame = frame, .peer = e->me};
    return frame;
}

static shoal_status check_up(const endpoint *e, uint32_t peer, size_t len_bytes, size_t most)
{
    if (peer >= e->sim->desc.endpoints || !shoali_fabric_pair_of(e->sim, e->me, peer)->up)
        return shoali_fail(SHOAL_EPEER, "endpoint %u is not connected to %u", e->me, peer);
    if (len_bytes > most)
        return shoali_fail(SHOAL_EINVAL, "a frame of %zu bytes, at most %zu", len_bytes, most);
    return SHOAL_OK;
}

static shoal_status sim_send(void *state, uint32_t peer, uint8_t tos, const shoal_data *head,
                             const void *body, uint64_t cookie)
{
    endpoint *e = state;
    (void)tos;
    SHOALI_TRY(check_up(e, peer, head->len_bytes, SHOALI_FRAME_MAX_BODY_BYTES));
    fabric_frame *frame = make_frame(e, peer, head->len_bytes);
    if (frame == NULL)
        return SHOAL_ENOMEM;
    shoal_peer_stats *stats = &shoali_fabric_pair_of(e->sim, e->me, peer)->stats;
    frame->head = *head;
    frame->source = body;
    frame->cookie = cookie;
    stats->sent_frames++;
    stats->sent_payload_bytes += head->len_bytes;
    stats->sent_wire_bytes += frame->whole;
    shoali_fabric_enqueue(e->sim, frame);
    return SHOAL_OK;
}

static shoal_status queue_control(endpoint *e, uint32_t peer, uint16_t kind, const void *bytes,
                                  size_t len_bytes, bool goodbye)
{
    fabric_frame *frame = make_frame(e, peer, len_bytes);
    if (frame == NULL)
        return SHOAL_ENOMEM;
    frame->is_control = true;
    frame->is_goodbye = goodbye;
    frame->control = kind;
    if (len_bytes > 0)
        memcpy(frame->copy, bytes, len_bytes);
    shoali_fabric_pair_of(e->sim, e->me, peer)->stats.control_bytes += frame->whole;
    shoali_fabric_enqueue(e->sim, frame);
    return SHOAL_OK;
}

static shoal_status sim_control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                                size_t len_bytes)
{
    SHOALI_TRY(check_up(state, peer, len_bytes, SHOALI_CONTROL_MAX_BYTES));
    return queue_control(state, peer, kind, bytes, len_bytes, false);
}

/* ------------------------------------------------------------- notices */

static const char *reason(shoal_status why)
{
    if (why == SHOAL_OK)
        return "said goodbye";
    return why == SHOAL_ETIMEDOUT ? "is silent: the link is cut" : "closed without goodbye";
}

static void place(endpoint *e, fabric_frame *frame)
{
    if (!frame->dropped)
        frame->placed = e->events.place(e->events.ctx, frame->from, &frame->head);
    if (frame->placed == NULL)
        shoali_fabric_pair_of(e->sim, e->me, frame->from)->stats.dropped_frames++;
}

static void deliver(endpoint *e, fabric_frame *frame)
{
    shoal_peer_stats *stats = &shoali_fabric_pair_of(e->sim, e->me, frame->from)->stats;
    if (frame->is_goodbye) {
        shoali_fabric_sever(e->sim, e->me, frame->from, SHOAL_OK);
        return;
    }
    if (frame->is_control) {
        stats->control_bytes += frame->whole;
        e->events.control(e->events.ctx, frame->from, frame->control, frame->copy,
                          frame->head.len_bytes);
        return;
    }
    if (frame->placed == NULL)
        return;
    uint8_t *body = frame->placed;
    frame->placed = NULL;
    if (frame->head.len_bytes > 0)
        memcpy(body, frame->copy, frame->head.len_bytes);
    stats->received_frames++;
    stats->received_payload_bytes += frame->head.len_bytes;
    stats->received_wire_bytes += frame->whole;
    e->events.frames(e->events.ctx, frame->from, &frame->head, &body, 1);
}

static void unplace(endpoint *e, fabric_frame *frame)
{
    uint8_t *body = frame->placed;
    frame->placed = NULL;
    if (body != NULL)
        e->events.unplace(e->events.ctx, frame->from, &frame->head, body);
}

static void hear(endpoint *e, const fabric_notice *notice)
{
    const shoali_transport_events *to = &e->events;
    switch (notice->kind) {
    case FABRIC_SENT:
        to->sent(to->ctx, notice->peer, notice->frame->cookie, notice->status);
        break;
    case FABRIC_PLACE:
        place(e, notice->frame);
        break;
    case FABRIC_BODY:
        deliver(e, notice->frame);
        break;
    case FABRIC_UNPLACE:
        unplace(e, notice->frame);
        break;
    case FABRIC_UP:
        to->peer_up(to->ctx, notice->peer);
        break;
    default:
        to->peer_down(to->ctx, notice->peer, notice->status, reason(notice->status));
        break;
    }
}

/* Take the oldest notice; its frame is still referred to. NULL: none. */
static fabric_notice *take_notice(fabric_port *port)
{
    fabric_notice *notice = port->inbox;
    if (notice == NULL)
        return NULL;
    port->inbox = notice->next;
    if (port->inbox == NULL)
        port->inbox_end = &port->inbox;
    notice->queued = false;
    return notice;
}

static void sim_progress(void *state, uint64_t now_us)
{
    endpoint *e = state;
    fabric_port *port = &e->sim->ports[e->me];
    fabric_notice *notice;
    (void)now_us;
    while (!port->dead && (notice = take_notice(port)) != NULL) {
        hear(e, notice);
        if (notice->frame != NULL)
            shoali_fabric_frame_unref(e->sim, notice->frame);
    }
}

static uint64_t sim_next_wake_us(const void *state)
{
    const endpoint *e = state;
    return e->sim->ports[e->me].inbox != NULL ? 0 : UINT64_MAX;
}

static int sim_fd(const void *state)
{
    (void)state;
    return -1;
}

/* ------------------------------------------------------------- ends */

static void sim_drop_peer(void *state, uint32_t peer, bool polite)
{
    endpoint *e = state;
    if (peer >= e->sim->desc.endpoints)
        return;
    fabric_pair *pair = shoali_fabric_pair_of(e->sim, e->me, peer);
    const bool was_up = pair->up;
    pair->up = false;
    pair->down_told = true;
    shoali_fabric_drop_frames(e->sim, peer, e->me, false, SHOAL_EPEER);
    shoali_fabric_drop_frames(e->sim, e->me, peer, polite, SHOAL_ECANCELLED);
    if (!was_up || !polite || queue_control(e, peer, 0, NULL, 0, true) != SHOAL_OK)
        shoali_fabric_sever(e->sim, e->me, peer, SHOAL_EPEER);
}

static void sim_peer_stats(const void *state, uint32_t peer, shoal_peer_stats *stats_add)
{
    const endpoint *e = state;
    const shoal_peer_stats *stats = &shoali_fabric_pair_of(e->sim, e->me, peer)->stats;
    snprintf(stats_add->transport, sizeof stats_add->transport, "sim");
    stats_add->sent_frames += stats->sent_frames;
    stats_add->sent_payload_bytes += stats->sent_payload_bytes;
    stats_add->sent_wire_bytes += stats->sent_wire_bytes;
    stats_add->received_frames += stats->received_frames;
    stats_add->received_payload_bytes += stats->received_payload_bytes;
    stats_add->received_wire_bytes += stats->received_wire_bytes;
    stats_add->control_bytes += stats->control_bytes;
    stats_add->dropped_frames += stats->dropped_frames;
}

static void sim_close(void *state)
{
    endpoint *e = state;
    fabric_port *port = &e->sim->ports[e->me];
    for (uint32_t peer = 0; peer < e->sim->desc.endpoints; peer++)
        if (shoali_fabric_pair_of(e->sim, e->me, peer)->wanted && !port->dead)
            sim_drop_peer(e, peer, true);
    port->open = false;
    for (fabric_notice *notice; (notice = take_notice(port)) != NULL;) {
        if (!port->dead && (notice->kind == FABRIC_SENT || notice->kind == FABRIC_UNPLACE))
            hear(e, notice);
        if (notice->frame != NULL)
            shoali_fabric_frame_unref(e->sim, notice->frame);
    }
}

static void sim_forked(void *state)
{
    (void)state; /* no descriptors */
}

const shoali_transport_row shoali_transport_sim = {
    .name = "sim",
    .traits = SHOALI_TRANSPORT_STREAM | SHOALI_TRANSPORT_CONTROL,
    .state_size = sizeof(endpoint),
    .open = sim_open,
    .address = sim_address,
    .add_peer = sim_add_peer,
    .send = sim_send,
    .control = sim_control,
    .fd = sim_fd,
    .progress = sim_progress,
    .next_wake_us = sim_next_wake_us,
    .drop_peer = sim_drop_peer,
    .peer_stats = sim_peer_stats,
    .close = sim_close,
    .forked = sim_forked,
};
