/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers at a listener: how many, how long, and who makes room. */
#include "support/check.h"
#include "support/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "meet/visitors.h"

enum { KNOWN = 2, MOST = SHOALI_STRANGERS + KNOWN };

typedef struct guest {
    shoali_visitor base;
    int mark; /* the owner's */
} guest;

static const shoali_token token = {.bytes = "0123456789abcdef", .len_bytes = 16};
static shoali_record mine = {.world_size = 4, .workers = 4};
static const shoali_meeting meeting = {.job = "visit", .token = &token, .mine = &mine};

static int listener, placeholder;
static struct sockaddr_in at;
static shoali_visitors visitors;

static int open_all(void **state)
{
    (void)state;
    int on = 1;
    at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons(port_reserve(&placeholder));
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, SOMAXCONN) != 0)
        return -1;
    return shoali_visitors_open(&meeting, sizeof(guest), KNOWN, &visitors) == SHOAL_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    shoali_visitors_close(&visitors);
    shoali_visitors_close(&visitors);
    close(listener);
    close(placeholder);
    return 0;
}

static int call(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Whether our side still holds the connection. */
static bool is_held(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return got > 0 || (got < 0 && errno == EAGAIN);
}

static void accept_all(void)
{
    struct pollfd one = {.fd = listener, .events = POLLIN};
    while (poll(&one, 1, 0) > 0)
        shoali_visitors_accept(&visitors, listener, NULL, NULL);
}

static void read_all(void)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    for (uint32_t i = visitors.count; i-- > 0;) {
        shoal_status status = shoali_meet_stream_read(&visitors.all[i]->stream, &kind, &body,
                                                      &length);
        if (status != SHOAL_PENDING)
            shoali_visitors_drop(&visitors, i);
    }
}

static void the_oldest_silent_one_makes_room(void **state)
{
    (void)state;
    int fds[MOST + 40];
    fds[0] = call();
    assert_int_equal(send(fds[0], "S", 1, MSG_NOSIGNAL), 1); /* the oldest, but it speaks */
    accept_all();
    assert_int_equal(visitors.count, 1);
    read_all();
    assert_true(visitors.all[0]->stream.heard);
    for (int i = 1; i < MOST + 40; i++) {
        fds[i] = call();
        accept_all();
    }
    assert_int_equal(visitors.count, MOST);
    assert_int_equal(visitors.turned_away, 40);
    assert_true(is_held(fds[0]));
    for (int i = 1; i < MOST + 40; i++)
        if (is_held(fds[i]) != (i > 40))
            fail_msg("caller %d", i);
    for (int i = 0; i < MOST + 40; i++)
        close(fds[i]);
}

static void who_is_known_is_no_stranger(void **state)
{
    (void)state;
    int fds[MOST + 10];
    for (int i = 0; i < KNOWN; i++) {
        fds[i] = call();
        accept_all();
        visitors.all[i]->known = true;
        ((guest *)visitors.all[i])->mark = i;
    }
    for (int i = KNOWN; i < MOST + 10; i++) {
        fds[i] = call();
        accept_all();
    }
    assert_int_equal(visitors.count, KNOWN + MOST);
    assert_int_equal(visitors.turned_away, 10 - KNOWN);
    assert_int_equal(shoali_visitors_known(&visitors), KNOWN);
    for (int i = 0; i < KNOWN; i++)
        assert_int_equal(((guest *)visitors.all[i])->mark, i);
    for (int i = 0; i < MOST + 10; i++) {
        assert_true(is_held(fds[i]) == (i < KNOWN || i >= 10));
        close(fds[i]);
    }
}

static bool never(void *ctx, int fd)
{
    (void)fd;
    ++*(int *)ctx;
    return false;
}

static void the_owner_may_not_want_them(void **state)
{
    (void)state;
    int asked = 0, fd = call();
    struct pollfd one = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&one, 1, 10000), 1);
    shoali_visitors_accept(&visitors, listener, never, &asked);
    assert_int_equal(asked, 1);
    assert_int_equal(visitors.count, 0);
    one = (struct pollfd){.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&one, 1, 10000), 1);
    assert_false(is_held(fd));
    close(fd);
}

static void a_second_is_enough_to_prove_oneself(void **state)
{
    (void)state;
    shoali_visitor one = {.since_us = 5000000};
    assert_ok(shoali_visitor_in_time(&one, 5000000 + SHOALI_STRANGER_US));
    assert_status(shoali_visitor_in_time(&one, 5000001 + SHOALI_STRANGER_US), SHOAL_ETIMEDOUT);
    assert_error_has("has not proved the token within 1 s");
    one.stream.open = true;
    assert_ok(shoali_visitor_in_time(&one, 60000000));
}

static void without_descriptors_it_does_not_spin(void **state)
{
    (void)state;
    int fd = call();
    visitors.exhausted = true;
    assert_int_equal(shoali_visitors_listen(&visitors, listener).fd, -1);
    assert_int_equal(shoali_visitors_listen(&visitors, listener).fd, listener);
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        TEST(the_oldest_silent_one_makes_room), TEST(who_is_known_is_no_stranger),
        TEST(the_owner_may_not_want_them), TEST(a_second_is_enough_to_prove_oneself),
        TEST(without_descriptors_it_does_not_spin)};
    return CHECK_RUN(tests);
}
