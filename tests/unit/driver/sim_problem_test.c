/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_problem.h"

#include <math.h>

#include "support/check.h"

enum { COUNT = 300, WORKERS = 3 };

static shoali_problem *open_problem(const char *spec)
{
    shoali_problem *problem;
    assert_ok(shoali_problem_open(spec, WORKERS, COUNT, check_seed(), &problem));
    return problem;
}

/* The mean of the workers' gradients is the gradient of the mean loss: compare with differences. */
static void gradients_are_those_of_the_loss(void **state)
{
    (void)state;
    shoali_problem *problem = open_problem("quadratic:spread=2");
    float x[COUNT], g[WORKERS][COUNT], part[10];
    shoali_problem_start(problem, x);
    for (uint32_t w = 0; w < WORKERS; w++)
        shoali_problem_gradient(problem, w, 5, x, 0, COUNT, g[w]);
    for (size_t j = 0; j < COUNT; j += 37) {
        const float at = x[j];
        x[j] = at + 0.25f;
        double up = shoali_problem_excess(problem, x);
        x[j] = at - 0.25f;
        double down = shoali_problem_excess(problem, x);
        x[j] = at;
        double mean = ((double)g[0][j] + (double)g[1][j] + (double)g[2][j]) / WORKERS;
        assert_true(fabs((up - down) / 0.5 - mean) < 1e-3);
    }
    shoali_problem_gradient(problem, 1, 5, x + 50, 50, 10,
                            part); /* a range is a part of the whole */
    assert_memory_equal(part, g[1] + 50, sizeof part);
    shoali_problem_close(problem);
}

static void noise_has_its_deviation_and_no_memory(void **state)
{
    (void)state;
    shoali_problem *quiet = open_problem("quadratic"), *noisy = open_problem("quadratic:noise=0.5");
    float x[COUNT], a[COUNT], b[COUNT];
    double squares = 0;
    shoali_problem_start(quiet, x);
    for (uint64_t k = 0; k < 20; k++) {
        shoali_problem_gradient(quiet, 0, k, x, 0, COUNT, a);
        shoali_problem_gradient(noisy, 0, k, x, 0, COUNT, b);
        for (size_t j = 0; j < COUNT; j++)
            squares += (double)(b[j] - a[j]) * (double)(b[j] - a[j]);
    }
    assert_true(fabs(squares / (20 * COUNT) / 0.25 - 1) < 0.1);
    shoali_problem_gradient(noisy, 0, 19, x, 0, COUNT, a);
    assert_memory_equal(a, b, sizeof a);
    shoali_problem_gradient(noisy, 1, 19, x, 0, COUNT, a);
    assert_memory_not_equal(a, b, sizeof a);
    shoali_problem_close(quiet);
    shoali_problem_close(noisy);
}

static void a_step_is_momentum_sgd(void **state)
{
    (void)state;
    shoali_problem *problem = open_problem("quadratic:lr=0.5,momentum=0.25");
    float velocity[4] = {0, 0, 8, 0}, x[2] = {1, 2}, g[2] = {4, -4};
    shoali_problem_step(problem, velocity, x, g, 0.5f, 2, 2, g); /* in place of the gradients */
    assert_true(velocity[2] == 0.25f * 8 + 2 && velocity[3] == -2);
    assert_true(g[0] == 1 - 0.5f * 4 && g[1] == 2 + 0.5f * 2);
    assert_true(x[0] == 1 && velocity[0] == 0);
    shoali_problem_close(problem);
}

static void specs_are_checked(void **state)
{
    (void)state;
    shoali_problem *problem = (shoali_problem *)&problem;
    assert_ok(shoali_problem_open("cost", 1, 1, 1, &problem));
    assert_null(problem);
    assert_status(shoali_problem_open("cost:lr=1", 1, 1, 1, &problem), SHOAL_EINVAL);
    assert_status(shoali_problem_open("cubic", 1, 1, 1, &problem), SHOAL_EINVAL);
    assert_error_has("quadratic");
    assert_status(shoali_problem_open("quadratic:momentum=1", 1, 1, 1, &problem), SHOAL_EINVAL);
    assert_status(shoali_problem_open("quadratic", 4, SIZE_MAX / 2, 1, &problem), SHOAL_ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(gradients_are_those_of_the_loss),
        CHECK_TEST(noise_has_its_deviation_and_no_memory),
        CHECK_TEST(a_step_is_momentum_sgd),
        CHECK_TEST(specs_are_checked),
    };
    return CHECK_RUN(tests);
}
