/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between flows and a transport that this test is: so many at a time, the oldest operation
 * first, and each comes back once, whatever becomes of its peer. */
#include "carry/flight.h"

#include "base/arena.h"
#include "support/check.h"

enum { PEERS = 3, FRAMES = 200 };

static struct {
    uint64_t cookies[FRAMES]; /* of the frames that were handed over, in order */
    uint32_t endpoints[FRAMES];
    const void *bodies[FRAMES];
    uint8_t tos[FRAMES];
    uint32_t count;
    shoal_status answer;
} wire;

static shoal_status send_it(void *state, uint32_t peer, uint8_t tos, const shoal_data *head,
                            const void *body, uint64_t cookie)
{
    (void)state;
    (void)head;
    if (wire.answer != SHOAL_OK)
        return wire.answer;
    wire.cookies[wire.count] = cookie;
    wire.endpoints[wire.count] = peer;
    wire.tos[wire.count] = tos;
    wire.bodies[wire.count++] = body;
    return SHOAL_OK;
}

static const shoali_transport_row transport = {.name = "test", .send = send_it};

/* What the flow hears: how often of each of its frames. */
static uint32_t back[FRAMES];

static void on_sent(void *flow, uint32_t member, uint64_t cookie)
{
    (void)flow;
    (void)member;
    back[cookie]++;
}

static const shoali_flow_row row = {.name = "test", .on_sent = on_sent};

typedef struct bench {
    shoal_comm *comm;
    shoali_link link;
    uint32_t members[PEERS];
    shoal_op_plan plan;
    struct shoal_op old, young;
} bench;

static void set_up(bench *b)
{
    memset(&wire, 0, sizeof wire);
    memset(back, 0, sizeof back);
    memset(b, 0, sizeof *b);
    b->comm = shoali_alloc(sizeof *b->comm);
    b->comm->size = b->comm->ranks = PEERS;
    b->comm->peers = shoali_alloc_array(PEERS, sizeof *b->comm->peers);
    b->link = (shoali_link){.comm = b->comm, .row = &transport, .kind = &transport};
    shoali_flights_init(&b->comm->flights);
    for (uint32_t i = 0; i < PEERS; i++) {
        b->comm->peers[i].waiting_first = b->comm->peers[i].waiting_last = SHOALI_NONE;
        b->comm->peers[i].data = &b->link;
        b->members[i] = i;
    }
    b->plan.members = b->members;
    b->plan.member_count = PEERS;
    b->old = (struct shoal_op){.comm = b->comm, .plan = &b->plan, .row = &row, .age = 1, .tos = 8};
    b->young = b->old;
    b->young.age = 2;
}

static void tear_down(bench *b)
{
    shoali_flights_free(&b->comm->flights);
    shoali_free(b->comm->peers);
    shoali_free(b->comm);
}

static void send_one(shoal_op *op, uint32_t member, uint64_t cookie, const void *body)
{
    const shoal_data head = {.chunk = (uint32_t)cookie};
    shoali_flight_send(op, member, &head, body, cookie);
}

static void all_came_back_once(uint32_t count)
{
    for (uint32_t i = 0; i < FRAMES; i++)
        assert_int_equal(back[i], i < count ? 1 : 0);
}

static void few_at_a_time_and_the_oldest_first(void **state)
{
    (void)state;
    bench b;
    static const char bodies[8];
    set_up(&b);
    for (uint32_t i = 0; i < 6; i++)
        send_one(&b.young, 1, i, &bodies[i]);
    assert_int_equal(wire.count, SHOALI_FLIGHTS);
    send_one(&b.old, 1, 6, &bodies[6]); /* before the young one's that still wait */
    send_one(&b.old, 1, 7, &bodies[7]);
    send_one(&b.young, 2, 8, NULL); /* to another peer, which has nothing to do */
    assert_int_equal(wire.count, SHOALI_FLIGHTS + 1);
    assert_int_equal(wire.endpoints[SHOALI_FLIGHTS], 2);
    assert_false(shoali_flight_deliver(b.comm)); /* nothing is back yet */
    for (uint32_t i = 0; i < wire.count; i++) {
        shoali_flight_sent(b.comm, wire.cookies[i], SHOAL_OK);
        assert_true(b.comm->loop.busy);
        assert_true(shoali_flight_deliver(b.comm));
    }
    all_came_back_once(9);
    static const int order[] = {0, 1, 2, 3, -1, 6, 7, 4, 5};
    for (uint32_t i = 0; i < 9; i++)
        assert_ptr_equal(wire.bodies[i], order[i] < 0 ? NULL : &bodies[order[i]]);
    assert_int_equal(wire.tos[0], 8);
    assert_int_equal(b.comm->peers[1].flights, 0);
    tear_down(&b);
}

static void what_has_not_left_comes_back_by_operation(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    for (uint32_t i = 0; i < 12; i++)
        send_one(i % 2 == 0 ? &b.old : &b.young, 1, i, NULL);
    const uint32_t handed = wire.count;
    shoali_flight_recall(b.comm, &b.old, SHOALI_NONE);
    assert_true(shoali_flight_deliver(b.comm));
    uint32_t came = 0;
    for (uint32_t i = 0; i < 12; i++) {
        assert_true(i % 2 == 0 || back[i] == 0);
        came += back[i];
    }
    assert_int_equal(came, 6 - handed / 2);
    for (uint32_t i = 0; i < wire.count; i++) {
        shoali_flight_sent(b.comm, wire.cookies[i], SHOAL_OK);
        shoali_flight_deliver(b.comm);
    }
    all_came_back_once(12);
    assert_int_equal(b.comm->peers[1].waiting_last, SHOALI_NONE);
    tear_down(&b);
}

static void a_lost_peer_gives_every_frame_back(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    for (uint32_t i = 0; i < 6; i++)
        send_one(&b.old, 1, i, NULL);
    send_one(&b.old, 2, 6, NULL);
    b.comm->peers[1].state = SHOALI_PEER_LOST;
    shoali_flight_recall(b.comm, NULL, 1);
    send_one(&b.old, 1, 7, NULL); /* its flow has not heard yet */
    for (uint32_t i = 0; i < SHOALI_FLIGHTS; i++)
        shoali_flight_sent(b.comm, wire.cookies[i], SHOAL_EPEER);
    while (shoali_flight_deliver(b.comm))
        ;
    assert_int_equal(wire.count, SHOALI_FLIGHTS + 1); /* nothing more was handed over */
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(back[i], i == 6 ? 0 : 1);
    tear_down(&b);
}

/* The table grows, and places are used again. A cookie that is nobody's is left alone. */
static void many_frames_find_room(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    for (uint32_t i = 0; i < FRAMES; i++)
        send_one(&b.old, i % PEERS, i, NULL);
    assert_true(b.comm->flights.count >= FRAMES);
    const uint32_t room = b.comm->flights.count;
    shoali_flight_sent(b.comm, room, SHOAL_OK);
    shoali_flight_sent(b.comm, UINT64_MAX, SHOAL_OK);
    for (uint32_t i = 0; i < wire.count; i++) {
        shoali_flight_sent(b.comm, wire.cookies[i], SHOAL_OK);
        shoali_flight_deliver(b.comm);
    }
    assert_int_equal(wire.count, FRAMES);
    assert_int_equal(b.comm->flights.count, room);
    tear_down(&b);
}

static void what_a_transport_refuses_is_back_at_once(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    wire.answer = SHOAL_EPEER;
    send_one(&b.old, 1, 0, NULL);
    assert_int_equal(back[0], 0); /* not from inside of its own call */
    assert_true(shoali_flight_deliver(b.comm));
    all_came_back_once(1);
    assert_int_equal(b.comm->peers[1].flights, 0);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(few_at_a_time_and_the_oldest_first),
                                       CHECK_TEST(what_has_not_left_comes_back_by_operation),
                                       CHECK_TEST(a_lost_peer_gives_every_frame_back),
                                       CHECK_TEST(many_frames_find_room),
                                       CHECK_TEST(what_a_transport_refuses_is_back_at_once)};
    return CHECK_RUN(tests);
}
