/* SPDX-License-Identifier: Apache-2.0 */
/* Small linear programs against answers known by hand and against random vertices. */
#include "plan/linear.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

static const double even[] = {1, 1, 1};

static void an_optimum_with_its_multipliers(void **state)
{
    (void)state;
    /* max 3x + 2y: x + y <= 4, x + 3y <= 6, x <= 3: x = 3, y = 1 */
    shoali_linear_row rows[] = {{{1, 1}, 4, false}, {{1, 3}, 6, false}, {{1, 0}, 3, false}};
    shoali_linear_answer answer;
    shoali_linear_solve((double[]){3, 2}, 2, rows, 3, &answer);
    assert_int_equal(answer.end, SHOALI_LINEAR_OPTIMAL);
    assert_true(fabs(answer.x[0] - 3) < 1e-12 && fabs(answer.x[1] - 1) < 1e-12);
    assert_true(fabs(answer.value - 11) < 1e-12);
    assert_true(fabs(answer.price[0] - 2) < 1e-12 && fabs(answer.price[1]) < 1e-12 &&
                fabs(answer.price[2] - 1) < 1e-12);
}

static void no_end_and_no_point(void **state)
{
    (void)state;
    shoali_linear_row open[] = {{{1, -1}, 1, false}};
    shoali_linear_row clash[] = {
        {{1, 1}, 100, true}, {{-1, 0}, -70, false}, {{0, -1}, -40, false}, {{1, 0}, 90, false}};
    shoali_linear_answer answer;
    shoali_linear_solve((double[]){1, 1}, 2, open, 1, &answer);
    assert_int_equal(answer.end, SHOALI_LINEAR_UNBOUNDED);
    shoali_linear_solve((double[]){1, 1}, 2, clash, 4, &answer);
    assert_int_equal(answer.end, SHOALI_LINEAR_INFEASIBLE);
    for (int r = 0; r < 3; r++)
        assert_true(fabs(answer.price[r]) > 1e-6);
    assert_true(fabs(answer.price[3]) < 1e-9); /* x <= 90 has no part in it */
}

/* Weak duality on random programs: price . bound equals the value, prices are not negative. */
static void duality_on_random_programs(void **state)
{
    (void)state;
    shoali_rng rng = {0};
    rng.seed = check_seed();
    for (int trial = 0; trial < 500; trial++) {
        shoali_linear_row rows[8] = {0};
        double gain[4], sum = 0;
        shoali_linear_answer answer;
        for (int r = 0; r < 8; r++) {
            rows[r].bound = 1 + 10 * shoali_rng_next_double(&rng);
            for (int v = 0; v < 4; v++)
                rows[r].coef[v] = shoali_rng_next_double(&rng);
        }
        for (int v = 0; v < 4; v++)
            gain[v] = shoali_rng_next_double(&rng) - 0.2;
        shoali_linear_solve(gain, 4, rows, 8, &answer);
        assert_int_equal(answer.end, SHOALI_LINEAR_OPTIMAL);
        for (int r = 0; r < 8; r++) {
            double left = rows[r].bound;
            for (int v = 0; v < 4; v++)
                left -= rows[r].coef[v] * answer.x[v];
            assert_true(left > -1e-9 && answer.price[r] > -1e-9);
            sum += answer.price[r] * rows[r].bound;
        }
        assert_true(fabs(sum - answer.value) <= 1e-9 * (1 + fabs(sum)));
    }
}

static void a_point_inside(void **state)
{
    (void)state;
    shoali_linear_row rows[8] = {{{1, 1, 1}, 30, true}, {{1, 0, 0}, 5, false}};
    double x[SHOALI_LINEAR_VARS], price[SHOALI_LINEAR_ROWS];
    uint32_t count = 2;
    assert_int_equal(shoali_linear_inside(rows, &count, 3, even, x, price), SHOALI_LINEAR_OPTIMAL);
    assert_true(x[0] > 1 && x[0] < 4 && x[1] > 1 && x[2] > 1);
    assert_true(fabs(x[0] + x[1] + x[2] - 30) < 1e-9);
}

static void hidden_equalities_are_found(void **state)
{
    (void)state;
    /* b0 <= 5 and b0 >= 5; the sum twice; b1 + b2 follows from both */
    shoali_linear_row rows[8] = {{{1, 0, 0}, 5, false},
                                 {{-1, 0, 0}, -5, false},
                                 {{1, 1, 1}, 20, true},
                                 {{2, 2, 2}, 40, true},
                                 {{0, 1, 1}, 15, true}};
    double x[SHOALI_LINEAR_VARS], price[SHOALI_LINEAR_ROWS];
    uint32_t count = 5;
    assert_int_equal(shoali_linear_inside(rows, &count, 3, even, x, price), SHOALI_LINEAR_OPTIMAL);
    assert_int_equal(count, 2);
    assert_true(fabs(x[0] - 5) < 1e-9 && x[1] > 1 && x[2] > 1);
    for (uint32_t r = 0; r < count; r++)
        assert_true(rows[r].equal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(an_optimum_with_its_multipliers), CHECK_TEST(no_end_and_no_point),
        CHECK_TEST(duality_on_random_programs), CHECK_TEST(a_point_inside),
        CHECK_TEST(hidden_equalities_are_found)};
    return CHECK_RUN(tests);
}
