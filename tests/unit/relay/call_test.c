/* SPDX-License-Identifier: Apache-2.0 */
/* Asking for a relay and calling it, on loopback. */
#include "support/check.h"
#include "support/relays.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "relay/inner.h"
#include "transport/tcp.h"
#include "wire/find.h"

enum { LONG_US = 60 * 1000 * 1000 };

static shoali_relay *open_one(const shoali_relay_desc *desc, const char *ips)
{
    const shoali_address mine = relay_address(desc->me, ips, 0);
    shoali_relay *relay;
    assert_ok(shoali_relay_open(desc, &mine, &relay));
    return relay;
}

static void make_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

/* Both ends of an opening take turns, until both are through or one has failed. */
static shoal_status open_both(int fds[2], shoali_handshake shakes[2], shoal_status *listener_out)
{
    shoal_status dialler = SHOAL_PENDING, listener = SHOAL_PENDING;
    for (int turn = 0; turn < 8; turn++) {
        if (dialler == SHOAL_PENDING)
            dialler = shoali_relay_advance(fds[0], &shakes[0]);
        if (listener == SHOAL_PENDING)
            listener = shoali_relay_advance(fds[1], &shakes[1]);
    }
    *listener_out = listener;
    return dialler;
}

static void an_opening_says_where_to(void **state)
{
    (void)state;
    int fds[2];
    shoali_handshake shakes[2];
    shoal_status listener;
    const shoali_relay_desc of_1 = relay_desc(1, 4), of_2 = relay_desc(2, 4);
    shoali_relay *caller = open_one(&of_1, "127.0.0.2/24"), *callee = open_one(&of_2, "127.0.0.3");
    make_pair(fds);
    assert_ok(shoali_relay_greet(caller, true, 2, 3, 5, &shakes[0]));
    assert_ok(shoali_relay_greet(callee, false, 0, 0, 0, &shakes[1]));
    assert_memory_not_equal(shakes[0].self.nonce, shakes[1].self.nonce, SHOALI_NONCE_BYTES);
    assert_ok(open_both(fds, shakes, &listener));
    assert_ok(listener);
    const shoali_hello *hello = &shakes[1].peer;
    assert_int_equal(hello->purpose, SHOALI_PURPOSE_RELAY);
    assert_int_equal(hello->endpoint, 1);
    assert_int_equal(hello->target, 2);
    assert_int_equal(hello->lane, 3);
    assert_int_equal(hello->tos, 5);
    assert_int_equal(hello->incarnation, of_1.incarnation);
    assert_string_equal(hello->job, "relay test");
    close(fds[0]);
    close(fds[1]);
    shoali_relay_close(caller);
    shoali_relay_close(callee);
}

static void another_token_opens_nothing(void **state)
{
    (void)state;
    int fds[2];
    shoali_handshake shakes[2];
    shoal_status listener;
    shoali_relay_desc of_1 = relay_desc(1, 4), of_2 = relay_desc(2, 4);
    of_1.token = (const uint8_t *)"fedcba9876543210";
    shoali_relay *caller = open_one(&of_1, "127.0.0.2/24"), *callee = open_one(&of_2, "127.0.0.3");
    make_pair(fds);
    assert_ok(shoali_relay_greet(caller, true, 2, 3, 0, &shakes[0]));
    assert_ok(shoali_relay_greet(callee, false, 0, 0, 0, &shakes[1]));
    assert_status(open_both(fds, shakes, &listener), SHOAL_EAUTH);
    assert_int_not_equal(listener, SHOAL_OK);
    assert_int_not_equal(listener, SHOAL_PENDING); /* the refusal has come through */
    close(fds[0]);
    close(fds[1]);
    shoali_relay_close(caller);
    shoali_relay_close(callee);
}

static void who_hangs_up_is_noticed(void **state)
{
    (void)state;
    int fds[2];
    shoali_handshake shake;
    const shoali_relay_desc of_1 = relay_desc(1, 4);
    shoali_relay *caller = open_one(&of_1, "127.0.0.2/24");
    make_pair(fds);
    assert_ok(shoali_relay_greet(caller, true, 2, 3, 0, &shake));
    assert_int_equal(shoali_relay_advance(fds[0], &shake), SHOAL_PENDING);
    assert_int_equal(shake.out_len, 0);
    close(fds[1]);
    assert_status(shoali_relay_advance(fds[0], &shake), SHOAL_EPEER);
    close(fds[0]);
    shoali_relay_close(caller);
}

/* Whoever hears the question and knows the way to the store answers; a question of another job, or
 * before the way is known, finds nobody. */
static void a_relay_is_found_by_asking(void **state)
{
    (void)state;
    int holder;
    shoali_way way, store = {.relayed = false};
    char text[SHOALI_IP_TEXT_BYTES];
    shoali_relay_desc of_0 = relay_desc(0, 2), of_1 = relay_desc(1, 2);
    of_0.find_port = of_1.find_port = relay_find_port(&holder);
    shoali_relay_desc of_other = of_1;
    of_other.job = "another";
    shoali_relay *relay = open_one(&of_0, "127.0.0.1/24,127.0.5.1/24");
    shoali_relay *caller = open_one(&of_1, "127.0.0.2/24");
    shoali_relay *other = open_one(&of_other, "127.0.0.2/24");
    assert_true(relay->udp >= 0);
    assert_false(shoali_relay_find(caller, shoali_now_us() + 100 * 1000, &way));
    assert_true(shoali_ip_parse("127.0.5.9", &store.ip));
    shoali_relay_found(relay, &store);
    assert_true(shoali_relay_find(caller, shoali_now_us() + LONG_US, &way));
    shoali_ip_format(&way.ip, text);
    assert_true(way.relayed);
    assert_int_equal(way.rank, 0);
    assert_int_equal(strncmp(text, "127.0.0.", 8), 0);
    assert_int_equal(shoali_ip_port(&way.ip), shoali_relay_port(relay));
    assert_false(shoali_relay_find(other, shoali_now_us() + 100 * 1000, &way));
    shoali_relay_close(other);
    shoali_relay_close(caller);
    shoali_relay_close(relay);
    close(holder);
}

static void say(int fd, const struct sockaddr_in *to, uint8_t kind, uint8_t nonce, uint16_t port)
{
    const shoali_relay_desc desc = relay_desc(0, 2);
    const shoali_find find = {.kind = kind, .endpoint = 3, .port = port, .nonce = {nonce}};
    uint8_t bytes[SHOALI_FIND_BYTES];
    assert_true(shoali_find_encode(&find, desc.job, desc.token, desc.token_bytes, bytes));
    assert_int_equal(sendto(fd, bytes, sizeof bytes, 0, (const struct sockaddr *)to, sizeof *to),
                     sizeof bytes);
}

static shoali_find hear(int fd, struct sockaddr_in *from_out)
{
    const shoali_relay_desc desc = relay_desc(0, 2);
    uint8_t bytes[SHOALI_FIND_BYTES];
    socklen_t length = sizeof *from_out;
    shoali_find find;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 60000), 1);
    assert_int_equal(recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)from_out, &length),
                     sizeof bytes);
    assert_true(
        shoali_find_decode(bytes, sizeof bytes, desc.job, desc.token, desc.token_bytes, &find));
    return find;
}

/* Else two relays would answer each other for ever. */
static void answers_are_not_answered(void **state)
{
    (void)state;
    int holder, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    shoali_relay_desc of_0 = relay_desc(0, 2);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from;
    shoali_way store = {.relayed = false};
    of_0.find_port = relay_find_port(&holder);
    to.sin_port = htons(of_0.find_port);
    shoali_relay *relay = open_one(&of_0, "127.0.0.1/24,127.0.5.1/24");
    assert_true(shoali_ip_parse("127.0.5.9", &store.ip));
    shoali_relay_found(relay, &store);
    say(fd, &to, SHOALI_FIND_TELL, 1, 77);
    say(fd, &to, SHOALI_FIND_ASK, 2, 0);
    const shoali_find answer = hear(fd, &from);
    assert_int_equal(answer.kind, SHOALI_FIND_TELL);
    assert_int_equal(answer.nonce[0], 2);
    close(fd);
    close(holder);
    shoali_relay_close(relay);
}

/* The question itself, and the answer to another one, come back first. */
static void *answer_badly(void *arg)
{
    const int fd = *(const int *)arg;
    struct sockaddr_in from;
    const shoali_find question = hear(fd, &from);
    const shoali_relay_desc desc = relay_desc(0, 2);
    uint8_t bytes[SHOALI_FIND_BYTES];
    shoali_find find = question;
    for (uint16_t port = 76; port < 79; port++) {
        find.kind = port == 76 ? SHOALI_FIND_ASK : SHOALI_FIND_TELL;
        find.port = port == 76 ? 0 : port;
        find.nonce[3] ^= port >= 77; /* of another question at 77 */
        assert_true(shoali_find_encode(&find, desc.job, desc.token, desc.token_bytes, bytes));
        assert_true(
            sendto(fd, bytes, sizeof bytes, 0, (const struct sockaddr *)&from, sizeof from) > 0);
    }
    return NULL;
}

static void only_the_answer_counts(void **state)
{
    (void)state;
    pthread_t thread;
    shoali_way way;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    shoali_relay_desc of_1 = relay_desc(1, 2);
    of_1.find_port = ntohs(at.sin_port);
    shoali_relay *caller = open_one(&of_1, "127.0.0.2/24");
    assert_int_equal(pthread_create(&thread, NULL, answer_badly, &fd), 0);
    assert_true(shoali_relay_find(caller, shoali_now_us() + LONG_US, &way));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(shoali_ip_port(&way.ip), 78);
    close(fd);
    shoali_relay_close(caller);
}

static void without_a_port_nobody_is_asked(void **state)
{
    (void)state;
    shoali_way way;
    const shoali_relay_desc of_1 = relay_desc(1, 2);
    shoali_relay *caller = open_one(&of_1, "127.0.0.2/24");
    assert_false(shoali_relay_find(caller, shoali_now_us() + LONG_US, &way)); /* at once */
    shoali_relay_close(caller);
}

static void a_call_ends_by_its_deadline(void **state)
{
    (void)state;
    const shoali_relay_desc of_1 = relay_desc(1, 2);
    const shoali_address there = relay_address(0, "127.0.0.1/24", 0);
    shoali_way way = {.relayed = true};
    int listener = shoali_tcp_listen(&there.ips[0], 0, &way.ip); /* it never says a word */
    shoali_relay *caller = open_one(&of_1, "127.0.0.2/24");
    assert_true(listener >= 0);
    assert_int_equal(shoali_relay_call(caller, &way, shoali_now_us() + 50 * 1000), -1);
    assert_int_equal(shoal_last_error()->status, SHOAL_ETIMEDOUT);
    assert_int_equal(shoali_relay_call(caller, &way, 1), -1); /* long ago */
    assert_int_equal(shoal_last_error()->status, SHOAL_ETIMEDOUT);
    close(listener);
    shoali_relay_close(caller);
}

/* Rank 2's door, by way of rank 1: what rank 1 hears. */
static void a_door_is_called_by_its_relay(void **state)
{
    (void)state;
    shoali_relay_desc of_0 = relay_desc(0, 3), of_1 = relay_desc(1, 3);
    shoali_address one = relay_address(1, "127.0.10.2/24,127.0.11.2/24", 0);
    shoali_relay *next, *caller = open_one(&of_0, "127.0.10.1/24");
    assert_ok(shoali_relay_open(&of_1, &one, &next));
    one.relay_port = shoali_relay_port(next);
    assert_int_not_equal(one.relay_port, 0);
    assert_int_equal(shoali_relay_call_door(caller, 2, shoali_now_us() + LONG_US), -1);
    assert_error_has("no relay leads to rank 2");
    /* rank 2's host listens at its address, and its door there at another port than its data */
    shoali_address two = relay_address(2, "127.0.11.3/24", 0);
    shoali_ip door;
    int listener = shoali_tcp_listen(&two.ips[0], 0, &door);
    assert_true(listener >= 0);
    const shoali_address all[] = {relay_address(0, "127.0.10.1/24", 0), one, two};
    assert_ok(shoali_relay_learn(caller, all, 3));
    assert_ok(shoali_relay_learn(next, all, 3));
    shoali_relay_know_door(next, 2, shoali_ip_port(&door));
    shoali_relay_know_door(next, 3, 1); /* there is no such rank */
    int fd = shoali_relay_call_door(caller, 2, shoali_now_us() + LONG_US);
    if (fd < 0)
        fail_msg("%s", shoal_last_error()->text);
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 60000), 1);
    close(fd);
    close(listener);
    shoali_relay_close(caller);
    shoali_relay_close(next);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(an_opening_says_where_to),       CHECK_TEST(another_token_opens_nothing),
        CHECK_TEST(who_hangs_up_is_noticed),        CHECK_TEST(a_relay_is_found_by_asking),
        CHECK_TEST(answers_are_not_answered),       CHECK_TEST(only_the_answer_counts),
        CHECK_TEST(without_a_port_nobody_is_asked), CHECK_TEST(a_call_ends_by_its_deadline),
        CHECK_TEST(a_door_is_called_by_its_relay)};
    return CHECK_RUN(tests);
}
