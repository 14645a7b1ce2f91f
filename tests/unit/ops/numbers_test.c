/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of operations, group by group, for more groups than fit at first. */
#include "ops/numbers.h"

#include "support/check.h"

static void each_group_counts_from_one(void **state)
{
    (void)state;
    enum { GROUPS = 40, TIMES = 5 };
    shoali_numbers numbers = {0};
    for (uint64_t time = 1; time <= TIMES; time++)
        for (uint64_t g = 0; g < GROUPS; g++) {
            uint64_t number = 0;
            assert_ok(shoali_numbers_next(&numbers, g * g, &number));
            assert_int_equal(number, time);
        }
    assert_int_equal(numbers.count, GROUPS);
    shoali_numbers_free(&numbers);
}

static void after_free_it_starts_anew(void **state)
{
    (void)state;
    shoali_numbers numbers = {0};
    uint64_t number = 0;
    for (int i = 0; i < 3; i++)
        assert_ok(shoali_numbers_next(&numbers, 7, &number));
    shoali_numbers_free(&numbers);
    assert_ok(shoali_numbers_next(&numbers, 7, &number));
    assert_int_equal(number, 1);
    shoali_numbers_free(&numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(each_group_counts_from_one),
                                       CHECK_TEST(after_free_it_starts_anew)};
    return CHECK_RUN(tests);
}
