/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of `--collective auto`, by figures whose answer can be worked out by hand. */
#include <math.h>

#include "collective/by_density.h"
#include "support/check.h"

enum { WORKERS = 4, COUNT = 1 << 20 };

static shoali_ways open_ways(const char *spec, uint32_t aggregators)
{
    shoali_ways ways;
    assert_ok(shoali_by_density_open(spec, WORKERS, aggregators, &ways));
    return ways;
}

/* One measurement: all ranks alike. */
static uint32_t measure(shoali_by_density *bucket, const shoali_ways *ways, float own,
                        float together, float took_s)
{
    shoali_density all[WORKERS];
    for (uint32_t r = 0; r < WORKERS; r++)
        all[r] = (shoali_density){own, own, took_s};
    assert_ok(shoali_by_density_choose(bucket, ways, COUNT, all, together));
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
    assert_status(shoali_by_density_open("auto:block=0", 4, 0, &ways), SHOAL_EINVAL);
}

static void a_look_counts_blocks(void **state)
{
    (void)state;
    float x[1000] = {0};
    x[0] = -0.0f; /* counts as zero */
    assert_true(shoali_by_density_look(x, 1000, 100) == 0);
    x[99] = 1;
    x[100] = NAN;
    x[999] = -1e-45f; /* the last block is shorter where 64 do not divide */
    assert_true(fabsf(shoali_by_density_look(x, 1000, 100) - 0.3f) < 1e-6f);
    assert_true(fabsf(shoali_by_density_look(x, 1000, 64) - 2.0f / 16) < 1e-6f);
    assert_true(shoali_by_density_look(x, 0, 64) == 0);
}

/* With all blocks full nothing beats the ring; else it is left at the second measurement. */
static void bytes_decide_at_first(void **state)
{
    (void)state;
    const shoali_ways ways = open_ways("auto", 0);
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
        for (uint32_t r = 0; r < WORKERS; r++)
            all[r] = (shoali_density){1, 1, took_s[(first + r) % WORKERS]};
        for (int i = 0; i < 2; i++) /* of the bytes that the first one has found */
            assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, all, 1));
        assert_true(fabs(bucket.pace[SHOALI_DENSE] * 6.0 * COUNT - 0.3) < 1e-6);
    }
}

/* Where one rank has all there is, it sends it to three others; blocks go up once and down once. */
static void pieces_count_the_busiest_rank(void **state)
{
    (void)state;
    const shoali_ways ways = open_ways("auto", 0);
    shoali_by_density bucket = {0};
    const shoali_density all[WORKERS] = {{0.5f, 0.4f, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, all, 0.5f));
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
    const shoali_ways ways = open_ways("auto", 0);
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
    const shoali_ways ways = open_ways("auto", 0);
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
    const shoali_density all[1] = {{0, 0, 0}};
    assert_ok(shoali_by_density_open("auto", 1, 0, &ways));
    for (int i = 0; i < 4; i++)
        assert_ok(shoali_by_density_choose(&bucket, &ways, COUNT, all, 0));
    assert_int_equal(bucket.way, SHOALI_DENSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_name_and_its_key),
        cmocka_unit_test(a_look_counts_blocks),
        cmocka_unit_test(bytes_decide_at_first),
        cmocka_unit_test(the_pace_is_the_ranks_mean),
        cmocka_unit_test(pieces_count_the_busiest_rank),
        cmocka_unit_test(time_overrules_bytes),
        cmocka_unit_test(a_change_needs_a_reason_twice),
        cmocka_unit_test(alone_there_is_nothing_to_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
