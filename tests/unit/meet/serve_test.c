/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's store, in good and in bad company. */
#include "support/check.h"
#include "support/far_end.h"
#include "support/party.h"
#include "support/ports.h"
#include "support/strangers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "meet/net.h"

static void strangers_do_no_harm(void **state)
{
    (void)state;
    enum { STRANGERS = 12 };
    static party p;
    shoali_rng rng = {check_seed(), 5, 0};
    int fds[STRANGERS];
    party_prepare(&p, "tcp", 3, PARTY_LONG_US);
    party_start(&p.guests[0]);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons(party_port(&p));
    for (int i = 0; i < STRANGERS;) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fds[i], (struct sockaddr *)&to, sizeof to) != 0) {
            close(fds[i]); /* the store is not open yet */
            continue;
        }
        uint8_t noise[300];
        size_t length = shoali_rng_next(&rng) % sizeof noise;
        for (size_t k = 0; k < length; k++)
            noise[k] = (uint8_t)shoali_rng_next(&rng);
        assert_true(send(fds[i], noise, length, MSG_NOSIGNAL) >= 0);
        if (i % 3 == 0)
            shutdown(fds[i], SHUT_RDWR);
        i++;
    }
    for (uint32_t i = 1; i < 3; i++)
        party_start(&p.guests[i]);
    for (uint32_t i = 0; i < 3; i++)
        party_end(&p.guests[i]);
    party_assert_all(&p, SHOAL_OK, NULL);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    place_release(p.place, p.fd);
}

/* A thousand that connect and say nothing, and more all the time. How long the join took. */
static uint64_t join_among_strangers(void)
{
    static party p;
    party_prepare(&p, "tcp", 3, PARTY_LONG_US);
    party_start(&p.guests[0]);
    const uint16_t port = party_port(&p);
    strangers *s = strangers_start(port, 1000);
    const uint64_t began_us = shoali_now_us();
    for (uint32_t i = 1; i < 3; i++)
        party_start(&p.guests[i]);
    for (uint32_t i = 0; i < 3; i++)
        party_end(&p.guests[i]);
    const uint64_t took_us = shoali_now_us() - began_us;
    strangers_stop(s);
    party_assert_all(&p, SHOAL_OK, NULL);
    place_release(p.place, p.fd);
    return took_us;
}

/* Whom strangers delay they delay each time; a busy machine does so now and then. */
static void silent_strangers_delay_nobody(void **state)
{
    (void)state;
    const uint64_t limit_us = 4 * 1000 * 1000;
    uint64_t took_us = UINT64_MAX;
    for (int tries = 0; tries < 4 && took_us > limit_us; tries++)
        took_us = join_among_strangers();
    if (took_us > limit_us)
        fail_msg("the join took %.1f s", (double)took_us * 1e-6);
}

/* A stream of the same job that comes as `rank`. */
static void come_as(shoali_meet_stream *end, party *p, uint32_t rank, uint32_t as)
{
    guest *g = &p->guests[rank];
    g->mine.rank = as;
    far_end_call(end, party_port(p), &g->meeting);
    g->mine.rank = rank;
}

static void bring(shoali_meet_stream *end, const shoali_record *record)
{
    uint8_t body[SHOALI_RECORD_BYTES];
    assert_true(far_end_say(end, SHOALI_MESSAGE_record, body, shoali_record_encode(record, body)));
}

/* Until something else comes than who is missing. */
static uint16_t hear_end(shoali_meet_stream *end, char *text, size_t text_bytes)
{
    uint16_t kind = SHOALI_MESSAGE_waiting;
    const uint8_t *body;
    size_t length;
    shoali_abort why;
    while (kind == SHOALI_MESSAGE_waiting)
        if (far_end_hear(end, &kind, &body, &length) != SHOAL_OK)
            return 0;
    if (kind == SHOALI_MESSAGE_abort && shoali_abort_decode(body, length, &why))
        snprintf(text, text_bytes, "%s", why.text);
    return kind;
}

static void assert_told(shoali_meet_stream *end, const char *missing)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    assert_ok(far_end_hear(end, &kind, &body, &length));
    assert_int_equal(kind, SHOALI_MESSAGE_waiting);
    assert_int_equal(length, strlen(missing));
    assert_memory_equal(body, missing, length);
}

/* Whoever breaks the rules is told so and goes; the others meet. */
static void one_that_is_wrong_ends_nothing(void **state)
{
    (void)state;
    static party p;
    static shoali_meet_stream first, second, again, liar, babbler;
    char text[SHOALI_ABORT_TEXT_BYTES] = "";
    party_prepare(&p, "tcp", 4, PARTY_LONG_US);
    party_start(&p.guests[0]);
    come_as(&first, &p, 1, 1);
    bring(&first, &p.guests[1].mine);
    assert_told(&first, "ranks 2, 3");
    come_as(&second, &p, 2, 2);
    bring(&second, &p.guests[2].mine);
    assert_told(&second, "rank 3");
    assert_told(&first, "rank 3"); /* it hears of changes */

    come_as(&again, &p, 1, 1); /* rank 1 is there already */
    bring(&again, &p.guests[1].mine);
    assert_int_equal(hear_end(&again, text, sizeof text), SHOALI_MESSAGE_abort);
    assert_non_null(strstr(text, "rank 1 came twice: from host h1 and from host h1"));
    come_as(&liar, &p, 3, 1); /* and brings the record of rank 3 */
    bring(&liar, &p.guests[3].mine);
    assert_int_equal(hear_end(&liar, text, sizeof text), SHOALI_MESSAGE_abort);
    assert_non_null(strstr(text, "a record of rank 3 from rank 1"));
    come_as(&babbler, &p, 3, 3);
    assert_true(far_end_say(&babbler, SHOALI_MESSAGE_waiting, "rank 7", 6));
    assert_int_equal(hear_end(&babbler, text, sizeof text), 0);

    /* ranks 1 and 2 go, and their places are free again */
    shoali_meet_stream_close(&second);
    assert_told(&first, "ranks 2, 3");
    shoali_meet_stream_close(&first);
    for (uint32_t i = 1; i < 4; i++)
        party_start(&p.guests[i]);
    for (uint32_t i = 0; i < 4; i++)
        party_end(&p.guests[i]);
    party_assert_all(&p, SHOAL_OK, NULL);
    shoali_meet_stream_close(&again);
    shoali_meet_stream_close(&liar);
    shoali_meet_stream_close(&babbler);
    place_release(p.place, p.fd);
}

static void a_listener_that_is_there_is_used_and_stays(void **state)
{
    (void)state;
    static party p;
    int listener = -1;
    party_prepare(&p, "tcp", 2, PARTY_LONG_US);
    assert_ok(shoali_meet_listen(&p.guests[0].meeting, &listener));
    p.guests[0].meeting.place = "tcp://127.0.0.1:1"; /* not listened at */
    p.guests[0].meeting.listener = &listener;
    party_run(&p, PARTY_RANKS);
    party_assert_all(&p, SHOAL_OK, NULL);
    assert_int_equal(close(listener), 0);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {CHECK_TEST(strangers_do_no_harm),
                                       CHECK_TEST(silent_strangers_delay_nobody),
                                       CHECK_TEST(one_that_is_wrong_ends_nothing),
                                       CHECK_TEST(a_listener_that_is_there_is_used_and_stays)};
    return CHECK_RUN(tests);
}
