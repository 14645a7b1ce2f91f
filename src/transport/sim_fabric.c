/* SPDX-License-Identifier: Apache-2.0 */
/* Links and virtual time. A segment of a frame, from i to j:
 *
 *     i's uplink free: chosen, turn by turn among i's peers --SERIALISED--> next segment
 *           \--latency--> ARRIVED at j's downlink --its turn, first come first served--> DELIVERED
 *
 * Cut-through: the downlink starts with the first bit, so that an idle path adds only the
 * latency. */
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"
#include "transport/sim_fabric.h"

enum { SEGMENT_BYTES = 16 * 1024, WINDOW_BYTES = 1 << 20, ENDPOINTS_MAX = 1024 };
#define NONE UINT32_MAX

/* ------------------------------------------------------------- time */

static bool before(const fabric_event *a, const fabric_event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->sequence < b->sequence;
}

shoal_status shoali_fabric_reserve(shoali_fabric *sim, size_t events)
{
    size_t wanted = sim->heap_reserved + events, capacity = sim->heap_capacity;
    if (wanted > capacity) {
        capacity = wanted > 2 * capacity ? wanted : 2 * capacity;
        fabric_event *heap = shoali_realloc(sim->heap, sim->heap_capacity * sizeof *heap,
                                            capacity * sizeof *heap);
        if (heap == NULL)
            return SHOAL_ENOMEM;
        sim->heap = heap;
        sim->heap_capacity = capacity;
    }
    sim->heap_reserved = wanted;
    return SHOAL_OK;
}

void shoali_fabric_schedule(shoali_fabric *sim, fabric_event event)
{
    event.sequence = sim->sequence++;
    size_t at = sim->heap_count++;
    for (; at > 0 && before(&event, &sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        sim->heap[at] = sim->heap[(at - 1) / 2];
    sim->heap[at] = event;
}

static fabric_event next_event(shoali_fabric *sim)
{
    const fabric_event top = sim->heap[0], last = sim->heap[--sim->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < sim->heap_count && before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (child >= sim->heap_count || !before(&sim->heap[child], &last))
            break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
    return top;
}

/* Time of at most a segment on a link, rounded up to a nanosecond. */
static uint64_t transfer_ns(uint64_t bytes, uint64_t rate_bps)
{
    return (bytes * 8 * UINT64_C(1000000000) + rate_bps - 1) / rate_bps;
}

/* ------------------------------------------------------------- notices and frames */

fabric_pair *shoali_fabric_pair_of(shoali_fabric *sim, uint32_t from, uint32_t to)
{
    return &sim->pairs[(size_t)from * sim->desc.endpoints + to];
}

void shoali_fabric_notify(shoali_fabric *sim, uint32_t endpoint, fabric_notice *notice)
{
    fabric_port *port = &sim->ports[endpoint];
    if (!port->open || port->dead || notice->queued)
        return;
    if (notice->frame != NULL)
        notice->frame->refs++;
    notice->queued = true;
    notice->next = NULL;
    *port->inbox_end = notice;
    port->inbox_end = &notice->next;
    if (port->ready)
        return;
    port->ready = true;
    port->next_ready = NONE;
    if (sim->ready_tail == NONE)
        sim->ready_head = endpoint;
    else
        sim->ports[sim->ready_tail].next_ready = endpoint;
    sim->ready_tail = endpoint;
}

bool shoali_fabric_next_ready(shoali_fabric *sim, uint32_t *endpoint_out)
{
    while (sim->ready_head != NONE) {
        const uint32_t endpoint = sim->ready_head;
        fabric_port *port = &sim->ports[endpoint];
        sim->ready_head = port->next_ready;
        if (sim->ready_head == NONE)
            sim->ready_tail = NONE;
        port->ready = false;
        if (port->dead || port->inbox == NULL)
            continue;
        *endpoint_out = endpoint;
        return true;
    }
    return false;
}

void shoali_fabric_frame_unref(shoali_fabric *sim, fabric_frame *frame)
{
    if (--frame->refs > 0)
        return;
    sim->heap_reserved -= frame->reserved;
    *frame->all_prev = frame->all_next;
    if (frame->all_next != NULL)
        frame->all_next->all_prev = frame->all_prev;
    shoali_free(frame);
}

/* ------------------------------------------------------------- uplinks */

uint64_t shoali_fabric_segments(uint64_t bytes)
{
    return (bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES;
}

static fabric_frame *front(const fabric_pair *pair)
{
    return pair->control != NULL ? pair->control : pair->data;
}

static bool may_serve(shoali_fabric *sim, uint32_t from, uint32_t to)
{
    fabric_pair *pair = shoali_fabric_pair_of(sim, from, to);
    return front(pair) != NULL && pair->outstanding_bytes < sim->desc.window_bytes &&
           !sim->ports[from].cut && !sim->ports[to].cut;
}

/* Start the next segment of an idle uplink. */
static void serve(shoali_fabric *sim, uint32_t from)
{
    fabric_port *port = &sim->ports[from];
    const uint32_t n = sim->desc.endpoints;
    uint32_t tried = 0;
    if (port->serving)
        return;
    for (; tried < n && !may_serve(sim, from, (port->turn + 1 + tried) % n); tried++)
        continue;
    if (tried == n)
        return;
    port->turn = (port->turn + 1 + tried) % n;
    port->serving = true;
    fabric_pair *pair = shoali_fabric_pair_of(sim, from, port->turn);
    fabric_frame *frame = front(pair);
    const uint64_t bytes = frame->left_up < SEGMENT_BYTES ? frame->left_up : SEGMENT_BYTES;
    const uint64_t busy_ns = transfer_ns(bytes, port->up_bps);
    uint64_t latency_ns = sim->desc.latency_ns;
    if (sim->desc.jitter_ns > 0)
        latency_ns += shoali_rng_below(sim->desc.seed, 1, sim->chances++, sim->desc.jitter_ns + 1);
    uint64_t arrival_ns = sim->now_ns + latency_ns;
    if (arrival_ns < pair->last_arrival_ns)
        arrival_ns = pair->last_arrival_ns;
    pair->last_arrival_ns = arrival_ns;
    pair->outstanding_bytes += bytes;
    frame->refs += 2;
    shoali_fabric_schedule(sim, (fabric_event){.kind = FABRIC_SERIALISED,
                                               .time_ns = sim->now_ns + busy_ns,
                                               .frame = frame,
                                               .bytes = bytes});
    shoali_fabric_schedule(sim, (fabric_event){.kind = FABRIC_ARRIVED,
                                               .time_ns = arrival_ns,
                                               .frame = frame,
                                               .bytes = bytes,
                                               .tail_ns = arrival_ns + busy_ns});
}

static void unqueue(fabric_frame **head, fabric_frame ***end)
{
    fabric_frame *frame = *head;
    *head = frame->next;
    if (*head == NULL)
        *end = head;
}

void shoali_fabric_enqueue(shoali_fabric *sim, fabric_frame *frame)
{
    fabric_pair *pair = shoali_fabric_pair_of(sim, frame->from, frame->to);
    fabric_frame ***end = frame->is_control ? &pair->control_end : &pair->data_end;
    frame->refs = 2; /* the queue, and the way to its end */
    frame->next = NULL;
    **end = frame;
    *end = &frame->next;
    frame->all_next = pair->all;
    frame->all_prev = &pair->all;
    if (pair->all != NULL)
        pair->all->all_prev = &frame->all_next;
    pair->all = frame;
    serve(sim, frame->from);
}

/* The last segment has left: the sender has its body back. */
static void all_serialised(shoali_fabric *sim, fabric_frame *frame)
{
    fabric_pair *pair = shoali_fabric_pair_of(sim, frame->from, frame->to);
    if (frame->is_control)
        unqueue(&pair->control, &pair->control_end);
    else
        unqueue(&pair->data, &pair->data_end);
    frame->was_sent = true;
    if (!frame->is_control) {
        if (frame->head.len_bytes > 0)
            memcpy(frame->copy, frame->source, frame->head.len_bytes);
        frame->sent.status = SHOAL_OK;
        shoali_fabric_notify(sim, frame->from, &frame->sent);
    }
    shoali_fabric_frame_unref(sim, frame);
}

static void on_serialised(shoali_fabric *sim, const fabric_event *event)
{
    fabric_frame *frame = event->frame;
    const uint32_t from = frame->from;
    sim->ports[from].serving = false;
    if (!frame->dropped) {
        frame->left_up -= event->bytes;
        if (frame->left_up == 0)
            all_serialised(sim, frame);
    }
    shoali_fabric_frame_unref(sim, frame);
    serve(sim, from);
}

/* ------------------------------------------------------------- downlinks */

/* A segment has come to its end, wherever that is: its window opens again. */
static void segment_over(shoali_fabric *sim, const fabric_event *event)
{
    const uint32_t from = event->frame->from;
    shoali_fabric_pair_of(sim, from, event->frame->to)->outstanding_bytes -= event->bytes;
    shoali_fabric_frame_unref(sim, event->frame);
    serve(sim, from);
}

static void on_arrived(shoali_fabric *sim, const fabric_event *event)
{
    fabric_port *port = &sim->ports[event->frame->to];
    const uint64_t start_ns = sim->now_ns > port->down_free_ns ? sim->now_ns : port->down_free_ns;
    const uint64_t end_ns = start_ns + transfer_ns(event->bytes, port->down_bps);
    if (event->frame->dropped) {
        segment_over(sim, event);
        return;
    }
    port->down_free_ns = end_ns;
    fabric_event delivered = *event;
    delivered.kind = FABRIC_DELIVERED;
    delivered.time_ns = end_ns > event->tail_ns ? end_ns : event->tail_ns;
    shoali_fabric_schedule(sim, delivered);
}

static void on_delivered(shoali_fabric *sim, const fabric_event *event)
{
    fabric_frame *frame = event->frame;
    if (!frame->dropped && !sim->ports[frame->from].cut && !sim->ports[frame->to].cut) {
        if (frame->left_down == frame->whole && !frame->is_control)
            shoali_fabric_notify(sim, frame->to, &frame->place);
        frame->left_down -= event->bytes;
        if (frame->left_down == 0) {
            shoali_fabric_notify(sim, frame->to, &frame->body);
            shoali_fabric_frame_unref(sim, frame);
        }
    }
    segment_over(sim, event);
}

/* ------------------------------------------------------------- connections */

static void drop_frame(shoali_fabric *sim, fabric_frame *frame, shoal_status why)
{
    frame->dropped = true;
    shoali_fabric_notify(sim, frame->to, &frame->unplace);
    if (!frame->was_sent) {
        frame->sent.status = why;
        if (!frame->is_control)
            shoali_fabric_notify(sim, frame->from, &frame->sent);
        shoali_fabric_frame_unref(sim, frame); /* the queue's */
    }
    shoali_fabric_frame_unref(sim, frame);
}

void shoali_fabric_drop_frames(shoali_fabric *sim, uint32_t from, uint32_t to, bool unsent_only,
                               shoal_status why)
{
    fabric_pair *pair = shoali_fabric_pair_of(sim, from, to);
    pair->data = pair->control = NULL;
    pair->data_end = &pair->data;
    pair->control_end = &pair->control;
    for (fabric_frame *frame = pair->all, *next; frame != NULL; frame = next) {
        next = frame->all_next;
        if (!frame->dropped && frame->left_down > 0 && !(unsent_only && frame->was_sent))
            drop_frame(sim, frame, why);
    }
}

static void tell_down(shoali_fabric *sim, uint32_t whom, uint32_t about, shoal_status why)
{
    fabric_pair *pair = shoali_fabric_pair_of(sim, whom, about);
    if (!pair->wanted || pair->down_told)
        return;
    pair->down_told = true;
    pair->up = false;
    pair->down_notice.status = why;
    shoali_fabric_notify(sim, whom, &pair->down_notice);
}

void shoali_fabric_sever(shoali_fabric *sim, uint32_t a, uint32_t b, shoal_status why)
{
    shoali_fabric_drop_frames(sim, a, b, false, why);
    shoali_fabric_drop_frames(sim, b, a, false, why);
    tell_down(sim, a, b, why);
    tell_down(sim, b, a, why);
}

static void on_connected(shoali_fabric *sim, const fabric_event *event)
{
    fabric_pair *there = shoali_fabric_pair_of(sim, event->a, event->b),
                *back = shoali_fabric_pair_of(sim, event->b, event->a);
    if (there->down_told || back->down_told || sim->ports[event->a].dead ||
        sim->ports[event->b].dead)
        return;
    there->up = back->up = true;
    shoali_fabric_notify(sim, event->a, &there->up_notice);
    shoali_fabric_notify(sim, event->b, &back->up_notice);
}

/* Slots for these events were reserved at create. */
static void lose_later(shoali_fabric *sim, uint32_t endpoint, shoal_status why)
{
    for (uint32_t peer = 0; peer < sim->desc.endpoints; peer++) {
        if (peer == endpoint)
            continue;
        uint64_t wait_ns = sim->desc.latency_ns;
        if (why == SHOAL_ETIMEDOUT)
            wait_ns = sim->ports[peer].deadline_us * 1000;
        shoali_fabric_schedule(sim, (fabric_event){.kind = FABRIC_LOST,
                                                   .time_ns = sim->now_ns + wait_ns,
                                                   .a = endpoint,
                                                   .b = peer,
                                                   .status = why});
    }
}

void shoali_fabric_kill(shoali_fabric *sim, uint32_t endpoint)
{
    fabric_port *port = &sim->ports[endpoint];
    if (port->dead)
        return;
    port->dead = true;
    lose_later(sim, endpoint, SHOAL_EPEER);
}

void shoali_fabric_cut(shoali_fabric *sim, uint32_t endpoint)
{
    fabric_port *port = &sim->ports[endpoint];
    if (port->cut)
        return;
    port->cut = true;
    lose_later(sim, endpoint, SHOAL_ETIMEDOUT);
}

/* ------------------------------------------------------------- the fabric */

static void make_notices(shoali_fabric *sim)
{
    const uint32_t n = sim->desc.endpoints;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) {
            fabric_pair *pair = shoali_fabric_pair_of(sim, a, b);
            pair->data_end = &pair->data;
            pair->control_end = &pair->control;
            pair->up_notice = (fabric_notice){.kind = FABRIC_UP, .peer = b};
            pair->down_notice = (fabric_notice){.kind = FABRIC_DOWN, .peer = b};
        }
}

shoali_fabric *shoali_fabric_create(const shoali_fabric_desc *desc)
{
    const size_t n = desc->endpoints;
    if (n == 0 || n > ENDPOINTS_MAX || desc->rate_bps == 0) {
        (void)shoali_fail(SHOAL_EINVAL, "a fabric has 1 .. %d endpoints and a rate", ENDPOINTS_MAX);
        return NULL;
    }
    shoali_fabric *sim = shoali_alloc(sizeof *sim);
    if (sim == NULL)
        return NULL;
    sim->desc = *desc;
    sim->desc.window_bytes = desc->window_bytes > 0 ? desc->window_bytes : WINDOW_BYTES;
    sim->ready_head = sim->ready_tail = NONE;
    sim->ports = shoali_alloc_array(n, sizeof *sim->ports);
    sim->pairs = shoali_alloc_array(n * n, sizeof *sim->pairs);
    /* per ordered pair: connected, late, lost by a kill, lost by a cut */
    if (sim->ports == NULL || sim->pairs == NULL ||
        shoali_fabric_reserve(sim, 4 * n * n) != SHOAL_OK) {
        shoali_fabric_destroy(sim);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        sim->ports[i] = (fabric_port){.up_bps = desc->rate_bps,
                                      .down_bps = desc->rate_bps,
                                      .inbox_end = &sim->ports[i].inbox};
    make_notices(sim);
    return sim;
}

void shoali_fabric_destroy(shoali_fabric *sim)
{
    if (sim == NULL)
        return;
    for (size_t i = 0; i < sim->heap_count; i++)
        if (sim->heap[i].frame != NULL)
            shoali_fabric_frame_unref(sim, sim->heap[i].frame);
    const size_t pairs = sim->pairs == NULL ? 0 : (size_t)sim->desc.endpoints * sim->desc.endpoints;
    for (size_t i = 0; i < pairs; i++)
        while (sim->pairs[i].all != NULL) /* goodbyes and the like, still on their way */
            shoali_fabric_frame_unref(sim, sim->pairs[i].all);
    shoali_free(sim->heap);
    shoali_free(sim->pairs);
    shoali_free(sim->ports);
    shoali_free(sim);
}

void shoali_fabric_set_rate(shoali_fabric *sim, uint32_t endpoint, uint64_t up_bps,
                            uint64_t down_bps)
{
    sim->ports[endpoint].up_bps = up_bps;
    sim->ports[endpoint].down_bps = down_bps;
}

uint64_t shoali_fabric_now_ns(const shoali_fabric *sim)
{
    return sim->now_ns;
}

uint64_t shoali_fabric_now_us(void *sim)
{
    return ((const shoali_fabric *)sim)->now_ns / 1000;
}

uint64_t shoali_fabric_events(const shoali_fabric *sim)
{
    return sim->events;
}

bool shoali_fabric_advance(shoali_fabric *sim)
{
    if (sim->heap_count == 0)
        return false;
    const fabric_event event = next_event(sim);
    sim->now_ns = event.time_ns;
    sim->events++;
    switch (event.kind) {
    case FABRIC_SERIALISED:
        on_serialised(sim, &event);
        break;
    case FABRIC_ARRIVED:
        on_arrived(sim, &event);
        break;
    case FABRIC_DELIVERED:
        on_delivered(sim, &event);
        break;
    case FABRIC_CONNECTED:
        on_connected(sim, &event);
        break;
    case FABRIC_LOST:
        shoali_fabric_sever(sim, event.a, event.b, event.status);
        break;
    case FABRIC_LATE:
        if (!shoali_fabric_pair_of(sim, event.a, event.b)->up)
            shoali_fabric_sever(sim, event.a, event.b, SHOAL_ETIMEDOUT);
        break;
    default:
        sim->heap_reserved--;
        event.fn(event.ctx);
        break;
    }
    return true;
}

shoal_status shoali_fabric_at(shoali_fabric *sim, uint64_t time_ns, void (*fn)(void *ctx),
                              void *ctx)
{
    SHOALI_TRY(shoali_fabric_reserve(sim, 1));
    shoali_fabric_schedule(sim,
                           (fabric_event){.kind = FABRIC_CALL,
                                          .time_ns = time_ns > sim->now_ns ? time_ns : sim->now_ns,
                                          .fn = fn,
                                          .ctx = ctx});
    return SHOAL_OK;
}
