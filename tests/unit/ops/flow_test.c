/* SPDX-License-Identifier: Apache-2.0 */
/* Between operations and flows: slots for more operations than fit at first, owner jobs, what is
 * not finite and by whom. */
#include <math.h>

#include "base/error.h"
#include "support/check.h"
#include "support/opsworld.h"

enum { COUNT = 150, RANKS = 3, SECOND = 1000 * 1000 };

static float buf[RANKS][COUNT];

static shoal_op_desc desc_of(uint32_t rank)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf[rank];
    desc.count = COUNT;
    for (size_t i = 0; i < COUNT; i++)
        buf[rank][i] = (float)rank + 1;
    return desc;
}

static void slots_are_never_given_twice(void **state)
{
    (void)state;
    enum { OPEN = 150 };
    opsworld *world = opsworld_create(2, 1);
    shoali_ops *ops = &world->rank[0].ops;
    shoal_op *open[OPEN];
    static float values[OPEN];
    world->cut[0][1] = true;
    for (uint32_t i = 0; i < OPEN; i++) {
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        desc.buf = &values[i];
        desc.count = 1;
        desc.collective = "direct";
        desc.id = (shoal_op_id){1, i + 1, 1, 0};
        open[i] = opsworld_start(world, 0, &desc);
        assert_int_equal(open[i]->slot, i);
    }
    for (uint32_t i = 0; i < OPEN; i++)
        assert_ptr_equal(shoali_run_slot(ops, i), open[i]);
    for (uint32_t i = 0; i + 4 < OPEN; i++) {
        (void)shoali_fail(SHOAL_ECANCELLED, "enough");
        shoali_run_fail(open[i], false);
        if (i % OPSWORLD_ENDS == 0)
            world->rank[0].end_count = 0;
        shoali_run_reap(ops);
        assert_null(shoali_run_slot(ops, i));
    }
    world->rank[0].end_count = 0;
    assert_ptr_equal(shoali_run_slot(ops, OPEN - 1), open[OPEN - 1]);
    shoali_run_cancel_all(ops);
    opsworld_run(world, UINT64_MAX);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_ECANCELLED);
    opsworld_destroy(world);
}

static void nan_is_named_by_all(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(RANKS, 5);
    const shoal_tensor tensors[] = {{.key = 40, .count = 100, .lr_scale = 1},
                                    {.key = 41, .offset = 100, .count = 50, .lr_scale = 1}};
    for (uint32_t r = 0; r < RANKS; r++) {
        shoal_op_desc desc = desc_of(r);
        desc.tensors = tensors;
        desc.tensor_count = 2;
        if (r == 1)
            buf[1][107] = NAN;
        opsworld_start(world, r, &desc);
    }
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < RANKS; r++) {
        const opsworld_end *end = opsworld_last(world, r);
        assert_int_equal(end->status, SHOAL_ENOTFINITE);
        assert_int_equal(end->error.rank, 1);
        assert_non_null(strstr(end->error.text, "rank 1 (host host1) brought NaN"));
        assert_non_null(strstr(end->error.text, "tensor 41, element 7"));
        assert_non_null(strstr(end->error.advice, "learning rate"));
    }
    opsworld_destroy(world);
}

static shoal_status half(void *ctx, float *x, size_t offset, size_t count)
{
    (void)offset;
    for (size_t i = 0; i < count; i++)
        x[i] *= 0.5f;
    return ctx == NULL ? SHOAL_OK : shoali_fail(SHOAL_ESYSTEM, "the owner had no luck");
}

static void owners_work_on_their_part(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        opsworld *world = opsworld_create(RANKS, seed);
        const shoali_op_extras extras = {.owner = half};
        for (uint32_t r = 0; r < RANKS; r++) {
            const shoal_op_desc desc = desc_of(r);
            opsworld_start_with(world, r, &desc, &extras);
        }
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(opsworld_last(world, r)->status, SHOAL_OK);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(buf[r][i] == 3);
        }
        opsworld_destroy(world);
    }
}

static void an_owner_that_fails_ends_it(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(RANKS, 2);
    int bad = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        const shoali_op_extras extras = {.owner = half, .owner_ctx = r == 2 ? &bad : NULL};
        const shoal_op_desc desc = desc_of(r);
        opsworld_start_with(world, r, &desc, &extras);
    }
    opsworld_run(world, world->now_us + SECOND);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(opsworld_last(world, r)->status, SHOAL_ESYSTEM);
        assert_non_null(strstr(opsworld_last(world, r)->error.text, "the owner had no luck"));
    }
    opsworld_destroy(world);
}

static void a_broadcast_comes_from_its_root(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(RANKS, 4);
    for (uint32_t r = 0; r < RANKS; r++) {
        shoal_op_desc desc = desc_of(r);
        desc.kind = SHOAL_BROADCAST;
        desc.root = 2;
        opsworld_start(world, r, &desc);
    }
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < RANKS; r++)
        for (size_t i = 0; i < COUNT; i++)
            assert_true(buf[r][i] == 3);
    opsworld_destroy(world);
}

static void what_moved_is_counted(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 2);
    for (uint32_t r = 0; r < 2; r++) {
        const shoal_op_desc desc = desc_of(r);
        opsworld_start(world, r, &desc);
    }
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < 2; r++) {
        const shoal_op_stats *stats = &opsworld_last(world, r)->stats;
        assert_int_equal(stats->sent_payload_bytes, COUNT * sizeof(float));
        assert_int_equal(stats->received_payload_bytes, COUNT * sizeof(float));
        assert_int_equal(stats->sent_elems, COUNT);
        assert_int_equal(stats->received_elems, COUNT);
        assert_int_equal(stats->dense_elems, COUNT);
        assert_int_equal(stats->rounds, 2);
    }
    opsworld_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(slots_are_never_given_twice),     CHECK_TEST(nan_is_named_by_all),
        CHECK_TEST(owners_work_on_their_part),       CHECK_TEST(an_owner_that_fails_ends_it),
        CHECK_TEST(a_broadcast_comes_from_its_root), CHECK_TEST(what_moved_is_counted)};
    return CHECK_RUN(tests);
}
