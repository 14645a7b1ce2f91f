/* SPDX-License-Identifier: Apache-2.0 */
#include "support/ripples_talk.h"

#include "support/check.h"

static const char *goodbye(machine *m, uint32_t peer)
{
    static const uint8_t bytes[9] = {GOODBYE};
    return machine_message(m, peer, bytes, sizeof bytes);
}

static void a_worker_asks_and_averages_with_its_group(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ripples", 4, 0, 2, 1);
    assert_string_equal(machine_start(&m), "");
    assert_string_equal(ripples_iterate(&m), "send 0 0101000000000000000000000000000000");
    assert_string_equal(ripples_tell(&m, 0, GROUP, 1, 0, 0x0e),
                        "mix SLOT0 [0,4) = 1*PARAM; op 1 [0,4) SLOT0 of 1,2,3 ring");
    assert_string_equal(ripples_tell(&m, 0, GROUP, 3, 0, 0x0c), ""); /* the next one is kept */
    const char *text = machine_done(&m, 1, SHOAL_OK, NULL);
    assert_non_null(strstr(text, "mix PARAM [0,4) = 0.333333*SLOT0; "
                                 "send 0 0301000000000000000000000000000000; go hold @1"));
    text = ripples_iterate(&m);
    assert_non_null(strstr(text, "send 0 01020000"));
    assert_non_null(strstr(text, "op 3 [0,4) SLOT0 of 2,3 ring"));
    machine_close(&m);
}

static void a_group_of_one_is_no_operation(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ripples", 4, 0, 2, 1);
    (void)machine_start(&m);
    (void)ripples_iterate(&m);
    assert_string_equal(ripples_tell(&m, 0, GROUP, 1, 0, 0x04),
                        "send 0 0301000000000000000000000000000000; go hold @1");
    machine_close(&m);
}

static void groups_with_somebody_who_left_are_void(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ripples", 4, 0, 2, 1);
    (void)machine_start(&m);
    (void)ripples_iterate(&m);
    (void)ripples_tell(&m, 0, GROUP, 1, 0, 0x0c);
    assert_string_equal(ripples_tell(&m, 3, ENDED, 1, 0, 0),
                        ""); /* it will still execute group 1 */
    assert_string_equal(goodbye(&m, 3), "");
    const char *text = machine_done(&m, 1, SHOAL_OK, NULL);
    assert_non_null(strstr(text, "go hold @1"));
    (void)ripples_iterate(&m);
    assert_string_equal(ripples_tell(&m, 0, GROUP, 2, 0, 0x0c), /* and no other: asked again */
                        "send 0 0302000000000000000000000000000000; "
                        "send 0 010200000000000000ffffffffffffffff");
    (void)ripples_tell(&m, 0, GROUP, 3, 0, 0x06);
    assert_string_equal(ripples_tell(&m, 1, ENDED, 2, 0, 0), "cancel 3");
    text = machine_done(&m, 3, SHOAL_ECANCELLED, "x");
    assert_string_equal(text, "send 0 0303000000000000000000000000000000; "
                              "send 0 010200000000000000ffffffffffffffff");
    machine_close(&m);
}

static void static_needs_no_messages(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ripples:static", 4, 0, 2, 1);
    m.hosts[0] = m.hosts[1] = m.hosts[2] = m.hosts[3] = 0;
    (void)machine_start(&m);
    assert_string_equal(ripples_iterate(&m),
                        "mix SLOT0 [0,4) = 1*PARAM; op 5290563668 [0,4) SLOT0 of 2,3 ring");
    assert_string_equal(machine_done(&m, 5290563668, SHOAL_OK, NULL),
                        "mix PARAM [0,4) = 0.5*SLOT0; go hold @1");
    assert_string_equal(ripples_iterate(&m),
                        "mix SLOT0 [0,4) = 1*PARAM; op 11909333861 [0,4) SLOT0 of 0,1,2,3 ring");
    assert_string_equal(machine_down(&m, 1, "gone"), "cancel 11909333861");
    assert_string_equal(machine_done(&m, 11909333861, SHOAL_ECANCELLED, "x"),
                        "send all 0602000000000000000000000000000000; go hold @2");
    assert_string_equal(ripples_tell(&m, 3, SKIPPED, 4, 0, 0),
                        ""); /* 0 and 2 are left for step 4 */
    assert_string_equal(ripples_iterate(&m), "go hold @3");
    assert_string_equal(ripples_iterate(&m),
                        "mix SLOT0 [0,4) = 1*PARAM; op 20745401063 [0,4) SLOT0 of 0,2 ring");
    assert_string_equal(ripples_tell(&m, 0, SKIPPED, 4, 0, 0), "cancel 20745401063");
    machine_close(&m);
}

/* A run that goes on has the groups that it would have had: these are of step 2 above. */
static void static_follows_from_the_step(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ripples:static,section=3", 4, 0, 2, 1);
    m.hosts[0] = m.hosts[1] = m.hosts[2] = m.hosts[3] = 0;
    m.world.iteration = 5;
    (void)machine_start(&m);
    assert_string_equal(ripples_iterate(&m),
                        "mix SLOT0 [0,4) = 1*PARAM; op 11909333861 [0,4) SLOT0 of 0,1,2,3 ring");
    machine_close(&m);
    machine_open(&m, "ripples:static", 4, 0, 2, 1);
    m.hosts[0] = m.hosts[1] = m.hosts[2] = m.hosts[3] = 0;
    m.world.iteration = 5;
    (void)machine_start(&m);
    assert_string_equal(machine_down(&m, 1, "gone"), ""); /* no word of steps of an earlier run */
    machine_close(&m);
}

static void hostile_bytes_end_it(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ripples", 3, 0, 1, 1);
    (void)machine_start(&m);
    static const uint8_t bytes[] = {GROUP, 1, 2};
    assert_non_null(strstr(machine_message(&m, 0, bytes, sizeof bytes), "fail ECORRUPT"));
    machine_close(&m);
    machine_open(&m, "ripples", 3, 0, 1, 1);
    (void)machine_start(&m);
    const char *text = "";
    for (uint64_t id = 1; id <= 5; id++)
        text = ripples_tell(&m, 0, GROUP, id, 0, 0x02);
    assert_non_null(strstr(text, "fail ECORRUPT"));
    machine_close(&m);
}

static void keys_that_exclude_each_other(void **state)
{
    (void)state;
    shoali_protocol protocol;
    assert_status(shoali_sync_open("ripples:static,smart", &protocol), SHOAL_EINVAL);
    assert_status(shoali_sync_open("ripples:random,laggards", &protocol), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_worker_asks_and_averages_with_its_group),
        CHECK_TEST(a_group_of_one_is_no_operation),
        CHECK_TEST(groups_with_somebody_who_left_are_void),
        CHECK_TEST(static_needs_no_messages),
        CHECK_TEST(static_follows_from_the_step),
        CHECK_TEST(hostile_bytes_end_it),
        CHECK_TEST(keys_that_exclude_each_other),
    };
    return CHECK_RUN(tests);
}
