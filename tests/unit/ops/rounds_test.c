/* SPDX-License-Identifier: Apache-2.0 */
/* What comes before a flow, or instead of one: measures, transforms, and their failures, in any
 * order of events. */
#include <math.h>

#include "support/check.h"
#include "support/opsworld.h"
#include "support/toytransform.h"

enum { RANKS = 3, ROWS = 12, COLS = 10, COUNT = ROWS * COLS, SEEDS = 20, SECOND = 1000 * 1000 };

static float buf[RANKS][COUNT];
static const shoal_tensor tensors[] = {
    {.key = 9, .count = COUNT, .rows = ROWS, .cols = COLS, .lr_scale = 1}};

static shoal_op_desc desc_of(uint32_t rank, const char *codec)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf[rank];
    desc.count = COUNT;
    desc.tensors = tensors;
    desc.tensor_count = 1;
    desc.push_codec = codec;
    for (size_t i = 0; i < COUNT; i++) /* a matrix of rank 1 */
        buf[rank][i] = (float)(rank + 1) * (float)(i / COLS + 1) * (float)(i % COLS + 1) / 64;
    return desc;
}

static void check_sums(const opsworld *world, float tolerance)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(opsworld_last(world, r)->status, SHOAL_OK);
        assert_int_equal(world->rank[r].end_count, 1);
        for (size_t i = 0; i < COUNT; i++) {
            const float want = 6 * (float)(i / COLS + 1) * (float)(i % COLS + 1) / 64;
            assert_true(fabsf(buf[r][i] - want) <= tolerance * want);
            assert_true(buf[r][i] == buf[0][i]);
        }
    }
}

static void a_measure_comes_first(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = opsworld_create(RANKS, seed);
        for (uint32_t r = 0; r < RANKS; r++) {
            const shoal_op_desc desc = desc_of(r, "inceptionn:prescale=auto");
            shoal_op *op = opsworld_start(world, r, &desc);
            assert_int_equal(op->state, SHOALI_OP_ROUNDS);
            assert_true(op->rounds.job_open);
            opsworld_run(world, world->now_us + 1);
        }
        opsworld_run(world, UINT64_MAX);
        check_sums(world, 0.02f);
        opsworld_destroy(world);
    }
}

static void a_transform_is_rounds_alone(void **state)
{
    (void)state;
    const shoali_op_extras extras = {.check_finite = true, .codec_row = &toy_transform_row};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = opsworld_create(RANKS, seed);
        for (uint32_t r = 0; r < RANKS; r++) {
            const shoal_op_desc desc = desc_of(r, "toy_transform");
            opsworld_start_with(world, r, &desc, &extras);
        }
        opsworld_run(world, UINT64_MAX);
        check_sums(world, 0.001f);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(opsworld_last(world, r)->stats.dense_elems > 0, 1);
            assert_true(opsworld_last(world, r)->stats.sent_elems < COUNT);
        }
        opsworld_destroy(world);
    }
}

/* Whatever is under way, a loss ends it everywhere, once. */
static void a_loss_ends_rounds(void **state)
{
    (void)state;
    static const char *const codecs[] = {"inceptionn:prescale=auto", "powersgd:rank=1"};
    for (uint64_t seed = 0; seed < 2 * SEEDS; seed++) {
        opsworld *world = opsworld_create(RANKS, seed);
        for (uint32_t r = 0; r < RANKS; r++) {
            const shoal_op_desc desc = desc_of(r, codecs[seed % 2]);
            opsworld_start(world, r, &desc);
        }
        for (uint32_t r = 0; r + 1 < RANKS; r++)
            world->cut[2][r] = true;
        if (seed % 4 > 1)
            opsworld_run(world, world->now_us + 1);
        opsworld_kill(world, 2);
        opsworld_run(world, world->now_us + SECOND);
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(world->rank[r].end_count, 1);
            assert_int_equal(opsworld_last(world, r)->status, SHOAL_EPEER);
            assert_int_equal(opsworld_last(world, r)->error.rank, 2);
        }
        opsworld_destroy(world);
    }
}

/* Only the operation itself asks shortly before its deadline; while its child waits, nobody has
 * anything to do until then. */
static void a_child_has_no_time_to_ask(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(RANKS, 1);
    const uint64_t began_us = world->now_us;
    for (uint32_t r = 0; r + 1 < RANKS; r++) {
        shoal_op_desc desc = desc_of(r, "inceptionn:prescale=auto");
        desc.timeout_us = 4 * SECOND;
        opsworld_start(world, r, &desc);
    }
    opsworld_run(world, began_us + 3 * SECOND);
    world->now_us = began_us + 4 * SECOND - 1000;
    for (uint32_t r = 0; r + 1 < RANKS; r++) {
        shoali_run_timers(&world->rank[r].ops, false);
        assert_int_equal(shoali_run_next_us(&world->rank[r].ops), began_us + 4 * SECOND);
    }
    for (uint32_t r = 0; r + 1 < RANKS; r++)
        shoali_run_cancel_all(&world->rank[r].ops);
    opsworld_run(world, UINT64_MAX);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_ECANCELLED);
    opsworld_destroy(world);
}

/* A round's values are the codec's own: as many of them as the operation has elements are still
 * none of its tensors'. */
static void a_round_of_as_many_values_is_of_no_tensor(void **state)
{
    (void)state;
    const shoal_tensor column = {.key = 9, .count = COUNT, .rows = COUNT, .cols = 1, .lr_scale = 1};
    const shoali_op_extras extras = {.check_finite = true, .codec_row = &toy_transform_row};
    opsworld *world = opsworld_create(RANKS, 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        shoal_op_desc desc = desc_of(r, "toy_transform");
        desc.tensors = &column;
        buf[r][7] = r == 1 ? NAN : buf[r][7];
        opsworld_start_with(world, r, &desc, &extras);
    }
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < RANKS; r++) {
        const opsworld_end *end = opsworld_last(world, r);
        assert_int_equal(end->status, SHOAL_ENOTFINITE);
        assert_non_null(strstr(end->error.text, "rank 1 (host host1) brought NaN"));
        assert_non_null(strstr(end->error.text, "element 7"));
        assert_null(strstr(end->error.text, "tensor 9"));
    }
    opsworld_destroy(world);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(RANKS, 1);
    shoal_op_desc desc = desc_of(0, "powersgd:rank=1");
    desc.kind = SHOAL_BROADCAST;
    desc.collective = "broadcast";
    shoal_op *op = NULL;
    const shoali_op_extras extras = {.check_finite = true};
    shoal_status status = shoali_op_make(&world->rank[0].ops, &desc, &extras, 1, &op);
    if (status == SHOAL_OK) {
        shoali_run_start(op);
        opsworld_run(world, world->now_us + SECOND);
        assert_int_equal(opsworld_last(world, 0)->status, SHOAL_EINVAL);
        assert_non_null(strstr(opsworld_last(world, 0)->error.text, "a transform"));
    }
    opsworld_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(a_measure_comes_first),
                                       CHECK_TEST(a_transform_is_rounds_alone),
                                       CHECK_TEST(a_loss_ends_rounds),
                                       CHECK_TEST(a_child_has_no_time_to_ask),
                                       CHECK_TEST(a_round_of_as_many_values_is_of_no_tensor),
                                       CHECK_TEST(what_does_not_go_together_is_refused)};
    return CHECK_RUN(tests);
}
