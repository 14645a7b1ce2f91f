/* SPDX-License-Identifier: Apache-2.0 */
/* What operations keep from one to the next: who does, and that it is used. */
#include "support/check.h"
#include "support/opsworld.h"
#include "support/toycodec.h"

enum { COUNT = 100, STEPS = 8 };

static float buf[2][COUNT];

static shoal_op_desc desc_of(uint32_t rank, const char *codec)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf[rank];
    desc.count = COUNT;
    desc.push_codec = codec;
    return desc;
}

static bool keeps(const char *codec, bool feeds_back)
{
    opsworld *world = opsworld_create(2, 1);
    const shoali_op_extras extras = {.error_feedback = feeds_back};
    const shoal_op_desc desc = desc_of(0, codec);
    shoal_op *op = NULL;
    assert_ok(shoali_op_make(&world->rank[0].ops, &desc, &extras, 1, &op));
    const bool answer = shoali_op_keeps(op);
    shoali_op_free(op);
    opsworld_destroy(world);
    return answer;
}

static void codecs_with_feedback_and_transforms_keep(void **state)
{
    (void)state;
    assert_false(keeps("identity", true));
    assert_false(keeps("fp8", true));
    assert_true(keeps("fp8:ef", true));
    assert_false(keeps("fp8:ef", false));
    assert_true(keeps("powersgd:rank=1", false));
}

/* A codec that rounds towards zero loses the same each time, unless what it lost is added to what
 * comes next: then all that was ever brought has arrived, but for less than one step. */
static void what_was_lost_comes_later(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        opsworld *world = opsworld_create(2, 1);
        const shoali_op_extras extras = {.error_feedback = with, .codec_row = &toy_codec_row};
        float arrived = 0;
        for (int step = 0; step < STEPS; step++) {
            for (uint32_t r = 0; r < 2; r++) {
                shoal_op_desc desc = desc_of(r, "toy:q=1,ef");
                for (size_t i = 0; i < COUNT; i++)
                    buf[r][i] = 0.75f;
                opsworld_start_with(world, r, &desc, &extras);
            }
            opsworld_run(world, UINT64_MAX);
            assert_int_equal(opsworld_last(world, 0)->status, SHOAL_OK);
            arrived += buf[0][3];
        }
        const float brought = 2 * STEPS * 0.75f;
        if (with)
            assert_true(arrived > brought - 4);
        else
            assert_true(arrived < brought - 4);
        shoali_residual kept[2];
        assert_int_equal(shoali_residuals_list(world->rank[0].ops.residuals, kept, 2), with);
        opsworld_destroy(world);
    }
}

static void the_store_is_made_when_it_is_needed(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    assert_null(world->rank[0].ops.residuals);
    shoali_residual_store *store = shoali_ops_kept(&world->rank[0].ops);
    assert_non_null(store);
    assert_ptr_equal(shoali_ops_kept(&world->rank[0].ops), store);
    opsworld_destroy(world);
}

/* A state that a failed operation had begun to change is of no use. */
static void a_failure_resets_a_transform(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    const shoal_tensor tensor = {.key = 9, .count = COUNT, .rows = 10, .cols = 10, .lr_scale = 1};
    for (int time = 0; time < 2; time++) {
        for (uint32_t r = 0; r < 2; r++) {
            shoal_op_desc desc = desc_of(r, "powersgd:rank=1");
            desc.tensors = &tensor;
            desc.tensor_count = 1;
            for (size_t i = 0; i < COUNT; i++)
                buf[r][i] = (float)(i * i % 11);
            opsworld_start(world, r, &desc);
        }
        if (time == 1)
            shoali_run_cancel_all(&world->rank[0].ops);
        opsworld_run(world, UINT64_MAX);
        shoali_residual kept;
        float most = 0;
        assert_int_equal(shoali_residuals_list(world->rank[0].ops.residuals, &kept, 1), 1);
        for (size_t i = 0; i < kept.count; i++)
            most = kept.values[i] != 0 ? 1 : most;
        assert_true(most == (time == 0 ? 1 : 0));
    }
    opsworld_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(codecs_with_feedback_and_transforms_keep), CHECK_TEST(what_was_lost_comes_later),
        CHECK_TEST(the_store_is_made_when_it_is_needed), CHECK_TEST(a_failure_resets_a_transform)};
    return CHECK_RUN(tests);
}
