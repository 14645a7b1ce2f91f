/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "shoal/predict.h"

static void finds_the_factors_that_made_the_times(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    shoal_causes rows[6], got;
    double seconds[6];
    for (uint64_t i = 0; i < 6; i++) {
        rows[i] = (shoal_causes){1 + shoali_rng_double(seed, i, 0), shoali_rng_double(seed, i, 1),
                                 shoali_rng_double(seed, i, 2), shoali_rng_double(seed, i, 3), 0.1};
        seconds[i] = 1.3 * rows[i].matrix + 0.7 * (rows[i].vector + rows[i].memory) +
                     2.0 * rows[i].network + 0.1;
    }
    assert_ok(shoal_calibrate_fit(rows, seconds, 6, &got));
    assert_true(fabs(got.matrix - 1.3) < 1e-6 && fabs(got.memory - 0.7) < 1e-6);
    assert_true(got.vector == got.memory && fabs(got.network - 2) < 1e-6 && got.fixed == 1);
}

static void never_below_zero_and_never_from_nothing(void **state)
{
    (void)state;
    const shoal_causes rows[] = {{1, 0, 0, 1, 0}, {1, 0, 0, 2, 0}, {1, 0, 0, 3, 0}};
    const double falling[] = {3, 2, 1};
    shoal_causes got;
    assert_ok(shoal_calibrate_fit(rows, falling, 3, &got));
    assert_true(got.network == 0 && got.matrix > 0 && got.memory == 1);
    const double none[] = {1, 0, 1};
    assert_status(shoal_calibrate_fit(rows, none, 3, &got), SHOAL_EINVAL);
    const shoal_causes same[] = {{1, 0, 0, 1, 0}, {2, 0, 0, 2, 0}};
    assert_status(shoal_calibrate_fit(same, falling, 2, &got), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(finds_the_factors_that_made_the_times),
        CHECK_TEST(never_below_zero_and_never_from_nothing),
    };
    return CHECK_RUN(tests);
}
