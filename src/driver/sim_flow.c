/* SPDX-License-Identifier: Apache-2.0 */
/* Sinks only queue: frames, messages, packets and jobs wait in one list and are handed over one
 * after the other, so no flow is entered from inside another. Packets all arrive, in order. */
#include "driver/sim_flow.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"
#include "kernel/kernel.h"

typedef struct runner runner;

typedef struct member {
    runner *all;
    uint32_t index;
    void *state;
    bool started, done;
    shoal_status status;
} member;

enum { MTU_BYTES = 1472 }; /* of a packet, on Ethernet */

typedef enum parcel_kind { FRAME, JOB, CONTROL, PACKET } parcel_kind;

typedef struct parcel {
    parcel_kind kind;
    uint32_t from, to;
    shoal_data head;
    const void *body; /* the flow's; of CONTROL and PACKET: ours, count bytes */
    uint64_t cookie;
    size_t offset, count;
    uint16_t message;
} parcel;

struct runner {
    const shoali_sim_flow *flow;
    const shoali_flow_row *row;
    member *members;
    parcel *parcels;
    size_t head, tail, capacity;
    uint64_t now_us; /* of the last timer */
    float *shared;   /* of codecs that measure */
    shoal_status status;
    char why[256];
};

/* ---------------------------------------------------------------- sinks */

static bool queue(runner *r, const parcel *p)
{
    if (r->tail == r->capacity) {
        size_t capacity = r->capacity > 0 ? 2 * r->capacity : 64;
        parcel *grown = shoali_realloc(r->parcels, r->capacity * sizeof *grown,
                                       capacity * sizeof *grown);
        if (grown == NULL) {
            r->status = SHOAL_ENOMEM;
            return false;
        }
        r->parcels = grown;
        r->capacity = capacity;
    }
    r->parcels[r->tail++] = *p;
    return true;
}

static void sink_send(void *ctx, uint32_t peer, const shoal_data *head, const void *body,
                      uint64_t cookie)
{
    const member *m = ctx;
    (void)queue(
        m->all,
        &(parcel){.from = m->index, .to = peer, .head = *head, .body = body, .cookie = cookie});
}

/* Bytes that the sender takes back at once. */
static void queue_copy(const member *from, uint32_t to, parcel_kind kind, uint16_t message,
                       const void *bytes, size_t len_bytes)
{
    uint8_t *copy = shoali_alloc(len_bytes + 1);
    if (copy == NULL) {
        from->all->status = SHOAL_ENOMEM;
        return;
    }
    if (len_bytes > 0)
        memcpy(copy, bytes, len_bytes);
    if (!queue(from->all, &(parcel){.kind = kind,
                                    .from = from->index,
                                    .to = to,
                                    .body = copy,
                                    .count = len_bytes,
                                    .message = message}))
        shoali_free(copy);
}

static void sink_control(void *ctx, uint32_t peer, uint16_t kind, const void *bytes,
                         size_t len_bytes)
{
    queue_copy(ctx, peer, CONTROL, kind, bytes, len_bytes);
}

static void sink_datagram(void *ctx, uint32_t peer, const void *bytes, size_t len_bytes)
{
    queue_copy(ctx, peer, PACKET, 0, bytes, len_bytes);
}

static void sink_job(void *ctx, const shoal_op_id *id, size_t offset, size_t count, uint64_t cookie)
{
    const member *m = ctx;
    (void)id;
    (void)queue(
        m->all,
        &(parcel){
            .kind = JOB, .from = m->index, .cookie = cookie, .offset = offset, .count = count});
}

static void sink_done(void *ctx, const shoal_op_id *id, shoal_status status, const char *why)
{
    member *m = ctx;
    (void)id;
    m->done = true;
    m->status = status;
    if (status != SHOAL_OK && status != SHOAL_ENOTFINITE && m->all->status == SHOAL_OK)
        m->all->status = shoali_fail(status, "%s", why);
}

/* ---------------------------------------------------------------- running */

/* One member's values; as in ops/rounds.c, what is no number counts as nothing. */
static shoal_status measure_member(const runner *r, uint32_t index, float *values)
{
    const shoali_flow_args *a = &r->flow->args;
    size_t each = shoal_codec_measure_count(a->push);
    for (uint32_t t = 0; t < a->tensor_count; t++) {
        const float *src = r->flow->bufs[index] + a->tensors[t].offset;
        shoal_status status = shoal_codec_measure(a->push, &a->tensors[t], src, values + t * each);
        if (status != SHOAL_OK && status != SHOAL_ENOTFINITE)
            return status;
        for (size_t i = 0; i < each; i++)
            if (status != SHOAL_OK || !isfinite(values[t * each + i]))
                values[t * each + i] = -FLT_MAX;
    }
    if ((shoal_codec_traits(a->push) & SHOAL_CODEC_MEASURE_ALL) != 0)
        shoali_codec_measured_all(a->push, a->tensor_count, values);
    if ((shoal_codec_traits(a->push) & SHOAL_CODEC_MEASURE_RMS) != 0)
        shoali_codec_measured_squares(values, a->tensor_count * each);
    return SHOAL_OK;
}

/* Trait MEASURE: a row of values per member; shared ones are the largest over members, or the root
 * of their squares' mean. */
static shoal_status measure(runner *r)
{
    const shoali_flow_args *a = &r->flow->args;
    const size_t row = shoal_codec_measure_count(a->push) * a->tensor_count;
    if (row == 0)
        return SHOAL_OK;
    r->shared = shoali_alloc_array(row * a->size, sizeof(float));
    if (r->shared == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t m = 0; m < a->contributors; m++)
        SHOALI_TRY(measure_member(r, m, r->shared + m * row));
    if ((shoal_codec_traits(a->push) & SHOAL_CODEC_MEASURE_OWN) != 0)
        return SHOAL_OK;
    const bool rms = (shoal_codec_traits(a->push) & SHOAL_CODEC_MEASURE_RMS) != 0;
    for (uint32_t m = 1; m < a->contributors && !rms; m++)
        shoali_kernel()->max(r->shared, r->shared + m * row, row);
    for (uint32_t m = 1; m < a->contributors && rms; m++)
        shoali_kernel()->add(r->shared, r->shared + m * row, row);
    if (rms)
        shoali_codec_measured_roots(r->shared, row, a->contributors);
    for (uint32_t m = 1; m < a->size; m++)
        memcpy(r->shared + m * row, r->shared, row * sizeof(float));
    return SHOAL_OK;
}

static shoal_status start(runner *r)
{
    const shoali_sim_flow *flow = r->flow;
    const size_t measured = shoal_codec_measure_count(flow->args.push) * flow->args.tensor_count;
    SHOALI_TRY(measure(r));
    for (uint32_t i = 0; i < flow->args.size; i++) {
        member *m = &r->members[i];
        const shoal_sink sink = {.ctx = m,
                                 .send = sink_send,
                                 .control = sink_control,
                                 .job = sink_job,
                                 .done = sink_done,
                                 .datagram = sink_datagram};
        shoali_flow_args args = flow->args;
        args.me = i;
        args.buf = flow->bufs[i];
        args.residuals = flow->residuals != NULL ? flow->residuals[i] : NULL;
        args.shared = r->shared != NULL ? r->shared + i * measured : NULL;
        args.weights = args.owner_job && flow->weights != NULL ? flow->weights(flow->ctx, i) : NULL;
        args.now_ns = NULL;
        args.datagram_bytes = MTU_BYTES;
        args.datagram_key = shoali_mix(shoali_mix(args.seed, args.id.sequence), i);
        *m = (member){.all = r, .index = i, .state = shoali_alloc(r->row->state_size(&args))};
        if (m->state == NULL)
            return SHOAL_ENOMEM;
        SHOALI_TRY(r->row->start(m->state, &args, &sink, 0));
        m->started = true;
    }
    for (uint32_t i = 0; i < flow->args.size; i++)
        for (uint32_t j = 0; j < flow->args.size; j++)
            if (i != j && r->row->receives_from(r->members[i].state, j))
                r->row->on_granted(r->members[j].state, i, 0);
    return SHOAL_OK;
}

static void deliver(runner *r, const parcel *p)
{
    member *to = &r->members[p->to];
    uint8_t *place = r->row->place(to->state, p->from, &p->head);
    if (place != NULL) {
        if (p->head.len_bytes > 0)
            memcpy(place, p->body, p->head.len_bytes);
        r->row->on_frames(to->state, p->from, &p->head, &place, 1);
    }
    if (r->flow->carried != NULL)
        r->flow->carried(r->flow->ctx, p->from, p->to, p->head.len_bytes);
    r->row->on_sent(r->members[p->from].state, p->to, p->cookie);
}

static void deliver_copy(runner *r, const parcel *p)
{
    member *to = &r->members[p->to];
    if (to->done) {
        shoali_free((void *)(uintptr_t)p->body);
        return;
    }
    if (p->kind == CONTROL)
        r->row->on_control(to->state, p->from, p->message, p->body, p->count);
    else
        (void)r->row->on_datagram(to->state, p->from, p->body, p->count, r->now_us);
    if (p->kind == PACKET && r->flow->carried != NULL)
        r->flow->carried(r->flow->ctx, p->from, p->to, p->count);
    shoali_free((void *)(uintptr_t)p->body);
}

static void run_job(runner *r, const parcel *p)
{
    float *sum = r->flow->bufs[p->from] + p->offset;
    shoal_status status = r->flow->owner(r->flow->ctx, p->from, sum, p->offset, p->count);
    r->row->on_job(r->members[p->from].state, p->cookie, status);
}

/* Give every member that asks for it a turn; false: nobody does. */
static bool turn(runner *r)
{
    bool any = false;
    for (uint32_t i = 0; i < r->flow->args.size; i++) {
        member *m = &r->members[i];
        if (!m->done && r->row->next_wake_us(m->state) != UINT64_MAX) {
            const uint64_t due_us = r->row->next_wake_us(m->state);
            r->now_us = due_us > r->now_us ? due_us : r->now_us;
            r->row->on_timer(m->state, r->now_us);
            any = true;
        }
    }
    return any;
}

static shoal_status run(runner *r)
{
    for (;;) {
        while (r->head < r->tail) {
            parcel p = r->parcels[r->head++];
            if (r->head == r->tail)
                r->head = r->tail = 0;
            if (p.kind == JOB)
                run_job(r, &p);
            else if (p.kind == FRAME)
                deliver(r, &p);
            else
                deliver_copy(r, &p);
        }
        if (r->status != SHOAL_OK || (!turn(r) && r->tail == 0))
            break;
    }
    for (uint32_t i = 0; i < r->flow->args.size && r->status == SHOAL_OK; i++)
        if (!r->members[i].done) {
            uint32_t peer;
            r->row->describe(r->members[i].state, r->why, sizeof r->why, &peer);
            return shoali_fail(SHOAL_EINTERNAL,
                               "a simulated operation came to a stop: member %u %s", i, r->why);
        }
    return r->status;
}

static void finish(runner *r)
{
    for (uint32_t i = 0; r->members != NULL && i < r->flow->args.size; i++) {
        if (r->members[i].started)
            r->row->fini(r->members[i].state);
        shoali_free(r->members[i].state);
    }
    for (size_t i = r->head; i < r->tail; i++)
        if (r->parcels[i].kind == CONTROL || r->parcels[i].kind == PACKET)
            shoali_free((void *)(uintptr_t)r->parcels[i].body);
    shoali_free(r->members);
    shoali_free(r->parcels);
    shoali_free(r->shared);
}

static uint64_t dense_elems(const runner *r)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->flow->args.size; i++) {
        shoali_flow_stats stats;
        r->row->stats(r->members[i].state, &stats);
        sum += stats.dense_elems;
    }
    return sum;
}

shoal_status shoali_sim_flow_once(const shoali_sim_flow *flow, shoal_status *result_out,
                                  shoali_not_finite *origin_out)
{
    const shoali_flow_row *row = flow->args.collective->row->flow;
    runner r = {.flow = flow, .row = row != NULL ? row : &shoali_engine};
    r.members = shoali_alloc_array(flow->args.size, sizeof *r.members);
    shoal_status status = r.members != NULL ? start(&r) : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        status = run(&r);
    if (status == SHOAL_OK) {
        *result_out = r.members[0].status;
        *origin_out = (shoali_not_finite){0};
        if (*result_out == SHOAL_ENOTFINITE)
            (void)r.row->not_finite(r.members[0].state, origin_out);
        if (flow->dense_elems_out != NULL)
            *flow->dense_elems_out = dense_elems(&r);
    }
    finish(&r);
    return status;
}
