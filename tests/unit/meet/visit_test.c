/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that visits rank 0, whose part is played by the test. */
#include "support/check.h"
#include "support/far_end.h"
#include "support/party.h"
#include "support/ports.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "meet/net.h"

/* A rank 0 that holds the token and says what it likes of who is missing. */
static void *bad_host(void *arg)
{
    static const char text[] = "rank 1\x1b]0;owned\x07\x1b[2J";
    guest *g = arg;
    shoali_meet_stream stream;
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    bool told = false;
    int listener = -1, fd = -1;
    g->status = shoali_meet_listen(&g->meeting, &listener);
    while (g->status == SHOAL_OK && fd < 0 && shoali_now_us() < g->meeting.deadline_us)
        fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        g->status = shoali_meet_stream_start(&stream, fd, false, &g->meeting);
    while (fd >= 0 && shoali_now_us() < g->meeting.deadline_us + 1000 * 1000 &&
           shoali_meet_stream_write(&stream) == SHOAL_OK) {
        shoal_status status = shoali_meet_stream_read(&stream, &kind, &body, &length);
        if (status != SHOAL_OK && status != SHOAL_PENDING)
            break; /* it has given up */
        told |= shoali_meet_stream_put(&stream, SHOALI_MESSAGE_waiting, text, sizeof text - 1);
    }
    close(fd);
    close(listener);
    return told ? arg : NULL;
}

static void what_rank_0_says_is_shown_without_its_escape_sequences(void **state)
{
    (void)state;
    static party p;
    void *told = NULL;
    for (int64_t s = 1; s <= 16 && told == NULL; s *= 4) { /* a busy machine takes longer */
        party_prepare(&p, "tcp", 2, s * 1000 * 1000);
        assert_int_equal(pthread_create(&p.guests[0].thread, NULL, bad_host, &p.guests[0]), 0);
        party_start(&p.guests[1]);
        party_end(&p.guests[1]);
        assert_int_equal(pthread_join(p.guests[0].thread, &told), 0);
        place_release(p.place, p.fd);
    }
    assert_non_null(told);
    assert_int_equal(p.guests[1].status, SHOAL_ETIMEDOUT);
    assert_non_null(strstr(p.guests[1].error.text, "rank 1?]0;owned??[2J of 2 did not join"));
}

/* Rank 0's part is played here: rank 1 of two has come, and its record is there. */
static void open_to_rank_1(party *p, int *listener_out, shoali_meet_stream *end)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoali_record record;
    party_prepare(p, "tcp", 2, PARTY_LONG_US);
    assert_ok(shoali_meet_listen(&p->guests[0].meeting, listener_out));
    party_start(&p->guests[1]);
    far_end_answer(end, *listener_out, &p->guests[0].meeting);
    assert_ok(far_end_hear(end, &kind, &body, &length));
    assert_int_equal(kind, SHOALI_MESSAGE_record);
    assert_true(shoali_record_decode(body, length, &record));
    assert_int_equal(record.rank, 1);
    assert_int_equal(record.incarnation, p->guests[1].mine.incarnation);
}

static void close_to_rank_1(party *p, int listener, shoali_meet_stream *end)
{
    party_end(&p->guests[1]);
    shoali_meet_stream_close(end);
    close(listener);
    place_release(p->place, p->fd);
}

static void give(shoali_meet_stream *end, const shoali_record *record)
{
    uint8_t body[SHOALI_RECORD_BYTES];
    assert_true(far_end_say(end, SHOALI_MESSAGE_record, body, shoali_record_encode(record, body)));
}

static void what_rank_0_says_in_words_is_final(void **state)
{
    (void)state;
    static party p;
    static shoali_meet_stream end;
    int listener;
    shoali_abort why = {.status = SHOAL_EMISMATCH, .culprit = 1, .text = "so it is"};
    uint8_t body[SHOALI_ABORT_BYTES];
    open_to_rank_1(&p, &listener, &end);
    assert_true(far_end_say(&end, SHOALI_MESSAGE_abort, body, shoali_abort_encode(&why, body)));
    close_to_rank_1(&p, listener, &end);
    assert_int_equal(p.guests[1].status, SHOAL_EMISMATCH);
    assert_string_equal(p.guests[1].error.text, "so it is");
    assert_int_equal(p.guests[1].error.rank, 1);
}

static void a_job_that_runs_already_is_no_meeting(void **state)
{
    (void)state;
    static party p;
    static shoali_meet_stream end;
    static const uint16_t kinds[] = {SHOALI_MESSAGE_held, SHOALI_MESSAGE_admit};
    for (size_t i = 0; i < 2; i++) {
        int listener;
        open_to_rank_1(&p, &listener, &end);
        assert_true(far_end_say(&end, kinds[i], "", 0));
        close_to_rank_1(&p, listener, &end);
        assert_int_equal(p.guests[1].status, SHOAL_EEPOCH);
    }
}

static void another_process_of_the_same_rank_is_said(void **state)
{
    (void)state;
    static party p;
    static shoali_meet_stream end;
    int listener;
    open_to_rank_1(&p, &listener, &end);
    shoali_record other = p.guests[1].mine;
    other.incarnation++;
    give(&end, &p.guests[0].mine);
    give(&end, &other);
    close_to_rank_1(&p, listener, &end);
    assert_int_equal(p.guests[1].status, SHOAL_EINVAL);
    assert_non_null(strstr(p.guests[1].error.text, "another process is rank 1"));
}

/* A connection that breaks, or says nonsense, is tried again. */
static void a_broken_visit_is_made_again(void **state)
{
    (void)state;
    static party p;
    static shoali_meet_stream end;
    int listener;
    open_to_rank_1(&p, &listener, &end);
    give(&end, &p.guests[0].mine);
    shoali_meet_stream_close(&end);
    far_end_answer(&end, listener, &p.guests[0].meeting);
    give(&end, &p.guests[1].mine); /* out of order */
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    while (far_end_hear(&end, &kind, &body, &length) == SHOAL_OK)
        ;
    shoali_meet_stream_close(&end);
    far_end_answer(&end, listener, &p.guests[0].meeting);
    assert_true(far_end_say(&end, SHOALI_MESSAGE_waiting, "rank 9", 6));
    give(&end, &p.guests[0].mine);
    give(&end, &p.guests[1].mine);
    close_to_rank_1(&p, listener, &end);
    assert_int_equal(p.guests[1].status, SHOAL_OK);
    assert_string_equal(p.guests[1].records[0].host, "h0");
    assert_string_equal(p.guests[1].records[1].host, "h1");
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_rank_0_says_is_shown_without_its_escape_sequences),
        CHECK_TEST(what_rank_0_says_in_words_is_final),
        CHECK_TEST(a_job_that_runs_already_is_no_meeting),
        CHECK_TEST(another_process_of_the_same_rank_is_said),
        CHECK_TEST(a_broken_visit_is_made_again)};
    return CHECK_RUN(tests);
}
