/* SPDX-License-Identifier: Apache-2.0 */
#include "support/machine.h"

#include "support/check.h"

static void call(uint8_t bytes[35], uint64_t id, uint64_t weight, uint8_t members)
{
    memset(bytes, 0, 35);
    bytes[0] = 0xe1;
    bytes[1] = (uint8_t)id;
    bytes[17] = (uint8_t)weight;
    bytes[33] = members;
}

static void a_mean_after_every_two_iterations(void **state)
{
    (void)state;
    machine m;
    uint8_t bytes[35];
    machine_open(&m, "local_sgd:every=2", 3, 0, 1, 1);
    assert_string_equal(machine_start(&m), "");
    assert_string_equal(machine_ready(&m, 0, 4), "");
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE),
                        "mix SLOT0 [0,4) = 1*PARAM; go apply @0 /1");
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER), "go hold @1");
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "go apply @1 /1");
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER),
                        "mix SLOT2 [0,4) = 1*SLOT0 + -1*PARAM; "
                        "send 0 e000000000000000000200000000000000");
    call(bytes, 4, 6, 7);
    assert_string_equal(machine_message(&m, 0, bytes, sizeof bytes),
                        "op 4 [0,4) SLOT2 of 0,1,2 push pull");
    assert_string_equal(machine_done(&m, 4, SHOAL_OK, NULL),
                        "mix SLOT0 [0,4) = 1*SLOT0 + -0.333333*SLOT2; "
                        "mix PARAM [0,4) = 1*SLOT0; go hold @2");
    machine_close(&m);
}

static void a_lost_member_costs_the_round_only(void **state)
{
    (void)state;
    machine m;
    uint8_t bytes[35];
    machine_open(&m, "local_sgd:every=1", 3, 0, 1, 1);
    (void)machine_start(&m);
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    (void)machine_event(&m, SHOALI_EV_AFTER);
    call(bytes, 4, 3, 7);
    (void)machine_message(&m, 0, bytes, sizeof bytes);
    assert_string_equal(machine_done(&m, 4, SHOAL_EPEER, "2 is gone"),
                        "mix SLOT2 [0,4) = 1*SLOT0 + -1*PARAM; "
                        "send 0 e000000000000000000100000000000000");
    call(bytes, 8, 2, 3);
    assert_string_equal(machine_message(&m, 0, bytes, sizeof bytes),
                        "op 8 [0,4) SLOT2 of 0,1 push pull");
    assert_non_null(strstr(machine_done(&m, 8, SHOAL_OK, NULL), "-0.5*SLOT2"));
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_mean_after_every_two_iterations),
        CHECK_TEST(a_lost_member_costs_the_round_only),
    };
    return CHECK_RUN(tests);
}
