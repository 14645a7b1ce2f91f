/* SPDX-License-Identifier: Apache-2.0 */
/* A relay between two subnets of loopback: which ways it knows, and that strangers close it to
 * nobody. Real hosts, cables and kernels that forward nothing: tests/cli/cables_test.py. */
#include "support/check.h"
#include "support/relays.h"
#include "support/strangers.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "relay/inner.h"
#include "transport/tcp.h"

enum { LONG_US = 60 * 1000 * 1000 };

static const char two_links[] = "127.0.0.1/24,127.0.5.1/24";

/* A byte from the caller, by way of the relay, to the store. False: it was given up before it had
 * proved itself, on a machine that is very busy. */
static bool is_passed_on(int caller, int store)
{
    struct pollfd wait = {.fd = store, .events = POLLIN};
    char byte = 0;
    if (send(caller, "x", 1, MSG_NOSIGNAL) != 1 || poll(&wait, 1, 10000) != 1)
        return false;
    int fd = accept4(store, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    const bool passed = recv(fd, &byte, 1, 0) == 1 && byte == 'x';
    close(fd);
    return passed;
}

static void silent_strangers_close_it_to_nobody(void **state)
{
    (void)state;
    const shoali_address mine = relay_address(0, two_links, 0);
    const shoali_address other = relay_address(1, "127.0.0.2/24", 0);
    const shoali_relay_desc of_rank_0 = relay_desc(0, 2), of_rank_1 = relay_desc(1, 2);
    shoali_relay *relay, *caller;
    shoali_way store = {.relayed = false}, way = {.relayed = true, .rank = 0};
    int listener = shoali_tcp_listen(&mine.ips[1], 0, &store.ip);
    assert_true(listener >= 0);
    assert_ok(shoali_relay_open(&of_rank_0, &mine, &relay));
    assert_ok(shoali_relay_open(&of_rank_1, &other, &caller)); /* one link: it asks only */
    assert_int_equal(shoali_relay_port(caller), 0);
    assert_null(shoali_relay_links(caller));
    shoali_relay_found(relay, &store);

    strangers *s = strangers_start(shoali_relay_port(relay), 300);
    way.ip = mine.ips[0];
    shoali_ip_set_port(&way.ip, shoali_relay_port(relay));
    int fd = -1;
    bool passed = false;
    for (int turn = 0; turn < 20 && !passed; turn++) {
        if (fd >= 0)
            close(fd);
        fd = shoali_relay_call(caller, &way, shoali_now_us() + LONG_US);
        passed = fd >= 0 && is_passed_on(fd, listener);
    }
    assert_true(passed);
    shoali_relay_lock(relay);
    const uint32_t count = relay->tunnel_count;
    shoali_relay_unlock(relay);
    assert_true(count <= 64 + 1); /* and the caller */
    close(fd);
    strangers_stop(s);
    close(listener);
    shoali_relay_close(caller);
    shoali_relay_close(relay);
}

static void only_several_links_make_a_relay(void **state)
{
    (void)state;
    static const struct {
        const char *ips;
        bool relays;
    } cases[] = {{"127.0.0.1/24", false},
                 {"127.0.0.1/24,127.0.0.7/24", false}, /* one subnet twice */
                 {"127.0.0.1/24,127.0.5.1", false},    /* what lies behind the other nobody knows */
                 {"127.0.0.1/24,::1/64", false},       /* the same link by both families */
                 {two_links, true}};
    const shoali_relay_desc desc = relay_desc(0, 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const shoali_address mine = relay_address(0, cases[i].ips, 0);
        shoali_relay *relay;
        assert_ok(shoali_relay_open(&desc, &mine, &relay));
        if ((shoali_relay_port(relay) != 0) != cases[i].relays)
            fail_msg("%s", cases[i].ips);
        shoali_relay_close(relay);
    }
}

/* A ring of four by cables: rank i has subnet i and that of its neighbour before it. Rank 0 is
 * ours. */
static shoali_relay *in_a_ring(void)
{
    const shoali_relay_desc desc = relay_desc(0, 4);
    const shoali_address all[] = {relay_address(0, "127.0.10.1/24,127.0.13.1/24", 70),
                                  relay_address(1, "127.0.11.2/24,127.0.10.2/24", 71),
                                  relay_address(2, "127.0.12.3/24,127.0.11.3/24", 72),
                                  relay_address(3, "127.0.13.4/24,127.0.12.4/24", 73)};
    shoali_relay *relay;
    shoali_way way;
    assert_ok(shoali_relay_open(&desc, &all[0], &relay));
    assert_false(shoali_relay_way(relay, 2, &way)); /* they have not met */
    assert_false(shoali_relay_between(relay, 0, 2));
    assert_ok(shoali_relay_learn(relay, all, 4));
    assert_status(shoali_relay_learn(relay, all, 4), SHOAL_ENOMEM); /* once is enough */
    return relay;
}

static void assert_way(shoali_relay *relay, uint32_t to, uint32_t by, const char *ip, uint16_t port)
{
    shoali_way way;
    char text[SHOALI_IP_TEXT_BYTES];
    assert_true(shoali_relay_way(relay, to, &way));
    shoali_ip_format(&way.ip, text);
    assert_true(way.relayed);
    assert_int_equal(way.rank, by);
    assert_string_equal(text, ip);
    assert_int_equal(shoali_ip_port(&way.ip), port);
}

static void ways_follow_the_cables(void **state)
{
    (void)state;
    shoali_way way;
    shoali_relay *relay = in_a_ring();
    assert_way(relay, 2, 1, "127.0.10.2", 71); /* by the address that it shares with us */
    const uint32_t itself_or_joined[] = {0, 1, 3, 4, UINT32_MAX};
    for (size_t i = 0; i < sizeof itself_or_joined / sizeof itself_or_joined[0]; i++)
        assert_false(shoali_relay_way(relay, itself_or_joined[i], &way));
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 0; b < 4; b++)
            assert_int_equal(shoali_relay_between(relay, a, b), a != b && (a + b) % 2 == 0);
    assert_false(shoali_relay_between(relay, 0, 4));
    assert_false(shoali_relay_between(relay, 4, 0));
    assert_false(shoali_relay_between(NULL, 0, 2));
    assert_false(shoali_relay_way(NULL, 2, &way));
    shoali_relay_close(relay);
}

static void ways_avoid_who_is_out(void **state)
{
    (void)state;
    const bool without_1[] = {false, true, false, false};
    const bool without_both[] = {false, true, false, true};
    shoali_way way;
    shoali_relay *relay = in_a_ring();
    shoali_relay_avoid(relay, without_1);
    assert_way(relay, 2, 3, "127.0.13.4", 73);
    shoali_relay_avoid(relay, without_both);
    assert_false(shoali_relay_way(relay, 2, &way));
    shoali_relay_avoid(NULL, without_1);
    shoali_relay_close(relay);
}

static void links_are_those_to_the_next_one(void **state)
{
    (void)state;
    shoali_relay *relay = in_a_ring();
    const uint64_t *links = shoali_relay_links(relay);
    assert_non_null(links);
    assert_int_equal(links[1], 1);        /* the first cable */
    assert_int_equal(links[3], 2);        /* the second one */
    assert_int_equal(links[2], links[1]); /* beyond rank 1 */
    assert_null(shoali_relay_links(NULL));
    shoali_relay_close(relay);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(silent_strangers_close_it_to_nobody),
        CHECK_TEST(only_several_links_make_a_relay), CHECK_TEST(ways_follow_the_cables),
        CHECK_TEST(ways_avoid_who_is_out), CHECK_TEST(links_are_those_to_the_next_one)};
    return CHECK_RUN(tests);
}
