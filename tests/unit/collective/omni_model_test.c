/* SPDX-License-Identifier: Apache-2.0 */
/* The model against the published ceilings, against patterns counted by hand, and its expectation
 * against the average of patterns. */
#include <math.h>

#include "base/rng.h"
#include "shoal/sparse.h"
#include "support/check.h"

enum { MB16 = 4 << 20, BLOCKS = 16384 };

static shoal_sparse_desc described(const char *spec, size_t count, uint32_t workers,
                                   uint32_t members)
{
    shoal_sparse_desc desc;
    assert_ok(shoal_sparse_describe(spec, count, workers, members, &desc));
    return desc;
}

static void assert_near(double got, double want, double part)
{
    if (fabs(got - want) > part * fabs(want))
        fail_msg("%.6g is not %.6g", got, want);
}

/* Speed-up over the dense ring that data alone allow, dedicated: as published for N = 4 and 8. */
static void ceilings_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        uint32_t workers;
        double density;
        bool overlapping;
        double speedup;
    } rows[] = {
        {8, 1, false, 1.75},    {8, 0.4, false, 1.78}, {8, 0.1, false, 3.07},
        {8, 0.01, false, 22.7}, {8, 0.1, true, 17.5},  {4, 1, false, 1.5},
        {4, 0.4, false, 1.72},  {4, 0.1, false, 4.36}, {4, 0.01, false, 38},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint32_t n = rows[i].workers;
        shoal_sparse_desc desc = described("omnireduce:dedicated", MB16, n, 2 * n);
        shoal_sparse_cost cost;
        assert_ok(shoal_sparse_expect(&desc, rows[i].density, rows[i].overlapping, &cost));
        assert_near(cost.ring_bytes / cost.naive_bytes, rows[i].speedup, 0.01);
        desc = described("omnireduce", MB16, n, n); /* (N-1)/N (d + U) on every link */
        assert_ok(shoal_sparse_expect(&desc, rows[i].density, rows[i].overlapping, &cost));
        assert_near(cost.naive_bytes, 4.0 * MB16 * (n - 1) / n * (cost.density + cost.together),
                    1e-9);
        assert_true(cost.busiest_bytes >= cost.naive_bytes);
    }
}

/* At 99 % sparsity the forced first row of C columns adds 4.7 % for C = 64 and 37 % for C = 512. */
static void the_first_row_costs_what_was_said(void **state)
{
    (void)state;
    shoal_sparse_cost cost;
    shoal_sparse_desc desc = described("omnireduce:fusion=4,slots=2", MB16, 8, 8);
    assert_ok(shoal_sparse_expect(&desc, 0.01, false, &cost));
    assert_int_equal(cost.blocks, BLOCKS);
    assert_near(cost.moved / cost.together, 1.047, 0.001);
    desc = described("omnireduce:fusion=8,slots=8", MB16, 8, 8);
    assert_ok(shoal_sparse_expect(&desc, 0.01, false, &cost));
    assert_near(cost.moved / cost.together, 1.37, 0.01);
}

/* The worked trace: 2 workers, blocks of one element, C = 2; W0 has {1,4,6}, W1 {4,5}; one shard at
 * a member of its own. Up 4 and 4 blocks, down 5 in all: slot 0 takes 3 rounds, slot 1 takes 3. */
static void the_worked_trace_is_counted(void **state)
{
    (void)state;
    static const uint8_t nonzero[2][8] = {{0, 1, 0, 0, 1, 0, 1, 0}, {0, 0, 0, 0, 1, 1, 0, 0}};
    shoal_sparse_desc desc = described("omnireduce:block=1,fusion=1,slots=2,dedicated", 8, 2, 3);
    shoal_sparse_cost cost;
    uint64_t sent[3], received[3];
    desc.head_bytes = 0;
    assert_ok(shoal_sparse_count(&desc, nonzero[0], sent, received, &cost));
    assert_int_equal(sent[0], 4 * 8); /* b0 b4 b6 b1, each with a number */
    assert_int_equal(sent[1], 4 * 8); /* b0 b4 b1 b5 */
    assert_int_equal(received[0], 5 * 12);
    assert_int_equal(received[1], 5 * 12);
    assert_int_equal(received[2], 8 * 8);
    assert_int_equal(sent[2], 10 * 12);
    assert_true(cost.busiest_bytes == 120 && cost.moved == 5.0 / 8);
    assert_true(cost.density == 5.0 / 16 && cost.together == 4.0 / 8);
    desc.head_bytes = 32; /* a frame for each, as nothing is fused */
    assert_ok(shoal_sparse_count(&desc, nonzero[0], sent, received, &cost));
    assert_int_equal(sent[0], 4 * 40);
    assert_int_equal(received[1], 5 * 44);
}

/* Counted patterns lie where they are expected; the busiest shard adds a little. */
static void counts_meet_expectations(void **state)
{
    (void)state;
    static const double densities[] = {1, 0.4, 0.1, 0.01};
    static const char *const specs[] = {"omnireduce", "omnireduce:dedicated",
                                        "omnireduce:fusion=1,slots=8"};
    uint8_t *nonzero = malloc(8 * BLOCKS);
    assert_non_null(nonzero);
    for (size_t i = 0; i < 24; i++) {
        const double density = densities[i % 4];
        const bool overlapping = i / 4 % 2 == 1;
        const char *spec = specs[i / 8];
        const uint32_t members = strstr(spec, "dedicated") != NULL ? 16 : 8;
        const shoal_sparse_desc desc = described(spec, MB16, 8, members);
        shoal_sparse_cost expected, counted;
        for (size_t k = 0; k < 8 * BLOCKS; k++)
            nonzero[k] = shoali_rng_below(check_seed(), i, overlapping ? k % BLOCKS : k, 100) <
                         (uint64_t)(100 * density + 0.5);
        assert_ok(shoal_sparse_expect(&desc, density, overlapping, &expected));
        assert_ok(shoal_sparse_count(&desc, nonzero, NULL, NULL, &counted));
        assert_near(counted.density, density, 0.15);
        assert_near(counted.moved, expected.moved, 0.15);
        if (counted.busiest_bytes < 0.95 * expected.busiest_bytes ||
            counted.busiest_bytes > 1.3 * expected.busiest_bytes)
            fail_msg("%s at density %g: %.0f bytes, expected %.0f", spec, density,
                     counted.busiest_bytes, expected.busiest_bytes);
    }
    free(nonzero);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    shoal_sparse_desc desc;
    shoal_sparse_cost cost;
    assert_status(shoal_sparse_describe("ring", 8, 2, 2, &desc), SHOAL_EINVAL);
    assert_status(shoal_sparse_describe("omnireduce", 8, 2, 3, &desc), SHOAL_EINVAL);
    assert_error_has("dedicated");
    assert_status(shoal_sparse_describe("omnireduce:dedicated", 8, 2, 2, &desc), SHOAL_EINVAL);
    assert_status(shoal_sparse_describe("omnireduce:shards=3", 8, 2, 2, &desc), SHOAL_EINVAL);
    desc = described("omnireduce", 8, 2, 2);
    assert_status(shoal_sparse_expect(&desc, 1.5, false, &cost), SHOAL_EINVAL);
    assert_status(shoal_sparse_expect(&desc, NAN, false, &cost), SHOAL_EINVAL);
    desc.fusion = 65;
    assert_status(shoal_sparse_expect(&desc, 1, false, &cost), SHOAL_EINVAL);
    desc = described("omnireduce", 0, 2, 2);
    assert_ok(shoal_sparse_expect(&desc, 1, false, &cost));
    assert_true(cost.busiest_bytes == 0);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(ceilings_are_the_published_ones), CHECK_TEST(the_first_row_costs_what_was_said),
    CHECK_TEST(the_worked_trace_is_counted),     CHECK_TEST(counts_meet_expectations),
    CHECK_TEST(what_cannot_be_is_refused),
};

int main(void)
{
    return CHECK_RUN(tests);
}
