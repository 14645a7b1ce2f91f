/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon and its callers, whose part is played by the test. That it sums for real ranks:
 * tests/proc/aggregator_test.c. */
#include "support/check.h"
#include "support/far_end.h"
#include "support/ports.h"

#include "base/clock.h"
#include "base/log.h"
#include "meet/invite.h"
#include "shoal/aggregator.h"
#include "wire/messages.h"

enum { LONG_US = 60 * 1000 * 1000 };

static shoali_token token;
static const shoali_record rank_0 = {.world_size = 3, .workers = 3, .incarnation = 5};

static shoal_aggregator *open_daemon(uint32_t jobs_max)
{
    shoal_aggregator_desc desc = SHOAL_AGGREGATOR_DESC_INIT;
    shoal_aggregator *daemon = NULL;
    desc.listen = "127.0.0.1:0";
    desc.token = "0123456789abcdef";
    desc.jobs_max = jobs_max;
    desc.memory_limit_bytes = 12345;
    assert_ok(shoal_aggregator_create(&desc, &daemon));
    assert_int_not_equal(shoal_aggregator_port(daemon), 0);
    return daemon;
}

static shoali_meeting of_job(const char *job, const char *place)
{
    const uint64_t now_us = shoali_now_us();
    memcpy(token.bytes, "0123456789abcdef", 16);
    token.len_bytes = 16;
    return (shoali_meeting){.place = place,
                            .job = job,
                            .token = &token,
                            .mine = &rank_0,
                            .started_us = now_us,
                            .deadline_us = now_us + LONG_US};
}

static shoali_invite invitation(int64_t join_us)
{
    return (shoali_invite){.ranks = 2,
                           .workers = 2,
                           .aggregators = 1,
                           .chunk_elems = 1000,
                           .seed = 7,
                           .join_timeout_us = (uint64_t)join_us,
                           .peer_timeout_us = 2000000};
}

static shoal_status invite(shoal_aggregator *daemon, const char *place, shoali_invite invite)
{
    char list[40];
    shoali_meeting meeting = of_job("guests", place);
    snprintf(list, sizeof list, "127.0.0.1:%u", shoal_aggregator_port(daemon));
    return shoali_invite_all(list, &meeting, &invite);
}

static shoal_aggregator_stats stats_of(shoal_aggregator *daemon)
{
    shoal_aggregator_stats stats;
    (void)shoal_aggregator_report(daemon, &stats, NULL, 0);
    return stats;
}

static void refused_desc(shoal_aggregator_desc desc, shoal_status status, const char *part)
{
    shoal_aggregator *daemon = NULL;
    assert_status(shoal_aggregator_create(&desc, &daemon), status);
    assert_null(daemon);
    if (part != NULL)
        assert_error_has(part);
}

static void what_cannot_be_is_said_before_it_listens(void **state)
{
    (void)state;
    shoal_aggregator_desc desc = SHOAL_AGGREGATOR_DESC_INIT;
    shoal_aggregator *daemon = NULL;
    assert_status(shoal_aggregator_create(NULL, &daemon), SHOAL_EINVAL);
    assert_status(shoal_aggregator_create(&desc, NULL), SHOAL_EINVAL);
    desc.size = 8;
    refused_desc(desc, SHOAL_EINVAL, "SHOAL_AGGREGATOR_DESC_INIT");
    desc = (shoal_aggregator_desc){.size = sizeof desc, .token = "0123456789abcdef"};
    desc.listen = "nowhere";
    refused_desc(desc, SHOAL_EINVAL, "'nowhere': that is no host:port");
    desc.listen = "127.0.0.1:0";
    desc.kernel = "maybe";
    refused_desc(desc, SHOAL_EINVAL, "wanted auto, on or off");
    desc.kernel = "on";
    refused_desc(desc, SHOAL_EINVAL, "the ports at which to");
    desc.kernel = NULL;
    desc.ports = "no-such-port";
    refused_desc(desc, SHOAL_EINVAL, "no interface 'no-such-port'");
    desc.ports = NULL;
    desc.interface = "no-such-interface";
    refused_desc(desc, SHOAL_EINVAL, "no-such-interface");
    desc.interface = NULL;
    desc.token = "short";
    refused_desc(desc, SHOAL_EINVAL, NULL);
    shoal_aggregator_destroy(NULL);
}

/* Nobody comes to the meeting point: the job waits there until it is ended. */
static void an_invited_job_holds_a_place(void **state)
{
    (void)state;
    char place[256];
    int holder;
    shoal_aggregator_stats stats;
    shoal_aggregator_job jobs[2];
    place_reserve("tcp", place, sizeof place, &holder);
    shoal_aggregator *daemon = open_daemon(2);
    assert_int_equal(shoal_aggregator_report(daemon, &stats, jobs, 2), 0);
    assert_int_equal(stats.jobs_open + stats.jobs_ended + stats.jobs_refused, 0);
    assert_int_equal(stats.in_kernel, 0);
    assert_ok(invite(daemon, place, invitation(LONG_US)));
    assert_ok(invite(daemon, place, invitation(LONG_US)));
    assert_status(invite(daemon, place, invitation(LONG_US)), SHOAL_ENOTSUP);
    assert_error_has("it serves 2 jobs already");
    while (shoal_aggregator_report(daemon, &stats, jobs, 1) < 2)
        ; /* they begin once the answer has left */
    assert_int_equal(stats.jobs_open, 2);
    assert_int_equal(stats.jobs_refused, 1);
    assert_int_equal(stats.jobs_ended, 0);
    assert_string_equal(jobs[0].name, "guests");
    assert_in_range(jobs[0].epoch, 1, 2);
    assert_int_equal(jobs[0].ranks, 2);
    assert_int_equal(jobs[0].ranks_gone, 0);
    assert_int_equal(jobs[0].memory_limit_bytes, 12345);
    assert_int_equal(shoal_aggregator_wait(daemon, 1, 1000), SHOAL_PENDING);
    const uint64_t began_us = shoali_now_us();
    shoal_aggregator_destroy(daemon);
    assert_true(shoali_now_us() - began_us < LONG_US / 2); /* not when their join ends */
    place_release(place, holder);
}

static void a_job_that_does_not_come_together_ends(void **state)
{
    (void)state;
    char place[256];
    int holder;
    place_reserve("tcp", place, sizeof place, &holder);
    shoal_aggregator *daemon = open_daemon(1);
    for (uint64_t job = 1; job <= 2; job++) { /* its place is free again */
        assert_ok(invite(daemon, place, invitation(50 * 1000)));
        assert_ok(shoal_aggregator_wait(daemon, job, LONG_US));
        assert_int_equal(stats_of(daemon).jobs_ended, job);
        assert_int_equal(stats_of(daemon).jobs_open, 0);
    }
    assert_int_equal(stats_of(daemon).jobs_refused, 0);
    shoal_aggregator_destroy(daemon);
    place_release(place, holder);
}

static void nobody_waits_for_hours(void **state)
{
    (void)state;
    shoal_aggregator *daemon = open_daemon(1);
    assert_status(invite(daemon, "tcp://127.0.0.1:1", invitation((int64_t)601 * 1000 * 1000)),
                  SHOAL_EINVAL);
    assert_error_has("a join timeout of 601 s; it waits 600 s at most");
    shoali_invite patient = invitation(LONG_US);
    patient.peer_timeout_us = (uint64_t)700 * 1000 * 1000;
    assert_status(invite(daemon, "tcp://127.0.0.1:1", patient), SHOAL_EINVAL);
    assert_error_has("a peer timeout of 700 s");
    assert_int_equal(stats_of(daemon).jobs_refused, 2);
    shoal_aggregator_destroy(daemon);
}

static void await_refused(shoal_aggregator *daemon, uint64_t count)
{
    const uint64_t until_us = shoali_now_us() + LONG_US;
    while (stats_of(daemon).jobs_refused < count && shoali_now_us() < until_us)
        ;
    assert_int_equal(stats_of(daemon).jobs_refused, count);
}

static void strangers_and_babblers_are_refused_and_counted(void **state)
{
    (void)state;
    static shoali_meet_stream end;
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoal_aggregator *daemon = open_daemon(1);
    const uint16_t port = shoal_aggregator_port(daemon);
    shoali_meeting meeting = of_job(SHOALI_INVITE_JOB, "");
    token.bytes[0] ^= 1;
    far_end_call(&end, port, &meeting);
    assert_status(far_end_hear(&end, &kind, &body, &length), SHOAL_EAUTH);
    shoali_meet_stream_close(&end);
    await_refused(daemon, 1);
    token.bytes[0] ^= 1;
    far_end_call(&end, port, &meeting);
    const shoali_invite good = invitation(LONG_US); /* of another kind it is none */
    uint8_t bytes[SHOALI_INVITE_BYTES];
    assert_true(
        far_end_say(&end, SHOALI_MESSAGE_waiting, bytes, shoali_invite_encode(&good, bytes)));
    assert_status(far_end_hear(&end, &kind, &body, &length), SHOAL_EPEER);
    shoali_meet_stream_close(&end);
    await_refused(daemon, 2);
    far_end_call(&end, port, &meeting);
    assert_true(far_end_say(&end, SHOALI_MESSAGE_invite, "half", 4));
    assert_status(far_end_hear(&end, &kind, &body, &length), SHOAL_EPEER);
    shoali_meet_stream_close(&end);
    await_refused(daemon, 3);
    assert_int_equal(stats_of(daemon).jobs_open, 0);
    shoal_aggregator_destroy(daemon);
}

/* It goes before it has its answer: no job begins, and its place is free. */
static void an_end_with_callers_there_is_an_end(void **state)
{
    (void)state;
    static shoali_meet_stream end;
    shoal_aggregator *daemon = open_daemon(1);
    shoali_meeting meeting = of_job(SHOALI_INVITE_JOB, "");
    far_end_call(&end, shoal_aggregator_port(daemon), &meeting);
    shoali_meet_stream_try(&end);
    shoal_aggregator_destroy(daemon);
    shoali_meet_stream_close(&end);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {CHECK_TEST(what_cannot_be_is_said_before_it_listens),
                                       CHECK_TEST(an_invited_job_holds_a_place),
                                       CHECK_TEST(a_job_that_does_not_come_together_ends),
                                       CHECK_TEST(nobody_waits_for_hours),
                                       CHECK_TEST(strangers_and_babblers_are_refused_and_counted),
                                       CHECK_TEST(an_end_with_callers_there_is_an_end)};
    return CHECK_RUN(tests);
}
