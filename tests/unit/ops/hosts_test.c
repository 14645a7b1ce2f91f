/* SPDX-License-Identifier: Apache-2.0 */
/* Sums inside each host first, for every way to place four ranks: sums in the order that is
 * promised, and failures of one host that all hear of. */
#include "base/error.h"
#include "base/rng.h"
#include "support/check.h"
#include "support/opsworld.h"

enum { RANKS = 4, COUNT = 512, SECOND = 1000 * 1000 };

static const uint32_t places[][RANKS] = {
    {0, 0, 2, 2}, {0, 1, 0, 1}, {0, 0, 0, 3}, {0, 0, 0, 0}, {0, 1, 2, 3}};
enum { PLACES = sizeof places / sizeof places[0] };

static float buf[RANKS][COUNT];

static float value(uint32_t rank, size_t i)
{
    return (float)shoali_rng_double(6, rank, i) - 0.4f;
}

/* Ranks of a host in order, then hosts in order of their first rank. */
static float sum_at(const uint32_t place[RANKS], size_t i)
{
    float all = 0;
    for (uint32_t host = 0; host < RANKS; host++) {
        float one = 0;
        for (uint32_t r = 0; r < RANKS; r++)
            one += place[r] == host ? value(r, i) : 0;
        all += one;
    }
    return all;
}

static opsworld *begin(const uint32_t place[RANKS], uint64_t seed)
{
    opsworld *world = opsworld_create(RANKS, seed);
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t i = 0; i < RANKS; i++)
            world->rank[r].ops.peers[i].place = place[i];
    for (uint32_t r = 0; r < RANKS; r++) {
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        desc.buf = buf[r];
        desc.count = COUNT;
        desc.collective = "omnireduce:hosts,block=16";
        for (size_t i = 0; i < COUNT; i++)
            buf[r][i] = value(r, i);
        opsworld_start(world, r, &desc);
    }
    return world;
}

static void sums_have_the_promised_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4 * PLACES; seed++) {
        const uint32_t *place = places[seed % PLACES];
        opsworld *world = begin(place, seed);
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(opsworld_last(world, r)->status, SHOAL_OK);
            assert_int_equal(world->rank[r].end_count, 1);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(buf[r][i] == sum_at(place, i));
        }
        opsworld_destroy(world);
    }
}

/* Rank 3 is in a stage with one of the others only. */
static void all_hear_of_a_failure_in_one_host(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4 * PLACES; seed++) {
        opsworld *world = begin(places[seed % PLACES], seed);
        for (uint32_t r = 0; r + 1 < RANKS; r++)
            world->cut[3][r] = true;
        opsworld_run(world, world->now_us + 1);
        opsworld_kill(world, 3);
        opsworld_run(world, world->now_us + SECOND);
        for (uint32_t r = 0; r + 1 < RANKS; r++) {
            assert_int_equal(world->rank[r].end_count, 1);
            assert_int_equal(opsworld_last(world, r)->status, SHOAL_EPEER);
            assert_int_equal(opsworld_last(world, r)->error.rank, 3);
        }
        opsworld_destroy(world);
    }
}

/* A stage's members are told by the stage, all others by the operation. */
static void a_stage_that_fails_ends_it_for_all(void **state)
{
    (void)state;
    opsworld *world = begin(places[0], 1);
    shoal_op *stage = world->rank[2].ops.open->rounds.child;
    assert_int_equal(stage->plan->member_count, 2);
    (void)shoali_fail(SHOAL_ESYSTEM, "something broke in here");
    shoali_run_fail(stage, true);
    opsworld_run(world, world->now_us + SECOND);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(world->rank[r].end_count, 1);
        assert_int_equal(opsworld_last(world, r)->status, SHOAL_ESYSTEM);
    }
    opsworld_destroy(world);
}

static void other_operations_are_refused(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(RANKS, 1);
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf[0];
    desc.count = COUNT;
    desc.reduce = SHOAL_MAX;
    desc.collective = "omnireduce:hosts";
    opsworld_start(world, 0, &desc);
    opsworld_run(world, world->now_us + SECOND);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_EINVAL);
    assert_non_null(strstr(opsworld_last(world, 0)->error.text, "has no owners"));
    opsworld_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(sums_have_the_promised_order), CHECK_TEST(all_hear_of_a_failure_in_one_host),
        CHECK_TEST(a_stage_that_fails_ends_it_for_all), CHECK_TEST(other_operations_are_refused)};
    return CHECK_RUN(tests);
}
