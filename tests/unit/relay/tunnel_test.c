/* SPDX-License-Identifier: Apache-2.0 */
/* One way through a relay, by hand: this test is its thread. */
#include "support/check.h"
#include "support/relays.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "relay/inner.h"
#include "transport/tcp.h"

enum { LONG_US = 60 * 1000 * 1000 };

/* Ours is rank 1 of a line 0 - 1 - 2 - 3; it has a single address, so it runs no thread. */
static shoali_relay *relay;
static shoali_tunnel *tunnel;
static int caller; /* the other end of the tunnel's first descriptor */
static uint64_t now_us;

static int open_all(void **state)
{
    (void)state;
    const shoali_relay_desc desc = relay_desc(1, 4);
    const shoali_address mine = relay_address(1, "127.0.10.2/24", 0);
    int fds[2];
    if (shoali_relay_open(&desc, &mine, &relay) != SHOAL_OK ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return -1;
    now_us = shoali_now_us();
    tunnel = shoali_alloc(sizeof *tunnel);
    *tunnel = (shoali_tunnel){.fd = {fds[0], -1}, .until_us = now_us + LONG_US};
    relay->tunnels[relay->tunnel_count++] = tunnel;
    caller = fds[1];
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    close(caller);
    shoali_relay_close(relay); /* with its tunnels */
    return 0;
}

/* Wait for what the tunnel waits for, and let it go on. */
static shoal_status turn(void)
{
    struct pollfd polls[2];
    shoali_tunnel_want(tunnel, polls);
    assert_true(poll(polls, 2, 60000) > 0);
    return shoali_tunnel_advance(relay, tunnel, polls, now_us);
}

/* The caller's half of the opening; the tunnel's last status. */
static shoal_status greet(uint32_t from, uint32_t to, uint8_t hops)
{
    const shoali_relay_desc desc = relay_desc(from, 4);
    const shoali_address there = relay_address(from, "127.0.10.1/24", 0);
    shoali_relay *other;
    shoali_handshake shake;
    shoal_status mine = SHOAL_PENDING;
    assert_ok(shoali_relay_open(&desc, &there, &other));
    assert_ok(shoali_relay_greet(relay, false, 0, 0, 0, &tunnel->handshake));
    assert_ok(shoali_relay_greet(other, true, 1, to, hops, &shake));
    while (mine == SHOAL_PENDING && tunnel->state == SHOALI_TUNNEL_GREETED) {
        shoal_status theirs = shoali_relay_advance(caller, &shake);
        assert_true(theirs == SHOAL_OK || theirs == SHOAL_PENDING);
        mine = turn();
    }
    shoali_relay_close(other);
    return mine;
}

/* Ranks 2 and 3 at 127.0.20.3; rank 3 has that subnet's other address where hop is false. */
static void learn_line(uint16_t relay_port, uint16_t port)
{
    shoali_address all[] = {relay_address(0, "127.0.10.1/24", 0),
                            relay_address(1, "127.0.10.2/24,127.0.20.2/24", 70),
                            relay_address(2, "127.0.20.3/24,127.0.30.3/24", relay_port),
                            relay_address(3, "127.0.30.4/24", 0)};
    shoali_ip_set_port(&all[2].ips[0], port);
    relay->mine = all[1];
    assert_ok(shoali_relay_learn(relay, all, 4));
}

static void open_by_hand(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    tunnel->fd[1] = fds[0];
    tunnel->state = SHOALI_TUNNEL_OPEN;
    for (int i = 0; i < 2; i++)
        tunnel->half[i].bytes = shoali_alloc(SHOALI_TUNNEL_BYTES);
}

static void bytes_go_both_ways_and_then_the_ends(void **state)
{
    (void)state;
    int fds[2];
    char got[8] = "";
    open_by_hand(fds);
    assert_int_equal(send(caller, "there", 5, MSG_NOSIGNAL), 5);
    assert_int_equal(turn(), SHOAL_PENDING);
    assert_int_equal(recv(fds[1], got, sizeof got, 0), 5);
    assert_memory_equal(got, "there", 5);
    assert_int_equal(send(fds[1], "back", 4, MSG_NOSIGNAL), 4);
    assert_int_equal(turn(), SHOAL_PENDING);
    assert_int_equal(recv(caller, got, sizeof got, 0), 4);
    assert_memory_equal(got, "back", 4);
    /* one has said all, the other goes on */
    assert_int_equal(shutdown(caller, SHUT_WR), 0);
    assert_int_equal(turn(), SHOAL_PENDING);
    assert_int_equal(recv(fds[1], got, sizeof got, 0), 0);
    struct pollfd polls[2];
    shoali_tunnel_want(tunnel, polls);
    assert_int_equal(polls[0].fd, -1); /* it would be readable for ever */
    assert_int_equal(send(fds[1], "more", 4, MSG_NOSIGNAL), 4);
    assert_int_equal(turn(), SHOAL_PENDING);
    assert_int_equal(recv(caller, got, sizeof got, 0), 4);
    assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
    assert_int_equal(turn(), SHOAL_OK);
    assert_int_equal(recv(caller, got, sizeof got, 0), 0);
    close(fds[1]);
}

static uint8_t byte_at(size_t position)
{
    return (uint8_t)(position ^ position >> 8 ^ position >> 16);
}

/* As much from the caller as goes now. */
static size_t send_from(size_t position)
{
    uint8_t bytes[50000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = byte_at(position + i);
    ssize_t sent = send(caller, bytes, sizeof bytes, MSG_NOSIGNAL);
    assert_true(sent > 0 || (sent < 0 && errno == EAGAIN));
    return sent > 0 ? (size_t)sent : 0;
}

/* Who does not read holds up who sends to it, and nothing is lost or turned round. */
static void a_slow_end_holds_up_the_other(void **state)
{
    (void)state;
    int fds[2];
    size_t sent = 0, got = 0, more;
    struct pollfd polls[2];
    uint8_t bytes[3000];
    open_by_hand(fds);
    do {
        more = send_from(sent);
        sent += more;
        shoali_tunnel_want(tunnel, polls);
        if (poll(polls, 2, 0) > 0)
            assert_int_equal(shoali_tunnel_advance(relay, tunnel, polls, now_us), SHOAL_PENDING);
    } while (more > 0 || tunnel->half[0].end == tunnel->half[0].begin);
    shoali_tunnel_want(tunnel, polls);
    assert_int_equal(polls[0].fd, -1); /* no more from the caller */
    assert_int_equal(polls[1].events, POLLOUT | POLLIN);
    while (got < sent) {
        ssize_t length = recv(fds[1], bytes, sizeof bytes, 0);
        for (ssize_t i = 0; i < length; i++)
            assert_int_equal(bytes[i], byte_at(got + (size_t)i));
        got += length > 0 ? (size_t)length : 0;
        if (length < 0)
            assert_int_equal(turn(), SHOAL_PENDING);
    }
    close(fds[1]);
}

static void a_broken_end_ends_both(void **state)
{
    (void)state;
    int fds[2];
    open_by_hand(fds);
    assert_int_equal(send(caller, "x", 1, MSG_NOSIGNAL), 1);
    close(fds[1]);
    assert_status(turn(), SHOAL_EPEER);
    assert_error_has("broke");
}

static void what_cannot_be_passed_on_is_refused(void **state)
{
    (void)state;
    assert_status(greet(0, 2, 0), SHOAL_EPEER);
    assert_error_has("rank 1 does not know the way to rank 2 either");
}

static void no_way_leads_back(void **state)
{
    (void)state;
    learn_line(72, 9);
    assert_status(greet(2, 3, 0), SHOAL_EPEER); /* rank 2 is the next one to rank 3 */
    assert_error_has("the way leads back to rank 2");
}

static void so_many_relays_are_a_circle(void **state)
{
    (void)state;
    learn_line(72, 9);
    assert_status(greet(0, 2, SHOALI_RELAY_HOPS), SHOAL_ECORRUPT);
}

static void who_does_not_answer_in_time_is_given_up(void **state)
{
    (void)state;
    struct pollfd polls[2];
    assert_ok(shoali_relay_greet(relay, false, 0, 0, 0, &tunnel->handshake));
    shoali_tunnel_want(tunnel, polls);
    polls[0].revents = 0;
    tunnel->until_us = now_us + 1;
    assert_int_equal(shoali_tunnel_advance(relay, tunnel, polls, now_us), SHOAL_PENDING);
    assert_status(shoali_tunnel_advance(relay, tunnel, polls, now_us + 1), SHOAL_ETIMEDOUT);
}

static int listen_at_rank_2(uint16_t *port_out)
{
    const shoali_address there = relay_address(2, "127.0.20.3/24", 0);
    shoali_ip bound;
    int listener = shoali_tcp_listen(&there.ips[0], 0, &bound);
    assert_true(listener >= 0);
    *port_out = shoali_ip_port(&bound);
    return listener;
}

static int accept_one(int listener)
{
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 60000), 1);
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void who_is_joined_is_reached_at_its_port(void **state)
{
    (void)state;
    uint16_t port;
    int listener = listen_at_rank_2(&port);
    learn_line(72, port);
    assert_int_equal(greet(0, 2, 0), SHOAL_PENDING);
    assert_int_equal(tunnel->state, SHOALI_TUNNEL_CONNECTING);
    int fd = accept_one(listener);
    assert_int_equal(turn(), SHOAL_PENDING);
    assert_int_equal(tunnel->state, SHOALI_TUNNEL_OPEN);
    close(fd);
    close(listener);
}

static void a_door_is_reached_at_its_own_port(void **state)
{
    (void)state;
    uint16_t port;
    int listener = listen_at_rank_2(&port);
    learn_line(72, 9);
    shoali_relay_know_door(relay, 2, port);
    assert_int_equal(greet(0, 2, SHOALI_RELAY_DOOR), SHOAL_PENDING);
    assert_int_equal(tunnel->hops, 0);
    close(accept_one(listener));
    close(listener);
}

/* To rank 3 by way of rank 2's relay, which hears that there was one before it. */
static void the_next_relay_is_called(void **state)
{
    (void)state;
    uint16_t port;
    int listener = listen_at_rank_2(&port);
    const shoali_relay_desc desc = relay_desc(2, 4);
    const shoali_address there = relay_address(2, "127.0.20.3/24", 0);
    shoali_relay *next;
    shoali_handshake shake;
    shoal_status theirs = SHOAL_PENDING;
    learn_line(port, 9);
    assert_ok(shoali_relay_open(&desc, &there, &next));
    assert_int_equal(greet(0, 3, SHOALI_RELAY_DOOR | 4), SHOAL_PENDING);
    int fd = accept_one(listener);
    assert_ok(shoali_relay_greet(next, false, 0, 0, 0, &shake));
    while (tunnel->state != SHOALI_TUNNEL_OPEN) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        assert_int_equal(turn(), SHOAL_PENDING);
        if (theirs == SHOAL_PENDING && poll(&wait, 1, 60000) > 0)
            theirs = shoali_relay_advance(fd, &shake);
        assert_true(theirs == SHOAL_OK || theirs == SHOAL_PENDING);
    }
    assert_int_equal(shake.peer.endpoint, 1);
    assert_int_equal(shake.peer.target, 2);
    assert_int_equal(shake.peer.lane, 3);
    assert_int_equal(shake.peer.tos, SHOALI_RELAY_DOOR | 5);
    close(fd);
    close(listener);
    shoali_relay_close(next);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {TEST(bytes_go_both_ways_and_then_the_ends),
                                       TEST(a_slow_end_holds_up_the_other),
                                       TEST(a_broken_end_ends_both),
                                       TEST(what_cannot_be_passed_on_is_refused),
                                       TEST(no_way_leads_back),
                                       TEST(so_many_relays_are_a_circle),
                                       TEST(who_does_not_answer_in_time_is_given_up),
                                       TEST(who_is_joined_is_reached_at_its_port),
                                       TEST(a_door_is_reached_at_its_own_port),
                                       TEST(the_next_relay_is_called)};
    return CHECK_RUN(tests);
}
