/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank says of itself, and what it makes of what others say: a made-up job with a clock of
 * its own. */
#include "support/check.h"
#include "support/watched.h"

#include "base/log.h"

enum { BEAT_US = 250000, STEP_US = 50000 };

static watched job;
static uint64_t told[WATCHED_RANKS][SHOALI_FARES]; /* what each rank tells of each step */

static int begin(void **state)
{
    (void)state;
    watched_begin(&job, "night", 7);
    memset(told, 0, sizeof told);
    return 0;
}

static int end(void **state)
{
    (void)state;
    watched_end(&job);
    return 0;
}

/* Four ranks go through steps of STEP_US, of which each computes for its own time, ours as well. */
static void live(uint32_t beats, const uint64_t compute_us[WATCHED_RANKS])
{
    static shoali_heartbeat beat[WATCHED_RANKS];
    if (job.watch->windows == 0 && job.watch->rank[1].ended == 0)
        memset(beat, 0, sizeof beat);
    for (uint32_t b = 0; b < beats; b++) {
        for (uint32_t step = 0; step < BEAT_US / STEP_US; step++) {
            job.now_us += compute_us[1];
            shoali_watch_busy(job.watch);
            job.now_us += STEP_US - compute_us[1];
            shoali_watch_ended(job.watch);
            shoali_watch_idle(job.watch);
        }
        for (uint32_t i = 0; i < WATCHED_RANKS; i++) {
            beat[i].ended += BEAT_US / STEP_US;
            beat[i].idle_us += BEAT_US / STEP_US * compute_us[i];
            for (int k = 0; k < SHOALI_FARES; k++)
                beat[i].fares[k] += BEAT_US / STEP_US * told[i][k];
            if (i != 1) {
                shoali_watch_hear(job.watch, i, &beat[i]);
            } else {
                shoali_heartbeat own = beat[i];
                shoali_watch_say(job.watch, &own);
            }
        }
        shoali_watch_judge(job.watch);
    }
}

static void it_says_what_it_did(void **state)
{
    (void)state;
    shoali_heartbeat beat = {.busy = 1};
    job.now_us += 3000;
    shoali_watch_say(job.watch, &beat);
    assert_int_equal(beat.ended, 0);
    assert_int_equal(beat.idle_us, 3000); /* so far */
    shoali_watch_busy(job.watch);
    job.now_us += 40000;
    shoali_watch_busy(job.watch); /* a second one beside it */
    shoali_watch_ended(job.watch);
    job.now_us += 10000;
    shoali_watch_say(job.watch, &beat);
    assert_int_equal(beat.idle_us, 3000); /* one is still open */
    assert_int_equal(beat.ended, 1);
    shoali_watch_ended(job.watch);
    shoali_watch_idle(job.watch);
    job.now_us += 700;
    shoali_watch_busy(job.watch);
    shoali_watch_say(job.watch, &beat);
    assert_int_equal(beat.idle_us, 3700);
    assert_int_equal(beat.ended, 2);
    assert_int_equal(beat.busy, 1); /* the caller's part stays */
}

static void rates_are_those_of_its_connections(void **state)
{
    (void)state;
    shoali_heartbeat beat = {0}, other = {.to_you_bytes_s = 777, .sends_bytes_s = 5};
    job.carried[0] = (shoal_peer_stats){.acked_bytes = 10000000, .busy_us = 1000000};
    job.carried[2] = (shoal_peer_stats){.acked_bytes = 60000000, .busy_us = 2000000};
    job.carried[3] = (shoal_peer_stats){.acked_bytes = 90000000, .busy_us = 1000000};
    job.away[3] = true;
    shoali_watch_hear(job.watch, 2, &other);
    shoali_watch_say(job.watch, &beat);
    assert_int_equal(shoali_watch_rate_to(job.watch, 0), 10000000);
    assert_int_equal(shoali_watch_rate_to(job.watch, 2), 30000000);
    assert_int_equal(shoali_watch_rate_to(job.watch, 3), 0); /* it is not there */
    assert_int_equal(beat.sends_bytes_s, 30000000);
    assert_int_equal(beat.receives_bytes_s, 777);
    /* too little since to know better; then what came since then counts alone */
    job.carried[2] = (shoal_peer_stats){.acked_bytes = 60000001, .busy_us = 2000001};
    shoali_watch_say(job.watch, &beat);
    assert_int_equal(shoali_watch_rate_to(job.watch, 2), 30000000);
    job.carried[2] = (shoal_peer_stats){.acked_bytes = 65000000, .busy_us = 3000000};
    shoali_watch_say(job.watch, &beat);
    assert_int_equal(shoali_watch_rate_to(job.watch, 2), 5000000);
    /* other connections than before, from zero on */
    job.carried[2] = (shoal_peer_stats){.acked_bytes = 2000000, .busy_us = 1000000};
    shoali_watch_say(job.watch, &beat);
    assert_int_equal(shoali_watch_rate_to(job.watch, 2), 2000000);
    /* never more than the line carries */
    job.carried[0] = (shoal_peer_stats){
        .acked_bytes = 50000000, .busy_us = 1200000, .line_bytes_s = 12500000};
    shoali_watch_say(job.watch, &beat);
    assert_int_equal(shoali_watch_rate_to(job.watch, 0), 12500000);
}

static const uint64_t equal[] = {20000, 20000, 20000, 20000},
                      slow_2[] = {20000, 20000, 38000, 20000};

static void assert_slowest(uint32_t expected)
{
    uint32_t rank = 99;
    const char *cause = NULL;
    const bool is = shoali_watch_slowest(job.watch, &rank, &cause);
    assert_int_equal(is, expected != SHOALI_NOBODY);
    if (is) {
        assert_int_equal(rank, expected);
        assert_string_equal(cause, "compute");
    }
}

static void who_computes_longest_is_named_and_forgiven(void **state)
{
    (void)state;
    live(60, equal);
    assert_slowest(SHOALI_NOBODY);
    live(60, slow_2);
    assert_slowest(2);
    shoali_status_row row;
    shoali_watch_row(job.watch, 2, &row);
    assert_int_equal(row.cause, SHOALI_SLOW_COMPUTE);
    assert_in_range(row.compute_us, 37900, 38100);
    assert_in_range(row.caused_us, 10000, 18100);
    assert_int_equal(row.last_permille, 1000);
    assert_in_range(row.slow_for_us, 5000000, 16000000);
    shoali_watch_row(job.watch, 0, &row);
    assert_int_equal(row.cause, SHOALI_SLOW_NOT);
    assert_int_equal(row.slow_for_us, 0);
    assert_in_range(row.compute_us, 19900, 20100);
    live(60, equal);
    assert_slowest(SHOALI_NOBODY);
    shoali_watch_row(job.watch, 2, &row);
    assert_int_equal(row.slow_for_us, 0);
}

static void assert_cause(uint32_t rank, uint32_t cause)
{
    shoali_status_row row;
    for (uint32_t i = 0; i < WATCHED_RANKS; i++) {
        shoali_watch_row(job.watch, i, &row);
        assert_string_equal(shoali_slow_name(row.cause),
                            shoali_slow_name(i == rank ? cause : SHOALI_SLOW_NOT));
    }
}

/* What it computes longer it makes batches; then the others do, and computing is slow. */
static void who_makes_batches_longest_has_slow_input(void **state)
{
    (void)state;
    shoali_status_row row;
    for (uint32_t i = 0; i < WATCHED_RANKS; i++)
        told[i][SHOALI_FARE_DATA_US] = i == 2 ? 15000 : 2000;
    live(60, slow_2);
    assert_cause(2, SHOALI_SLOW_INPUT);
    shoali_watch_row(job.watch, 2, &row);
    assert_in_range(row.data_us, 14900, 15100);
    assert_true(row.slow_for_us > 0);
    for (uint32_t i = 0; i < WATCHED_RANKS; i++)
        told[i][SHOALI_FARE_DATA_US] = i == 2 ? 2000 : 15000;
    live(60, slow_2);
    assert_cause(2, SHOALI_SLOW_COMPUTE);
}

/* 1 ms a sample everywhere, and twice as many here. */
static void who_has_more_samples_has_more_load(void **state)
{
    (void)state;
    static const uint64_t loaded_1[] = {20000, 40000, 20000, 20000};
    shoali_status_row row;
    for (uint32_t i = 0; i < WATCHED_RANKS; i++)
        told[i][SHOALI_FARE_SAMPLES] = i == 1 ? 40 : 20;
    live(60, loaded_1);
    assert_cause(1, SHOALI_SLOW_LOAD);
    shoali_watch_row(job.watch, 1, &row);
    assert_in_range(row.samples_milli, 39000, 41000);
}

/* No operation is open while a checkpoint is written, and that is no computing. */
static void who_writes_longest_has_a_slow_disk(void **state)
{
    (void)state;
    shoali_status_row row;
    for (uint32_t i = 0; i < WATCHED_RANKS; i++)
        told[i][SHOALI_FARE_DISK_US] = i == 2 ? 19000 : 1000;
    live(60, slow_2);
    assert_cause(2, SHOALI_SLOW_DISK);
    shoali_watch_row(job.watch, 2, &row);
    assert_in_range(row.disk_us, 18900, 19100);
    assert_in_range(row.compute_us, 18900, 19100);
    memset(told, 0, sizeof told);
    live(60, equal);
    assert_cause(SHOALI_NOBODY, SHOALI_SLOW_NOT);
}

/* Few long ones are pauses, one in each step is slow computing. */
static void who_stands_still_now_and_then_pauses(void **state)
{
    (void)state;
    static const uint64_t often[] = {20000, 20000, 20000, 38000};
    shoali_status_row row;
    static shoali_heartbeat beat[WATCHED_RANKS];
    memset(beat, 0, sizeof beat);
    for (uint32_t second = 0; second < 20; second++) {
        for (uint32_t step = 0; step < 10; step++) {
            job.now_us += 60000;
            shoali_watch_busy(job.watch);
            job.now_us += 40000;
            shoali_watch_ended(job.watch);
            shoali_watch_idle(job.watch);
        }
        for (uint32_t i = 0; i < WATCHED_RANKS; i++) {
            beat[i].ended += 10;
            beat[i].idle_us += 600000;
            beat[i].fares[SHOALI_FARE_PAUSED_US] += i == 3 ? 400000 : 0;
            beat[i].fares[SHOALI_FARE_PAUSES] += i == 3;
            if (i != 1)
                shoali_watch_hear(job.watch, i, &beat[i]);
        }
        shoali_watch_judge(job.watch);
    }
    assert_cause(3, SHOALI_SLOW_PAUSE);
    shoali_watch_row(job.watch, 3, &row);
    assert_in_range(row.paused_us, 39000, 41000);
    watched_end(&job);
    watched_begin(&job, "night", 7);
    told[3][SHOALI_FARE_PAUSED_US] = 18000;
    told[3][SHOALI_FARE_PAUSES] = 1;
    live(60, often);
    assert_cause(3, SHOALI_SLOW_COMPUTE);
}

static void how_far_the_training_is_is_passed_on(void **state)
{
    (void)state;
    shoali_status_row row;
    shoali_heartbeat beat = {.progress = {600, 3, 0.5F, 87.5F}};
    shoali_watch_row(job.watch, 2, &row);
    assert_true(row.progress.step == 0 && row.progress.loss != row.progress.loss);
    shoali_watch_hear(job.watch, 2, &beat);
    beat.progress.step = 601;
    shoali_watch_say(job.watch, &beat);
    shoali_watch_row(job.watch, 2, &row);
    assert_true(row.progress.step == 600 && row.progress.epoch == 3 && row.progress.loss == 0.5F &&
                row.progress.accuracy == 87.5F);
    shoali_watch_row(job.watch, 1, &row);
    assert_true(row.progress.step == 601);
}

static void a_first_moment_is_no_verdict(void **state)
{
    (void)state;
    live(12, slow_2); /* sixty steps: as many as a verdict needs, but three windows */
    assert_int_equal(job.watch->windows, 3);
    assert_slowest(SHOALI_NOBODY);
    live(4, slow_2);
    assert_slowest(2);
}

static void many_windows_are_not_too_many(void **state)
{
    (void)state;
    live(4 * (SHOALI_WATCH_WINDOWS + 20), slow_2);
    assert_int_equal(job.watch->windows, SHOALI_WATCH_WINDOWS);
    assert_slowest(2);
    for (uint32_t i = 1; i < SHOALI_WATCH_WINDOWS; i++)
        assert_true(job.watch->window_us[i] > job.watch->window_us[i - 1]);
}

/* A rank that does not come holds a window open for ten seconds, one that is away does not. */
static void a_window_waits_for_all_that_are_there(void **state)
{
    (void)state;
    shoali_heartbeat beat = {.ended = 9, .idle_us = 100};
    const uint64_t began_us = job.now_us;
    shoali_watch_busy(job.watch);
    for (uint32_t i = 0; i < WATCHED_RANKS; i += 2)
        shoali_watch_hear(job.watch, i, &beat);
    shoali_watch_ended(job.watch);
    shoali_watch_ended(job.watch);
    job.now_us = began_us + 999999;
    job.away[3] = true;
    shoali_watch_judge(job.watch);
    assert_int_equal(job.watch->windows, 0); /* a second is the least */
    job.away[3] = false;
    job.now_us = began_us + 9999999;
    shoali_watch_judge(job.watch);
    assert_int_equal(job.watch->windows, 0); /* rank 3 has ended nothing */
    job.now_us = began_us + 10000000;
    shoali_watch_judge(job.watch);
    assert_int_equal(job.watch->windows, 1);
    assert_int_equal(job.watch->window_us[0], began_us);
    /* and the next one begins here; rank 3 is given up */
    job.away[3] = true;
    beat.ended = 11;
    for (uint32_t i = 0; i < WATCHED_RANKS; i += 2)
        shoali_watch_hear(job.watch, i, &beat);
    shoali_watch_ended(job.watch);
    job.now_us += 1000000;
    shoali_watch_judge(job.watch);
    assert_int_equal(job.watch->windows, 1); /* one operation of ours is not enough */
    shoali_watch_ended(job.watch);
    shoali_watch_judge(job.watch);
    assert_int_equal(job.watch->windows, 2);
}

static void where_nothing_happens_there_are_no_windows(void **state)
{
    (void)state;
    job.now_us += 30000000;
    shoali_watch_judge(job.watch);
    assert_int_equal(job.watch->windows, 0);
    job.now_us += 1000000;
    assert_int_equal(job.watch->window_started_us, job.now_us - 1000000);
}

static void a_row_is_made_of_both(void **state)
{
    (void)state;
    shoali_status_row row;
    shoali_heartbeat beat = {.ended = 12, .sends_bytes_s = 8, .receives_bytes_s = 9};
    shoali_watch_hear(job.watch, 3, &beat);
    shoali_watch_ended(job.watch);
    job.state[3] = SHOALI_RANK_DEAD;
    shoali_watch_row(job.watch, 3, &row);
    assert_int_equal(row.state, SHOALI_RANK_DEAD);
    assert_int_equal(row.ended, 12);
    assert_int_equal(row.sends_bytes_s, 8);
    assert_int_equal(row.receives_bytes_s, 9);
    assert_int_equal(row.last_seen_us, 300);
    assert_string_equal(row.host, "h3");
    assert_string_equal(row.text, "all-reduce 3");
    shoali_watch_row(job.watch, 1, &row);
    assert_int_equal(row.ended, 1);
}

static void where_nobody_watches_nothing_happens(void **state)
{
    (void)state;
    uint32_t rank;
    const char *cause;
    const shoali_heartbeat beat = {0};
    shoali_watch_busy(NULL);
    shoali_watch_ended(NULL);
    shoali_watch_idle(NULL);
    shoali_watch_hear(NULL, 0, &beat);
    shoali_watch_serve(NULL);
    shoali_watch_forked(NULL);
    shoali_watch_close(NULL);
    assert_false(shoali_watch_slowest(NULL, &rank, &cause));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {TEST(it_says_what_it_did),
                                       TEST(rates_are_those_of_its_connections),
                                       TEST(who_computes_longest_is_named_and_forgiven),
                                       TEST(who_makes_batches_longest_has_slow_input),
                                       TEST(who_has_more_samples_has_more_load),
                                       TEST(who_writes_longest_has_a_slow_disk),
                                       TEST(who_stands_still_now_and_then_pauses),
                                       TEST(how_far_the_training_is_is_passed_on),
                                       TEST(a_first_moment_is_no_verdict),
                                       TEST(many_windows_are_not_too_many),
                                       TEST(a_window_waits_for_all_that_are_there),
                                       TEST(where_nothing_happens_there_are_no_windows),
                                       TEST(a_row_is_made_of_both),
                                       TEST(where_nobody_watches_nothing_happens)};
    return CHECK_RUN(tests);
}
