/* SPDX-License-Identifier: Apache-2.0 */
/* Renewals against the paper's recurrence, step by step. */
#include "support/check.h"

#include "base/renewals.h"

static void as_the_recurrence_says(void **state)
{
    (void)state;
    for (uint64_t kappa = 1; kappa < 20; kappa++) {
        uint64_t next = 0, j = 0; /* k_j */
        for (uint64_t step = 0; step < 5000; step++) {
            assert_int_equal(shoali_renewals(step, kappa), j);
            if (step == next)
                next += UINT64_C(1) << (j++ / kappa);
        }
    }
}

static void without_kappa_all_do(void **state)
{
    (void)state;
    assert_int_equal(shoali_renewals(0, 0), 0);
    assert_int_equal(shoali_renewals(77, 0), 77);
    assert_true(shoali_renewals(UINT64_MAX, 1) <= 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_recurrence_says),
        cmocka_unit_test(without_kappa_all_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
