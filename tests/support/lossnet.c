/* SPDX-License-Identifier: Apache-2.0 */
#include "support/lossnet.h"

#include "base/rng.h"
#include "support/check.h"

typedef enum { AT_SWITCH, DATAGRAM, CONTROL, GRANT } event_kind;

enum { HEADERS = 42 }; /* Ethernet, IP, UDP */

typedef struct event {
    uint64_t at_us, number; /* number: ties, in order of making */
    event_kind kind;
    uint32_t from, to;
    uint16_t control;
    size_t len_bytes;
    uint8_t bytes[];
} event;

typedef struct member {
    lossnet *net;
    uint32_t index;
    const shoali_flow_row *row;
    void *state;
    uint64_t wake_us, stall_us, run_us; /* it does not run between the last two */
    double up_us, down_us;              /* until then its link is busy */
    lossnet_result result;
} member;

struct lossnet {
    uint32_t size;
    lossnet_faults faults;
    shoali_rng rng;
    uint64_t now_us, events, packets;
    event **heap;
    size_t count, capacity;
    member *members;
    uint64_t *control_us; /* [size][size] of the last one: they stay in order */
    uint32_t started;
};

/* ------------------------------------------------------------------ heap */

static bool before(const event *a, const event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->number < b->number;
}

static void swap(event **a, event **b)
{
    event *t = *a;
    *a = *b;
    *b = t;
}

static void push(lossnet *net, event *e)
{
    if (net->count == net->capacity) {
        net->capacity = net->capacity == 0 ? 256 : 2 * net->capacity;
        net->heap = realloc(net->heap, net->capacity * sizeof *net->heap);
        assert_non_null(net->heap);
    }
    size_t i = net->count++;
    net->heap[i] = e;
    for (; i > 0 && before(net->heap[i], net->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&net->heap[i], &net->heap[(i - 1) / 2]);
}

static event *pop(lossnet *net)
{
    event *first = net->heap[0];
    net->heap[0] = net->heap[--net->count];
    for (size_t i = 0, least;; i = least) {
        least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < net->count; child++)
            if (before(net->heap[child], net->heap[least]))
                least = child;
        if (least == i)
            return first;
        swap(&net->heap[i], &net->heap[least]);
    }
}

static void post(lossnet *net, event_kind kind, uint32_t from, uint32_t to, uint64_t at_us,
                 uint16_t control, const void *bytes, size_t len_bytes)
{
    event *e = malloc(sizeof *e + len_bytes);
    assert_non_null(e);
    *e = (event){.at_us = at_us,
                 .number = net->events++,
                 .kind = kind,
                 .from = from,
                 .to = to,
                 .control = control,
                 .len_bytes = len_bytes};
    if (len_bytes > 0)
        memcpy(e->bytes, bytes, len_bytes);
    push(net, e);
}

/* ------------------------------------------------------------------ the sink */

static bool chance(lossnet *net, double p)
{
    return p > 0 && shoali_rng_next_double(&net->rng) < p;
}

static uint64_t transit_us(lossnet *net)
{
    return net->faults.delay_us +
           (uint64_t)((double)net->faults.jitter_us * shoali_rng_next_double(&net->rng));
}

/* When a link, free at *free_us, has carried a datagram that comes now. */
static uint64_t carried_us(const lossnet *net, double *free_us, size_t len_bytes)
{
    const double now_us = (double)net->now_us, begin_us = *free_us > now_us ? *free_us : now_us;
    if (net->faults.rate_bits == 0)
        return net->now_us;
    *free_us = begin_us + 8e6 * (double)(len_bytes + HEADERS) / (double)net->faults.rate_bits;
    return (uint64_t)*free_us;
}

static void send_datagram(void *ctx, uint32_t peer, const void *bytes, size_t len_bytes)
{
    member *m = ctx;
    lossnet *net = m->net;
    net->packets++;
    assert_true(peer != m->index && peer < net->size);
    for (int copies = 1 + chance(net, net->faults.duplicate); copies > 0; copies--) {
        uint64_t at_us = carried_us(net, &m->up_us, len_bytes) + transit_us(net);
        if (chance(net, net->faults.loss))
            continue;
        if (chance(net, net->faults.late))
            at_us += (uint64_t)((double)net->faults.late_us * shoali_rng_next_double(&net->rng));
        post(net, AT_SWITCH, m->index, peer, at_us, 0, bytes, len_bytes);
    }
}

static void send_control(void *ctx, uint32_t peer, uint16_t kind, const void *bytes,
                         size_t len_bytes)
{
    const member *m = ctx;
    lossnet *net = m->net;
    uint64_t *last_us = &net->control_us[m->index * net->size + peer];
    const uint64_t at_us = net->now_us + transit_us(net);
    *last_us = at_us > *last_us ? at_us : *last_us;
    post(net, CONTROL, m->index, peer, *last_us, kind, bytes, len_bytes);
}

static void end(void *ctx, const shoal_op_id *id, shoal_status status, const char *why)
{
    member *m = ctx;
    (void)id;
    assert_false(m->result.done);
    m->result.done = true;
    m->result.status = status;
    m->result.done_us = m->net->now_us;
    snprintf(m->result.why, sizeof m->result.why, "%s", why);
    m->result.origin_known = m->row->not_finite(m->state, &m->result.origin);
    m->row->stats(m->state, &m->result.stats);
    m->row->fini(m->state);
    free(m->state);
    m->state = NULL;
}

/* ------------------------------------------------------------------ life */

lossnet *lossnet_create(uint32_t size, const lossnet_faults *faults, uint64_t seed)
{
    lossnet *net = calloc(1, sizeof *net);
    assert_non_null(net);
    net->size = size;
    net->faults = *faults;
    net->rng = (shoali_rng){seed, 99, 0};
    net->members = calloc(size, sizeof *net->members);
    net->control_us = calloc((size_t)size * size, sizeof *net->control_us);
    assert_true(net->members != NULL && net->control_us != NULL);
    for (uint32_t m = 0; m < size; m++)
        net->members[m] = (member){.net = net, .index = m, .wake_us = UINT64_MAX};
    return net;
}

void lossnet_destroy(lossnet *net)
{
    for (uint32_t m = 0; m < net->size; m++)
        if (net->members[m].state != NULL) {
            net->members[m].row->fini(net->members[m].state);
            free(net->members[m].state);
        }
    while (net->count > 0)
        free(pop(net));
    free(net->heap);
    free(net->members);
    free(net->control_us);
    free(net);
}

/* Whoever is told of an entry has entered itself, sooner or later: as with READY. */
static void grant_all(lossnet *net)
{
    for (uint32_t to = 0; to < net->size; to++)
        for (uint32_t from = 0; from < net->size; from++) {
            const member *m = &net->members[to];
            if (from == to || m->state == NULL || !m->row->sends_to(m->state, from))
                continue;
            const uint64_t at_us = net->now_us + 3 * transit_us(net);
            net->control_us[from * net->size + to] = at_us;
            post(net, GRANT, from, to, at_us, 0, NULL, 0);
        }
}

static void touch(member *m)
{
    const uint64_t now_us = m->net->now_us, tick_us = m->net->faults.tick_us;
    m->wake_us = m->state != NULL ? m->row->next_wake_us(m->state) : UINT64_MAX;
    if (tick_us > 0 && m->wake_us != UINT64_MAX && m->wake_us > now_us)
        m->wake_us = now_us + (m->wake_us - now_us + tick_us - 1) / tick_us * tick_us;
}

shoal_status lossnet_start(lossnet *net, const shoali_flow_row *row, const shoali_flow_args *args,
                           uint32_t datagram_bytes)
{
    member *m = &net->members[args->me];
    shoali_flow_args own = *args;
    const shoal_sink sink = {
        .ctx = m, .control = send_control, .done = end, .datagram = send_datagram};
    own.datagram_bytes = datagram_bytes;
    own.datagram_key = shoali_rng_next(&net->rng);
    m->row = row;
    m->state = aligned_alloc(64, (row->state_size(&own) + 63) / 64 * 64);
    assert_non_null(m->state);
    memset(m->state, 0, row->state_size(&own));
    m->result.started = true;
    const shoal_status status = row->start(m->state, &own, &sink, net->now_us);
    if (status != SHOAL_OK) {
        free(m->state);
        m->state = NULL;
        m->result.done = true;
        m->result.status = status;
        snprintf(m->result.why, sizeof m->result.why, "%s", shoal_last_error()->text);
    }
    touch(m);
    if (++net->started == net->size)
        grant_all(net);
    return status;
}

/* ------------------------------------------------------------------ time */

static void deliver(lossnet *net, const event *e)
{
    member *m = &net->members[e->to];
    if (e->kind == AT_SWITCH) {
        post(net, DATAGRAM, e->from, e->to, carried_us(net, &m->down_us, e->len_bytes), 0, e->bytes,
             e->len_bytes);
        return;
    }
    if (m->state == NULL || m->result.dead)
        return;
    switch (e->kind) {
    case AT_SWITCH:
        break;
    case DATAGRAM:
        (void)m->row->on_datagram(m->state, e->from, e->bytes, e->len_bytes, net->now_us);
        break;
    case CONTROL:
        m->row->on_control(m->state, e->from, e->control, e->bytes, e->len_bytes);
        break;
    case GRANT:
        m->row->on_granted(m->state, e->from, 7);
        break;
    }
    touch(m);
}

static bool all_done(const lossnet *net)
{
    for (uint32_t m = 0; m < net->size; m++)
        if (!net->members[m].result.done && !net->members[m].result.dead)
            return false;
    return true;
}

static bool is_stalled(const member *m, uint64_t at_us)
{
    return at_us >= m->stall_us && at_us < m->run_us;
}

static member *next_timer(lossnet *net)
{
    member *first = &net->members[0];
    for (uint32_t m = 1; m < net->size; m++)
        if (net->members[m].wake_us < first->wake_us)
            first = &net->members[m];
    return first;
}

bool lossnet_run(lossnet *net, uint64_t until_us)
{
    while (!all_done(net)) {
        member *timer = next_timer(net);
        const uint64_t event_us = net->count > 0 ? net->heap[0]->at_us : UINT64_MAX;
        const uint64_t at_us = timer->wake_us < event_us ? timer->wake_us : event_us;
        if (at_us > until_us || at_us == UINT64_MAX)
            return false;
        net->now_us = at_us > net->now_us ? at_us : net->now_us;
        if (timer->wake_us <= event_us && is_stalled(timer, at_us)) {
            timer->wake_us = timer->run_us + 1; /* behind what waits */
            continue;
        }
        if (timer->wake_us <= event_us) {
            timer->row->on_timer(timer->state, net->now_us);
            touch(timer);
            continue;
        }
        event *e = pop(net);
        if (e->kind != AT_SWITCH && is_stalled(&net->members[e->to], net->now_us)) {
            e->at_us = net->members[e->to].run_us;
            push(net, e); /* its number keeps the order */
            continue;
        }
        deliver(net, e);
        free(e);
    }
    return true;
}

void lossnet_kill(lossnet *net, uint32_t index)
{
    net->members[index].result.dead = true;
    net->members[index].wake_us = UINT64_MAX;
}

void lossnet_stall(lossnet *net, uint32_t index, uint64_t from_us, uint64_t for_us)
{
    net->members[index].stall_us = from_us;
    net->members[index].run_us = from_us + for_us;
}

uint32_t lossnet_describe(const lossnet *net, uint32_t index, char *text, size_t text_bytes)
{
    const member *m = &net->members[index];
    uint32_t peer = UINT32_MAX;
    m->row->describe(m->state, text, text_bytes, &peer);
    return peer;
}

uint32_t lossnet_time_out(lossnet *net, uint32_t index, char *text, size_t text_bytes)
{
    member *m = &net->members[index];
    const uint32_t peer = lossnet_describe(net, index, text, text_bytes);
    (m->row->fail)(m->state, SHOAL_ETIMEDOUT, text);
    touch(m);
    return peer;
}

bool lossnet_inject(lossnet *net, uint32_t from, uint32_t to, const void *bytes, size_t len_bytes)
{
    member *m = &net->members[to];
    const bool own = m->row->on_datagram(m->state, from, bytes, len_bytes, net->now_us);
    touch(m);
    return own;
}

const lossnet_result *lossnet_result_of(const lossnet *net, uint32_t index)
{
    return &net->members[index].result;
}

void *lossnet_state(const lossnet *net, uint32_t index)
{
    return net->members[index].state;
}

uint64_t lossnet_packets(const lossnet *net)
{
    return net->packets;
}

uint64_t lossnet_now_us(const lossnet *net)
{
    return net->now_us;
}
