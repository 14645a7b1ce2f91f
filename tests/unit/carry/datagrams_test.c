/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between two communicators over real sockets on loopback: whose they are, and which
 * count. */
#include "carry/datagrams.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "support/check.h"
#include "support/fake_comm.h"
#include "transport/udp.h"
#include "wire/messages.h"

enum { PATIENCE_MS = 60 * 1000 };
static fake_wire wires[2];

static void address_of(const void *state, char out[SHOALI_ADDRESS_BYTES])
{
    shoali_address address = {.host = "h", .boot = "b", .port = 9, .ip_count = 1};
    (void)state;
    assert_true(shoali_ip_parse("127.0.0.1", &address.ips[0]));
    shoali_address_format(&address, out);
}

static shoali_transport_row row;
static uint32_t members[] = {0, 1}, member_of[] = {0, 1};
static shoal_op_plan plan = {.members = members, .member_count = 2, .member_of = member_of};

/* The flow of an operation: takes what begins with its letter. */
static struct {
    uint32_t taken, from;
    char last[16];
} flow;

static bool on_datagram(void *state, uint32_t member, const uint8_t *bytes, size_t len_bytes,
                        uint64_t now_us)
{
    (void)state;
    (void)now_us;
    if (len_bytes == 0 || bytes[0] != 'k')
        return false;
    flow.taken++;
    flow.from = member;
    memcpy(flow.last, bytes, len_bytes < sizeof flow.last ? len_bytes : sizeof flow.last);
    return true;
}

static const shoali_flow_row flow_row = {.name = "test", .on_datagram = on_datagram};

typedef struct bench {
    shoal_comm *comm[2];
    struct shoal_op op[2];
} bench;

static shoal_comm *make(uint32_t me, uint32_t size)
{
    shoal_comm *comm = fake_comm_make(me, size, &wires[me]);
    row = *comm->links.control.row;
    row.address = address_of;
    comm->links.control.row = comm->links.control.kind = &row;
    comm->loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(comm->loop.epoll_fd >= 0);
    return comm;
}

static void unmake(shoal_comm *comm)
{
    shoali_datagrams_close(comm);
    close(comm->loop.epoll_fd);
    fake_comm_free(comm);
}

static struct shoal_op op_of(shoal_comm *comm, uint64_t sequence)
{
    return (struct shoal_op){.comm = comm,
                             .plan = &plan,
                             .row = &flow_row,
                             .state = SHOALI_OP_RUNNING,
                             .id = {.group = 1, .sequence = sequence}};
}

/* Both have sockets, and know each other's place. */
static void set_up(bench *b)
{
    memset(&flow, 0, sizeof flow);
    for (uint32_t i = 0; i < 2; i++) {
        shoali_flow_args args = {.size = 2};
        b->comm[i] = make(i, 2);
        b->op[i] = op_of(b->comm[i], 1);
        assert_ok(shoali_datagrams_give(&b->op[i], &args));
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(wires[i].count == 1 && wires[i].sent[0].to == 1 - i);
        assert_int_equal(wires[i].sent[0].kind, SHOALI_MESSAGE_datagram);
        assert_true(shoali_datagrams_on_place(b->comm[1 - i], i, wires[i].sent[0].bytes,
                                              wires[i].sent[0].len_bytes));
    }
    b->comm[1]->ops.open = &b->op[1];
}

static void tear_down(bench *b)
{
    for (uint32_t i = 0; i < 2; i++)
        unmake(b->comm[i]);
}

/* From rank 0 to rank 1, and until it has come. */
static void pass(bench *b, const char *text)
{
    struct epoll_event event;
    shoali_datagrams_send(&b->op[0], 1, text, strlen(text) + 1);
    shoali_datagrams_flush(b->comm[0]);
    assert_int_equal(epoll_wait(b->comm[1]->loop.epoll_fd, &event, 1, PATIENCE_MS), 1);
    shoali_datagrams_receive(b->comm[1]);
}

static shoal_peer_stats stats_of(const shoal_comm *comm, uint32_t endpoint)
{
    shoal_peer_stats stats = {.size = sizeof stats};
    shoali_datagrams_add_stats(comm, endpoint, &stats);
    return stats;
}

static void what_an_operation_takes_counts_and_is_a_sign_of_life(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    b.comm[1]->peers[0].heard_us = 0;
    pass(&b, "key 1");
    assert_true(flow.taken == 1 && flow.from == 0);
    assert_string_equal(flow.last, "key 1");
    assert_int_equal(b.comm[1]->peers[0].heard_us, b.comm[1]->loop.now_us);
    assert_true(b.comm[1]->loop.busy);
    assert_int_equal(stats_of(b.comm[0], 1).sent_frames, 1);
    assert_int_equal(stats_of(b.comm[0], 1).sent_wire_bytes, 6);
    assert_int_equal(stats_of(b.comm[1], 0).received_frames, 1);
    assert_int_equal(stats_of(b.comm[1], 0).received_payload_bytes, 6);
    assert_int_equal(stats_of(b.comm[1], 0).sent_frames, 0);
    tear_down(&b);
}

static void what_nobody_takes_counts_for_nothing(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    b.comm[1]->peers[0].heard_us = 0;
    pass(&b, "a stranger's");
    b.comm[1]->ops.open = NULL;
    pass(&b, "key of the past");
    assert_int_equal(flow.taken, 0);
    assert_int_equal(b.comm[1]->peers[0].heard_us, 0);
    assert_int_equal(stats_of(b.comm[1], 0).received_frames, 0);
    tear_down(&b);
}

/* The right words from a place that no endpoint has told. */
static void who_comes_from_elsewhere_is_nobody(void **state)
{
    (void)state;
    bench b;
    shoali_udp *other;
    shoali_ip ip;
    struct epoll_event event;
    set_up(&b);
    b.comm[1]->peers[0].heard_us = 0;
    assert_true(shoali_ip_parse("127.0.0.1", &ip));
    assert_ok(shoali_udp_open(&ip, &other));
    shoali_udp_send(other, shoali_datagrams_at(b.comm[0], 1), "key 1", 6);
    assert_true(shoali_udp_flush(other));
    assert_int_equal(epoll_wait(b.comm[1]->loop.epoll_fd, &event, 1, PATIENCE_MS), 1);
    shoali_datagrams_receive(b.comm[1]);
    assert_true(flow.taken == 0 && b.comm[1]->peers[0].heard_us == 0);
    shoali_udp_close(other);
    tear_down(&b);
}

/* Its key is an operation's own, and no other rank's: packets of the past find nobody. */
static void each_operation_has_a_key_of_its_own(void **state)
{
    (void)state;
    bench b;
    shoali_flow_args one = {.size = 2}, again = one, next = one, theirs = one;
    set_up(&b);
    struct shoal_op later = op_of(b.comm[0], 2);
    assert_ok(shoali_datagrams_give(&b.op[0], &one));
    assert_ok(shoali_datagrams_give(&b.op[0], &again));
    assert_ok(shoali_datagrams_give(&later, &next));
    assert_ok(shoali_datagrams_give(&b.op[1], &theirs));
    assert_true(one.datagram_key == again.datagram_key && one.datagram_key != next.datagram_key);
    assert_true(one.datagram_key != theirs.datagram_key);
    assert_true(one.datagram_bytes >= 1200);
    assert_int_equal(wires[0].count, 1); /* one socket for all, told once */
    tear_down(&b);
}

static void nonsense_is_no_place_and_whoever_is_alone_needs_none(void **state)
{
    (void)state;
    shoali_flow_args args = {.size = 1};
    shoali_datagram_place place = {.port = 7, .len_bytes = 1400, .ip = "nowhere"};
    uint8_t body[SHOALI_DATAGRAM_BYTES];
    shoal_comm *comm = make(0, 2);
    size_t length = shoali_datagram_encode(&place, body);
    assert_false(shoali_datagrams_on_place(comm, 1, body, length));
    assert_false(shoali_datagrams_on_place(comm, 1, body, length - 1));
    assert_null(comm->datagrams);
    snprintf(place.ip, sizeof place.ip, "127.0.0.1");
    length = shoali_datagram_encode(&place, body);
    assert_true(shoali_datagrams_on_place(comm, 1, body, length)); /* before any operation here */
    assert_int_equal(shoali_ip_port(shoali_datagrams_at(comm, 1)), 7);
    assert_false(shoali_datagrams_unread(comm));
    assert_int_equal(stats_of(comm, 1).sent_frames, 0);
    unmake(comm);
    comm = make(0, 1);
    const struct shoal_op op = op_of(comm, 1);
    struct shoal_op copy = op;
    assert_ok(shoali_datagrams_give(&copy, &args));
    assert_null(comm->datagrams);
    unmake(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_an_operation_takes_counts_and_is_a_sign_of_life),
        CHECK_TEST(what_nobody_takes_counts_for_nothing),
        CHECK_TEST(who_comes_from_elsewhere_is_nobody),
        CHECK_TEST(each_operation_has_a_key_of_its_own),
        CHECK_TEST(nonsense_is_no_place_and_whoever_is_alone_needs_none),
    };
    return CHECK_RUN(tests);
}
