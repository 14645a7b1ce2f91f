/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a transform that counts steps, of whom one has none, one more or as many but not the
 * same: they go on together from the largest count, with the same sums, bit for bit. */
#include <math.h>

#include "support/check.h"
#include "support/opsworld.h"

enum { RANKS = 3, COUNT = 600, WARMUP = 2, SEEDS = 10 };

static float buf[RANKS][COUNT];
static const shoal_tensor tensors[] = {
    {.key = 9, .count = COUNT, .rows = 20, .cols = 30, .lr_scale = 1}};

static void start(opsworld *world, uint32_t rank, int step)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf[rank];
    desc.count = COUNT;
    desc.tensors = tensors;
    desc.tensor_count = 1;
    desc.push_codec = "onebit:warmup=2";
    for (size_t i = 0; i < COUNT; i++)
        buf[rank][i] = (float)sin((double)((i + 1) * (rank + 1) * (size_t)(step + 1)));
    opsworld_start(world, rank, &desc);
}

static float *state_of(const opsworld *world, uint32_t rank)
{
    shoali_residual kept;
    assert_int_equal(shoali_residuals_list(world->rank[rank].ops.residuals, &kept, 1), 1);
    assert_int_equal(kept.count, 3 + 3 * COUNT);
    return kept.values;
}

/* All sums are there and the same, and all count as many. */
static void step_together(opsworld *world, int step, float count)
{
    uint32_t ends[RANKS];
    for (uint32_t r = 0; r < RANKS; r++) {
        ends[r] = world->rank[r].end_count;
        start(world, r, step);
    }
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(world->rank[r].end_count, ends[r] + 1);
        assert_int_equal(opsworld_last(world, r)->status, SHOAL_OK);
        assert_memory_equal(buf[r], buf[0], sizeof buf[0]);
        assert_true(state_of(world, r)[0] == count);
        assert_memory_equal(state_of(world, r) + 3 + COUNT, state_of(world, 0) + 3 + COUNT,
                            COUNT * sizeof(float));
    }
}

static void others_meet(opsworld *world)
{
    for (uint32_t r = 0; r < RANKS; r++)
        shoali_residuals_reform(world->rank[r].ops.residuals);
}

static opsworld *trained(uint64_t seed, int steps)
{
    opsworld *world = opsworld_create(RANKS, seed);
    for (int step = 0; step < steps; step++)
        step_together(world, step, (float)(step + 1));
    return world;
}

static void a_newcomer_takes_the_count_of_the_others(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = trained(seed, WARMUP + 2);
        shoali_residuals_free(world->rank[2].ops.residuals);
        world->rank[2].ops.residuals = NULL;
        others_meet(world);
        for (int step = 0; step < 3; step++)
            step_together(world, 10 + step, (float)(WARMUP + 3 + step));
        opsworld_destroy(world);
    }
}

static void a_step_that_only_some_have_taken_counts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = trained(seed, WARMUP + 1);
        float *of = state_of(world, 1);
        of[0]++;
        of[3 + COUNT] = 4;
        others_meet(world);
        step_together(world, 10, WARMUP + 3);
        opsworld_destroy(world);
    }
}

/* It went away and came back, and nobody has taken a step meanwhile, but begun anew. */
static void as_many_steps_are_not_always_the_same(void **state)
{
    (void)state;
    opsworld *world = trained(1, WARMUP + 1);
    memset(state_of(world, 1) + 3 + COUNT, 0, COUNT * sizeof(float));
    others_meet(world);
    step_together(world, 10, WARMUP + 2);
    opsworld_destroy(world);
}

/* Equal members keep what they have alike: the same sums as without a word. */
static void equal_members_lose_nothing(void **state)
{
    (void)state;
    float want[COUNT];
    opsworld *world = trained(1, WARMUP + 2);
    memcpy(want, buf[0], sizeof want);
    opsworld_destroy(world);
    world = trained(1, WARMUP + 1);
    others_meet(world);
    step_together(world, WARMUP + 1, WARMUP + 2);
    assert_memory_equal(buf[0], want, sizeof want);
    opsworld_destroy(world);
}

/* What a checkpoint brought waits for the first step, before which one goes and another comes. */
static void a_checkpoint_meets_a_newcomer(void **state)
{
    (void)state;
    opsworld *world = trained(1, WARMUP + 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        shoali_residual_store *fresh = shoali_residuals_create();
        shoali_residual kept;
        assert_int_equal(shoali_residuals_list(world->rank[r].ops.residuals, &kept, 1), 1);
        if (r != 1)
            memcpy(shoali_residuals_at(fresh, kept.key, kept.count), kept.values,
                   kept.count * sizeof(float));
        shoali_residuals_reform(fresh);
        shoali_residuals_free(world->rank[r].ops.residuals);
        world->rank[r].ops.residuals = fresh;
    }
    step_together(world, 10, WARMUP + 2);
    step_together(world, 11, WARMUP + 3);
    opsworld_destroy(world);
}

/* A failure on the way keeps the count; what was owed is nobody's. */
static void a_step_that_failed_is_not_counted(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = trained(seed, WARMUP + 1);
        for (uint32_t r = 0; r < RANKS; r++)
            start(world, r, 10);
        buf[1][7] = NAN;
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(opsworld_last(world, r)->status, SHOAL_ENOTFINITE);
            assert_true(state_of(world, r)[0] == WARMUP + 1);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(state_of(world, r)[3 + 2 * COUNT + i] == 0);
        }
        step_together(world, 11, WARMUP + 2); /* the same members, who agree once more */
        opsworld_destroy(world);
    }
}

/* The word costs one small operation among the same members, and the next ones none. */
static void members_agree_once(void **state)
{
    (void)state;
    opsworld *world = trained(1, 1);
    const uint64_t first = opsworld_last(world, 0)->stats.rounds;
    step_together(world, 1, 2);
    assert_true(opsworld_last(world, 0)->stats.rounds < first);
    opsworld_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(a_newcomer_takes_the_count_of_the_others),
                                       CHECK_TEST(a_step_that_only_some_have_taken_counts),
                                       CHECK_TEST(as_many_steps_are_not_always_the_same),
                                       CHECK_TEST(equal_members_lose_nothing),
                                       CHECK_TEST(a_checkpoint_meets_a_newcomer),
                                       CHECK_TEST(a_step_that_failed_is_not_counted),
                                       CHECK_TEST(members_agree_once)};
    return CHECK_RUN(tests);
}
