/* SPDX-License-Identifier: Apache-2.0 */
/* Time on simulated links: rates, latency, sharing, order. One byte takes a nanosecond. */
#include "base/arena.h"
#include "support/check.h"
#include "transport/sim.h"

enum { MOST = 5, BYTES = 1000000, HEAD = 32 };

typedef struct end {
    shoali_fabric *sim;
    void *state;
    uint8_t *buffer;
    uint64_t last_ns, sent_ns[MOST], here_ns[MOST]; /* by peer */
    uint32_t order[64], count, up;
} end;

static end ends[MOST];
static const shoali_transport_row *const row = &shoali_transport_sim;

static uint8_t *on_place(void *ctx, uint32_t peer, const shoal_data *head)
{
    (void)peer, (void)head;
    return ((end *)ctx)->buffer;
}

static void on_frames(void *ctx, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                      size_t count)
{
    end *e = ctx;
    (void)bodies, (void)count;
    e->here_ns[peer] = e->last_ns = shoali_fabric_now_ns(e->sim);
    e->order[e->count++ % 64] = heads[0].chunk;
}

static void on_unplace(void *ctx, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    (void)ctx, (void)peer, (void)head, (void)body;
    fail();
}

static void on_sent(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status)
{
    end *e = ctx;
    (void)cookie;
    if (status == SHOAL_OK)
        e->sent_ns[peer] = shoali_fabric_now_ns(e->sim);
}

static void on_control(void *ctx, uint32_t peer, uint16_t kind, const uint8_t *bytes,
                       size_t len_bytes)
{
    end *e = ctx;
    (void)kind, (void)bytes, (void)len_bytes;
    e->here_ns[peer] = shoali_fabric_now_ns(e->sim);
}

static void on_up(void *ctx, uint32_t peer)
{
    ((end *)ctx)->up += peer < MOST;
}

static void on_down(void *ctx, uint32_t peer, shoal_status why, const char *text)
{
    (void)ctx, (void)peer, (void)why, (void)text;
}

static bool turn(shoali_fabric *sim)
{
    uint32_t endpoint;
    while (shoali_fabric_next_ready(sim, &endpoint))
        row->progress(ends[endpoint].state, 0);
    return shoali_fabric_advance(sim);
}

static void all(shoali_fabric *sim)
{
    while (turn(sim))
        continue;
}

/* Five connected endpoints. */
static shoali_fabric *open_all(const shoali_fabric_desc *desc, uint64_t *start_ns)
{
    shoali_fabric *sim = shoali_fabric_create(desc);
    assert_non_null(sim);
    for (uint32_t m = 0; m < MOST; m++) {
        ends[m] = (end){
            .sim = sim, .buffer = malloc(BYTES), .state = shoali_alloc(row->state_size)};
        assert_non_null(ends[m].buffer);
        const shoali_transport_events events = {.ctx = &ends[m],
                                                .place = on_place,
                                                .frames = on_frames,
                                                .unplace = on_unplace,
                                                .sent = on_sent,
                                                .control = on_control,
                                                .peer_up = on_up,
                                                .peer_down = on_down};
        assert_ok(row->open(ends[m].state,
                            &(shoali_transport_args){.me = m, .size = MOST, .fabric = sim},
                            &events));
    }
    for (uint32_t a = 0; a < MOST; a++)
        for (uint32_t b = 0; b < MOST; b++)
            if (a != b)
                assert_ok(row->add_peer(ends[a].state, b, ""));
    for (uint32_t a = 0; a < MOST; a++)
        while (ends[a].up < MOST - 1)
            assert_true(turn(sim));
    *start_ns = shoali_fabric_now_ns(sim);
    return sim;
}

static void close_all(shoali_fabric *sim)
{
    for (uint32_t m = 0; m < MOST; m++) {
        row->close(ends[m].state);
        shoali_free(ends[m].state);
        free(ends[m].buffer);
    }
    shoali_fabric_destroy(sim);
}

static void send_to(uint32_t from, uint32_t to, uint32_t chunk, uint32_t bytes)
{
    static const uint8_t body[BYTES];
    assert_ok(row->send(ends[from].state, to, 0, &(shoal_data){.chunk = chunk, .len_bytes = bytes},
                        body, 0));
}

static const shoali_fabric_desc plain = {
    .endpoints = MOST, .rate_bps = 8000000000, .latency_ns = 5000};

/* Alone on its way: bytes / rate + latency; the sender is done a latency earlier. */
static void one_frame(void **state)
{
    (void)state;
    uint64_t start_ns;
    shoali_fabric *sim = open_all(&plain, &start_ns);
    send_to(0, 1, 0, BYTES);
    all(sim);
    assert_int_equal(ends[1].here_ns[0] - start_ns, BYTES + HEAD + 5000);
    assert_int_equal(ends[0].sent_ns[1] - start_ns, BYTES + HEAD);
    close_all(sim);
}

/* Two receivers share the sender's link, two senders the receiver's: each takes twice as long. */
static void links_are_shared(void **state)
{
    (void)state;
    uint64_t start_ns;
    shoali_fabric *sim = open_all(&plain, &start_ns);
    send_to(0, 1, 0, BYTES);
    send_to(0, 2, 0, BYTES);
    send_to(3, 4, 0, BYTES);
    send_to(2, 4, 0, BYTES);
    all(sim);
    for (uint32_t m = 1; m <= 2; m++)
        assert_in_range(ends[m].here_ns[0] - start_ns, 2 * BYTES - 20000, 2 * BYTES + 10000);
    for (uint32_t m = 2; m <= 3; m++)
        assert_in_range(ends[4].here_ns[m] - start_ns, 2 * BYTES - 20000, 2 * BYTES + 10000);
    assert_int_equal(ends[4].last_ns - start_ns, 2 * (BYTES + HEAD) + 5000);
    close_all(sim);
}

/* Both directions of a link are independent; the slower end sets the pace. */
static void rates_differ(void **state)
{
    (void)state;
    uint64_t start_ns;
    shoali_fabric *sim = open_all(&plain, &start_ns);
    shoali_fabric_set_rate(sim, 0, 4000000000, 2000000000);
    send_to(0, 1, 0, BYTES);
    send_to(1, 0, 0, BYTES);
    all(sim);
    assert_in_range(ends[1].here_ns[0] - start_ns, 2 * BYTES, 2 * BYTES + 6000);
    assert_in_range(ends[0].here_ns[1] - start_ns, 4 * BYTES, 4 * BYTES + 40000);
    close_all(sim);
}

/* A slow receiver holds back its own frames only: the window keeps the uplink for others. */
static void a_slow_receiver_holds_nobody_up(void **state)
{
    (void)state;
    uint64_t start_ns;
    shoali_fabric_desc desc = plain;
    desc.window_bytes = 64 * 1024;
    shoali_fabric *sim = open_all(&desc, &start_ns);
    shoali_fabric_set_rate(sim, 1, 8000000000, 80000000); /* a hundredth */
    for (uint32_t i = 0; i < 4; i++)
        send_to(0, 1, i, BYTES);
    send_to(0, 2, 0, BYTES);
    all(sim);
    assert_in_range(ends[2].here_ns[0] - start_ns, BYTES, BYTES + BYTES / 10);
    assert_in_range(ends[1].here_ns[0] - start_ns, 400 * (uint64_t)BYTES, 401 * (uint64_t)BYTES);
    close_all(sim);
}

/* Frames of a pair keep their order, whatever the jitter; control overtakes queued data. */
static void order(void **state)
{
    (void)state;
    uint64_t start_ns;
    shoali_fabric_desc desc = plain;
    desc.jitter_ns = 100000;
    desc.seed = check_seed();
    shoali_fabric *sim = open_all(&desc, &start_ns);
    for (uint32_t i = 0; i < 40; i++)
        send_to(0, 1, i, 5000);
    all(sim);
    assert_int_equal(ends[1].count, 40);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(ends[1].order[i], i);
    start_ns = shoali_fabric_now_ns(sim);
    for (uint32_t i = 0; i < 4; i++)
        send_to(0, 1, i, BYTES);
    assert_ok(row->control(ends[0].state, 1, 1, "x", 1));
    while (ends[1].here_ns[0] < start_ns)
        assert_true(turn(sim));
    assert_true(ends[1].here_ns[0] - start_ns < BYTES / 2);
    all(sim);
    close_all(sim);
}

static char calls[8];

static void note(void *ctx)
{
    strncat(calls, ctx, 1);
}

/* By time, then by insertion; a time that has passed means now. */
static void calls_come_in_order(void **state)
{
    (void)state;
    static char a[] = "a", b[] = "b", c[] = "c", d[] = "d";
    shoali_fabric *sim = shoali_fabric_create(&plain);
    assert_non_null(sim);
    assert_ok(shoali_fabric_at(sim, 20, note, c));
    assert_ok(shoali_fabric_at(sim, 10, note, a));
    assert_ok(shoali_fabric_at(sim, 10, note, b));
    while (shoali_fabric_advance(sim))
        continue;
    assert_int_equal(shoali_fabric_now_ns(sim), 20);
    assert_ok(shoali_fabric_at(sim, 1, note, d));
    assert_true(shoali_fabric_advance(sim));
    assert_int_equal(shoali_fabric_now_ns(sim), 20);
    assert_string_equal(calls, "abcd");
    assert_int_equal(shoali_fabric_events(sim), 4);
    shoali_fabric_destroy(sim);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(one_frame),    CHECK_TEST(links_are_shared),
    CHECK_TEST(rates_differ), CHECK_TEST(a_slow_receiver_holds_nobody_up),
    CHECK_TEST(order),        CHECK_TEST(calls_come_in_order),
};

int main(void)
{
    return CHECK_RUN(tests);
}
