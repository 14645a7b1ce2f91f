/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that is made, unused and freed; and one that was never made. */
#include "ops/ops.h"

#include "support/check.h"

static void it_is_made_and_freed(void **state)
{
    (void)state;
    const uint64_t now_us = 100;
    shoali_ops ops = {.size = 5, .now_us = &now_us};
    assert_ok(shoali_ops_init(&ops));
    assert_null(ops.open);
    assert_int_equal(shoali_run_next_us(&ops), UINT64_MAX);
    assert_false(shoali_run_involves(&ops, 4));
    assert_null(shoali_run_slot(&ops, 0));
    assert_null(shoali_run_find(&ops, &(shoali_wire_id){0, 1, 1}));
    shoali_run_timers(&ops, false);
    shoali_run_reap(&ops);
    assert_int_equal(shoali_ops_since(&ops, 40), 60);
    assert_int_equal(shoali_ops_since(&ops, 140), 0); /* an instant of this round */
    shoali_ops_free(&ops, SHOAL_ECANCELLED);
    shoali_ops_free(&ops, SHOAL_ECANCELLED); /* all zero is fine */
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(it_is_made_and_freed)};
    return CHECK_RUN(tests);
}
