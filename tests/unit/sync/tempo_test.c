/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/tempo.h"

#include "support/check.h"

static void medians_of_any_order(void **state)
{
    (void)state;
    uint64_t odd[] = {9, 1, 5, 3, 7}, even[] = {4, 2, 8, 6}, one[] = {11};
    assert_int_equal(shoali_median(odd, 5), 5);
    assert_int_equal(shoali_median(even, 4), 6); /* the upper one of two */
    assert_int_equal(shoali_median(one, 1), 11);
    assert_int_equal(shoali_median(NULL, 0), 0);
    for (int i = 1; i < 5; i++)
        assert_true(odd[i - 1] < odd[i]);
}

static void nothing_is_known_of_few(void **state)
{
    (void)state;
    shoali_tempo t = {.seen = 0};
    shoali_tempo_add(&t, 100);
    shoali_tempo_add(&t, 100);
    assert_int_equal(shoali_tempo_median_us(&t), 0);
    assert_int_equal(shoali_tempo_deadline_us(&t, 4), 0);
    shoali_tempo_add(&t, 100);
    assert_int_equal(shoali_tempo_median_us(&t), 100);
    assert_int_equal(shoali_tempo_deadline_us(&t, 4), 100 + 4 * 3); /* 1/32 at least */
}

static void one_hiccup_does_not_move_the_deadline_far(void **state)
{
    (void)state;
    shoali_tempo t = {.seen = 0};
    static const uint64_t durations[] = {1000, 1100, 900, 1050, 950, 60000, 1000, 1000};
    for (int i = 0; i < 8; i++)
        shoali_tempo_add(&t, durations[i]);
    assert_int_equal(shoali_tempo_median_us(&t), 1000);
    /* deviations 0 0 0 50 50 100 100 59000 */
    assert_int_equal(shoali_tempo_deadline_us(&t, 4), 1000 + 4 * 50);
}

static void old_durations_are_forgotten(void **state)
{
    (void)state;
    shoali_tempo t = {.seen = 0};
    for (int i = 0; i < 20; i++)
        shoali_tempo_add(&t, 1000);
    for (int i = 0; i < SHOALI_TEMPO_LAST; i++)
        shoali_tempo_add(&t, UINT64_MAX);
    assert_int_equal(shoali_tempo_median_us(&t), UINT64_C(3600000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(medians_of_any_order),
        CHECK_TEST(nothing_is_known_of_few),
        CHECK_TEST(one_hiccup_does_not_move_the_deadline_far),
        CHECK_TEST(old_durations_are_forgotten),
    };
    return CHECK_RUN(tests);
}
