/* SPDX-License-Identifier: Apache-2.0 */
/* Between an operation and its flow: its slot, what it asks for, and its end. */
#include <string.h>

#include "base/error.h"
#include "ops/inner.h"
#include "wire/messages.h"

enum { FIRST_SLOTS = 64 };

/* ------------------------------------------------------------------ slots */

shoal_op *shoali_run_slot(const shoali_ops *ops, uint32_t slot)
{
    shoal_op *op = ops->slots != NULL ? ops->slots[slot & ops->slot_mask] : NULL;
    return op != NULL && op->slot == slot && !op->ended ? op : NULL;
}

static bool grow_slots(shoali_ops *ops)
{
    uint32_t old = ops->slots != NULL ? ops->slot_mask + 1 : 0,
             fresh = old == 0 ? FIRST_SLOTS : 2 * old;
    shoal_op **more = shoali_alloc_array(fresh, sizeof *more);
    if (more == NULL)
        return false;
    for (uint32_t i = 0; i < old; i++)
        if (ops->slots[i] != NULL)
            more[ops->slots[i]->slot & (fresh - 1)] = ops->slots[i];
    shoali_free(ops->slots);
    ops->slots = more;
    ops->slot_mask = fresh - 1;
    return true;
}

/* Slots only ever count up within an epoch: data for an operation that is over finds nobody. */
static shoal_status take_slot(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    op->slot = ops->next_slot;
    while (ops->slots == NULL || ops->slots[op->slot & ops->slot_mask] != NULL)
        if (!grow_slots(ops))
            return SHOAL_ENOMEM;
    if (++ops->next_slot == UINT32_MAX)
        return shoali_fail(SHOAL_EINTERNAL,
                           "this communicator has run 2^32 operations: make a new one");
    ops->slots[op->slot & ops->slot_mask] = op;
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ what a flow asks for */

static void sink_send(void *ctx, uint32_t peer, const shoal_data *head, const void *body,
                      uint64_t cookie)
{
    shoal_op *op = ctx;
    op->ops->host.post(op->ops->host.ctx, op, peer, head, body, cookie);
}

static void sink_control(void *ctx, uint32_t peer, uint16_t kind, const void *bytes,
                         size_t len_bytes)
{
    shoal_op *op = ctx;
    shoali_flow_head head = {.id = op->id, .kind = kind};
    uint8_t body[2048];
    if (len_bytes > sizeof body - SHOALI_FLOW_HEAD_BYTES) {
        (void)shoali_fail(SHOAL_EINTERNAL, "%s: a control message of %zu bytes", op->name,
                          len_bytes);
        shoali_run_fail(op, true);
        return;
    }
    shoali_flow_head_encode(&head, body);
    memcpy(body + SHOALI_FLOW_HEAD_BYTES, bytes, len_bytes);
    op->ops->host.control(op->ops->host.ctx, op->plan->members[peer], SHOALI_MESSAGE_flow, body,
                          SHOALI_FLOW_HEAD_BYTES + len_bytes);
}

static void sink_datagram(void *ctx, uint32_t peer, const void *bytes, size_t len_bytes)
{
    shoal_op *op = ctx;
    op->ops->host.datagram(op->ops->host.ctx, op, peer, bytes, len_bytes);
}

typedef struct owner_job {
    shoali_job job;
    shoal_op *op;
    size_t offset, count;
    uint64_t cookie;
} owner_job;

static shoal_status owner_work(void *arg)
{
    owner_job *o = arg;
    return o->op->extras.owner(o->op->extras.owner_ctx, o->op->buf + o->offset, o->offset,
                               o->count);
}

static void owner_done(void *arg, shoal_status status)
{
    owner_job *o = arg;
    shoal_op *op = o->op;
    uint64_t cookie = o->cookie;
    if (status != SHOAL_OK) {
        (void)shoali_error_set(&o->job.error);
        shoali_run_fail(op, true);
    }
    shoali_free(o);
    op->row->on_job(op->flow, cookie, status);
}

static void sink_job(void *ctx, const shoal_op_id *id, size_t offset, size_t count, uint64_t cookie)
{
    shoal_op *op = ctx;
    (void)id;
    owner_job *o = shoali_alloc(sizeof *o);
    if (o == NULL) {
        shoali_run_fail(op, true);
        op->row->on_job(op->flow, cookie, SHOAL_ENOMEM);
        return;
    }
    *o = (owner_job){.job = {.work = owner_work, .done = owner_done, .arg = o},
                     .op = op,
                     .offset = offset,
                     .count = count,
                     .cookie = cookie};
    op->ops->host.job(op->ops->host.ctx, &o->job);
}

static void name_not_finite(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    shoali_not_finite origin;
    if (op->row->not_finite == NULL || !op->row->not_finite(op->flow, &origin))
        return;
    uint32_t rank = origin.endpoint < ops->size ? origin.endpoint : ops->me;
    (void)shoali_fail(
        SHOAL_ENOTFINITE,
        "rank %u (host %.40s) brought NaN or infinity to %s: tensor %llu, element %llu", rank,
        ops->peers[rank].host, op->name, (unsigned long long)origin.key,
        (unsigned long long)origin.index);
    shoali_error_about((int32_t)rank, ops->peers[rank].host, NULL, -1);
}

/* Else whoever noticed it would be blamed by those that it tells. */
static void name_culprit(const shoal_op *op)
{
    const shoali_ops *ops = op->ops;
    const uint32_t rank = op->row->culprit != NULL ? op->row->culprit(op->flow) : SHOALI_NOBODY;
    if (rank < ops->size)
        shoali_error_about((int32_t)rank, ops->peers[rank].host, NULL, -1);
}

static void sink_done(void *ctx, const shoal_op_id *id, shoal_status status, const char *why)
{
    shoal_op *op = ctx;
    (void)id;
    if (status != SHOAL_OK && !op->failing) { /* the flow found out by itself */
        (void)shoali_fail(status, "%s: %s", op->name, why);
        if (status == SHOAL_ENOTFINITE)
            name_not_finite(op);
        else
            name_culprit(op);
        op->failing = true;
        shoali_run_keep_error(op);
        if (status != SHOAL_ENOTFINITE) /* which every member learns from the data */
            shoali_agree_spread(op);
    }
    shoali_run_end(op, status);
}

/* ------------------------------------------------------------------ start and end */

/* Zeroed room for a flow; NULL: no memory. */
static void *room_for(shoali_op_kept *kept, size_t bytes)
{
    if (bytes > kept->flow_bytes) {
        shoali_free(kept->flow);
        kept->flow = shoali_alloc(bytes);
        kept->flow_bytes = kept->flow != NULL ? bytes : 0;
    } else {
        memset(kept->flow, 0, bytes);
    }
    return kept->flow;
}

/* The one of the last run once more, or a new one. */
static shoal_status start_flow(shoal_op *op, const shoali_flow_args *args, const shoal_sink *sink)
{
    shoali_op_kept *kept = &op->kept;
    const bool rests = kept->rests != NULL;
    const bool again = rests && kept->rests == op->row && kept->rates == args->rates;
    if (rests && !again)
        kept->rests->fini(kept->flow);
    kept->rests = NULL;
    op->flow = kept->flow;
    if (again) {
        op->row->again(op->flow, args, sink);
        return SHOAL_OK;
    }
    op->flow = room_for(kept, op->row->state_size(args));
    if (op->flow == NULL)
        return SHOAL_ENOMEM;
    kept->rates = args->rates;
    return op->row->start(op->flow, args, sink, *op->ops->now_us);
}

shoal_status shoali_run_open_flow(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    SHOALI_TRY(shoali_keep_residuals(op));
    shoali_flow_args args = {
        .id = {op->id.group, op->id.sequence, op->id.round, 0},
        .kind = op->plan->kind == SHOAL_BARRIER ? SHOAL_ALL_REDUCE : op->plan->kind,
        .reduce = op->plan->reduce,
        .me = op->plan->me,
        .size = op->plan->member_count,
        .contributors = op->plan->contributors,
        .root = op->plan->root,
        .endpoints = op->plan->members,
        .buf = op->buf,
        .count = op->plan->count,
        .tensors = op->plan->tensors,
        .tensor_count = op->plan->tensor_count,
        .residuals = op->residuals,
        .shared = op->rounds.shared,
        .push = op->plan->push,
        .pull = op->plan->pull,
        .collective = &op->plan->collective,
        .rates = shoali_gauge_rates(ops),
        .owner_job = op->extras.owner != NULL,
        .weights = op->extras.weights,
        .rows = op->rows,
        .row_count = op->row_count,
        .keep_rows = op->keep_rows,
        .check_finite = op->extras.check_finite,
        .chunk_elems = ops->chunk_elems,
        .seed = ops->seed,
        .scratch = ops->scratch,
        .now_ns = ops->host.now_ns,
        .pace_us = &op->extras.pace_us,
    };
    const shoal_sink sink = {op, sink_send, sink_control, sink_job, sink_done, sink_datagram};
    const shoal_op_plan *plan = op->plan;
    op->row = plan->collective.row->flow != NULL ? plan->collective.row->flow : &shoali_engine;
    SHOALI_TRY(ops->host.links(ops->host.ctx, op, &args));
    op->granted = shoali_arena_alloc(op->arena, plan->member_count);
    if (op->granted == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(take_slot(op));
    shoal_status status = start_flow(op, &args, &sink);
    if (status == SHOAL_OK && (status = shoali_serve_admit(op)) != SHOAL_OK)
        op->row->fini(op->flow);
    if (status != SHOAL_OK) {
        ops->slots[op->slot & ops->slot_mask] = NULL;
        op->flow = NULL;
    }
    return status;
}

/* What has failed may hold anything: the next run builds it anew. */
void shoali_run_close_flow(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    if (op->flow == NULL)
        return;
    ops->slots[op->slot & ops->slot_mask] = NULL;
    if (op->row->rest != NULL && op->status == SHOAL_OK) {
        op->row->rest(op->flow);
        op->kept.rests = op->row;
    } else {
        op->row->fini(op->flow);
    }
    op->flow = NULL;
}

void shoali_run_add_stats(shoal_op *op)
{
    shoali_flow_stats flow = {0};
    if (op->flow != NULL)
        op->row->stats(op->flow, &flow);
    op->stats.duration_us = op->ops->host.now_ns() / 1000 - op->started_us;
    op->stats.encode_ns += flow.encode_ns;
    op->stats.decode_ns += flow.decode_ns;
    op->stats.sent_payload_bytes += flow.sent_payload_bytes;
    op->stats.received_payload_bytes += flow.received_payload_bytes;
    op->stats.rounds += flow.rounds;
    op->stats.sent_elems += flow.sent_elems;
    op->stats.dense_elems += flow.dense_elems;
    op->stats.received_elems += flow.received_elems;
}
