/* SPDX-License-Identifier: Apache-2.0 */
/* Links and virtual time. A segment of a frame, from i to j:
 *
 *     i's uplink free: chosen, turn by turn among i's peers --SERIALISED--> next segment
 *              \--latency--> ARRIVED at j's downlink --its turn, first come first served--> DELIVERED
 *
 * Cut-through: the downlink starts with the first bit, so that an idle path adds only the latency. */
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"
#include "transport/sim_inner.h"

enum { SEGMENT_BYTES = 16 * 1024, WINDOW_BYTES = 1 << 20, ENDPOINTS_MAX = 1024 };
#define NONE UINT32_MAX

/* ------------------------------------------------------------- time */

static bool before(const sim_event *a, const sim_event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->sequence < b->sequence;
}

shoal_status sim_reserve(shoali_sim *sim, size_t events)
{
    size_t wanted = sim->heap_reserved + events, capacity = sim->heap_capacity;
    if (wanted > capacity) {
        capacity = wanted > 2 * capacity ? wanted : 2 * capacity;
        sim_event *heap = shoali_realloc(sim->heap, sim->heap_capacity * sizeof *heap,
                                         capacity * sizeof *heap);
        if (heap == NULL)
            return SHOAL_ENOMEM;
        sim->heap = heap;
        sim->heap_capacity = capacity;
    }
    sim->heap_reserved = wanted;
    return SHOAL_OK;
}

void sim_schedule(shoali_sim *sim, sim_event event)
{
    event.sequence = sim->sequence++;
    size_t at = sim->heap_count++;
    for (; at > 0 && before(&event, &sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        sim->heap[at] = sim->heap[(at - 1) / 2];
    sim->heap[at] = event;
}

static sim_event next_event(shoali_sim *sim)
{
    const sim_event top = sim->heap[0], last = sim->heap[--sim->heap_count];
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

sim_pair *sim_pair_of(shoali_sim *sim, uint32_t from, uint32_t to)
{
    return &sim->pairs[(size_t)from * sim->desc.endpoints + to];
}

void sim_notify(shoali_sim *sim, uint32_t endpoint, sim_notice *notice)
{
    sim_port *port = &sim->ports[endpoint];
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

bool shoali_sim_next_ready(shoali_sim *sim, uint32_t *endpoint_out)
{
    while (sim->ready_head != NONE) {
        const uint32_t endpoint = sim->ready_head;
        sim_port *port = &sim->ports[endpoint];
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

void sim_frame_unref(shoali_sim *sim, sim_frame *frame)
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

uint64_t sim_segments(uint64_t bytes)
{
    return (bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES;
}

static sim_frame *front(const sim_pair *pair)
{
    return pair->control != NULL ? pair->control : pair->data;
}

static bool may_serve(shoali_sim *sim, uint32_t from, uint32_t to)
{
    sim_pair *pair = sim_pair_of(sim, from, to);
    return front(pair) != NULL && pair->outstanding_bytes < sim->desc.window_bytes &&
           !sim->ports[from].cut && !sim->ports[to].cut;
}

/* Start the next segment of an idle uplink. */
static void serve(shoali_sim *sim, uint32_t from)
{
    sim_port *port = &sim->ports[from];
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
    sim_pair *pair = sim_pair_of(sim, from, port->turn);
    sim_frame *frame = front(pair);
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
    sim_schedule(sim, (sim_event){.kind = SIM_SERIALISED,
                                  .time_ns = sim->now_ns + busy_ns,
                                  .frame = frame,
                                  .bytes = bytes});
    sim_schedule(sim, (sim_event){.kind = SIM_ARRIVED,
                                  .time_ns = arrival_ns,
                                  .frame = frame,
                                  .bytes = bytes,
                                  .tail_ns = arrival_ns + busy_ns});
}

static void unqueue(sim_frame **head, sim_frame ***end)
{
    sim_frame *frame = *head;
    *head = frame->next;
    if (*head == NULL)
        *end = head;
}

void sim_enqueue(shoali_sim *sim, sim_frame *frame)
{
    sim_pair *pair = sim_pair_of(sim, frame->from, frame->to);
    sim_frame ***end = frame->is_control ? &pair->control_end : &pair->data_end;
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
static void all_serialised(shoali_sim *sim, sim_frame *frame)
{
    sim_pair *pair = sim_pair_of(sim, frame->from, frame->to);
    if (frame->is_control)
        unqueue(&pair->control, &pair->control_end);
    else
        unqueue(&pair->data, &pair->data_end);
    frame->was_sent = true;
    if (!frame->is_control) {
        if (frame->head.len_bytes > 0)
            memcpy(frame->copy, frame->source, frame->head.len_bytes);
        frame->sent.status = SHOAL_OK;
        sim_notify(sim, frame->from, &frame->sent);
    }
    sim_frame_unref(sim, frame);
}

static void on_serialised(shoali_sim *sim, const sim_event *event)
{
    sim_frame *frame = event->frame;
    const uint32_t from = frame->from;
    sim->ports[from].serving = false;
    if (!frame->dropped) {
        frame->left_up -= event->bytes;
        if (frame->left_up == 0)
            all_serialised(sim, frame);
    }
    sim_frame_unref(sim, frame);
    serve(sim, from);
}

/* ------------------------------------------------------------- downlinks */

/* A segment has come to its end, wherever that is: its window opens again. */
static void segment_over(shoali_sim *sim, const sim_event *event)
{
    const uint32_t from = event->frame->from;
    sim_pair_of(sim, from, event->frame->to)->outstanding_bytes -= event->bytes;
    sim_frame_unref(sim, event->frame);
    serve(sim, from);
}

static void on_arrived(shoali_sim *sim, const sim_event *event)
{
    sim_port *port = &sim->ports[event->frame->to];
    const uint64_t start_ns = sim->now_ns > port->down_free_ns ? sim->now_ns : port->down_free_ns;
    const uint64_t end_ns = start_ns + transfer_ns(event->bytes, port->down_bps);
    if (event->frame->dropped) {
        segment_over(sim, event);
        return;
    }
    port->down_free_ns = end_ns;
    sim_event delivered = *event;
    delivered.kind = SIM_DELIVERED;
    delivered.time_ns = end_ns > event->tail_ns ? end_ns : event->tail_ns;
    sim_schedule(sim, delivered);
}

static void on_delivered(shoali_sim *sim, const sim_event *event)
{
    sim_frame *frame = event->frame;
    if (!frame->dropped && !sim->ports[frame->from].cut && !sim->ports[frame->to].cut) {
        if (frame->left_down == frame->whole && !frame->is_control)
            sim_notify(sim, frame->to, &frame->place);
        frame->left_down -= event->bytes;
        if (frame->left_down == 0) {
            sim_notify(sim, frame->to, &frame->body);
            sim_frame_unref(sim, frame);
        }
    }
    segment_over(sim, event);
}

/* ------------------------------------------------------------- connections */

static void drop_frame(shoali_sim *sim, sim_frame *frame, shoal_status why)
{
    frame->dropped = true;
    sim_notify(sim, frame->to, &frame->unplace);
    if (!frame->was_sent) {
        frame->sent.status = why;
        if (!frame->is_control)
            sim_notify(sim, frame->from, &frame->sent);
        sim_frame_unref(sim, frame); /* the queue's */
    }
    sim_frame_unref(sim, frame);
}

void sim_drop_frames(shoali_sim *sim, uint32_t from, uint32_t to, bool unsent_only,
                     shoal_status why)
{
    sim_pair *pair = sim_pair_of(sim, from, to);
    pair->data = pair->control = NULL;
    pair->data_end = &pair->data;
    pair->control_end = &pair->control;
    for (sim_frame *frame = pair->all, *next; frame != NULL; frame = next) {
        next = frame->all_next;
        if (!frame->dropped && frame->left_down > 0 && !(unsent_only && frame->was_sent))
            drop_frame(sim, frame, why);
    }
}

static void tell_down(shoali_sim *sim, uint32_t whom, uint32_t about, shoal_status why)
{
    sim_pair *pair = sim_pair_of(sim, whom, about);
    if (!pair->wanted || pair->down_told)
        return;
    pair->down_told = true;
    pair->up = false;
    pair->down_notice.status = why;
    sim_notify(sim, whom, &pair->down_notice);
}

void sim_sever(shoali_sim *sim, uint32_t a, uint32_t b, shoal_status why)
{
    sim_drop_frames(sim, a, b, false, why);
    sim_drop_frames(sim, b, a, false, why);
    tell_down(sim, a, b, why);
    tell_down(sim, b, a, why);
}

static void on_connected(shoali_sim *sim, const sim_event *event)
{
    sim_pair *there = sim_pair_of(sim, event->a, event->b),
             *back = sim_pair_of(sim, event->b, event->a);
    if (there->down_told || back->down_told || sim->ports[event->a].dead ||
        sim->ports[event->b].dead)
        return;
    there->up = back->up = true;
    sim_notify(sim, event->a, &there->up_notice);
    sim_notify(sim, event->b, &back->up_notice);
}

/* Slots for these events were reserved at create. */
static void lose_later(shoali_sim *sim, uint32_t endpoint, shoal_status why)
{
    for (uint32_t peer = 0; peer < sim->desc.endpoints; peer++) {
        if (peer == endpoint)
            continue;
        uint64_t wait_ns = sim->desc.latency_ns;
        if (why == SHOAL_ETIMEDOUT)
            wait_ns = sim->ports[peer].deadline_us * 1000;
        sim_schedule(sim, (sim_event){.kind = SIM_LOST,
                                      .time_ns = sim->now_ns + wait_ns,
                                      .a = endpoint,
                                      .b = peer,
                                      .status = why});
    }
}

void shoali_sim_kill(shoali_sim *sim, uint32_t endpoint)
{
    sim_port *port = &sim->ports[endpoint];
    if (port->dead)
        return;
    port->dead = true;
    lose_later(sim, endpoint, SHOAL_EPEER);
}

void shoali_sim_cut(shoali_sim *sim, uint32_t endpoint)
{
    sim_port *port = &sim->ports[endpoint];
    if (port->cut)
        return;
    port->cut = true;
    lose_later(sim, endpoint, SHOAL_ETIMEDOUT);
}

/* ------------------------------------------------------------- the fabric */

static void make_notices(shoali_sim *sim)
{
    const uint32_t n = sim->desc.endpoints;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) {
            sim_pair *pair = sim_pair_of(sim, a, b);
            pair->data_end = &pair->data;
            pair->control_end = &pair->control;
            pair->up_notice = (sim_notice){.kind = SIM_UP, .peer = b};
            pair->down_notice = (sim_notice){.kind = SIM_DOWN, .peer = b};
        }
}

shoali_sim *shoali_sim_create(const shoali_sim_desc *desc)
{
    const size_t n = desc->endpoints;
    if (n == 0 || n > ENDPOINTS_MAX || desc->rate_bps == 0) {
        (void)shoali_fail(SHOAL_EINVAL, "a fabric has 1 .. %d endpoints and a rate", ENDPOINTS_MAX);
        return NULL;
    }
    shoali_sim *sim = shoali_alloc(sizeof *sim);
    if (sim == NULL)
        return NULL;
    sim->desc = *desc;
    sim->desc.window_bytes = desc->window_bytes > 0 ? desc->window_bytes : WINDOW_BYTES;
    sim->ready_head = sim->ready_tail = NONE;
    sim->ports = shoali_alloc_array(n, sizeof *sim->ports);
    sim->pairs = shoali_alloc_array(n * n, sizeof *sim->pairs);
    /* per ordered pair: connected, late, lost by a kill, lost by a cut */
    if (sim->ports == NULL || sim->pairs == NULL || sim_reserve(sim, 4 * n * n) != SHOAL_OK) {
        shoali_sim_destroy(sim);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        sim->ports[i] = (sim_port){.up_bps = desc->rate_bps,
                                   .down_bps = desc->rate_bps,
                                   .inbox_end = &sim->ports[i].inbox};
    make_notices(sim);
    return sim;
}

void shoali_sim_destroy(shoali_sim *sim)
{
    if (sim == NULL)
        return;
    for (size_t i = 0; i < sim->heap_count; i++)
        if (sim->heap[i].frame != NULL)
            sim_frame_unref(sim, sim->heap[i].frame);
    const size_t pairs = sim->pairs == NULL ? 0 : (size_t)sim->desc.endpoints * sim->desc.endpoints;
    for (size_t i = 0; i < pairs; i++)
        while (sim->pairs[i].all != NULL) /* goodbyes and the like, still on their way */
            sim_frame_unref(sim, sim->pairs[i].all);
    shoali_free(sim->heap);
    shoali_free(sim->pairs);
    shoali_free(sim->ports);
    shoali_free(sim);
}

void shoali_sim_set_rate(shoali_sim *sim, uint32_t endpoint, uint64_t up_bps, uint64_t down_bps)
{
    sim->ports[endpoint].up_bps = up_bps;
    sim->ports[endpoint].down_bps = down_bps;
}

uint64_t shoali_sim_now_ns(const shoali_sim *sim)
{
    return sim->now_ns;
}

uint64_t shoali_sim_now_us(void *sim)
{
    return ((const shoali_sim *)sim)->now_ns / 1000;
}

uint64_t shoali_sim_events(const shoali_sim *sim)
{
    return sim->events;
}

bool shoali_sim_advance(shoali_sim *sim)
{
    if (sim->heap_count == 0)
        return false;
    const sim_event event = next_event(sim);
    sim->now_ns = event.time_ns;
    sim->events++;
    switch (event.kind) {
    case SIM_SERIALISED:
        on_serialised(sim, &event);
        break;
    case SIM_ARRIVED:
        on_arrived(sim, &event);
        break;
    case SIM_DELIVERED:
        on_delivered(sim, &event);
        break;
    case SIM_CONNECTED:
        on_connected(sim, &event);
        break;
    case SIM_LOST:
        sim_sever(sim, event.a, event.b, event.status);
        break;
    case SIM_LATE:
        if (!sim_pair_of(sim, event.a, event.b)->up)
            sim_sever(sim, event.a, event.b, SHOAL_ETIMEDOUT);
        break;
    default:
        sim->heap_reserved--;
        event.fn(event.ctx);
        break;
    }
    return true;
}

shoal_status shoali_sim_at(shoali_sim *sim, uint64_t time_ns, void (*fn)(void *ctx), void *ctx)
{
    SHOALI_TRY(sim_reserve(sim, 1));
    sim_schedule(sim, (sim_event){.kind = SIM_CALL,
                                  .time_ns = time_ns > sim->now_ns ? time_ns : sim->now_ns,
                                  .fn = fn,
                                  .ctx = ctx});
    return SHOAL_OK;
}
