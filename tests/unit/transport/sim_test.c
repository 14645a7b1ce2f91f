/* SPDX-License-Identifier: Apache-2.0 */
/* Transport sim as its users see it: connecting, data, control, goodbyes and losses. */
#include "transport/sim.h"

#include "base/arena.h"
#include "support/check.h"

enum { SIZE = 3 };

typedef struct user {
    shoali_fabric *sim;
    void *state;
    uint8_t buffer[100000];
    bool refuse;
    uint32_t up, down, frames, sent, failed, unplaced, control_kind;
    shoal_status why;
    char control[64];
    shoal_data head;
} user;

static user users[SIZE];
static const shoali_transport_row *const row = &shoali_transport_sim;

static uint8_t *on_place(void *ctx, uint32_t peer, const shoal_data *head)
{
    user *u = ctx;
    (void)peer, (void)head;
    return u->refuse ? NULL : u->buffer;
}

static void on_frames(void *ctx, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                      size_t count)
{
    user *u = ctx;
    (void)peer;
    assert_int_equal(count, 1);
    assert_ptr_equal(bodies[0], u->buffer);
    u->head = heads[0];
    u->frames++;
}

static void on_unplace(void *ctx, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    user *u = ctx;
    (void)peer, (void)head;
    assert_ptr_equal(body, u->buffer);
    u->unplaced++;
}

static void on_sent(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status)
{
    user *u = ctx;
    (void)peer;
    assert_int_equal(cookie, 77);
    u->sent += status == SHOAL_OK;
    u->failed += status != SHOAL_OK;
}

static void on_control(void *ctx, uint32_t peer, uint16_t kind, const uint8_t *bytes,
                       size_t len_bytes)
{
    user *u = ctx;
    (void)peer;
    u->control_kind = kind;
    memcpy(u->control, bytes, len_bytes);
}

static void on_up(void *ctx, uint32_t peer)
{
    ((user *)ctx)->up += peer < SIZE;
}

static void on_down(void *ctx, uint32_t peer, shoal_status why, const char *text)
{
    user *u = ctx;
    (void)peer;
    assert_true(strlen(text) > 0);
    u->down++;
    u->why = why;
}

static bool turn(shoali_fabric *sim)
{
    uint32_t endpoint;
    while (shoali_fabric_next_ready(sim, &endpoint)) {
        assert_int_equal(row->next_wake_us(users[endpoint].state), 0);
        row->progress(users[endpoint].state, shoali_fabric_now_us(sim));
        assert_true(row->next_wake_us(users[endpoint].state) == UINT64_MAX);
    }
    return shoali_fabric_advance(sim);
}

static void until(shoali_fabric *sim, uint64_t time_ns)
{
    while (shoali_fabric_now_ns(sim) < time_ns && turn(sim))
        continue;
}

static void all(shoali_fabric *sim)
{
    while (turn(sim))
        continue;
}

static shoali_fabric *open_all(void)
{
    const shoali_fabric_desc desc = {
        .endpoints = SIZE, .rate_bps = 8000000000, .latency_ns = 1000}; /* 1 byte a nanosecond */
    shoali_fabric *sim = shoali_fabric_create(&desc);
    assert_non_null(sim);
    memset(users, 0, sizeof users);
    for (uint32_t m = 0; m < SIZE; m++) {
        const shoali_transport_events events = {.ctx = &users[m],
                                                .place = on_place,
                                                .frames = on_frames,
                                                .unplace = on_unplace,
                                                .sent = on_sent,
                                                .control = on_control,
                                                .peer_up = on_up,
                                                .peer_down = on_down};
        const shoali_transport_args args = {
            .me = m, .size = SIZE, .deadline_us = 500, .join_us = 900, .fabric = sim};
        users[m].state = shoali_alloc(row->state_size);
        assert_ok(row->open(users[m].state, &args, &events));
        assert_int_equal(row->open(users[m].state, &args, &events), SHOAL_EINVAL);
    }
    return sim;
}

static shoali_fabric *connect_all(void)
{
    shoali_fabric *sim = open_all();
    for (uint32_t a = 0; a < SIZE; a++)
        for (uint32_t b = 0; b < SIZE; b++)
            if (a != b)
                assert_ok(row->add_peer(users[a].state, b, "sim=1"));
    until(sim, 3000);
    for (uint32_t a = 0; a < SIZE; a++)
        assert_int_equal(users[a].up, SIZE - 1);
    return sim;
}

static void close_all(shoali_fabric *sim)
{
    for (uint32_t m = 0; m < SIZE; m++)
        if (users[m].state != NULL) {
            row->close(users[m].state);
            shoali_free(users[m].state);
        }
    shoali_fabric_destroy(sim);
}

static uint8_t message[90000];

static shoal_status send_to(uint32_t from, uint32_t to)
{
    const shoal_data head = {
        .slot = 5, .match = 6, .chunk = 7, .len_bytes = sizeof message, .flags = 1};
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)(i * 31 >> 3);
    return row->send(users[from].state, to, 0x28, &head, message, 77);
}

static void frames_travel(void **state)
{
    (void)state;
    shoali_fabric *sim = connect_all();
    assert_ok(send_to(0, 1));
    assert_ok(row->control(users[2].state, 1, 9, "hello", 6));
    all(sim);
    assert_int_equal(users[1].frames, 1);
    assert_int_equal(users[0].sent, 1);
    assert_memory_equal(users[1].buffer, message, sizeof message);
    assert_int_equal(users[1].head.slot, 5);
    assert_int_equal(users[1].head.match, 6);
    assert_int_equal(users[1].head.chunk, 7);
    assert_int_equal(users[1].head.flags, 1);
    assert_int_equal(users[1].control_kind, 9);
    assert_string_equal(users[1].control, "hello");
    shoal_peer_stats from = {0}, to = {0};
    row->peer_stats(users[0].state, 1, &from);
    row->peer_stats(users[1].state, 0, &to);
    assert_int_equal(from.sent_payload_bytes, sizeof message);
    assert_int_equal(to.received_wire_bytes, sizeof message + 32);
    assert_int_equal(to.received_frames, 1);
    assert_string_equal(to.transport, "sim");
    close_all(sim);
}

static void a_refused_body_is_counted(void **state)
{
    (void)state;
    shoali_fabric *sim = connect_all();
    users[1].refuse = true;
    assert_ok(send_to(0, 1));
    all(sim);
    assert_int_equal(users[1].frames, 0);
    assert_int_equal(users[0].sent, 1);
    shoal_peer_stats to = {0};
    row->peer_stats(users[1].state, 0, &to);
    assert_int_equal(to.dropped_frames, 1);
    close_all(sim);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    shoali_fabric *sim = open_all();
    assert_status(send_to(0, 1), SHOAL_EPEER);
    assert_status(row->control(users[0].state, 1, 1, "", 0), SHOAL_EPEER);
    assert_status(row->add_peer(users[0].state, 0, ""), SHOAL_EINVAL);
    assert_status(row->add_peer(users[0].state, SIZE, ""), SHOAL_EINVAL);
    close_all(sim);
    assert_null(shoali_fabric_create(&(shoali_fabric_desc){.endpoints = 0, .rate_bps = 1}));
    assert_null(shoali_fabric_create(&(shoali_fabric_desc){.endpoints = 1}));
}

/* Nobody adds endpoint 0 in turn: it gives up after join_us. */
static void nobody_answers(void **state)
{
    (void)state;
    shoali_fabric *sim = open_all();
    assert_ok(row->add_peer(users[0].state, 1, ""));
    all(sim);
    assert_int_equal(users[0].down, 1);
    assert_int_equal(users[0].why, SHOAL_ETIMEDOUT);
    assert_int_equal(users[1].down, 0);
    assert_int_equal(shoali_fabric_now_ns(sim), 900000);
    close_all(sim);
}

/* What has left the sender arrives, what has not comes back; then the goodbye. */
static void goodbye(void **state)
{
    (void)state;
    shoali_fabric *sim = connect_all();
    assert_ok(send_to(0, 1));
    until(sim, shoali_fabric_now_ns(sim) + 90032 + 500);
    assert_ok(send_to(0, 1));
    row->drop_peer(users[0].state, 1, true);
    assert_status(send_to(0, 1), SHOAL_EPEER);
    all(sim);
    assert_int_equal(users[1].frames, 1);
    assert_int_equal(users[0].sent, 1);
    assert_int_equal(users[0].failed, 1);
    assert_int_equal(users[1].down, 1);
    assert_int_equal(users[1].why, SHOAL_OK);
    assert_int_equal(users[0].down, 0);
    assert_int_equal(users[2].down, 0);
    close_all(sim);
}

/* A body under way is given back when the link ends, and so is what the sender still holds. */
static void lost_in_mid_frame(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        shoali_fabric *sim = connect_all();
        const uint64_t start_ns = shoali_fabric_now_ns(sim);
        assert_ok(send_to(0, 1));
        assert_ok(send_to(0, 1));
        until(sim, start_ns + 30000);
        if (how == 0)
            row->drop_peer(users[0].state, 1, false);
        else
            (how == 1 ? shoali_fabric_kill : shoali_fabric_cut)(sim, how == 1 ? 0 : 1);
        all(sim);
        assert_int_equal(users[1].frames, 0);
        assert_int_equal(users[1].unplaced, 1);
        assert_int_equal(users[1].why, how == 2 ? SHOAL_ETIMEDOUT : SHOAL_EPEER);
        assert_int_equal(users[1].down, how == 2 ? 2 : 1);
        assert_int_equal(users[0].failed, how == 1 ? 0 : 2);
        assert_int_equal(users[0].down, how == 2 ? 1 : 0);
        assert_int_equal(users[2].down, how == 0 ? 0 : 1);
        close_all(sim);
    }
}

static void closing_returns_everything(void **state)
{
    (void)state;
    shoali_fabric *sim = connect_all();
    assert_ok(send_to(0, 1));
    assert_ok(send_to(1, 0));
    until(sim, shoali_fabric_now_ns(sim) + 30000);
    row->close(users[0].state);
    assert_int_equal(users[0].failed, 1);
    assert_int_equal(users[0].unplaced, 1);
    shoali_free(users[0].state);
    users[0].state = NULL;
    all(sim);
    assert_int_equal(users[1].why, SHOAL_OK);
    assert_int_equal(users[1].failed, 1);
    assert_int_equal(users[1].unplaced, 1);
    close_all(sim);
}

static void memory_runs_out(void **state)
{
    (void)state;
    const shoali_fabric_desc desc = {.endpoints = 4, .rate_bps = 1000};
    for (size_t k = 1; k <= 4; k++) {
        (void)shoali_alloc_fail_at(k);
        assert_null(shoali_fabric_create(&desc));
        (void)shoali_alloc_fail_at(0);
    }
    shoali_fabric *sim = connect_all();
    (void)shoali_alloc_fail_at(1);
    assert_status(send_to(0, 1), SHOAL_ENOMEM);
    (void)shoali_alloc_fail_at(1);
    assert_status(row->control(users[0].state, 1, 1, "", 0), SHOAL_ENOMEM);
    (void)shoali_alloc_fail_at(0);
    assert_ok(send_to(0, 1));
    all(sim);
    assert_int_equal(users[1].frames, 1);
    close_all(sim);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(frames_travel),     CHECK_TEST(a_refused_body_is_counted),
    CHECK_TEST(misuse_is_refused), CHECK_TEST(nobody_answers),
    CHECK_TEST(goodbye),           CHECK_TEST(lost_in_mid_frame),
    CHECK_TEST(memory_runs_out),   CHECK_TEST(closing_returns_everything),
};

int main(void)
{
    return CHECK_RUN(tests);
}
