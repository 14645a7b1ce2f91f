/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 invites daemons, whose part is played by threads of the test. */
#include "support/check.h"
#include "support/far_end.h"
#include "support/ports.h"

#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "meet/invite.h"
#include "meet/net.h"
#include "wire/messages.h"

enum { LONG_US = 60 * 1000 * 1000 };

typedef struct daemon_end {
    pthread_t thread;
    char place[256];
    int holder, listener;
    const char *no; /* what it says against it; NULL: it will come */
    uint16_t answer;
    shoali_token token;
    shoali_record self;
    shoali_meeting meeting;
    shoali_invite invite; /* what it was asked */
    bool asked;
} daemon_end;

static void *play_daemon(void *arg)
{
    daemon_end *d = arg;
    shoali_meet_stream end;
    uint16_t kind;
    const uint8_t *bytes;
    size_t length;
    uint8_t body[SHOALI_ABORT_BYTES];
    far_end_answer(&end, d->listener, &d->meeting);
    d->asked = far_end_hear(&end, &kind, &bytes, &length) == SHOAL_OK &&
               kind == SHOALI_MESSAGE_invite && shoali_invite_decode(bytes, length, &d->invite);
    if (d->asked && d->no != NULL) {
        shoali_abort no = {.status = SHOAL_ENOTSUP, .culprit = SHOALI_NOBODY};
        snprintf(no.text, sizeof no.text, "%s", d->no);
        far_end_say(&end, SHOALI_MESSAGE_abort, body, shoali_abort_encode(&no, body));
    } else if (d->asked) {
        far_end_say(&end, d->answer, "", 0);
    }
    while (d->asked && far_end_hear(&end, &kind, &bytes, &length) == SHOAL_OK)
        ;
    shoali_meet_stream_close(&end);
    return NULL;
}

static void begin(daemon_end *d)
{
    *d = (daemon_end){.answer = SHOALI_MESSAGE_invite, .self = {.world_size = 1, .workers = 1}};
    place_reserve("tcp", d->place, sizeof d->place, &d->holder);
    memcpy(d->token.bytes, "0123456789abcdef", 16);
    d->token.len_bytes = 16;
    d->meeting = (shoali_meeting){
        .place = d->place, .job = SHOALI_INVITE_JOB, .token = &d->token, .mine = &d->self};
    assert_ok(shoali_meet_listen(&d->meeting, &d->listener));
}

static void start(daemon_end *d)
{
    assert_int_equal(pthread_create(&d->thread, NULL, play_daemon, d), 0);
}

static void end(daemon_end *d)
{
    assert_int_equal(pthread_join(d->thread, NULL), 0);
    close(d->listener);
    place_release(d->place, d->holder);
}

static shoali_token token;
static const shoali_record rank_0 = {.world_size = 4, .workers = 3, .incarnation = 5};

static shoali_meeting ours(int64_t timeout_us)
{
    const uint64_t now_us = shoali_now_us();
    memcpy(token.bytes, "0123456789abcdef", 16);
    token.len_bytes = 16;
    return (shoali_meeting){.place = "tcp://127.0.0.1:7",
                            .job = "guests",
                            .token = &token,
                            .mine = &rank_0,
                            .started_us = now_us,
                            .deadline_us = now_us + (uint64_t)timeout_us};
}

static void lists_are_counted_and_checked(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        int count; /* -1: refused */
    } cases[] = {{"", 0},          {"a:1", 1},      {"a:1,b:2", 2}, {"[::1]:9,b:2,c:3", 3},
                 {"a:1,", 1},      {"a", -1},       {"a:", -1},     {",a:1", -1},
                 {"a:1,,b:2", -1}, {"a:1;b:2", -1}, {"a:b", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t count = 99;
        shoal_status status = shoali_invite_count(cases[i].list, &count);
        if (status != (cases[i].count < 0 ? SHOAL_EINVAL : SHOAL_OK) ||
            count != (cases[i].count < 0 ? 99 : (uint32_t)cases[i].count))
            fail_msg("'%s': %s, %u", cases[i].list, shoal_status_name(status), count);
    }
}

static void all_are_invited_each_by_its_index(void **state)
{
    (void)state;
    static daemon_end daemons[2];
    char list[300];
    shoali_meeting meeting = ours(LONG_US);
    shoali_invite invite = {.ranks = 4, .workers = 3, .aggregators = 2, .seed = 77};
    for (int i = 0; i < 2; i++) {
        begin(&daemons[i]);
        start(&daemons[i]);
    }
    snprintf(list, sizeof list, "%s,%s", daemons[0].place + 6, daemons[1].place + 6);
    assert_ok(shoali_invite_all(list, &meeting, &invite));
    for (uint32_t i = 0; i < 2; i++) {
        end(&daemons[i]);
        assert_true(daemons[i].asked);
        assert_int_equal(daemons[i].invite.index, i);
        assert_int_equal(daemons[i].invite.ranks, 4);
        assert_int_equal(daemons[i].invite.seed, 77);
        assert_string_equal(daemons[i].invite.job, "guests");
        assert_string_equal(daemons[i].invite.place, "tcp://127.0.0.1:7");
    }
}

static void refused(const char *no, uint16_t answer, shoal_status status, const char *part)
{
    static daemon_end d;
    shoali_meeting meeting = ours(LONG_US);
    shoali_invite invite = {.ranks = 4, .workers = 3, .aggregators = 1};
    begin(&d);
    d.no = no;
    d.answer = answer;
    start(&d);
    assert_status(shoali_invite_all(d.place + 6, &meeting, &invite), status);
    assert_true(shoali_now_us() < meeting.started_us + LONG_US / 2); /* it was not called again */
    end(&d);
    assert_error_has("aggregator 0 at 127.0.0.1:");
    assert_error_has(part);
}

/* What it says is final, and said as its own words. */
static void a_daemon_that_will_not_come_says_why(void **state)
{
    (void)state;
    refused("it is full", SHOALI_MESSAGE_invite, SHOAL_ENOTSUP, "it is full");
}

static void another_token_is_named(void **state)
{
    (void)state;
    static daemon_end d;
    shoali_meeting meeting = ours(LONG_US);
    shoali_invite invite = {.ranks = 4, .workers = 3, .aggregators = 1};
    begin(&d);
    d.token.bytes[0] ^= 1;
    start(&d);
    assert_status(shoali_invite_all(d.place + 6, &meeting, &invite), SHOAL_EAUTH);
    assert_non_null(strstr(shoal_last_error()->advice, "SHOAL_TOKEN_FILE"));
    end(&d);
    assert_false(d.asked);
}

/* Nobody listens: half of the time goes by, so that the ranks still hear why. */
static void who_is_not_there_is_named_in_time(void **state)
{
    (void)state;
    char place[256];
    int holder;
    place_reserve("tcp", place, sizeof place, &holder);
    shoali_meeting meeting = ours(LONG_US);
    meeting.started_us -= LONG_US - 120 * 1000; /* the middle is 60 ms ahead */
    shoali_invite invite = {.ranks = 4, .workers = 3, .aggregators = 1};
    assert_int_not_equal(shoali_invite_all(place + 6, &meeting, &invite), SHOAL_OK);
    assert_error_has("aggregator 0 at 127.0.0.1:");
    assert_true(shoali_now_us() < meeting.deadline_us);
    place_release(place, holder);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(lists_are_counted_and_checked), CHECK_TEST(all_are_invited_each_by_its_index),
        CHECK_TEST(a_daemon_that_will_not_come_says_why), CHECK_TEST(another_token_is_named),
        CHECK_TEST(who_is_not_there_is_named_in_time)};
    return CHECK_RUN(tests);
}
