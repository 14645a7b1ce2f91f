/* SPDX-License-Identifier: Apache-2.0 */
/* The state table of lockstep.c, seen through the all_reduce row. */
#include "sync/lockstep.h"

#include "support/check.h"
#include "support/machine.h"

static const uint8_t stop_at_0[] = {1, 0, 0, 0, 0, 0, 0, 0, 0};
static const uint8_t stop_at_1[] = {1, 1, 0, 0, 0, 0, 0, 0, 0};

/* 5 tensors of 4 elements, buckets 0 [12,20), 1 [4,12), 2 [0,4); worker 1 of 3. */
static void begin(machine *m, shoal_nonfinite nonfinite)
{
    machine_open(m, "all_reduce", 3, 0, 1, 5);
    m->world.nonfinite = nonfinite;
    (void)machine_start(m);
}

/* The first iteration's three buckets. */
static void exchange_all(machine *m)
{
    (void)machine_ready(m, 0, 20);
    for (uint64_t id = 0; id < 3; id++)
        (void)machine_done(m, id, SHOAL_OK, NULL);
}

static void buckets_hold_whole_tensors_whatever_their_size(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "all_reduce", 3, 0, 1, 5);
    m.world.bucket_elems = 1;
    (void)machine_start(&m);
    assert_string_equal(machine_ready(&m, 12, 8),
                        "op 0 [16,20) GRAD push pull; op 1 [12,16) GRAD push pull");
    machine_close(&m);
    machine_open(&m, "all_reduce", 3, 0, 1, 5);
    m.world.bucket_elems = SIZE_MAX;
    (void)machine_start(&m);
    assert_string_equal(machine_ready(&m, 4, 16), "");
    assert_string_equal(machine_ready(&m, 0, 4), "op 0 [0,20) GRAD push pull");
    machine_close(&m);
}

/* Of [0,4) .. [16,20) the third is a table whose rows travel. */
static void a_table_whose_rows_travel_is_a_bucket(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "all_reduce", 3, 0, 1, 5);
    m.tensors[2].flags = SHOAL_TENSOR_ROWS;
    m.world.rows_apart = true;
    m.world.bucket_elems = SIZE_MAX;
    (void)machine_start(&m);
    assert_string_equal(machine_ready(&m, 8, 12),
                        "op 0 [12,20) GRAD push pull; op 1 [8,12) GRAD push pull");
    assert_string_equal(machine_ready(&m, 0, 8), "op 2 [0,8) GRAD push pull");
    machine_close(&m);
}

static void a_nan_stops_with_the_text_of_the_first_bad_bucket(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    (void)machine_ready(&m, 0, 20);
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    assert_string_equal(machine_done(&m, 2, SHOAL_ENOTFINITE, "second"), "");
    assert_string_equal(machine_done(&m, 1, SHOAL_ENOTFINITE, "first"), "");
    assert_string_equal(machine_done(&m, 0, SHOAL_OK, NULL), "fail ENOTFINITE r-1 first");
    assert_string_equal(machine_event(&m, SHOALI_EV_STOP), "");
    machine_close(&m);
    begin(&m, SHOAL_NONFINITE_STOP); /* whichever comes first */
    (void)machine_ready(&m, 0, 20);
    (void)machine_done(&m, 0, SHOAL_ENOTFINITE, "zeroth");
    (void)machine_done(&m, 1, SHOAL_ENOTFINITE, "first");
    (void)machine_done(&m, 2, SHOAL_OK, NULL);
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "fail ENOTFINITE r-1 zeroth");
    machine_close(&m);
}

static void a_nan_skips_the_step_and_the_next_one_counts(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_SKIP);
    (void)machine_ready(&m, 0, 20);
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    (void)machine_done(&m, 0, SHOAL_ENOTFINITE, "x");
    (void)machine_done(&m, 1, SHOAL_OK, NULL);
    assert_string_equal(machine_done(&m, 2, SHOAL_OK, NULL), "go skip @0 /3");
    (void)machine_event(&m, SHOALI_EV_AFTER);
    (void)machine_ready(&m, 0, 20);
    for (uint64_t id = 3; id < 6; id++)
        (void)machine_done(&m, id, SHOAL_OK, NULL);
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "go apply @1 /3");
    machine_close(&m);
}

static void a_failed_operation_fails_at_once(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    (void)machine_ready(&m, 0, 20);
    assert_string_equal(machine_done(&m, 1, SHOAL_ETIMEDOUT, "rank 2 has not entered"),
                        "fail ETIMEDOUT r-1 rank 2 has not entered");
    assert_string_equal(machine_done(&m, 0, SHOAL_ECANCELLED, NULL), "");
    machine_close(&m);
}

static void a_lost_peer_fails_with_its_name(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    assert_string_equal(machine_down(&m, 2, "connection reset"),
                        "fail EPEER r2 worker 2 was lost: connection reset");
    assert_string_equal(machine_down(&m, 0, "too"), "");
    machine_close(&m);
}

/* The update is made once: who made it goes on, and fails in the next iteration. */
static void a_peer_lost_during_the_update_is_missed_behind_it(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    exchange_all(&m);
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "go apply @0 /3");
    assert_string_equal(machine_down(&m, 2, "connection reset"), "");
    assert_string_equal(machine_down(&m, 0, "too"), "");
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER), "go hold @1 /3");
    assert_string_equal(machine_ready(&m, 0, 20),
                        "fail EPEER r2 worker 2 was lost: connection reset");
    machine_close(&m);
}

static void stop_while_computing_tells_the_peers_and_goes(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    assert_string_equal(machine_event(&m, SHOALI_EV_STOP),
                        "send all 010000000000000000; go stop @0");
    machine_close(&m);
}

static void stop_with_open_operations_waits_for_them(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    (void)machine_ready(&m, 4, 16);
    (void)machine_done(&m, 1, SHOAL_OK, NULL);
    assert_string_equal(machine_event(&m, SHOALI_EV_STOP), "send all 010000000000000000; cancel 0");
    assert_string_equal(machine_down(&m, 2, "gone"), ""); /* no news any more */
    assert_string_equal(machine_done(&m, 0, SHOAL_EPEER, "gone"), "go stop @0");
    machine_close(&m);
}

static void stop_after_the_exchange_names_the_next_iteration(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    exchange_all(&m);
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    assert_string_equal(machine_event(&m, SHOALI_EV_STOP),
                        "send all 010100000000000000; go stop @0");
    machine_close(&m);
}

static void a_peer_that_stops_later_changes_nothing_now(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    (void)machine_ready(&m, 0, 20);
    assert_string_equal(machine_message(&m, 2, stop_at_1, sizeof stop_at_1), "");
    assert_string_equal(machine_down(&m, 2, "it left"), "");
    for (uint64_t id = 0; id < 3; id++)
        (void)machine_done(&m, id, SHOAL_OK, NULL);
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "go apply @0 /3");
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER), "go stop @1");
    machine_close(&m);
}

static void a_peer_that_stops_now_ends_the_step(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    (void)machine_ready(&m, 4, 16);
    assert_string_equal(machine_message(&m, 2, stop_at_0, sizeof stop_at_0), "cancel 0; cancel 1");
    assert_string_equal(machine_ready(&m, 0, 4), "");
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "");
    assert_string_equal(machine_done(&m, 0, SHOAL_ECANCELLED, "x"), "");
    assert_string_equal(machine_done(&m, 1, SHOAL_ECANCELLED, "x"), "go stop @0");
    machine_close(&m);
}

static void an_operation_cancelled_by_a_peer_ends_the_step(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    (void)machine_ready(&m, 4, 16);
    assert_string_equal(machine_done(&m, 0, SHOAL_ECANCELLED, "by rank 0"), "cancel 1");
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "");
    assert_string_equal(machine_done(&m, 1, SHOAL_ECANCELLED, "x"), "go stop @0");
    machine_close(&m);
}

static void strange_messages_and_ids_are_harmless(void **state)
{
    (void)state;
    machine m;
    begin(&m, SHOAL_NONFINITE_STOP);
    (void)machine_ready(&m, 4, 16);
    assert_string_equal(machine_done(&m, 2, SHOAL_OK, NULL), "");
    assert_string_equal(machine_done(&m, UINT64_MAX, SHOAL_OK, NULL), "");
    (void)machine_done(&m, 0, SHOAL_OK, NULL);
    assert_string_equal(machine_done(&m, 0, SHOAL_OK, NULL), ""); /* twice counts once */
    assert_string_equal(machine_message(&m, 2, stop_at_0, 8),
                        "fail ECORRUPT r2 endpoint 2 sent a message of 8 bytes that is no STOP");
    machine_close(&m);
    begin(&m, SHOAL_NONFINITE_STOP);
    assert_string_equal(machine_message(&m, 0, "", 0),
                        "fail ECORRUPT r0 endpoint 0 sent a message of 0 bytes that is no STOP");
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(buckets_hold_whole_tensors_whatever_their_size),
        CHECK_TEST(a_table_whose_rows_travel_is_a_bucket),
        CHECK_TEST(a_nan_stops_with_the_text_of_the_first_bad_bucket),
        CHECK_TEST(a_nan_skips_the_step_and_the_next_one_counts),
        CHECK_TEST(a_failed_operation_fails_at_once),
        CHECK_TEST(a_lost_peer_fails_with_its_name),
        CHECK_TEST(a_peer_lost_during_the_update_is_missed_behind_it),
        CHECK_TEST(stop_while_computing_tells_the_peers_and_goes),
        CHECK_TEST(stop_with_open_operations_waits_for_them),
        CHECK_TEST(stop_after_the_exchange_names_the_next_iteration),
        CHECK_TEST(a_peer_that_stops_later_changes_nothing_now),
        CHECK_TEST(a_peer_that_stops_now_ends_the_step),
        CHECK_TEST(an_operation_cancelled_by_a_peer_ends_the_step),
        CHECK_TEST(strange_messages_and_ids_are_harmless),
    };
    return CHECK_RUN(tests);
}
