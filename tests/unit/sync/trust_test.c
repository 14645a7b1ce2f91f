/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/trust.h"

#include <math.h>

#include "support/check.h"

enum { COUNT = 8 };

static void judge(const double *lengths, uint32_t count, shoali_verdict *verdicts, double *factors)
{
    shoali_trust_lengths(lengths, count, verdicts, factors);
}

static void who_is_long_beside_the_others_is_shortened(void **state)
{
    (void)state;
    const double lengths[] = {1, 2, 3, 4, 5};
    const double want[] = {1, 1, 1, 3.125 / 4, 3.125 / 5}; /* 2.5 is the median of 1 2 3 and 5 */
    shoali_verdict verdicts[5];
    double factors[5];
    judge(lengths, 5, verdicts, factors);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(verdicts[i], SHOALI_TRUSTED);
        assert_float_equal(factors[i], want[i], 1e-12);
    }
}

static void what_stands_out_is_refused(void **state)
{
    (void)state;
    const double lengths[COUNT] = {1, 1, (double)NAN, 1, 10.5, 1, (double)INFINITY, 0};
    shoali_verdict verdicts[COUNT];
    double factors[COUNT];
    judge(lengths, COUNT, verdicts, factors);
    assert_int_equal(verdicts[2], SHOALI_NOT_FINITE);
    assert_int_equal(verdicts[4], SHOALI_TOO_LONG);
    assert_int_equal(verdicts[6], SHOALI_NOT_FINITE);
    assert_true(factors[2] == 0 && factors[4] == 0 && factors[6] == 0);
    assert_int_equal(verdicts[7], SHOALI_TRUSTED); /* it has not moved: no crime */
    assert_int_equal(verdicts[0], SHOALI_TRUSTED);
    assert_true(factors[0] == 1);
    assert_string_equal(shoali_trust_text(SHOALI_NOT_FINITE), "not finite");
}

/* Three of length 1 along one axis, and one of length 1 against them. */
static void who_goes_against_the_others_is_refused_and_they_stand_for_all(void **state)
{
    (void)state;
    const double lengths[] = {1, 1, 1, 1}, products[] = {2, 2, 2, -2}; /* with the sum, 2 long */
    shoali_verdict verdicts[4];
    double factors[4];
    judge(lengths, 4, verdicts, factors);
    shoali_trust_directions(lengths, products, 2, 4, verdicts, factors);
    assert_int_equal(verdicts[3], SHOALI_AGAINST);
    assert_true(factors[3] == 0);
    for (int i = 0; i < 3; i++)
        assert_float_equal(factors[i], 4.0 / 3, 1e-12);
}

/* Three along one axis agree: who goes across adds noise only. Where nobody agrees with anybody,
 * as late in a training, across is as good as any. */
static void across_is_refused_where_the_others_agree(void **state)
{
    (void)state;
    const double lengths[] = {1, 1, 1, 1}, products[] = {3, 3, 3, 1}; /* (3, 1), sqrt(10) long */
    const double all_across[] = {1, 1, 1, 1};
    shoali_verdict verdicts[4];
    double factors[4];
    judge(lengths, 4, verdicts, factors);
    shoali_trust_directions(lengths, products, sqrt(10), 4, verdicts, factors);
    for (int i = 0; i < 4; i++)
        assert_int_equal(verdicts[i], i == 3 ? SHOALI_AGAINST : SHOALI_TRUSTED);
    judge(lengths, 4, verdicts, factors);
    shoali_trust_directions(lengths, all_across, 2, 4, verdicts, factors);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(verdicts[i], SHOALI_TRUSTED);
        assert_true(factors[i] == 1);
    }
}

static void of_two_nobody_can_tell(void **state)
{
    (void)state;
    const double lengths[] = {1, 100}, products[] = {-90, 9900};
    shoali_verdict verdicts[2];
    double factors[2];
    judge(lengths, 2, verdicts, factors);
    shoali_trust_directions(lengths, products, 99, 2, verdicts, factors);
    assert_true(factors[0] == 1 && factors[1] == 1);
    const double none[] = {(double)NAN, (double)NAN};
    judge(none, 2, verdicts, factors);
    shoali_trust_directions(none, products, 0, 2, verdicts, factors);
    assert_true(factors[0] == 0 && factors[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(who_is_long_beside_the_others_is_shortened),
        CHECK_TEST(what_stands_out_is_refused),
        CHECK_TEST(who_goes_against_the_others_is_refused_and_they_stand_for_all),
        CHECK_TEST(across_is_refused_where_the_others_agree),
        CHECK_TEST(of_two_nobody_can_tell),
    };
    return CHECK_RUN(tests);
}
