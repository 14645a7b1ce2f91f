/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/choose.h"

#include <math.h>

#include "support/check.h"

/* Eight workers with 0.8 M parameters and 100 ms an iteration, at so many Mbit/s. */
static shoali_sync_facts facts_of(double up_mbit, double down_mbit)
{
    return (shoali_sync_facts){.workers = 8,
                               .params = 800000,
                               .buckets = 100,
                               .up_bytes_s = up_mbit * 125e3,
                               .down_bytes_s = down_mbit * 125e3,
                               .compute_s = 0.1,
                               .backward = 0.667,
                               .slowest = 1,
                               .by = 1};
}

static shoali_sync_choice choose(const shoali_sync_facts *facts)
{
    shoali_sync_choice choice;
    shoali_sync_choose(facts, &choice);
    return choice;
}

static void a_sum_that_hides_is_a_sum(void **state)
{
    (void)state;
    const shoali_sync_facts facts = facts_of(1000, 1000);
    const shoali_sync_choice choice = choose(&facts);
    assert_string_equal(choice.sync, "all_reduce");
    assert_null(choice.codec);
    assert_float_equal(choice.step_s, 0.1, 1e-3);
    assert_float_equal(choice.share, 1, 1e-2);
}

static void slower_links_want_bits_then_rounds(void **state)
{
    (void)state;
    shoali_sync_facts facts = facts_of(100, 100);
    assert_string_equal(choose(&facts).sync, "all_reduce");
    assert_string_equal(choose(&facts).codec, "eden:bits=4");
    facts = facts_of(10, 50); /* the slower way counts */
    const shoali_sync_choice choice = choose(&facts);
    assert_string_equal(choice.sync, "diloco:every=128,lr=0.7,momentum=0.5");
    assert_true(choice.share > 0.9);
    assert_non_null(strstr(choice.why, "0.8 M parameters, 8 workers, 10/50 Mbit/s up/down"));
    assert_non_null(strstr(choice.why, "a float32 sum takes 4480 ms"));
}

/* Ever slower links, ever longer rounds, until there are no four of them left. */
static void rounds_grow_as_links_sink(void **state)
{
    (void)state;
    unsigned last = 0;
    for (double mbit = 64; mbit > 0.1; mbit /= 2) {
        shoali_sync_facts facts = facts_of(mbit, mbit);
        unsigned every = 0;
        const shoali_sync_choice free = choose(&facts);
        (void)sscanf(free.sync, "diloco:every=%u", &every);
        assert_true(every >= last);
        last = every;
        facts.iterations = 400;
        const shoali_sync_choice bound = choose(&facts);
        if (sscanf(bound.sync, "diloco:every=%u", &every) == 1)
            assert_in_range(every, 4, 100);
    }
    assert_true(last >= 64);
}

static void nobody_waits_for_the_slow(void **state)
{
    (void)state;
    shoali_sync_facts facts = facts_of(400, 400); /* models to neighbours take 128 ms */
    facts.slowest = 5;
    facts.slow_workers = 1;
    assert_non_null(strstr(choose(&facts).sync, "quorum=7"));
    facts = facts_of(1000, 1000); /* and 51 ms, behind 100 of computing */
    facts.slowest = 5;
    facts.slow_workers = 1;
    assert_string_equal(choose(&facts).sync, "hop:backup=1,skip=10");
    assert_float_equal(choose(&facts).step_s, 0.1, 1e-9);
    assert_float_equal(choose(&facts).everybody_s, 0.5, 1e-3);
    facts.slow_workers = 5; /* most are: they are the usual ones */
    assert_null(strstr(choose(&facts).sync, "quorum"));
    facts = facts_of(1000, 1000);
    facts.chance = 0.1;
    facts.by = 6;
    assert_string_equal(choose(&facts).sync, "hop:backup=1,skip=10");
    facts.bytes_per_elem = 1; /* who names a codec gets sums */
    assert_non_null(strstr(choose(&facts).sync, "diloco:every="));
}

/* One bucket is ready when all is computed. */
static void a_sum_in_one_piece_hides_behind_nothing(void **state)
{
    (void)state;
    shoali_sync_facts facts = facts_of(1000, 1000);
    facts.buckets = 1;
    assert_float_equal(choose(&facts).everybody_s, 0.1 + 2 * 0.875 * 3.2e6 / 125e6, 1e-4);
}

static void a_codec_that_is_given_stays(void **state)
{
    (void)state;
    shoali_sync_facts facts = facts_of(100, 100);
    facts.bytes_per_elem = 1;
    assert_null(choose(&facts).codec);
}

static void one_worker_alone_sends_nothing(void **state)
{
    (void)state;
    shoali_sync_facts facts = facts_of(1, 1);
    facts.workers = 1;
    assert_string_equal(choose(&facts).sync, "all_reduce");
}

/* Degree x M / B against the compute time. */
static void graphs_hide_where_links_carry_a_model_for_each_neighbour(void **state)
{
    (void)state;
    const shoali_sync_facts fast = facts_of(1000, 1000), slow = facts_of(24, 24);
    assert_true(shoali_sync_graph_hides(&fast, 2) && !shoali_sync_graph_hides(&slow, 2));
    assert_false(shoali_sync_graph_hides(&fast, 4));
    assert_non_null(strstr(choose(&fast).why, "(hop, d_psgd) would hide: 51.2 ms, computing 100"));
    assert_non_null(strstr(choose(&slow).why, "(hop, d_psgd) would not: 2133 ms, computing 100"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_sum_that_hides_is_a_sum),
        CHECK_TEST(slower_links_want_bits_then_rounds),
        CHECK_TEST(rounds_grow_as_links_sink),
        CHECK_TEST(nobody_waits_for_the_slow),
        CHECK_TEST(a_sum_in_one_piece_hides_behind_nothing),
        CHECK_TEST(a_codec_that_is_given_stays),
        CHECK_TEST(one_worker_alone_sends_nothing),
        CHECK_TEST(graphs_hide_where_links_carry_a_model_for_each_neighbour),
    };
    return CHECK_RUN(tests);
}
