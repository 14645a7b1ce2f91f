/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "plan/pipeline.h"

static double run(uint32_t stages, uint32_t chunks, uint64_t microbatches, const double *forward,
                  const double *backward)
{
    const shoali_pipeline p = {stages, chunks, microbatches, forward, backward};
    shoal_arena *arena = shoali_arena_create(4096);
    double seconds = -1;
    assert_non_null(arena);
    assert_ok(shoali_pipeline_run(&p, arena, &seconds));
    shoali_arena_destroy(arena);
    return seconds;
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * want))
        fail_msg("%.9f, expected %.9f", got, want);
}

/* Drawn on paper: forward 1, 3, backward 2, 3, three microbatches; forward 1, 4, backward 4, 1,
 * two microbatches (stage, then passes):
 *     stage 0  F0 0-1  F1 1-2  B0 7-9  F2 9-10  B1 13-15  B2 19-21
 *           1  F0 1-4  B0 4-7  F1 7-10  B1 10-13  F2 13-16  B2 16-19
 *     stage 0  F0 0-1  F1 1-2  B0 6-10  B1 11-15
 *           1  F0 1-5  B0 5-6  F1 6-10  B1 10-11 */
static void by_hand(void **state)
{
    (void)state;
    static const double f1[] = {1, 3}, b1[] = {2, 3}, f2[] = {1, 4}, b2[] = {4, 1};
    near(run(2, 1, 3, f1, b1), 21);
    near(run(2, 1, 2, f2, b2), 15);
}

/* Stages that differ by next to nothing run as events; equal ones by the formula. */
static void events_meet_the_formula(void **state)
{
    (void)state;
    static const uint32_t sizes[][3] = {{2, 1, 5},  {4, 1, 4}, {4, 1, 17}, {7, 1, 3}, {2, 2, 6},
                                        {4, 3, 12}, {4, 2, 4}, {8, 3, 40}, {5, 4, 5}, {3, 1, 900}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double forward[32], backward[32];
        uint32_t p = sizes[i][0], v = sizes[i][1], m = sizes[i][2];
        for (uint32_t k = 0; k < p * v; k++) {
            forward[k] = 1.0 / v + (k == 0 ? 1e-11 : 0);
            backward[k] = 2.0 / v;
        }
        near(run(p, v, m, forward, backward), 3.0 * m + 3.0 * (p - 1) / v);
    }
}

/* No faster than the busiest stage with the way to it and back, no slower than one after another;
 * and no faster with a chunk that takes longer. */
static void within_bounds(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (uint64_t trial = 0; trial < 500; trial++) {
        double forward[40], backward[40], longer[40], most = 0, all = 0;
        uint32_t p = 2 + (uint32_t)(shoali_mix(seed, 3 * trial) % 7);
        uint32_t v = 1 + (uint32_t)(shoali_mix(seed, 3 * trial + 1) % 4);
        uint32_t m = p * (1 + (uint32_t)(shoali_mix(seed, 3 * trial + 2) % 5));
        for (uint32_t k = 0; k < p * v; k++) {
            forward[k] = longer[k] = 0.1 + shoali_rng_double(seed, trial, k);
            backward[k] = 0.1 + 2 * shoali_rng_double(seed, trial, 100 + k);
            all += forward[k] + backward[k];
        }
        const shoali_pipeline least = {p, v, m, forward, backward};
        for (uint32_t i = 0; i < p; i++) {
            double own = 0;
            for (uint32_t c = 0; c < v; c++)
                own += m * (forward[c * p + i] + backward[c * p + i]);
            for (uint32_t k = 0; k < i; k++)
                own += forward[k] + backward[k];
            most = fmax(most, own);
        }
        double seconds = run(p, v, m, forward, backward);
        near(shoali_pipeline_least(&least), most);
        assert_true(seconds >= most * (1 - 1e-12) && seconds <= m * all * (1 + 1e-12));
        longer[trial % (p * v)] *= 1.5;
        assert_true(run(p, v, m, longer, backward) >= seconds * (1 - 1e-12));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(by_hand),
        CHECK_TEST(events_meet_the_formula),
        CHECK_TEST(within_bounds),
    };
    return CHECK_RUN(tests);
}
