/* SPDX-License-Identifier: Apache-2.0 */
#include "support/memnet.h"

#include "base/arena.h"
#include "base/rng.h"
#include "support/check.h"

enum { GRANT, READ, SENT, PLACE, DELIVER, UNPLACE, JOB, FAIL, CONTROL };

typedef struct event {
    int kind;
    uint32_t from, to; /* member that caused it, member that hears of it */
    uint64_t cookie;   /* SENT, READ, JOB */
    shoal_data head;
    const void *body; /* READ, SENT: the flow's */
    uint8_t *copy;    /* the frame under way; SENT: what the body was when it was read */
    uint8_t *placed;  /* where the flow wants it */
    size_t offset, count;
    shoal_status status;
    uint16_t control; /* CONTROL: kind; bytes in copy, head.len_bytes of them */
} event;

typedef struct node {
    memnet *net;
    const shoali_flow_row *row;
    shoali_flow_args args;
    void *state;
    uint32_t me, slot;
    size_t sends_out, placed_out, jobs_out;
    memnet_result result;
} node;

struct memnet {
    uint32_t size;
    node *nodes;
    event *events;
    size_t count, capacity, refused, controls;
    uint64_t now_us;
    shoali_rng rng;
    memnet_owner owner;
    void *owner_ctx;
};

static uint64_t below(memnet *net, uint64_t bound)
{
    return shoali_rng_next(&net->rng) % bound;
}

static void post(memnet *net, event e)
{
    if (net->count == net->capacity) {
        net->capacity = net->capacity == 0 ? 64 : 2 * net->capacity;
        net->events = realloc(net->events, net->capacity * sizeof *net->events);
        assert_non_null(net->events);
    }
    net->events[net->count++] = e;
}

static event take(memnet *net, size_t index)
{
    event e = net->events[index];
    net->events[index] = net->events[--net->count];
    return e;
}

/* ------------------------------------------------------------- the flow's sink */

static uint8_t *copy_of(const void *bytes, size_t len_bytes)
{
    uint8_t *copy = malloc(len_bytes > 0 ? len_bytes : 1);
    assert_non_null(copy);
    if (len_bytes > 0)
        memcpy(copy, bytes, len_bytes);
    return copy;
}

/* The transport reads the body, and the frame is under way. */
static void read_body(memnet *net, const event *e)
{
    event frame = *e;
    frame.kind = PLACE;
    frame.copy = copy_of(e->body, e->head.len_bytes);
    post(net, frame);
}

/* The body is the flow's again; until now it had to stay as it was. */
static void give_back(event *e)
{
    if (e->copy == NULL)
        return;
    if (e->head.len_bytes > 0)
        assert_memory_equal(e->body, e->copy, e->head.len_bytes);
    free(e->copy);
}

static void sink_send(void *ctx, uint32_t peer, const shoal_data *head, const void *body,
                      uint64_t cookie)
{
    node *n = ctx;
    memnet *net = n->net;
    assert_true(peer < net->size && peer != n->me);
    assert_int_equal(head->slot, net->nodes[peer].slot);
    event e = {
        .kind = READ, .from = n->me, .to = peer, .head = *head, .body = body, .cookie = cookie};
    n->sends_out++;
    if (below(net, 4) > 0) {
        post(net, e);
        return;
    }
    read_body(net, &e);
    n->sends_out--;
    n->row->on_sent(n->state, peer, cookie);
}

static void sink_control(void *ctx, uint32_t peer, uint16_t kind, const void *bytes,
                         size_t len_bytes)
{
    node *n = ctx;
    assert_true(peer < n->net->size && peer != n->me);
    post(n->net, (event){.kind = CONTROL,
                         .from = n->me,
                         .to = peer,
                         .control = kind,
                         .cookie = n->net->controls++,
                         .head = {.len_bytes = (uint32_t)len_bytes},
                         .copy = copy_of(bytes, len_bytes)});
}

static void sink_job(void *ctx, const shoal_op_id *id, size_t offset, size_t count, uint64_t cookie)
{
    node *n = ctx;
    assert_int_equal(id->sequence, n->args.id.sequence);
    n->jobs_out++;
    post(n->net, (event){.kind = JOB,
                         .from = n->me,
                         .to = n->me,
                         .offset = offset,
                         .count = count,
                         .cookie = cookie});
}

static void forget(node *n)
{
    void *state = n->state;
    n->state = NULL;
    n->row->fini(state);
    shoali_free(state);
}

static void sink_done(void *ctx, const shoal_op_id *id, shoal_status status, const char *why)
{
    node *n = ctx;
    memnet_result *r = &n->result;
    assert_int_equal(id->sequence, n->args.id.sequence);
    assert_false(r->done);
    assert_int_equal(n->sends_out + n->placed_out + n->jobs_out, 0);
    r->done = true;
    r->status = status;
    snprintf(r->why, sizeof r->why, "%s", why != NULL ? why : "");
    n->row->stats(n->state, &r->stats);
    r->origin_known = n->row->not_finite(n->state, &r->origin);
    forget(n); /* the contract allows it here, so it has to work here */
    if (status == SHOAL_OK || status == SHOAL_ENOTFINITE)
        return;
    for (uint32_t i = 0; i < n->net->size; i++)
        if (i != n->me)
            memnet_fail(n->net, i, status);
}

/* ------------------------------------------------------------- events */

static void on_place(memnet *net, event *e)
{
    node *n = &net->nodes[e->to];
    e->placed = n->state != NULL ? n->row->place(n->state, e->from, &e->head) : NULL;
    if (e->placed == NULL) {
        net->refused++;
        free(e->copy);
        return;
    }
    memset(e->placed, 0xcc, e->head.len_bytes);
    n->placed_out++;
    e->kind = DELIVER;
    post(net, *e);
}

/* One frame, or now and then all that are under way on this link. */
static void on_deliver(memnet *net, event *first)
{
    enum { MOST = 8 };
    shoal_data heads[MOST];
    uint8_t *bodies[MOST];
    event batch[MOST] = {*first};
    size_t count = 1, most = below(net, 3) == 0 ? MOST : 1;
    for (size_t i = net->count; i-- > 0 && count < most;)
        if (net->events[i].kind == DELIVER && net->events[i].from == first->from &&
            net->events[i].to == first->to)
            batch[count++] = take(net, i);
    node *n = &net->nodes[first->to];
    for (size_t i = 0; i < count; i++) {
        if (batch[i].head.len_bytes > 0)
            memcpy(batch[i].placed, batch[i].copy, batch[i].head.len_bytes);
        free(batch[i].copy);
        heads[i] = batch[i].head;
        bodies[i] = batch[i].placed;
        n->placed_out--;
    }
    n->row->on_frames(n->state, first->from, heads, bodies, count);
}

static void on_job(memnet *net, const event *e)
{
    node *n = &net->nodes[e->to];
    shoal_status status = SHOAL_EINTERNAL;
    if (net->owner != NULL)
        status = net->owner(net->owner_ctx, n->me, n->args.buf + e->offset, e->offset, e->count);
    n->jobs_out--;
    n->row->on_job(n->state, e->cookie, status);
}

/* Control frames of one pair keep their order, as on a connection: take the oldest instead. */
static void on_control(memnet *net, event *e)
{
    node *n = &net->nodes[e->to];
    for (size_t i = 0; i < net->count; i++) {
        event *other = &net->events[i];
        if (other->kind == CONTROL && other->from == e->from && other->to == e->to &&
            other->cookie < e->cookie) {
            event older = *other;
            *other = *e;
            *e = older;
        }
    }
    n->row->on_control(n->state, e->from, e->control, e->copy, e->head.len_bytes);
    free(e->copy);
}

static void happen(memnet *net, event e)
{
    node *n = &net->nodes[e.to];
    if (e.kind == READ)
        n = &net->nodes[e.from];
    if ((e.kind == GRANT || e.kind == CONTROL) && !n->result.started) {
        post(net, e); /* a comm keeps these until the operation starts here */
        return;
    }
    if (e.kind != PLACE && n->state == NULL) {
        if (e.kind == SENT || e.kind == CONTROL)
            free(e.copy);
        return;
    }
    switch (e.kind) {
    case GRANT:
        n->row->on_granted(n->state, e.from, net->nodes[e.from].slot);
        break;
    case READ:
        read_body(net, &e);
        post(net, (event){.kind = SENT,
                          .from = e.to,
                          .to = e.from,
                          .cookie = e.cookie,
                          .head = e.head,
                          .body = e.body,
                          .copy = copy_of(e.body, e.head.len_bytes)});
        break;
    case SENT:
        give_back(&e);
        n->sends_out--;
        n->row->on_sent(n->state, e.from, e.cookie);
        break;
    case PLACE:
        on_place(net, &e);
        break;
    case DELIVER:
        on_deliver(net, &e);
        break;
    case UNPLACE:
        n->placed_out--;
        n->row->unplace(n->state, e.from, &e.head, e.placed);
        break;
    case JOB:
        on_job(net, &e);
        break;
    case CONTROL:
        on_control(net, &e);
        break;
    default:
        (n->row->fail)(n->state, e.status, "told to fail"); /* cmocka has a macro of this name */
        break;
    }
}

/* Members whose timer is due count as events, too. */
static node *due(memnet *net, size_t *due_out)
{
    node *chosen = NULL;
    size_t count = 0;
    for (uint32_t i = 0; i < net->size; i++) {
        node *n = &net->nodes[i];
        if (n->state != NULL && n->row->next_wake_us(n->state) <= net->now_us &&
            below(net, ++count) == 0)
            chosen = n;
    }
    *due_out = count;
    return chosen;
}

/* Nothing else can happen: time passes until the next timer. False: there is none. */
static bool pass_time(memnet *net)
{
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < net->size; i++) {
        const node *n = &net->nodes[i];
        if (n->state != NULL && n->row->next_wake_us(n->state) < next_us)
            next_us = n->row->next_wake_us(n->state);
    }
    if (next_us == UINT64_MAX)
        return false;
    net->now_us = next_us;
    return true;
}

static bool all_done(const memnet *net)
{
    for (uint32_t i = 0; i < net->size; i++)
        if (net->nodes[i].state != NULL)
            return false;
    return true;
}

static void tell_stuck(const memnet *net, char *text, size_t text_bytes)
{
    for (uint32_t i = 0; i < net->size; i++) {
        char line[160];
        uint32_t peer;
        if (net->nodes[i].state == NULL)
            continue;
        net->nodes[i].row->describe(net->nodes[i].state, line, sizeof line, &peer);
        snprintf(text, text_bytes, "member %u %s", i, line);
        return;
    }
}

bool memnet_run(memnet *net, size_t events, char *text, size_t text_bytes)
{
    for (size_t i = 0; i < events && !all_done(net); i++) {
        size_t timers;
        node *timer = due(net, &timers);
        if (net->count + timers == 0) {
            if (!pass_time(net))
                break;
            continue;
        }
        if (below(net, net->count + timers) < timers)
            timer->row->on_timer(timer->state, net->now_us);
        else
            happen(net, take(net, (size_t)below(net, net->count)));
    }
    if (all_done(net))
        return true;
    tell_stuck(net, text, text_bytes);
    return false;
}

/* ------------------------------------------------------------- members */

memnet *memnet_create(uint32_t size, uint64_t seed)
{
    memnet *net = calloc(1, sizeof *net);
    assert_non_null(net);
    net->size = size;
    net->rng = (shoali_rng){seed, 0x6d656d, 0};
    net->nodes = calloc(size, sizeof *net->nodes);
    assert_non_null(net->nodes);
    for (uint32_t i = 0; i < size; i++) {
        net->nodes[i].net = net;
        net->nodes[i].me = i;
        net->nodes[i].slot = (uint32_t)shoali_rng_next(&net->rng);
    }
    return net;
}

void memnet_destroy(memnet *net)
{
    for (uint32_t i = 0; i < net->size; i++)
        if (net->nodes[i].state != NULL)
            forget(&net->nodes[i]);
    while (net->count > 0) {
        event e = take(net, 0);
        free(e.copy);
    }
    free(net->events);
    free(net->nodes);
    free(net);
}

void memnet_set_owner(memnet *net, memnet_owner owner, void *ctx)
{
    net->owner = owner;
    net->owner_ctx = ctx;
}

shoal_status memnet_start(memnet *net, const shoali_flow_row *row, const shoali_flow_args *args)
{
    node *n = &net->nodes[args->me];
    shoal_sink sink = {
        .ctx = n, .send = sink_send, .control = sink_control, .job = sink_job, .done = sink_done};
    n->row = row;
    n->args = *args;
    n->state = shoali_alloc(row->state_size(args));
    shoal_status status = SHOAL_ENOMEM;
    if (n->state != NULL)
        status = row->start(n->state, args, &sink, net->now_us);
    n->result.started = true;
    n->result.status = status;
    if (status != SHOAL_OK) {
        shoali_free(n->state);
        n->state = NULL;
        return status;
    }
    for (uint32_t peer = 0; peer < net->size; peer++) {
        if (!row->receives_from(n->state, peer))
            continue;
        n->result.grants++;
        post(net, (event){.kind = GRANT, .from = n->me, .to = peer});
    }
    return SHOAL_OK;
}

/* The event after member is gone: what was on its way to or from it comes back to the others. */
static void bereave(event *e, uint32_t member)
{
    bool from = e->from == member, to = e->to == member;
    if (e->kind == READ && to && !from) {
        *e = (event){.kind = SENT, .from = member, .to = e->from, .cookie = e->cookie};
        return;
    }
    if (e->kind == DELIVER && from && !to) {
        free(e->copy);
        e->copy = NULL;
        e->kind = UNPLACE;
        return;
    }
    if ((e->kind == PLACE || e->kind == DELIVER) && (from || to)) {
        free(e->copy);
        e->copy = NULL;
        e->kind = GRANT; /* to one that is gone: nothing */
        e->to = member;
    }
    if (e->kind == READ && from) {
        e->kind = GRANT;
        e->to = member;
    }
    if (e->kind == CONTROL && from)
        e->to = member;
}

void memnet_kill(memnet *net, uint32_t member)
{
    node *n = &net->nodes[member];
    n->result.dead = true;
    if (n->state != NULL)
        forget(n);
    for (size_t i = 0; i < net->count; i++)
        bereave(&net->events[i], member);
    for (uint32_t i = 0; i < net->size; i++)
        if (i != member)
            memnet_fail(net, i, SHOAL_EPEER);
}

void memnet_fail(memnet *net, uint32_t member, shoal_status status)
{
    if (net->nodes[member].state != NULL)
        post(net, (event){.kind = FAIL, .from = member, .to = member, .status = status});
}

const memnet_result *memnet_result_of(const memnet *net, uint32_t member)
{
    return &net->nodes[member].result;
}

void *memnet_state(const memnet *net, uint32_t member)
{
    return net->nodes[member].state;
}

size_t memnet_refused(const memnet *net)
{
    return net->refused;
}
