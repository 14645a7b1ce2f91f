/* SPDX-License-Identifier: Apache-2.0 */
/* What came out of a status socket, whoever answered. */
#include "support/check.h"

#include "base/log.h"
#include "watch/watch.h"

enum { RANKS = 3, ROWS_END = SHOALI_STATUS_HEAD_BYTES + RANKS * SHOALI_STATUS_ROW_BYTES };

static uint8_t bytes[ROWS_END + SHOALI_WATCH_NOTES_BYTES + 1];

static void fill(void)
{
    const shoali_status_head head = {.rank = 2, .ranks = RANKS, .age_us = 7500000, .job = "night"};
    shoali_status_head_encode(&head, bytes);
    for (uint32_t i = 0; i < RANKS; i++) {
        const shoali_status_row row = {.state = i == 1 ? SHOALI_RANK_LEFT : SHOALI_RANK_RUNNING,
                                       .cause = i,
                                       .busy = 1,
                                       .last_permille = 250,
                                       .for_us = 1500000,
                                       .last_seen_us = 300000,
                                       .ended = 1000 + i,
                                       .compute_us = 2500,
                                       .caused_us = 3500,
                                       .slow_for_us = 9000000,
                                       .sends_bytes_s = 11,
                                       .receives_bytes_s = 12,
                                       .host = "h",
                                       .text = "all-reduce 9",
                                       .data_us = 1500,
                                       .disk_us = 2500,
                                       .paused_us = 3500,
                                       .samples_milli = 32500,
                                       .progress = {600, 3, 0.5F, 87.5F}};
        shoali_status_row_encode(&row, bytes + SHOALI_STATUS_HEAD_BYTES +
                                           (size_t)i * SHOALI_STATUS_ROW_BYTES);
    }
    memset(bytes + ROWS_END, 'n', sizeof bytes - ROWS_END);
}

static bool near(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

static void a_row_is_shown_in_users_units(void **state)
{
    (void)state;
    shoal_watch *watch;
    const char *job;
    uint32_t by;
    double age_s;
    shoal_watch_rank_state rank = {.size = sizeof rank};
    fill();
    assert_ok(shoali_watch_read(bytes, ROWS_END, &watch));
    shoal_watch_job(watch, &job, &by, &age_s);
    assert_string_equal(job, "night");
    assert_int_equal(by, 2);
    assert_true(near(age_s, 7.5));
    assert_int_equal(shoal_watch_ranks(watch), RANKS);
    assert_string_equal(shoal_watch_notes(watch), "");
    assert_null(shoal_watch_next(watch));
    assert_ok(shoal_watch_rank(watch, 1, &rank));
    assert_string_equal(rank.state, "left");
    assert_string_equal(rank.cause, "compute");
    assert_string_equal(rank.host, "h");
    assert_string_equal(rank.operation, "all-reduce 9");
    assert_true(rank.busy);
    assert_int_equal(rank.ended, 1001);
    assert_true(near(rank.slow_s, 9) && near(rank.caused_ms, 3.5) && near(rank.last_share, 0.25));
    assert_true(near(rank.doing_s, 1.5) && near(rank.last_seen_s, 0.3));
    assert_true(near(rank.compute_ms, 2.5));
    assert_true(near(rank.sends_bytes_s, 11) && near(rank.receives_bytes_s, 12));
    assert_true(near(rank.data_ms, 1.5) && near(rank.disk_ms, 2.5) && near(rank.paused_ms, 3.5) &&
                near(rank.samples, 32.5));
    assert_true(rank.step == 600 && rank.epoch == 3);
    assert_true(near(rank.loss, 0.5) && near(rank.accuracy, 87.5));
    assert_ok(shoal_watch_rank(watch, 2, &rank));
    assert_string_equal(rank.cause, "network");
    assert_ok(shoal_watch_rank(watch, 0, &rank));
    assert_string_equal(rank.cause, "");
    assert_string_equal(rank.state, "running");
    shoal_watch_close(watch);
}

static void what_is_asked_for_must_exist(void **state)
{
    (void)state;
    shoal_watch *watch;
    shoal_watch_rank_state rank = {.size = sizeof rank};
    fill();
    assert_ok(shoali_watch_read(bytes, ROWS_END, &watch));
    assert_status(shoal_watch_rank(watch, RANKS, &rank), SHOAL_EINVAL);
    assert_status(shoal_watch_rank(NULL, 0, &rank), SHOAL_EINVAL);
    assert_status(shoal_watch_rank(watch, 0, NULL), SHOAL_EINVAL);
    rank.size = 8;
    assert_status(shoal_watch_rank(watch, 0, &rank), SHOAL_EINVAL);
    shoal_watch_close(watch);
    shoal_watch_close(NULL);
}

static void notes_come_without_escape_sequences(void **state)
{
    (void)state;
    static const char notes[] = "one\x1b[2J\ntwo\x80~";
    shoal_watch *watch;
    fill();
    memcpy(bytes + ROWS_END, notes, sizeof notes - 1);
    assert_ok(shoali_watch_read(bytes, ROWS_END + sizeof notes - 1, &watch));
    assert_string_equal(shoal_watch_notes(watch), "one?[2J\ntwo?~");
    shoal_watch_close(watch);
    /* as many as there may be, and one more */
    assert_ok(shoali_watch_read(bytes, ROWS_END + SHOALI_WATCH_NOTES_BYTES - 1, &watch));
    assert_int_equal(strlen(shoal_watch_notes(watch)), SHOALI_WATCH_NOTES_BYTES - 1);
    shoal_watch_close(watch);
    assert_status(shoali_watch_read(bytes, ROWS_END + SHOALI_WATCH_NOTES_BYTES, &watch),
                  SHOAL_ECORRUPT);
}

static void half_an_answer_is_none(void **state)
{
    (void)state;
    shoal_watch *watch;
    fill();
    for (size_t length = 0; length < ROWS_END; length++)
        assert_int_equal(shoali_watch_read(bytes, length, &watch), SHOAL_ECORRUPT);
    bytes[SHOALI_STATUS_HEAD_BYTES + SHOALI_STATUS_ROW_BYTES] = SHOALI_RANK_STATES;
    assert_status(shoali_watch_read(bytes, ROWS_END, &watch), SHOAL_ECORRUPT);
    assert_error_has("nonsense about rank 1");
    fill();
    bytes[0] ^= 1;
    assert_status(shoali_watch_read(bytes, ROWS_END, &watch), SHOAL_ECORRUPT);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_row_is_shown_in_users_units), CHECK_TEST(what_is_asked_for_must_exist),
        CHECK_TEST(notes_come_without_escape_sequences), CHECK_TEST(half_an_answer_is_none)};
    return CHECK_RUN(tests);
}
