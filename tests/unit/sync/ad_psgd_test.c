/* SPDX-License-Identifier: Apache-2.0 */
/* One worker of AD-PSGD; the test plays the others. Slots: 1 the replica, 2 what travels. */
#include "support/check.h"
#include "support/machine.h"

static const uint8_t lock_1[9] = {1, 1}, grant_1[9] = {2, 1};

static uint64_t op_id(uint64_t initiator, uint64_t number)
{
    return 2 * (initiator << 40 | number);
}

static void an_averaging_in_the_background_adds_to_the_update(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ad_psgd", 2, 0, 1, 1); /* odd: initiates, with 0 */
    assert_string_equal(machine_start(&m), "mix SLOT1 [0,4) = 1*PARAM; send 0 010100000000000000");
    const char *text = machine_message(&m, 0, grant_1, sizeof grant_1);
    assert_non_null(strstr(text, "mix SLOT2 [0,4) = 1*SLOT1; op "));
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE),
                        "mix PARAM [0,4) = 1*SLOT1; go apply @0 /1");
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER), ""); /* one averaging an iteration */
    text = machine_done(&m, op_id(1, 1), SHOAL_OK, NULL);
    assert_non_null(strstr(text, "mix SLOT1 [0,4) = 0.5*SLOT2 + 1*PARAM + -1*SLOT1; "
                                 "mix PARAM [0,4) = 1*SLOT1; send 0 010200000000000000; "
                                 "go hold @1"));
    machine_close(&m);
}

static void who_is_asked_answers_when_nobody_writes(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ad_psgd", 4, 0, 0, 1); /* even: is asked by 1 and 3 */
    assert_string_equal(machine_start(&m), "mix SLOT1 [0,4) = 1*PARAM");
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    assert_string_equal(machine_message(&m, 3, lock_1, sizeof lock_1), ""); /* during the update */
    assert_string_equal(machine_message(&m, 2, lock_1, sizeof lock_1), ""); /* no neighbour */
    const char *text = machine_event(&m, SHOALI_EV_AFTER);
    assert_non_null(strstr(text, "mix SLOT1 [0,4) = 1*PARAM; send 3 020100000000000000; "
                                 "mix SLOT2 [0,4) = 1*SLOT1; op "));
    assert_non_null(strstr(text, "go hold @1"));
    assert_string_equal(machine_message(&m, 1, lock_1, sizeof lock_1), ""); /* locked */
    text = machine_done(&m, op_id(3, 1), SHOAL_OK, NULL);
    assert_non_null(strstr(text, "mix SLOT1 [0,4) = 0.5*SLOT2; send 1 020100000000000000"));
    /* the one that it waits for dies: the replica is as it was, and free */
    text = machine_down(&m, 1, "gone");
    assert_non_null(strstr(text, "cancel "));
    assert_string_equal(machine_done(&m, op_id(1, 1), SHOAL_EPEER, "gone"), "");
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_BEFORE), "go apply @1"));
    machine_close(&m);
}

static void standing_still_costs_its_time(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ad_psgd:blocking,still", 2, 0, 0, 1);
    (void)machine_start(&m);
    const shoali_event asked = {
        .kind = SHOALI_EV_MESSAGE, .now_us = 100, .message = {1, lock_1, sizeof lock_1}};
    const shoali_event done = {
        .kind = SHOALI_EV_OP_DONE, .now_us = 350, .op = {op_id(1, 1), SHOAL_OK, NULL}};
    const shoali_event after = {.kind = SHOALI_EV_AFTER, .now_us = 1000};
    (void)machine_feed(&m, &asked);
    (void)machine_feed(&m, &done);
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    const char *text = machine_feed(&m, &after);
    assert_non_null(strstr(text, "timer 1 @1250"));
    assert_null(strstr(text, "go"));
    assert_non_null(strstr(machine_timer(&m, 1, 1250), "go hold @1"));
    machine_close(&m);
}

static void graphs_that_could_wait_in_circles_are_refused(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ad_psgd:graph=ring", 5, 0, 1, 1);
    assert_non_null(strstr(machine_start(&m), "fail EINVAL"));
    machine_close(&m);
    machine_open(&m, "ad_psgd:graph=ring,all", 5, 0, 1, 1);
    assert_null(strstr(machine_start(&m), "fail"));
    machine_close(&m);
}

static void directed_graphs_are_refused_before_the_start(void **state)
{
    (void)state;
    shoali_protocol protocol;
    assert_status(shoali_sync_open("ad_psgd:graph=one_way", &protocol), SHOAL_EINVAL);
    assert_error_has("graph=one_way is directed");
    assert_status(shoali_sync_open("ad_psgd:graph=exponential,all", &protocol), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(an_averaging_in_the_background_adds_to_the_update),
        CHECK_TEST(who_is_asked_answers_when_nobody_writes),
        CHECK_TEST(standing_still_costs_its_time),
        CHECK_TEST(directed_graphs_are_refused_before_the_start),
        CHECK_TEST(graphs_that_could_wait_in_circles_are_refused),
    };
    return CHECK_RUN(tests);
}
