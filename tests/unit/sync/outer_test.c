/* SPDX-License-Identifier: Apache-2.0 */
#include "support/machine.h"

#include <math.h>

#include "support/check.h"

static const char *call(machine *m, uint64_t id, uint64_t version, uint64_t weight, uint8_t members,
                        uint8_t outdated)
{
    uint8_t bytes[35] = {0xe1};
    bytes[1] = (uint8_t)id;
    bytes[9] = (uint8_t)version;
    bytes[17] = (uint8_t)weight;
    bytes[33] = members;
    bytes[34] = outdated;
    return machine_message(m, 0, bytes, sizeof bytes);
}

static const char *iterate(machine *m)
{
    (void)machine_event(m, SHOALI_EV_BEFORE);
    return machine_event(m, SHOALI_EV_AFTER);
}

/* Others have had three rounds without it: base and momentum come first, from worker 0. */
static void who_missed_rounds_takes_base_and_momentum(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "diloco:every=1,quorum=1,lr=0.5,momentum=0.5", 2, 0, 1, 1);
    (void)machine_start(&m);
    (void)iterate(&m);
    assert_string_equal(call(&m, 4, 3, 4, 3, 2),
                        "op 4 [0,4) SLOT2 of 0,1 push pull; op 5 [0,4) SLOT0 of 0,1; "
                        "op 6 [0,4) SLOT1 of 0,1");
    assert_string_equal(machine_done(&m, 5, SHOAL_OK, NULL), "");
    assert_string_equal(machine_done(&m, 4, SHOAL_OK, NULL), "");
    assert_string_equal(machine_done(&m, 6, SHOAL_OK, NULL),
                        "mix SLOT1 [0,4) = 0.5*SLOT1 + 0.25*SLOT2; "
                        "mix SLOT0 [0,4) = 1*SLOT0 + -0.125*SLOT2 + -0.25*SLOT1; "
                        "mix PARAM [0,4) = 1*SLOT0; go hold @1");
    machine_close(&m);
}

/* A broadcast that broke off has spoilt the base: the next round gives nothing and takes all. */
static void a_spoilt_base_gives_nothing(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "diloco:every=1,quorum=1,momentum=0.5", 2, 0, 1, 1);
    (void)machine_start(&m);
    (void)iterate(&m);
    (void)call(&m, 4, 3, 4, 3, 2);
    (void)machine_done(&m, 5, SHOAL_EPEER, "x");
    (void)machine_done(&m, 6, SHOAL_EPEER, "x");
    assert_string_equal(machine_done(&m, 4, SHOAL_EPEER, "x"),
                        "mix SLOT2 [0,4); "
                        "send 0 e000000000000000000000000000000000");
    machine_close(&m);
}

static void fragments_take_turns_and_travel_behind_the_compute(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "diloco:every=4,fragments=2,delay=1,momentum=0,keep=0.5", 2, 0, 1, 4);
    (void)machine_start(&m);
    (void)iterate(&m);
    assert_string_equal(iterate(&m), "mix SLOT2 [0,8) = 0.5*SLOT0 + -0.5*PARAM; "
                                     "send 0 e000000000000000000200000000000000; go hold @2");
    assert_string_equal(call(&m, 4, 0, 4, 3, 0), "op 4 [0,8) SLOT2 of 0,1 push pull");
    assert_string_equal(machine_done(&m, 4, SHOAL_OK, NULL), "");
    const char *text = iterate(&m);
    assert_string_equal(text, "mix SLOT0 [0,8) = 1*SLOT0 + -0.7*SLOT2; "
                              "mix PARAM [0,8) = 0.5*PARAM + 0.5*SLOT0; go hold @3");
    text = iterate(&m);
    assert_non_null(strstr(text, "mix SLOT2 [8,16)"));
    machine_close(&m);
}

static void leaving_waits_for_what_is_open(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "diloco:every=1,momentum=0", 2, 0, 1, 1);
    (void)machine_start(&m);
    (void)iterate(&m);
    (void)call(&m, 4, 0, 2, 3, 0);
    assert_non_null(strstr(machine_event(&m, SHOALI_EV_STOP), "cancel 4"));
    assert_string_equal(machine_done(&m, 4, SHOAL_ECANCELLED, "x"), "go stop @1");
    machine_close(&m);
}

/* Steps of 100 us, three of them to spare, less an eighth of what is left at the call. The leader
 * says how long the first of all can do without the round. */
static void a_round_may_take_as_long_as_nobody_waits(void **state)
{
    (void)state;
    static const char *const specs[] = {"diloco:every=8,delay=3,momentum=0",
                                        "diloco:every=8,delay=3,momentum=0,pace=off",
                                        "diloco:every=8,momentum=0"};
    for (uint32_t i = 0; i < 3; i++) {
        machine m;
        const char *text = "";
        machine_open(&m, specs[i], 2, 0, 1, 1);
        (void)machine_start(&m);
        for (uint64_t step = 1; step <= 8; step++) {
            (void)machine_event(&m, SHOALI_EV_BEFORE);
            text = machine_feed(
                &m, &(shoali_event){.kind = SHOALI_EV_AFTER, .now_us = 1000 + step * 100});
        }
        assert_int_equal(strstr(text, "000000002c01000000000000;") != NULL, i == 0); /* 300 us */
        uint8_t bytes[43] = {0xe1, 4};
        bytes[17] = 16;
        bytes[33] = 3;
        bytes[35] = 160; /* 160 us, says the leader: the other one was there earlier */
        text = machine_message(&m, 0, bytes, i == 0 ? 43 : 35);
        assert_string_equal(text, i == 0 ? "op 4 [0,4) SLOT2 of 0,1 push pull within 140"
                                         : "op 4 [0,4) SLOT2 of 0,1 push pull");
        text = machine_event(&m, SHOALI_EV_FINISH); /* now it waits */
        assert_int_equal(strstr(text, "hurry 4") != NULL, i == 0);
        machine_close(&m);
    }
}

static const char *iterate_on(machine *m, uint32_t samples, uint32_t batch)
{
    (void)machine_event(m, SHOALI_EV_BEFORE);
    return machine_feed(
        m, &(shoali_event){.kind = SHOALI_EV_AFTER, .step = {.samples = samples, .batch = batch}});
}

/* Two workers' moves, 1 and 4, behind 45 and 15 samples: whatever the unit in which they travel is,
 * the outer step is the naive weighted mean, (45 * 1 + 15 * 4) / 60. */
static void means_are_weighted_by_samples(void **state)
{
    (void)state;
    static const uint32_t batches[2][3] = {{30, 10, 5}, {5, 5, 5}};
    static const double moved[2] = {1, 4};
    double sum = 0, mean = 0;
    for (uint32_t w = 0; w < 2; w++) {
        machine m;
        double own;
        machine_open(&m, "diloco:every=3,momentum=0,lr=1", 3, 0, 1, 1);
        (void)machine_start(&m);
        (void)iterate_on(&m, batches[w][0], 10);
        (void)iterate_on(&m, batches[w][1], 10);
        const char *text = iterate_on(&m, batches[w][2], 10);
        assert_int_equal(sscanf(text, "mix SLOT2 [0,4) = %lf*SLOT0", &own), 1);
        char here[64];
        snprintf(here, sizeof here, "send 0 e00000000000000000%02x00000000000000",
                 w == 0 ? 45 : 15);
        assert_non_null(strstr(text, here));
        sum += own * moved[w];
        (void)call(&m, 4, 0, 60, 3, 0);
        text = machine_done(&m, 4, SHOAL_OK, NULL);
        assert_int_equal(sscanf(text, "mix SLOT0 [0,4) = 1*SLOT0 + %lf*SLOT2", &mean), 1);
        machine_close(&m);
    }
    assert_true(fabs(-mean * sum - (45 * moved[0] + 15 * moved[1]) / 60) < 1e-5);
}

/* What was taken while a round travelled counts in the next one. */
static void samples_behind_an_arrival_count_later(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "diloco:every=2,delay=1,momentum=0", 2, 0, 1, 4);
    (void)machine_start(&m);
    (void)iterate_on(&m, 8, 4);
    assert_non_null(strstr(iterate_on(&m, 8, 4), "= 2*SLOT0"));
    (void)call(&m, 4, 0, 20, 3, 0);
    (void)machine_done(&m, 4, SHOAL_OK, NULL);
    (void)iterate_on(&m, 3, 4); /* while it travels */
    assert_non_null(strstr(iterate_on(&m, 5, 4), "= 1*SLOT0"));
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(who_missed_rounds_takes_base_and_momentum),
        CHECK_TEST(a_spoilt_base_gives_nothing),
        CHECK_TEST(fragments_take_turns_and_travel_behind_the_compute),
        CHECK_TEST(leaving_waits_for_what_is_open),
        CHECK_TEST(a_round_may_take_as_long_as_nobody_waits),
        CHECK_TEST(means_are_weighted_by_samples),
        CHECK_TEST(samples_behind_an_arrival_count_later),
    };
    return CHECK_RUN(tests);
}
