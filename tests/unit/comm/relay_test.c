/* SPDX-License-Identifier: Apache-2.0 */
/* A relay between two subnets of loopback. That it passes on what is said is tested with real
 * hosts, cables and kernels that forward nothing: tests/cli/cables_test.py. */
#include "support/check.h"
#include "support/strangers.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/relay.h"
#include "transport/tcp.h"

static const shoali_relay_desc of_rank_0 = {.me = 0,
                                            .size = 2,
                                            .incarnation = 7,
                                            .job = "relay test",
                                            .token = (const uint8_t *)"0123456789abcdef",
                                            .token_bytes = 16,
                                            .deadline_us = 5 * 1000 * 1000};

static shoali_address address_of(const char *ips)
{
    shoali_address address;
    char text[SHOALI_ADDRESS_BYTES];
    snprintf(text, sizeof text, "host=h port=9 ip=%s boot=b netns=1", ips);
    assert_ok(shoali_address_parse(text, &address));
    return address;
}

/* A byte from the caller, by way of the relay, to the store. */
static void assert_passed_on(int caller, int store)
{
    struct pollfd wait = {.fd = store, .events = POLLIN};
    char byte = 0;
    assert_int_equal(send(caller, "x", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(poll(&wait, 1, 10000), 1);
    int fd = accept4(store, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
    close(fd);
}

static void silent_strangers_close_it_to_nobody(void **state)
{
    (void)state;
    const shoali_address mine = address_of("127.0.0.1/24,127.0.5.1/24");
    const shoali_address other = address_of("127.0.0.2/24");
    shoali_relay_desc of_rank_1 = of_rank_0;
    of_rank_1.me = 1;
    shoali_relay *relay, *caller;
    shoali_way store = {.relayed = false}, way = {.relayed = true, .rank = 0};
    int listener = shoali_tcp_listen(&mine.ips[1], 0, &store.ip);
    assert_true(listener >= 0);
    assert_ok(shoali_relay_open(&of_rank_0, &mine, &relay));
    assert_ok(shoali_relay_open(&of_rank_1, &other, &caller)); /* one link: it asks only */
    assert_int_equal(shoali_relay_port(caller), 0);
    shoali_relay_found(relay, &store);

    strangers *s = strangers_start(shoali_relay_port(relay), 300);
    way.ip = mine.ips[0];
    shoali_ip_set_port(&way.ip, shoali_relay_port(relay));
    int fd = shoali_relay_call(caller, &way, shoali_now_us() + 3 * 1000 * 1000);
    if (fd < 0)
        fail_msg("%s", shoal_last_error()->text);
    assert_passed_on(fd, listener);
    close(fd);
    strangers_stop(s);
    close(listener);
    shoali_relay_close(caller);
    shoali_relay_close(relay);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {CHECK_TEST(silent_strangers_close_it_to_nobody)};
    return CHECK_RUN(tests);
}
