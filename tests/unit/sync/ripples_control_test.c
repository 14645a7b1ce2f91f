/* SPDX-License-Identifier: Apache-2.0 */
#include "support/ripples_talk.h"

#include "support/check.h"

static void the_controller_hands_groups_out(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ripples:threshold=0", 2, 0, 0, 1);
    m.hosts[0] = m.hosts[1] = 0;
    (void)machine_start(&m);
    /* one host: its head alone, the other alone, then both */
    const char *text = ripples_tell(&m, 1, REQUEST, 1, 5, 0);
    assert_non_null(strstr(text, "send 1 0203000000000000000000000000000000"
                                 "03"));
    text = ripples_iterate(&m);
    assert_string_equal(text, "go hold @1"); /* its first group is itself */
    (void)ripples_tell(&m, 1, DONE, 2, 0, 0);
    text = ripples_iterate(&m);
    assert_string_equal(text, "mix SLOT0 [0,4) = 1*PARAM; op 3 [0,4) SLOT0 of 0,1 ring");
    machine_close(&m);
}

/* Worker 0 controls and dies; worker 1 takes over once all have said what they know. */
static void the_loss_of_the_controller_is_survived(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ripples", 3, 0, 1, 1);
    (void)machine_start(&m);
    (void)ripples_iterate(&m);
    (void)ripples_tell(&m, 0, GROUP, 7, 0, 0x06);
    assert_string_equal(machine_down(&m, 0, "gone"), "cancel 7");
    assert_string_equal(
        ripples_tell(&m, 2, HELLO, 4 << 1 | 1, 9, 0), /* asked 4 times, knows 9, waits */
        "send 2 020000000000010000000000000000000006; "
        "send 2 020200000000010000000000000000000004");
    machine_close(&m);
}

static void another_worker_says_hello_to_the_next_controller(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "ripples", 3, 0, 2, 1);
    (void)machine_start(&m);
    (void)ripples_iterate(&m);
    assert_string_equal(machine_down(&m, 0, "gone"), "send 1 0403000000000000000000000000000000");
    assert_string_equal(ripples_tell(&m, 0, GROUP, 8, 0, 0x06), ""); /* of an older term */
    const char *text = ripples_tell(&m, 1, GROUP, UINT64_C(1) << 40, 0, 0x06);
    assert_non_null(strstr(text, "op 1099511627776 [0,4) SLOT0 of 1,2 ring"));
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_controller_hands_groups_out),
        CHECK_TEST(the_loss_of_the_controller_is_survived),
        CHECK_TEST(another_worker_says_hello_to_the_next_controller),
    };
    return CHECK_RUN(tests);
}
