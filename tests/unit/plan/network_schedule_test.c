/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks over dimensions: by hand, against a linear program over all orders, and the rules that any
 * schedule keeps. */
#include "plan/network_schedule.h"

#include <math.h>

#include "base/rng.h"
#include "plan/linear.h"
#include "plan/network.h"
#include "support/check.h"

static double run(const shoali_chunked *of, bool choose)
{
    double seconds = 0;
    shoal_arena *arena = shoali_arena_create(1 << 16);
    assert_non_null(arena);
    assert_ok(shoali_chunked_run(of, choose, arena, &seconds));
    shoali_arena_destroy(arena);
    return seconds;
}

/* 4 x 4 of equal bandwidth, 16 bytes: one order sends 12 and 3 of them, two orders 7.5 each. */
static void by_hand(void **state)
{
    (void)state;
    static const uint32_t groups[] = {4, 4};
    static const double b[] = {1, 1};
    shoali_chunked of = {SHOALI_COMM_REDUCE_SCATTER, 16, groups, b, 2, 2};
    assert_true(fabs(shoali_chunked_bound(&of) - 7.5) < 1e-12);
    /* two chunks of 8: 6 on the first dimension, each then 1.5 on the second */
    assert_true(fabs(run(&of, false) - 13.5) < 1e-12);
    /* the second chunk goes the other way round: 6 and 1.5 on either, at the same time */
    assert_true(fabs(run(&of, true) - 7.5) < 1e-12);
    of.kind = SHOALI_COMM_ALL_GATHER;
    of.bytes = 1;
    assert_true(fabs(shoali_chunked_bound(&of) - 7.5) < 1e-12);
    of.kind = SHOALI_COMM_ALL_REDUCE;
    of.bytes = 16;
    assert_true(fabs(shoali_chunked_bound(&of) - 15) < 1e-12);
    of.kind = SHOALI_COMM_ALL_TO_ALL;
    assert_true(fabs(shoali_chunked_bound(&of) - 12) < 1e-12);
    of.kind = SHOALI_COMM_SEND;
    assert_true(fabs(shoali_chunked_bound(&of) - 16) < 1e-12);
}

/* LIBRA's example: where bandwidths fit the order already, nothing is to be gained. */
static void nothing_to_gain_where_bandwidths_fit(void **state)
{
    (void)state;
    static const uint32_t groups[] = {4, 8};
    static const double b[] = {24, 7}; /* 3/4 and 7/32 of the bytes */
    const shoali_chunked of = {SHOALI_COMM_ALL_REDUCE, 32, groups, b, 2, 64};
    double volume[2], formula;
    shoali_network_volume(of.kind, of.bytes, groups, 2, volume);
    formula = fmax(volume[0] / b[0], volume[1] / b[1]);
    assert_true(fabs(shoali_chunked_bound(&of) - formula) < 1e-12);
}

static void draw(shoali_rng *rng, uint32_t dims, uint32_t *groups, double *b)
{
    for (uint32_t d = 0; d < dims; d++) {
        groups[d] = 1 + (uint32_t)(shoali_rng_next(rng) % 9);
        b[d] = 0.1 + 10 * shoali_rng_next_double(rng);
    }
}

/* Least time as a linear program: a share for each of the six orders of three dimensions. */
static double least_by_program(const shoali_chunked *of, double s)
{
    static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    shoali_linear_row rows[4] = {0};
    shoali_linear_answer answer;
    double gain[SHOALI_LINEAR_VARS] = {0}, volume[3] = {0};
    for (int o = 0; o < 6; o++) {
        shoali_chunked_volume(of, s, orders[o], volume);
        for (int d = 0; d < 3; d++)
            rows[d].coef[o] = volume[d] / of->bandwidth[d];
        rows[3].coef[o] = 1;
    }
    for (int d = 0; d < 3; d++)
        rows[d].coef[6] = -1;
    rows[3].bound = 1;
    rows[3].equal = true;
    gain[6] = -1;
    shoali_linear_solve(gain, 7, rows, 4, &answer);
    assert_int_equal(answer.end, SHOALI_LINEAR_OPTIMAL);
    return answer.x[6];
}

static void the_bound_is_the_optimum_over_orders(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    for (int trial = 0; trial < 500; trial++) {
        uint32_t groups[3];
        double b[3];
        draw(&rng, 3, groups, b);
        const shoali_chunked of = {SHOALI_COMM_REDUCE_SCATTER, 1000, groups, b, 3, 1};
        double want = least_by_program(&of, 1000), got = shoali_chunked_bound(&of);
        if (!(fabs(got - want) <= 1e-9 * (1 + want)))
            fail_msg("bound %.12g, program %.12g for %u %u %u", got, want, groups[0], groups[1],
                     groups[2]);
    }
}

/* What a chunk takes on each dimension if it begins there, one after the other. */
static double longest_chunk(const shoali_chunked *of, double whole)
{
    double sum = 0;
    for (uint32_t d = 0; d < of->dims; d++)
        sum += whole / of->chunks * (of->groups[d] - 1.0) / of->groups[d] / of->bandwidth[d];
    return of->kind == SHOALI_COMM_ALL_REDUCE ? 2 * sum : sum;
}

/* 600 drawn collectives: no simulation is faster than the bound, nor one order for all faster than
 * LIBRA's formula, which it misses by two chunks' time at most. */
static void simulations_keep_their_limits(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    for (int trial = 0; trial < 600; trial++) {
        uint32_t groups[5], dims = 1 + (uint32_t)(shoali_rng_next(&rng) % 5);
        double b[5], volume[5], formula = 0, whole = 1e6;
        draw(&rng, dims, groups, b);
        const shoali_comm_kind kind = (shoali_comm_kind)(1 + shoali_rng_next(&rng) % 4);
        const shoali_chunked of = {kind, 1e6, groups, b, dims, 128};
        shoali_network_volume(of.kind, of.bytes, groups, dims, volume);
        for (uint32_t d = 0; d < dims; d++) {
            formula = fmax(formula, volume[d] / b[d]);
            whole *= kind == SHOALI_COMM_ALL_GATHER ? groups[d] : 1;
        }
        double bound = shoali_chunked_bound(&of), fixed = run(&of, false), own = run(&of, true);
        assert_true(bound <= formula * (1 + 1e-12));
        assert_true(fixed >= formula * (1 - 1e-12));
        assert_true(own >= bound * (1 - 1e-12));
        if (fixed > formula + 2 * longest_chunk(&of, whole))
            fail_msg("kind %d, %u dimensions: formula %g, fixed %g", (int)kind, dims, formula,
                     fixed);
    }
}

/* Equal dimensions: chosen orders come close to the bound, which one order for all misses. */
static void orders_gain_where_dimensions_are_equal(void **state)
{
    (void)state;
    for (uint32_t dims = 2; dims <= 4; dims++) {
        static const uint32_t groups[] = {4, 4, 4, 4};
        static const double b[] = {10, 10, 10, 10};
        const shoali_chunked of = {SHOALI_COMM_ALL_REDUCE, 1e6, groups, b, dims, 128};
        double bound = shoali_chunked_bound(&of);
        assert_true(run(&of, false) > 1.5 * bound);
        assert_true(run(&of, true) < 1.05 * bound);
    }
}

/* What stands in the table of 4 x 8 x 4 x 32 (network_test.c), by 64 chunks: even bandwidths and
 * chosen orders together; and the sum of a step by hand of one collective. */
static void a_step_of_a_workload(void **state)
{
    (void)state;
    static const double even[] = {25, 25, 25, 25};
    shoal_network_job job = {SHOAL_SOURCE_DIR "/examples/network/gpt3.txt", "tp=16", 1, NULL};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    shoal_network_schedule s = {.size = sizeof s}, few = {.size = sizeof few};
    shoal_network *net = NULL;
    desc.network = "ring:4, fc:8, ring:4, switch:32";
    desc.jobs = &job;
    desc.job_count = 1;
    assert_ok(shoal_network_open(&desc, &net));
    assert_ok(shoal_network_schedule_at(net, even, 64, &s));
    assert_true(fabs(s.time_ns - 1137433074.0) < 0.1);
    assert_true(fabs(s.time_ns - shoal_network_time(net, 0, even)) < 1e-3);
    assert_true(s.time_ns <= s.fixed_ns && s.bound_ns <= s.chosen_ns && s.chosen_ns <= s.fixed_ns);
    assert_true(s.chosen_ns < 1.01 * s.bound_ns && s.fixed_ns > 1.15 * s.chosen_ns);
    assert_ok(shoal_network_schedule_at(net, even, 1, &few));
    assert_true(few.fixed_ns > s.fixed_ns && few.bound_ns == s.bound_ns);
    assert_status(shoal_network_schedule_at(net, even, 0, &s), SHOAL_EINVAL);
    assert_status(shoal_network_schedule_at(net, even, 1025, &s), SHOAL_EINVAL);
    static const double none[] = {25, 25, 0, 25};
    assert_status(shoal_network_schedule_at(net, none, 4, &s), SHOAL_EINVAL);
    assert_error_has("dimension 2 has traffic");
    shoal_network_close(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(by_hand),
                                       CHECK_TEST(nothing_to_gain_where_bandwidths_fit),
                                       CHECK_TEST(the_bound_is_the_optimum_over_orders),
                                       CHECK_TEST(simulations_keep_their_limits),
                                       CHECK_TEST(orders_gain_where_dimensions_are_equal),
                                       CHECK_TEST(a_step_of_a_workload)};
    return CHECK_RUN(tests);
}
