/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"

/* Known answers published with Random123 (tests/kat_vectors, "philox4x32 10"). */
static void philox_matches_published_vectors(void **state)
{
    (void)state;
    static const struct {
        uint64_t index, stream, seed;
        uint32_t out[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x85a308d3243f6a88,
         0x0370734413198a2e,
         0x299f31d0a4093822,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        shoali_philox(known[i].seed, known[i].stream, known[i].index, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void derived_values_follow_from_the_bits(void **state)
{
    (void)state;
    assert_true(shoali_rng_u64(0, 0, 0) == 0xe169c58d6627e8d5u);
    assert_true(shoali_rng_float(0, 0, 0) == (float)(0xe169c5) / (float)(1 << 24));
    assert_true(shoali_rng_double(0, 0, 0) == (double)(0xe169c58d6627e8d5u >> 11) / 0x1p53);
    assert_true(shoali_rng_below(0, 0, 0, 256) == 0xe1);
    assert_true(shoali_rng_below(1, 2, 3, 1) == 0);
}

/* splitmix64 started at 0 gives 0xe220a8397b1dcdaf first, 0x6e789e6aa1b965f4 second (its authors'
 * test values). */
static void mix_is_two_rounds_of_splitmix64(void **state)
{
    (void)state;
    uint64_t first = 0xe220a8397b1dcdafu;
    assert_true(shoali_mix(0, first) == first);
    assert_true(shoali_mix(0, first ^ 0x9e3779b97f4a7c15u) == 0x6e789e6aa1b965f4u);
    assert_true(shoali_mix(1, 2) != shoali_mix(2, 1));
}

/* Published FNV-1a 64 values (draft-eastlake-fnv, appendix C). */
static void hash_matches_published_vectors(void **state)
{
    (void)state;
    assert_true(shoali_hash("", 0, 0) == 0xcbf29ce484222325u);
    assert_true(shoali_hash("a", 1, 0) == 0xaf63dc4c8601ec8cu);
    assert_true(shoali_hash("foobar", 6, 0) == 0x85944171f73967e8u);
    assert_true(shoali_hash("bar", 3, shoali_hash("foo", 3, 0)) == 0x85944171f73967e8u);
}

static void uniform_values_fill_every_bucket(void **state)
{
    (void)state;
    enum { BUCKETS = 64, DRAWS = 64000 };
    uint64_t seed = check_seed();
    unsigned count[BUCKETS] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        double value = shoali_rng_double(seed, 7, i);
        float single = shoali_rng_float(seed, 8, i);
        assert_true(value >= 0 && value < 1 && single >= 0 && single < 1);
        count[shoali_rng_below(seed, 9, i, BUCKETS)]++;
    }
    double chi2 = 0, expected = (double)DRAWS / BUCKETS;
    for (int i = 0; i < BUCKETS; i++)
        chi2 += (count[i] - expected) * (count[i] - expected) / expected;
    assert_true(chi2 < 140); /* 63 degrees of freedom: above it once in 10^7 seeds */
}

static void normal_values_have_their_moments(void **state)
{
    (void)state;
    enum { DRAWS = 40000 };
    shoali_rng rng = {.seed = check_seed(), .stream = 3};
    double sum = 0, squares = 0, fourth = 0;
    for (int i = 0; i < DRAWS; i++) {
        double x = shoali_rng_next_normal(&rng);
        assert_true(isfinite(x));
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
    }
    assert_true(fabs(sum / DRAWS) < 5.5 / sqrt(DRAWS)); /* 5.5 sigma each */
    assert_true(fabs(squares / DRAWS - 1) < 5.5 * sqrt(2.0 / DRAWS));
    assert_true(fabs(fourth / DRAWS - 3) < 5.5 * sqrt(96.0 / DRAWS));
}

static void cursor_walks_the_indices(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = 5, .stream = 6, .index = 9};
    assert_true(shoali_rng_next(&rng) == shoali_rng_u64(5, 6, 9));
    assert_true(shoali_rng_next_double(&rng) == shoali_rng_double(5, 6, 10));
    assert_true(shoali_rng_next_normal(&rng) == shoali_rng_normal(5, 6, 11));
    assert_true(rng.index == 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(philox_matches_published_vectors),
        CHECK_TEST(derived_values_follow_from_the_bits),
        CHECK_TEST(mix_is_two_rounds_of_splitmix64),
        CHECK_TEST(hash_matches_published_vectors),
        CHECK_TEST(uniform_values_fill_every_bucket),
        CHECK_TEST(normal_values_have_their_moments),
        CHECK_TEST(cursor_walks_the_indices),
    };
    return CHECK_RUN(tests);
}
