/* SPDX-License-Identifier: Apache-2.0 */
#include "support/machine.h"

#include "support/check.h"

/* 5 tensors of 4 elements, buckets of 8: [12,20) [4,12) [0,4), back to front. */

static void buckets_start_as_soon_as_they_are_whole(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "all_reduce", 4, 0, 1, 5);
    assert_string_equal(machine_start(&m), "");
    assert_string_equal(machine_ready(&m, 16, 4), "");
    assert_string_equal(machine_ready(&m, 12, 4), "op 0 [12,20) GRAD push pull");
    assert_string_equal(machine_ready(&m, 0, 12),
                        "op 1 [4,12) GRAD push pull; op 2 [0,4) GRAD push pull");
    machine_close(&m);
}

static void go_comes_when_all_buckets_are_done(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "all_reduce", 4, 0, 1, 5);
    (void)machine_start(&m);
    (void)machine_ready(&m, 0, 20);
    assert_string_equal(machine_done(&m, 1, SHOAL_OK, NULL), "");
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "");
    assert_string_equal(machine_done(&m, 0, SHOAL_OK, NULL), "");
    assert_string_equal(machine_done(&m, 2, SHOAL_OK, NULL), "go apply @0 /4");
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER), "go hold @1 /4");
    assert_string_equal(machine_ready(&m, 12, 8), "op 3 [12,20) GRAD push pull");
    assert_string_equal(machine_ready(&m, 0, 12),
                        "op 4 [4,12) GRAD push pull; op 5 [0,4) GRAD push pull");
    for (uint64_t id = 3; id < 6; id++)
        assert_string_equal(machine_done(&m, id, SHOAL_OK, NULL), "");
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "go apply @1 /4");
    machine_close(&m);
}

static void it_goes_on_from_the_iteration_it_is_given(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "all_reduce", 2, 0, 0, 2);
    m.world.iteration = 41;
    (void)machine_start(&m);
    assert_string_equal(machine_ready(&m, 0, 8), "op 41 [0,8) GRAD push pull");
    (void)machine_done(&m, 41, SHOAL_OK, NULL);
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "go apply @41 /2");
    machine_close(&m);
}

static void servers_are_refused(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "all_reduce", 2, 1, 0, 2);
    assert_string_equal(machine_start(&m),
                        "fail EINVAL r-1 all_reduce has no use for 1 dedicated servers");
    assert_string_equal(machine_ready(&m, 0, 8), "");
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(buckets_start_as_soon_as_they_are_whole),
        CHECK_TEST(go_comes_when_all_buckets_are_done),
        CHECK_TEST(it_goes_on_from_the_iteration_it_is_given),
        CHECK_TEST(servers_are_refused),
    };
    return CHECK_RUN(tests);
}
