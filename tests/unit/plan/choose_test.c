/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "plan/choose.h"

enum { BUCKETS = 4, MOST = 6 };

static const double half[2] = {0.5, 0.5};

/* Worked by hand: compute 10, two buckets ready at 6 and 10. An exchange of 8 ends at 6 + 4 = 10,
 * then 14; one of 2 at 11. */
static void the_recurrence_by_hand(void **state)
{
    (void)state;
    const double ready[2] = {6, 10};
    const shoali_choose_args args = {10, 1, 4, ready, half, 2};
    shoali_bucket_time scratch[2];
    shoali_candidate c[2] = {{.spec = "identity", .lossless = true, .exchange_s = 8},
                             {.spec = "expo", .lossless = true, .exchange_s = 2}};
    assert_int_equal(shoali_choose(&args, c, 2, scratch), 1);
    assert_true(fabs(c[0].step_s - 15) < 1e-9 && fabs(c[1].step_s - 12) < 1e-9);
}

/* Where compute hides the exchange, nothing is gained, and the answer is off. */
static void off_where_nothing_is_gained(void **state)
{
    (void)state;
    const double ready[2] = {1, 2};
    const shoali_choose_args args = {10, 0, 4, ready, half, 2};
    shoali_bucket_time scratch[2];
    shoali_candidate c[3] = {{.lossless = true, .exchange_s = 4},
                             {.lossless = true, .exchange_s = 2},
                             {.exchange_s = 0.1}};
    assert_int_equal(shoali_choose(&args, c, 3, scratch), 0);
    assert_true(fabs(c[2].step_s - 10) < 1e-9);
}

/* With one processor, coding takes its time from the computation: fewer bytes may lose. */
static void processor_time_counts(void **state)
{
    (void)state;
    const double ready[2] = {2, 4};
    shoali_choose_args args = {10, 0, 1, ready, half, 2};
    shoali_bucket_time scratch[2];
    shoali_candidate c[2] = {{.lossless = true, .exchange_s = 5, .cpu_s = 0.1},
                             {.lossless = true, .exchange_s = 5, .cpu_s = 5}};
    assert_int_equal(shoali_choose(&args, c, 2, scratch), 0);
    assert_true(c[0].step_s < 10.2 && c[1].step_s > 12);
    args.cores = 2;
    (void)shoali_choose(&args, c, 2, scratch);
    assert_true(c[1].step_s < 10.0001);
}

/* Within 2 %: off, then lossless, then lossy. What cannot be measured is never chosen. */
static void ties_go_to_what_changes_least(void **state)
{
    (void)state;
    const double ready[2] = {0, 0};
    const shoali_choose_args args = {0, 0, 4, ready, half, 2};
    shoali_bucket_time scratch[2];
    shoali_candidate c[4] = {{.lossless = true, .exchange_s = 101},
                             {.exchange_s = 100},
                             {.lossless = true, .exchange_s = 101.5},
                             {.exchange_s = INFINITY}};
    assert_int_equal(shoali_choose(&args, c, 4, scratch), 0);
    c[0].exchange_s = 103;
    assert_int_equal(shoali_choose(&args, c, 4, scratch), 2);
    c[2].exchange_s = 103;
    assert_int_equal(shoali_choose(&args, c, 4, scratch), 1);
    assert_true(isinf(c[3].step_s));
    for (int i = 0; i < 4; i++)
        c[i].exchange_s = INFINITY;
    assert_int_equal(shoali_choose(&args, c, 4, scratch), 0);
}

/* What breaks a bound is neither chosen nor what "the fastest" means; from what breaks it later the
 * way goes to smaller errors, and ends at what has none. */
static void bounds_come_before_speed(void **state)
{
    (void)state;
    const double ready[2] = {0, 0};
    const shoali_choose_args args = {0, 0, 4, ready, half, 2};
    shoali_bucket_time scratch[2];
    shoali_candidate c[6] = {
        {.lossless = true, .exchange_s = 100}, {.exchange_s = 10, .error = 0.9, .barred = true},
        {.exchange_s = 20, .error = 0.2},      {.exchange_s = 30, .error = 0.3},
        {.exchange_s = 40, .error = 0.1},      {.lossless = true, .exchange_s = 90}};
    assert_int_equal(shoali_choose(&args, c, 6, scratch), 2);
    assert_int_equal(shoali_choose_finer(c, 6, 3), 2);
    assert_int_equal(shoali_choose_finer(c, 6, 2), 4);
    assert_int_equal(shoali_choose_finer(c, 6, 4), 5);
    assert_int_equal(shoali_choose_finer(c, 6, 5), 0);
    c[4].error = (double)NAN; /* never measured: nobody knows that it is smaller */
    c[5].step_s = 200;
    assert_int_equal(shoali_choose_finer(c, 6, 2), 0);
}

/* Never slower than off by its own prediction, never more than 2 % behind the best. */
static void never_worse_than_off(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (uint64_t t = 0; t < 500; t++) {
        double ready[BUCKETS], share[BUCKETS], sum = 0;
        shoali_candidate c[MOST] = {{.lossless = true}};
        shoali_bucket_time scratch[BUCKETS];
        for (uint32_t b = 0; b < BUCKETS; b++) {
            ready[b] = 10.0 * (b + 1) / BUCKETS;
            sum += share[b] = 0.1 + shoali_rng_double(seed, t, b);
        }
        for (uint32_t b = 0; b < BUCKETS; b++)
            share[b] /= sum;
        for (uint32_t i = 0; i < MOST; i++) {
            c[i].exchange_s = 30 * shoali_rng_double(seed, t, 10 + i);
            c[i].cpu_s = c[i].exchange_s * shoali_rng_double(seed, t, 20 + i);
            c[i].lossless = i % 2 == 0;
        }
        const shoali_choose_args args = {10, 1, 1 + (double)(t % 3), ready, share, BUCKETS};
        uint32_t choice = shoali_choose(&args, c, MOST, scratch);
        assert_true(choice < MOST && c[choice].step_s <= 1.02 * c[0].step_s);
        for (uint32_t i = 0; i < MOST; i++)
            assert_true(c[i].step_s >= 11 - 1e-9 && c[choice].step_s <= 1.0201 * c[i].step_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recurrence_by_hand),   cmocka_unit_test(off_where_nothing_is_gained),
        cmocka_unit_test(processor_time_counts),    cmocka_unit_test(ties_go_to_what_changes_least),
        cmocka_unit_test(bounds_come_before_speed), cmocka_unit_test(never_worse_than_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
