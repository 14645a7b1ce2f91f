/* SPDX-License-Identifier: Apache-2.0 */
#include "support/simhost.h"

#include "base/arena.h"
#include "support/check.h"

enum { GRANT = 1, SLOT = 31 };

typedef struct host_node {
    simhost *host;
    void *transport, *flow;
    uint32_t me, up;
    uint64_t timer_ns; /* set, UINT64_MAX: none */
    simhost_result result;
} host_node;

struct simhost {
    shoali_fabric *sim;
    const shoali_flow_row *row;
    uint32_t size;
    uint64_t start_ns, pace_us;
    host_node *nodes;
};

static simhost_watcher watcher;
static void *watcher_ctx;
static const shoali_fabric *clock_of; /* flows are told the time without a context */

static uint64_t clock_ns(void)
{
    return shoali_fabric_now_ns(clock_of);
}

void simhost_watch(simhost_watcher told, void *ctx)
{
    watcher = told;
    watcher_ctx = ctx;
}

/* ------------------------------------------------------------- timers */

static void on_timer(void *ctx);

static void arm(host_node *n)
{
    shoali_fabric *sim = n->host->sim;
    if (n->result.done)
        return;
    uint64_t wake_us = n->host->row->next_wake_us(n->flow);
    if (wake_us == UINT64_MAX || n->timer_ns != UINT64_MAX)
        return;
    n->timer_ns = wake_us * 1000;
    assert_ok(shoali_fabric_at(sim, n->timer_ns, on_timer, n));
}

static void on_timer(void *ctx)
{
    host_node *n = ctx;
    n->timer_ns = UINT64_MAX;
    if (!n->result.done)
        n->host->row->on_timer(n->flow, shoali_fabric_now_us(n->host->sim));
    arm(n);
}

/* ------------------------------------------------------------- the flow asks */

static void sink_send(void *ctx, uint32_t peer, const shoal_data *head, const void *body,
                      uint64_t cookie)
{
    host_node *n = ctx;
    assert_int_equal(head->slot, SLOT + peer);
    if (watcher != NULL)
        watcher(watcher_ctx, n->me, shoali_fabric_now_ns(n->host->sim), head->len_bytes);
    if (shoali_transport_sim.send(n->transport, peer, 0, head, body, cookie) != SHOAL_OK)
        n->host->row->on_sent(n->flow, peer, cookie);
}

static void sink_control(void *ctx, uint32_t peer, uint16_t kind, const void *bytes,
                         size_t len_bytes)
{
    host_node *n = ctx;
    assert_ok(shoali_transport_sim.control(n->transport, peer, kind, bytes, len_bytes));
}

static void sink_job(void *ctx, const shoal_op_id *id, size_t offset, size_t count, uint64_t cookie)
{
    host_node *n = ctx;
    (void)id, (void)offset, (void)count;
    n->host->row->on_job(n->flow, cookie, SHOAL_OK);
}

static void sink_done(void *ctx, const shoal_op_id *id, shoal_status status, const char *why)
{
    host_node *n = ctx;
    (void)id;
    n->result.done = true;
    n->result.status = status;
    n->result.done_ns = shoali_fabric_now_ns(n->host->sim) - n->host->start_ns;
    snprintf(n->result.why, sizeof n->result.why, "%s", why);
    n->host->row->stats(n->flow, &n->result.stats);
}

/* ------------------------------------------------------------- the transport tells */

static uint8_t *on_place(void *ctx, uint32_t peer, const shoal_data *head)
{
    host_node *n = ctx;
    uint8_t *at = n->host->row->place(n->flow, peer, head);
    arm(n);
    return at;
}

static void on_frames(void *ctx, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                      size_t count)
{
    host_node *n = ctx;
    n->host->row->on_frames(n->flow, peer, heads, bodies, count);
    arm(n);
}

static void on_unplace(void *ctx, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    host_node *n = ctx;
    n->host->row->unplace(n->flow, peer, head, body);
    arm(n);
}

static void on_sent(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status)
{
    host_node *n = ctx;
    (void)status;
    n->host->row->on_sent(n->flow, peer, cookie);
    arm(n);
}

static void on_control(void *ctx, uint32_t peer, uint16_t kind, const uint8_t *bytes,
                       size_t len_bytes)
{
    host_node *n = ctx;
    uint32_t slot;
    assert_int_equal(kind, GRANT);
    assert_int_equal(len_bytes, sizeof slot);
    memcpy(&slot, bytes, sizeof slot);
    n->host->row->on_granted(n->flow, peer, slot);
    arm(n);
}

static void on_up(void *ctx, uint32_t peer)
{
    host_node *n = ctx;
    (void)peer;
    n->up++;
}

static void on_down(void *ctx, uint32_t peer, shoal_status why, const char *text)
{
    host_node *n = ctx;
    char line[80];
    if (n->flow == NULL || n->result.done)
        return;
    snprintf(line, sizeof line, "endpoint %u %s", peer, text);
    (n->host->row->fail)(n->flow, why == SHOAL_OK ? SHOAL_EPEER : why, line);
}

/* ------------------------------------------------------------- the world */

void simhost_progress(simhost *host, uint32_t endpoint)
{
    shoali_transport_sim.progress(host->nodes[endpoint].transport, shoali_fabric_now_us(host->sim));
}

static bool turn(simhost *host)
{
    uint32_t endpoint;
    while (shoali_fabric_next_ready(host->sim, &endpoint))
        simhost_progress(host, endpoint);
    return shoali_fabric_advance(host->sim);
}

static void open_node(simhost *host, uint32_t me)
{
    host_node *n = &host->nodes[me];
    *n = (host_node){.host = host, .me = me, .timer_ns = UINT64_MAX};
    const shoali_transport_events events = {.ctx = n,
                                            .place = on_place,
                                            .frames = on_frames,
                                            .unplace = on_unplace,
                                            .sent = on_sent,
                                            .control = on_control,
                                            .peer_up = on_up,
                                            .peer_down = on_down};
    const shoali_transport_args args = {.me = me,
                                        .size = host->size,
                                        .deadline_us = 3000,
                                        .now_us = shoali_fabric_now_us,
                                        .now_ctx = host->sim,
                                        .fabric = host->sim};
    n->transport = shoali_alloc(shoali_transport_sim.state_size);
    assert_non_null(n->transport);
    assert_ok(shoali_transport_sim.open(n->transport, &args, &events));
}

static void connect_all(simhost *host)
{
    for (uint32_t a = 0; a < host->size; a++)
        for (uint32_t b = 0; b < host->size; b++)
            if (a != b)
                assert_ok(shoali_transport_sim.add_peer(host->nodes[a].transport, b, ""));
    for (uint32_t a = 0; a < host->size; a++)
        while (host->nodes[a].up + 1 < host->size)
            assert_true(turn(host));
}

static void start_flow(simhost *host, const engine_run *run, uint32_t me)
{
    host_node *n = &host->nodes[me];
    shoali_flow_args args = engine_run_args(run, me);
    if (run->c.pace_us > 0) {
        clock_of = host->sim;
        host->pace_us = host->start_ns / 1000 + run->c.pace_us;
        args.now_ns = clock_ns;
        args.pace_us = &host->pace_us;
    }
    shoal_sink sink = {
        .ctx = n, .send = sink_send, .control = sink_control, .job = sink_job, .done = sink_done};
    n->flow = shoali_alloc(n->host->row->state_size(&args));
    assert_non_null(n->flow);
    assert_ok(n->host->row->start(n->flow, &args, &sink, shoali_fabric_now_us(host->sim)));
    const uint32_t slot = SLOT + me;
    for (uint32_t peer = 0; peer < host->size; peer++)
        if (n->host->row->receives_from(n->flow, peer))
            sink_control(n, peer, GRANT, &slot, sizeof slot);
    arm(n);
}

simhost *simhost_start(const engine_run *run, const shoali_fabric_desc *desc)
{
    simhost *host = calloc(1, sizeof *host);
    assert_non_null(host);
    shoali_fabric_desc own = *desc;
    own.endpoints = host->size = run->c.size;
    host->row = engine_run_row(run);
    host->sim = shoali_fabric_create(&own);
    host->nodes = calloc(host->size, sizeof *host->nodes);
    assert_true(host->sim != NULL && host->nodes != NULL);
    for (uint32_t m = 0; m < host->size; m++)
        open_node(host, m);
    connect_all(host);
    host->start_ns = shoali_fabric_now_ns(host->sim);
    for (uint32_t m = 0; m < host->size; m++)
        start_flow(host, run, m);
    return host;
}

shoali_fabric *simhost_fabric(simhost *host)
{
    return host->sim;
}

static bool all_done(const simhost *host)
{
    for (uint32_t m = 0; m < host->size; m++)
        if (!host->nodes[m].result.done)
            return false;
    return true;
}

uint64_t simhost_run(simhost *host)
{
    uint64_t last_ns = 0;
    while (!all_done(host) && turn(host))
        continue;
    for (uint32_t m = 0; m < host->size; m++)
        if (host->nodes[m].result.done && host->nodes[m].result.done_ns > last_ns)
            last_ns = host->nodes[m].result.done_ns;
    return last_ns;
}

const simhost_result *simhost_result_of(const simhost *host, uint32_t member)
{
    return &host->nodes[member].result;
}

void simhost_destroy(simhost *host)
{
    for (uint32_t m = 0; m < host->size; m++)
        shoali_transport_sim.close(host->nodes[m].transport);
    for (uint32_t m = 0; m < host->size; m++) {
        host->row->fini(host->nodes[m].flow);
        shoali_free(host->nodes[m].flow);
        shoali_free(host->nodes[m].transport);
    }
    shoali_fabric_destroy(host->sim);
    free(host->nodes);
    free(host);
}
