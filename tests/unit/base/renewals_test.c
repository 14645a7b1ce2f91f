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

/* Meetings one by one: a step is one if its number, from 1, divides by the distance of its time. */
static void meetings_become_rare(void **state)
{
    (void)state;
    for (uint64_t most = 1; most <= 64; most *= 2) {
        for (uint64_t doubling = 0; doubling < 12; doubling++) {
            uint64_t apart = 0, every = doubling == 0 ? most : 1, left = doubling;
            for (uint64_t k = 0; k < 600; k++) {
                const bool here = (k + 1) % every == 0;
                apart++;
                assert_int_equal(shoali_local_run(k, most, doubling), here ? apart : 0);
                apart = here ? 0 : apart;
                if (doubling > 0 && --left == 0) {
                    every = 2 * every < most ? 2 * every : most;
                    left = doubling;
                }
            }
        }
    }
    assert_int_equal(shoali_local_run(UINT64_MAX / 2, 1024, 1), 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_recurrence_says),
        cmocka_unit_test(without_kappa_all_do),
        cmocka_unit_test(meetings_become_rare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
