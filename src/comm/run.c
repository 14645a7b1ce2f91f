/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the progress thread:
 *
 *   NEW --start--> ROUNDS (measures, transforms: rounds.c) --> RUNNING (its flow) --> ENDED
 *
 * A failure may come at any time; the operation still goes to ENDED only when nothing refers to its
 * buffer. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/inner.h"
#include "wire/messages.h"

enum { FIRST_SLOTS = 64, ASK_BEFORE_US = 250 * 1000 };

/* ------------------------------------------------------------------ finding */

shoal_op *shoali_run_find(const shoal_comm *comm, const shoali_wire_id *id)
{
    for (shoal_op *op = comm->open; op != NULL; op = op->next_open)
        if (op->id.sequence == id->sequence && op->id.group == id->group &&
            op->id.round == id->round && !op->ended)
            return op;
    return NULL;
}

shoal_op *shoali_run_slot(const shoal_comm *comm, uint32_t slot)
{
    shoal_op *op = comm->slots != NULL ? comm->slots[slot & comm->slot_mask] : NULL;
    return op != NULL && op->slot == slot && !op->ended ? op : NULL;
}

static bool grow_slots(shoal_comm *comm)
{
    uint32_t old = comm->slots != NULL ? comm->slot_mask + 1 : 0,
             fresh = old == 0 ? FIRST_SLOTS : 2 * old;
    shoal_op **more = shoali_alloc_array(fresh, sizeof *more);
    if (more == NULL)
        return false;
    for (uint32_t i = 0; i < old; i++)
        if (comm->slots[i] != NULL)
            more[comm->slots[i]->slot & (fresh - 1)] = comm->slots[i];
    shoali_free(comm->slots);
    comm->slots = more;
    comm->slot_mask = fresh - 1;
    return true;
}

/* Slots only ever count up within an epoch: data for an operation that is over finds nobody. */
static shoal_status take_slot(shoal_op *op)
{
    shoal_comm *comm = op->comm;
    op->slot = comm->next_slot;
    while (comm->slots == NULL || comm->slots[op->slot & comm->slot_mask] != NULL)
        if (!grow_slots(comm))
            return SHOAL_ENOMEM;
    if (++comm->next_slot == UINT32_MAX)
        return shoali_fail(SHOAL_EINTERNAL,
                           "this communicator has run 2^32 operations: make a new one");
    comm->slots[op->slot & comm->slot_mask] = op;
    return SHOAL_OK;
}

bool shoali_run_involves(const shoal_comm *comm, uint32_t endpoint)
{
    for (const shoal_op *op = comm->open; op != NULL; op = op->next_open)
        if (shoali_member_of(op, endpoint) != SHOALI_NONE)
            return true;
    return false;
}

/* ------------------------------------------------------------------ what a flow asks for */

static void sink_send(void *ctx, uint32_t peer, const shoal_data *head, const void *body,
                      uint64_t cookie)
{
    shoali_flight_send(ctx, peer, head, body, cookie);
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
    shoali_control(op->comm, op->members[peer], SHOALI_MESSAGE_flow, body,
                   SHOALI_FLOW_HEAD_BYTES + len_bytes);
}

static void sink_datagram(void *ctx, uint32_t peer, const void *bytes, size_t len_bytes)
{
    shoali_datagrams_send(ctx, peer, bytes, len_bytes);
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
    shoali_job_post(op->comm, &o->job);
}

/* The last error becomes the operation's. What to do follows from the status, whoever has found
 * it. */
static void keep_error(shoal_op *op)
{
    shoal_error *error = &op->error;
    shoali_error_about(-1, NULL, op->name, (int64_t)shoali_since(op->comm, op->started_us));
    shoali_error_get(error);
    if (error->advice[0] != '\0')
        return;
    const char *advice = "";
    switch (error->status) {
    case SHOAL_ENOTFINITE:
        advice = "Look at the loss and the learning rate of that rank, or skip such steps.";
        break;
    case SHOAL_EPEER:
        advice = "Look at the output of that rank, and restart from the last checkpoint.";
        break;
    case SHOAL_EMISMATCH:
        advice = "All members must start the same operations in the same order.";
        break;
    case SHOAL_ETIMEDOUT:
        advice = "A rank that only computes longer than the others needs a longer timeout_us.";
        break;
    default:
        break;
    }
    snprintf(error->advice, sizeof error->advice, "%s", advice);
}

static void name_not_finite(shoal_op *op)
{
    shoal_comm *comm = op->comm;
    shoali_not_finite origin;
    if (op->row->not_finite == NULL || !op->row->not_finite(op->flow, &origin))
        return;
    uint32_t rank = origin.endpoint < comm->size ? origin.endpoint : comm->me;
    (void)shoali_fail(
        SHOAL_ENOTFINITE,
        "rank %u (host %.40s) brought NaN or infinity to %s: tensor %llu, element %llu", rank,
        comm->peers[rank].host, op->name, (unsigned long long)origin.key,
        (unsigned long long)origin.index);
    shoali_error_about((int32_t)rank, comm->peers[rank].host, NULL, -1);
}

/* Else whoever noticed it would be blamed by those that it tells. */
static void name_culprit(const shoal_op *op)
{
    const shoal_comm *comm = op->comm;
    const uint32_t rank = op->row->culprit != NULL ? op->row->culprit(op->flow) : SHOALI_NOBODY;
    if (rank < comm->size)
        shoali_error_about((int32_t)rank, comm->peers[rank].host, NULL, -1);
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
        keep_error(op);
        if (status != SHOAL_ENOTFINITE) /* which every member learns from the data */
            shoali_agree_spread(op);
    }
    shoali_run_end(op, status);
}

/* ------------------------------------------------------------------ start */

static shoal_status give_residuals(shoal_op *op)
{
    if (!shoali_op_feeds_back(op))
        return SHOAL_OK;
    op->residuals = shoali_arena_array(op->arena, op->tensor_count, sizeof(float *));
    return op->residuals != NULL ? shoali_residuals_of(op->comm, op, op->residuals) : SHOAL_ENOMEM;
}

static shoal_status start_flow(shoal_op *op)
{
    shoal_comm *comm = op->comm;
    SHOALI_TRY(give_residuals(op));
    shoali_flow_args args = {
        .id = {op->id.group, op->id.sequence, op->id.round, 0},
        .kind = op->kind == SHOAL_BARRIER ? SHOAL_ALL_REDUCE : op->kind,
        .reduce = op->reduce,
        .me = op->me,
        .size = op->member_count,
        .contributors = op->contributors,
        .root = op->root,
        .endpoints = op->members,
        .buf = op->buf,
        .count = op->count,
        .tensors = op->tensors,
        .tensor_count = op->tensor_count,
        .residuals = op->residuals,
        .shared = op->shared,
        .push = op->push,
        .pull = op->pull,
        .collective = &op->collective,
        .links = shoali_relay_links(comm->relay),
        .rates = shoali_gauge_rates(comm),
        .owner_job = op->extras.owner != NULL,
        .weights = op->extras.weights,
        .rows = op->rows,
        .row_count = op->row_count,
        .keep_rows = op->keep_rows,
        .check_finite = op->extras.check_finite,
        .chunk_elems = comm->chunk_elems,
        .seed = comm->seed,
        .scratch = comm->scratch,
        .now_ns = shoali_now_ns,
    };
    const shoal_sink sink = {op, sink_send, sink_control, sink_job, sink_done, sink_datagram};
    op->row = op->collective.row->flow != NULL ? op->collective.row->flow : &shoali_engine;
    if ((op->row->transports & SHOALI_FLOW_STREAM) == 0)
        SHOALI_TRY(shoali_datagrams_give(op, &args));
    op->granted = shoali_arena_alloc(op->arena, op->member_count);
    op->flow = shoali_alloc(op->row->state_size(&args));
    if (op->flow == NULL || op->granted == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(take_slot(op));
    shoal_status status = op->row->start(op->flow, &args, &sink, comm->now_us);
    if (status == SHOAL_OK && (status = shoali_serve_admit(op)) != SHOAL_OK)
        op->row->fini(op->flow);
    if (status != SHOAL_OK)
        comm->slots[op->slot & comm->slot_mask] = NULL;
    return status;
}

/* A flow did not start: the operation ends at once. */
static void end_unstarted(shoal_op *op)
{
    shoali_free(op->flow);
    op->flow = NULL;
    shoali_run_fail(op, true);
}

void shoali_run_flow(shoal_op *op)
{
    if (start_flow(op) != SHOAL_OK) {
        end_unstarted(op);
        return;
    }
    op->state = SHOALI_OP_RUNNING;
    shoali_agree_enter(op);
    if (!op->ended)
        op->row->on_timer(op->flow, op->comm->now_us); /* start leaves its work to the first call */
}

static bool lost_member(shoal_op *op)
{
    shoal_comm *comm = op->comm;
    for (uint32_t m = 0; m < op->member_count; m++) {
        const shoali_peer *peer = &comm->peers[op->members[m]];
        if (atomic_load_explicit(&peer->state, memory_order_acquire) == SHOALI_PEER_HERE) {
            if (!peer->leaving && !comm->leaving)
                continue;
            (void)shoali_fail(SHOAL_EEPOCH, "%s cannot start: the members are about to change",
                              op->name);
            return true;
        }
        (void)shoali_fail(SHOAL_EPEER, "%s cannot start: %s", op->name, peer->lost_text);
        shoali_error_about((int32_t)op->members[m], peer->host, NULL, -1);
        return true;
    }
    return false;
}

void shoali_run_start(void *arg)
{
    shoal_op *op = arg;
    shoal_comm *comm = op->comm;
    op->age = comm->next_age++;
    op->started_us = shoali_now_us(); /* exact: it is measured from here */
    op->deadline_us = op->started_us + (uint64_t)op->timeout_us;
    op->ask_us = op->deadline_us - (uint64_t)(op->timeout_us / 4 < ASK_BEFORE_US
                                                  ? op->timeout_us / 4
                                                  : ASK_BEFORE_US);
    op->state = SHOALI_OP_ROUNDS;
    shoali_watch_busy(comm->watch);
    *comm->open_last = op;
    comm->open_last = &op->next_open;
    shoali_log(DEBUG, "starts %s", op->text);
    if (shoali_agree_aborted(op))
        return;
    if (lost_member(op))
        shoali_run_fail(op, true);
    else if (!shoali_rounds_begin(op))
        shoali_run_flow(op);
}

/* ------------------------------------------------------------------ failure and end */

void shoali_run_fail(shoal_op *op, bool spread)
{
    if (op->failing || op->ended)
        return;
    op->failing = true;
    keep_error(op);
    shoal_status status = op->error.status;
    if (spread)
        shoali_agree_spread(op);
    if (op->state == SHOALI_OP_RUNNING) {
        op->row->fail(op->flow, status, op->error.text);
        shoali_flight_recall(op->comm, op, SHOALI_NONE);
    } else if (op->job_open || op->child_open) {
        shoali_rounds_fail(op);
    } else {
        shoali_run_end(op, status);
    }
}

void shoali_run_end(shoal_op *op, shoal_status status)
{
    if (op->ended)
        return;
    op->ended = true;
    op->status = op->failing ? op->error.status : status;
    op->next_ended = op->comm->ended;
    op->comm->ended = op;
    op->comm->busy = true;
}

static void unlink_open(shoal_op *op)
{
    shoal_comm *comm = op->comm;
    shoal_op **link = &comm->open;
    while (*link != op)
        link = &(*link)->next_open;
    *link = op->next_open;
    if (comm->open_last == &op->next_open)
        comm->open_last = link;
}

static void fill_stats(shoal_op *op)
{
    shoali_flow_stats flow = {0};
    if (op->flow != NULL)
        op->row->stats(op->flow, &flow);
    op->stats.duration_us = shoali_now_us() - op->started_us;
    op->stats.encode_ns += flow.encode_ns;
    op->stats.decode_ns += flow.decode_ns;
    op->stats.sent_payload_bytes += flow.sent_payload_bytes;
    op->stats.received_payload_bytes += flow.received_payload_bytes;
    op->stats.rounds += flow.rounds;
    op->stats.sent_elems += flow.sent_elems;
    op->stats.dense_elems += flow.dense_elems;
    op->stats.received_elems += flow.received_elems;
}

static void reap(shoal_op *op)
{
    shoal_comm *comm = op->comm;
    unlink_open(op);
    fill_stats(op);
    if (op->keep_rows && op->status == SHOAL_OK && op->flow != NULL)
        shoali_hosts_take_rows(op);
    if (op->flow != NULL) {
        comm->slots[op->slot & comm->slot_mask] = NULL;
        op->row->fini(op->flow);
        shoali_serve_release(op);
        shoali_free(op->flow);
        op->flow = NULL;
    }
    if (op->failing && op->transform != NULL)
        shoali_transform_reset(comm, op);
    op->state = SHOALI_OP_ENDED;
    shoali_agree_remember(op);
    memcpy(comm->last_name, op->name, sizeof comm->last_name);
    comm->doing_since_us = comm->now_us;
    if (op->parent == NULL)
        shoali_watch_ended(comm->watch);
    if (comm->open == NULL)
        shoali_watch_idle(comm->watch);
    if (op->status != SHOAL_OK)
        shoali_log(DEBUG, "%s ends %s: %s", op->name, shoal_status_name(op->status),
                   op->error.text);
    shoali_op_complete(op);
}

void shoali_run_reap(shoal_comm *comm)
{
    while (comm->ended != NULL) {
        shoal_op *ended = comm->ended, *oldest = NULL;
        comm->ended = NULL;
        while (ended != NULL) { /* the list is last in, first out; completions go in order */
            shoal_op *next = ended->next_ended;
            ended->next_ended = oldest;
            oldest = ended;
            ended = next;
        }
        while (oldest != NULL) {
            shoal_op *next = oldest->next_ended;
            reap(oldest);
            oldest = next;
        }
    }
}

static void fail_with(shoal_comm *comm, uint32_t endpoint, shoal_status status, const char *text,
                      const char *look_at)
{
    const shoali_peer *peer = &comm->peers[endpoint];
    for (shoal_op *op = comm->open; op != NULL; op = op->next_open) {
        if (op->ended || shoali_member_of(op, endpoint) == SHOALI_NONE)
            continue;
        (void)shoali_fail(status, "%s: %s", op->name, text);
        shoali_error_about((int32_t)endpoint, peer->host, NULL, -1);
        shoali_error_advice(
            "Look at the %s rank %u on %.60s, and restart from the last checkpoint.", look_at,
            endpoint, peer->host);
        shoali_run_fail(op, true);
    }
}

void shoali_run_peer_lost(shoal_comm *comm, uint32_t endpoint)
{
    const shoali_peer *peer = &comm->peers[endpoint];
    fail_with(comm, endpoint, peer->lost_status, peer->lost_text, "output of");
}

void shoali_run_link_broke(shoal_comm *comm, uint32_t endpoint)
{
    fail_with(comm, endpoint, SHOAL_EPEER, comm->peers[endpoint].link_text, "cable to");
}

static void leave_epoch(shoal_op *op)
{
    if (op->ended || op->parent != NULL)
        return;
    (void)shoali_fail(SHOAL_EEPOCH, "%s: the members are about to change", op->name);
    shoali_error_advice("Call shoal_comm_reform on all members.");
    shoali_run_fail(op, true);
}

void shoali_run_peer_leaving(shoal_comm *comm, uint32_t endpoint)
{
    for (shoal_op *op = comm->open; op != NULL; op = op->next_open)
        if (shoali_member_of(op, endpoint) != SHOALI_NONE)
            leave_epoch(op);
}

void shoali_run_all_leaving(shoal_comm *comm)
{
    for (shoal_op *op = comm->open; op != NULL; op = op->next_open)
        leave_epoch(op);
}

/* ------------------------------------------------------------------ time */

static bool wants_now(const shoal_op *op, uint64_t now_us)
{
    return op->state == SHOALI_OP_RUNNING && !op->ended &&
           op->row->next_wake_us(op->flow) <= now_us;
}

void shoali_run_timers(shoal_comm *comm)
{
    for (shoal_op *op = comm->open; op != NULL; op = op->next_open) {
        if (wants_now(op, comm->now_us) &&
            (op->row->on_datagram == NULL || !shoali_datagrams_unread(comm))) {
            op->row->on_timer(op->flow, comm->now_us);
            comm->busy |= wants_now(op, comm->now_us);
        }
        if (op->ended || op->failing)
            continue;
        if (!op->asked && comm->now_us >= op->ask_us && op->parent == NULL)
            shoali_agree_ask(op);
        if (comm->now_us >= op->deadline_us) {
            shoali_agree_timed_out(op);
            shoali_run_fail(op, true);
        }
    }
}

uint64_t shoali_run_next_us(const shoal_comm *comm)
{
    uint64_t at = UINT64_MAX;
    for (const shoal_op *op = comm->open; op != NULL; op = op->next_open) {
        uint64_t due = op->asked ? op->deadline_us : op->ask_us;
        if (!op->failing && due < at)
            at = due;
        if (op->state == SHOALI_OP_RUNNING && !op->ended) {
            due = op->row->next_wake_us(op->flow);
            at = due < at ? due : at;
        }
    }
    return at;
}
