/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of `--collective auto`, by figures whose answer can be worked out by hand. */
#include <math.h>

#include "base/rng.h"
#include "collective/by_density.h"
#include "support/check.h"

enum { WORKERS = 4, COUNT = 1 << 20 };

static shoali_ways open_ways(const char *spec, uint32_t aggregators)
{
    shoali_ways ways;
    assert_ok(shoali_by_density_open(spec, WORKERS, aggregators, &ways));
    return ways;
}

/* The same share of blocks of every size: rows that fill whole blocks of the largest. */
static shoali_density alike(float share, float took_s)
{
    shoali_density d = {.pieces = share, .took_s = took_s};
    for (uint32_t i = 0; i < SHOALI_BY_DENSITY_SIZES; i++)
        d.blocks[i] = share;
    return d;
}

/* One measurement: all ranks alike. */
static uint32_t measure(shoali_by_density *bucket, const shoali_ways *ways, float own,
                        float together, float took_s)
{
    shoali_density all[WORKERS];
    for (uint32_t r = 0; r < WORKERS; r++)
        all[r] = alike(own, took_s);
    const shoali_density sum = alike(together, 0);
    assert_ok(shoali_by_density_choose(bucket, ways, COUNT, all, &sum));
    return bucket->way;
}

static void the_name_and_its_key(void **state)
{
    (void)state;
    assert_true(shoali_by_density_named("auto") && shoali_by_density_named("auto:block=64"));
    assert_false(shoali_by_density_named("autos"));
    assert_false(shoali_by_density_named("ring") || shoali_by_density_named(NULL));
    shoali_ways ways = open_ways("auto:block=64", 2);
    assert_string_equal(ways.collective[SHOALI_BLOCKS], "omnireduce:block=64,dedicated");
    assert_status(shoali_by_density_open("auto:fusion=2", 4, 0, &ways), SHOAL_EINVAL);
    assert_int_equal(ways.sizes, 1);
    ways = open_ways("auto", 0);
    assert_int_equal(ways.sizes, SHOALI_BY_DENSITY_SIZES);
    assert_string_equal(ways.collective[SHOALI_BLOCKS], "omnireduce:block=32,fusion=32");
    assert_string_equal(ways.collective[SHOALI_BLOCKS + 5], "omnireduce:block=1024,fusion=1");
    assert_status(shoali_by_density_open("auto:block=65537", 4, 0, &ways), SHOAL_EINVAL);
}

static void a_look_counts_blocks(void **state)
{
    (void)state;
    float x[1000] = {0};
    const shoali_ways hundreds = open_ways("auto:block=100", 0),
                      fixed = open_ways("auto:block=64", 0);
    shoali_density d;
    x[0] = -0.0f; /* counts as zero */
    shoali_by_density_look(&hundreds, x, 1000, &d);
    assert_true(d.blocks[0] == 0 && d.pieces == 0);
    x[99] = 1;
    x[100] = NAN;
    x[999] = -1e-45f; /* the last block is shorter where 64 do not divide */
    shoali_by_density_look(&hundreds, x, 1000, &d);
    assert_true(fabsf(d.blocks[0] - 0.3f) < 1e-6f);
    shoali_by_density_look(&fixed, x, 1000, &d);
    assert_true(fabsf(d.blocks[0] - 2.0f / 16) < 1e-6f);
    assert_true(fabsf(d.pieces - 2.0f / 32) < 1e-6f);
    shoali_by_density_look(&fixed, x, 0, &d);
    assert_true(d.blocks[0] == 0);
}

/* One pass finds for every size what a loop over that size's blocks finds. */
static void one_pass_counts_all_sizes(void **state)
{
    (void)state;
    enum { N = 20000 };
    static float x[N];
    const shoali_ways ways = open_ways("auto", 0);
    const uint64_t seed = check_seed();
    for (uint64_t k = 0; k < 60; k++) {
        const size_t count = 1 + shoali_rng_below(seed, k, 0, N);
        memset(x, 0, sizeof x);
        for (uint64_t i = 0; i < k; i++)
            x[shoali_rng_below(seed, k, i + 1, (uint32_t)count)] = 1;
        shoali_density d;
        shoali_by_density_look(&ways, x, count, &d);
        for (uint32_t i = 0; i < SHOALI_BY_DENSITY_SIZES; i++) {
            const size_t block = (size_t)32 << i;
            size_t blocks = 0, full = 0;
            for (size_t at = 0; at < count; at += block, blocks++)
                for (size_t e = at; e < count && e < at + block; e++)
                    if (x[e] != 0) {
                        full++;
                        break;
                    }
            assert_true(fabsf(d.blocks[i] - (float)full / (float)blocks) < 1e-6f);
        }
        assert_true(d.pieces == d.blocks[0]);
    }
}

/* Single values far apart want small blocks, whole rows large ones: fewer numbers. A little of both
 * does not change the size to and fro, nor does one measurement. */
static void density_chooses_the_size(void **state)
{
    (void)state;
    const shoali_ways ways = open_ways("auto", 0);
    shoali_by_density bucket = {0};
    shoali_density all[WORKERS] = {{.pieces = 0}}, sum = {.pieces = 0};
    for (uint32_t i = 0; i < SHOALI_BY_DENSITY_SIZES; i++) /* one value in 1024, all at the same */
        for (uint32_t r = 0; r < WORKERS; r++)
            sum.blocks[i] = all[r].blocks[i] = (float)(32u << i) / 1024;
    for (uint32_t r = 0; r < WORKERS; r++)
        all[r].pieces = 0.5f; /* gathering is no match */
    for (int k = 0; k < 2; k++)
        assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, all, &sum));
    assert_string_equal(ways.collective[bucket.way], "omnireduce:block=32,fusion=32");
    const uint32_t small = bucket.way;
    shoali_density rows[WORKERS];
    for (uint32_t r = 0; r < WORKERS; r++) {
        rows[r] = alike(0.25f, 0);
        rows[r].pieces = 0.5f;
    }
    const shoali_density rows_sum = alike(0.25f, 0);
    for (int k = 0; k < 8; k++) { /* rows save 9 % of bytes with blocks of 1024: not enough */
        assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, rows, &rows_sum));
        assert_int_equal(bucket.way, small);
    }
    for (uint32_t i = 0; i < SHOALI_BY_DENSITY_SIZES; i++) /* what a larger block adds is little */
        for (uint32_t r = 0; r < WORKERS; r++)
            sum.blocks[i] = all[r].blocks[i] = i == 0 ? 0.3f : 0.25f;
    for (int k = 0; k < 6; k++) { /* once is no reason */
        assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, k % 2 ? rows : all,
                                           k % 2 ? &rows_sum : &sum));
        assert_int_equal(bucket.way, small);
    }
    for (int k = 0; k < 2; k++)
        assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, all, &sum));
    assert_true(bucket.way > small);
}

/* Ranks that see different densities have the same figures, in the order of ranks, and the same
 * choice, whoever sees what. */
static void unequal_ranks_choose_alike(void **state)
{
    (void)state;
    const shoali_ways ways = open_ways("auto", 0);
    uint32_t way[WORKERS];
    for (uint32_t first = 0; first < WORKERS; first++) {
        shoali_by_density bucket = {0};
        shoali_density all[WORKERS], sum = alike(0.2f, 0);
        for (uint32_t r = 0; r < WORKERS; r++)
            all[(first + r) % WORKERS] = alike(r == 0 ? 0.2f : 0.001f * (float)r, 0.1f);
        for (int k = 0; k < 3; k++)
            assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, all, &sum));
        way[first] = bucket.way;
        assert_int_equal(way[first], way[0]);
    }
    assert_true(way[0] >= SHOALI_BLOCKS);
}

/* With all blocks full nothing beats the ring; else it is left at the second measurement. */
static void bytes_decide_at_first(void **state)
{
    (void)state;
    const shoali_ways ways = open_ways("auto:block=256", 0);
    shoali_by_density full = {0}, agreeing = {0}, few = {0};
    for (int i = 0; i < 9; i++)
        assert_int_equal(measure(&full, &ways, 1, 1, 0.1f), SHOALI_DENSE);
    assert_true(fabs(full.bytes[SHOALI_DENSE] - 6.0 * COUNT) < 1); /* 2 (P-1)/P n */
    assert_true(full.bytes[SHOALI_PIECES] > 12.0 * COUNT);         /* (P-1) n */
    assert_int_equal(measure(&agreeing, &ways, 0.1f, 0.1f, 0), SHOALI_DENSE);
    assert_int_equal(measure(&agreeing, &ways, 0.1f, 0.1f, 0.1f), SHOALI_BLOCKS);
    /* so few that the first row, which blocks cannot do without, is more than gathering costs */
    assert_int_equal(measure(&few, &ways, 0.01f, 0.01f, 0), SHOALI_DENSE);
    assert_int_equal(measure(&few, &ways, 0.01f, 0.01f, 0.1f), SHOALI_PIECES);
}

/* Seconds per byte are the mean over all ranks, whoever they are. */
static void the_pace_is_the_ranks_mean(void **state)
{
    (void)state;
    const shoali_ways ways = open_ways("auto", 0);
    const float took_s[WORKERS] = {0.1f, 0.2f, 0.4f, 0.5f};
    for (uint32_t first = 0; first < WORKERS; first++) {
        shoali_by_density bucket = {0};
        shoali_density all[WORKERS];
        const shoali_density sum = alike(1, 0);
        for (uint32_t r = 0; r < WORKERS; r++)
            all[r] = alike(1, took_s[(first + r) % WORKERS]);
        for (int i = 0; i < 2; i++) /* of the bytes that the first one has found */
            assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, all, &sum));
        assert_true(fabs(bucket.pace[SHOALI_DENSE] * 6.0 * COUNT - 0.3) < 1e-6);
    }
}

/* Where one rank has all there is, it sends it to three others; blocks go up once and down once. */
static void pieces_count_the_busiest_rank(void **state)
{
    (void)state;
    const shoali_ways ways = open_ways("auto:block=256", 0);
    shoali_by_density bucket = {0};
    const shoali_density all[WORKERS] = {{.blocks = {0.5f}, .pieces = 0.4f}};
    const shoali_density sum = {.blocks = {0.5f}};
    assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, all, &sum));
    const double map = COUNT / 256.0;
    assert_true(fabs(bucket.bytes[SHOALI_PIECES] - 3 * (4 * 0.4 * COUNT + map)) < 100);
    assert_true(fabs(bucket.own - 0.125) < 1e-6);
    /* co-located: (P-1)/P (d + U) and what the protocol adds */
    assert_true(bucket.bytes[SHOALI_BLOCKS] > 3.0 * COUNT * (0.125 + 0.5));
    assert_true(bucket.bytes[SHOALI_BLOCKS] < 3.2 * COUNT * (0.125 + 0.5));
}

/* A way that saves bytes but not time is left again, and not taken up as long as that is so. */
static void time_overrules_bytes(void **state)
{
    (void)state;
    const shoali_ways ways = open_ways("auto:block=256", 0);
    shoali_by_density bucket = {0};
    measure(&bucket, &ways, 0.1f, 0.1f, 0);
    assert_int_equal(measure(&bucket, &ways, 0.1f, 0.1f, 0.010f), SHOALI_BLOCKS);
    assert_int_equal(measure(&bucket, &ways, 0.1f, 0.1f, 0.030f), SHOALI_BLOCKS); /* once */
    uint32_t way = measure(&bucket, &ways, 0.1f, 0.1f, 0.030f);
    assert_int_not_equal(way, SHOALI_BLOCKS);
    for (int i = 0; i < 6; i++)
        assert_int_not_equal(measure(&bucket, &ways, 0.1f, 0.1f, 0.010f), SHOALI_BLOCKS);
    /* ten times fewer blocks are worth another try: 3 ms by its own pace */
    measure(&bucket, &ways, 0.001f, 0.001f, 0.010f);
    assert_int_not_equal(measure(&bucket, &ways, 0.001f, 0.001f, 0.010f), SHOALI_DENSE);
}

/* Less than 10 % is no reason, and one measurement is none either. */
static void a_change_needs_a_reason_twice(void **state)
{
    (void)state;
    const shoali_ways ways = open_ways("auto:block=256", 0);
    shoali_by_density bucket = {0};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(measure(&bucket, &ways, 0.9f, 0.95f, 0.1f), SHOALI_DENSE); /* 7 % */
        assert_int_equal(measure(&bucket, &ways, i % 2 ? 0.01f : 1, i % 2 ? 0.01f : 1, 0.1f),
                         SHOALI_DENSE);
    }
}

static void alone_there_is_nothing_to_choose(void **state)
{
    (void)state;
    shoali_ways ways;
    shoali_by_density bucket = {0};
    const shoali_density all[1] = {{.pieces = 0}};
    assert_ok(shoali_by_density_open("auto", 1, 0, &ways));
    for (int i = 0; i < 4; i++)
        assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, all, all));
    assert_int_equal(bucket.way, SHOALI_DENSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_name_and_its_key),
        cmocka_unit_test(a_look_counts_blocks),
        cmocka_unit_test(one_pass_counts_all_sizes),
        cmocka_unit_test(density_chooses_the_size),
        cmocka_unit_test(unequal_ranks_choose_alike),
        cmocka_unit_test(bytes_decide_at_first),
        cmocka_unit_test(the_pace_is_the_ranks_mean),
        cmocka_unit_test(pieces_count_the_busiest_rank),
        cmocka_unit_test(time_overrules_bytes),
        cmocka_unit_test(a_change_needs_a_reason_twice),
        cmocka_unit_test(alone_there_is_nothing_to_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
