/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rendezvous listens, and who must show a token. Numeric addresses only: no name server. */
#include "support/check.h"
#include "support/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "meet/net.h"

static shoali_token token;
static const shoali_record mine = {.world_size = 2, .workers = 2};

static shoali_meeting at(const char *place, bool with_token)
{
    memcpy(token.bytes, "0123456789abcdef", 16);
    token.len_bytes = with_token ? 16 : 0;
    return (shoali_meeting){.place = place, .job = "net", .token = &token, .mine = &mine};
}

static void off_loopback_takes_a_token(void **state)
{
    (void)state;
    static const struct {
        const char *place;
        bool loopback;
    } cases[] = {{"tcp://127.0.0.1:9", true},      {"tcp://127.255.3.4:9", true},
                 {"tcp://[::1]:9", true},          {"tcp://128.0.0.1:9", false},
                 {"tcp://126.0.0.1:9", false},     {"tcp://192.0.2.1:9", false},
                 {"tcp://[2001:db8::1]:9", false}, {"tcp://[fe80::1]:9", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct addrinfo *list;
        shoali_meeting meeting = at(cases[i].place, false);
        if (cases[i].loopback) {
            assert_ok(shoali_meet_resolve(&meeting, &list));
            freeaddrinfo(list);
        } else {
            assert_status(shoali_meet_resolve(&meeting, &list), SHOAL_EAUTH);
            assert_error_has(cases[i].place);
        }
        meeting = at(cases[i].place, true);
        assert_ok(shoali_meet_resolve(&meeting, &list));
        assert_int_equal(list->ai_socktype, SOCK_STREAM);
        freeaddrinfo(list);
    }
    shoali_meeting meeting = at("tcp://127.0.0.1", true);
    struct addrinfo *list;
    assert_status(shoali_meet_resolve(&meeting, &list), SHOAL_EINVAL);
}

static void from(const char *text, int family, uint16_t port, const char *expected)
{
    char out[SHOALI_MEET_FROM_BYTES];
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (family == AF_INET) {
        assert_int_equal(inet_pton(family, text, &v4.sin_addr), 1);
        shoali_meet_from((const struct sockaddr *)&v4, sizeof v4, out);
    } else {
        assert_int_equal(inet_pton(family, text, &v6.sin6_addr), 1);
        shoali_meet_from((const struct sockaddr *)&v6, sizeof v6, out);
    }
    assert_string_equal(out, expected);
}

static void callers_are_shown_by_number(void **state)
{
    (void)state;
    char out[SHOALI_MEET_FROM_BYTES];
    const struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    from("10.0.0.7", AF_INET, 40123, "10.0.0.7:40123");
    from("2001:db8::7", AF_INET6, 1, "2001:db8::7:1");
    shoali_meet_from(&nothing, sizeof nothing, out);
    assert_string_equal(out, "?");
}

static struct sockaddr_in name_of(int fd)
{
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &length), 0);
    return name;
}

static void it_listens_where_it_was_told(void **state)
{
    (void)state;
    char place[256];
    int holder, listener, second;
    place_reserve("tcp", place, sizeof place, &holder);
    shoali_meeting meeting = at(place, true);
    assert_ok(shoali_meet_listen(&meeting, &listener));
    assert_int_equal(name_of(listener).sin_addr.s_addr, htonl(INADDR_LOOPBACK)); /* only there */
    assert_int_equal(name_of(listener).sin_port, name_of(holder).sin_port);
    assert_status(shoali_meet_listen(&meeting, &second), SHOAL_ESYSTEM);
    assert_error_has(place);
    close(listener);
    place_release(place, holder);
}

/* An address that leads here from elsewhere only: the token guards the wider listening. */
static void an_address_in_front_of_this_host_is_listened_behind(void **state)
{
    (void)state;
    char place[64];
    int holder, listener;
    const uint16_t port = port_reserve(&holder);
    snprintf(place, sizeof place, "tcp://192.0.2.1:%u", port); /* for documentation: nobody's */
    shoali_meeting meeting = at(place, true);
    assert_ok(shoali_meet_listen(&meeting, &listener));
    assert_int_equal(name_of(listener).sin_addr.s_addr, htonl(INADDR_ANY));
    assert_int_equal(ntohs(name_of(listener).sin_port), port);
    close(listener);
    close(holder);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(off_loopback_takes_a_token), CHECK_TEST(callers_are_shown_by_number),
        CHECK_TEST(it_listens_where_it_was_told),
        CHECK_TEST(an_address_in_front_of_this_host_is_listened_behind)};
    return CHECK_RUN(tests);
}
