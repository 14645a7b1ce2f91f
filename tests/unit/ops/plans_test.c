/* SPDX-License-Identifier: Apache-2.0 */
/* Which plans stay, for how long, and which runs rest with them. */
#include "support/check.h"
#include "support/opsworld.h"

#include <math.h>

#include "base/arena.h"

enum { COUNT = 300 };

static const shoali_op_extras plain = {.check_finite = true};
static float bufs[4][COUNT];
static opsworld *world;
static shoali_ops *ops; /* of rank 0 */

static int setup(void **state)
{
    (void)state;
    world = opsworld_create(4, 1);
    ops = &world->rank[0].ops;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    opsworld_destroy(world);
    return 0;
}

static shoal_op_desc usual(uint32_t rank)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = bufs[rank];
    desc.count = COUNT;
    return desc;
}

static shoal_op *make(const shoal_op_desc *desc)
{
    shoal_op *op = NULL;
    assert_ok(shoali_op_make(ops, desc, &plain, SHOALI_MAIN_ROUND, &op));
    return op;
}

static void what_repeats_finds_its_plan_and_its_run(void **state)
{
    (void)state;
    const shoal_op_desc desc = usual(0);
    shoal_op *first = make(&desc), *second = make(&desc);
    const shoal_op_plan *plan = first->plan;
    assert_ptr_equal(second->plan, plan);
    assert_ptr_not_equal(second, first);
    assert_int_equal(first->id.sequence + 1, second->id.sequence);
    shoali_op_free(first);
    shoal_op *third = make(&desc);
    assert_ptr_equal(third, first);
    assert_string_equal(third->name, "all-reduce 3");
    shoali_op_free(second);
    shoali_op_free(third);
    assert_int_equal(ops->plans_kept, 1);
    assert_int_equal(plan->held.idle_count, 2);
}

static void runs_that_rest_are_few(void **state)
{
    (void)state;
    enum { MANY = SHOALI_RUNS_KEPT + 3 };
    const shoal_op_desc desc = usual(0);
    shoal_op *all[MANY];
    for (size_t i = 0; i < MANY; i++)
        all[i] = make(&desc);
    for (size_t i = 0; i < MANY; i++)
        shoali_op_free(all[i]);
    assert_int_equal(ops->plans->held.idle_count, SHOALI_RUNS_KEPT);
    assert_int_equal(ops->plans->held.holders, 1);
}

/* The one that was not used for longest goes; a run that is under way keeps it until it has
 * ended. */
static void the_table_is_bounded(void **state)
{
    (void)state;
    shoal_op_desc desc = usual(0);
    shoal_op *under_way = make(&desc);
    for (desc.count = 1; desc.count <= SHOALI_PLANS_KEPT; desc.count++)
        shoali_op_free(make(&desc));
    assert_int_equal(ops->plans_kept, SHOALI_PLANS_KEPT);
    assert_false(under_way->plan->held.listed);
    assert_int_equal(under_way->plan->count, COUNT);
    shoali_op_free(under_way);
    desc.count = 1;
    shoal_op *kept = make(&desc);
    assert_ptr_equal(ops->plans, kept->plan); /* the first of all, from now on */
    desc.count = COUNT;
    shoali_op_free(make(&desc)); /* anew: number 2 goes, not number 1 */
    desc.count = 1;
    shoal_op *again = make(&desc);
    assert_ptr_equal(again->plan, kept->plan);
    shoali_op_free(kept);
    shoali_op_free(again);
}

static void rows_are_for_one_run(void **state)
{
    (void)state;
    static const uint32_t rows[] = {0};
    shoal_op_desc desc = usual(0);
    desc.rows = rows;
    desc.row_count = 1;
    shoali_op_free(make(&desc));
    assert_int_equal(ops->plans_kept, 0);
    assert_null(ops->plans);
}

static void a_run_that_cannot_be_leaves_its_plan(void **state)
{
    (void)state;
    shoal_op_desc desc = usual(0);
    shoali_op_free(make(&desc));
    shoal_op_plan *plan = ops->plans;
    shoal_op *op = NULL;
    desc.buf = NULL;
    assert_status(shoali_op_make(ops, &desc, &plain, SHOALI_MAIN_ROUND, &op), SHOAL_EINVAL);
    assert_int_equal(plan->held.holders, 1);
    assert_int_equal(plan->held.idle_count, 1);
    desc.buf = bufs[0];
    op = make(&desc);
    assert_int_equal(op->id.sequence, 2); /* the one between has taken no number */
    shoali_op_free(op);
}

static void what_is_prepared_stays(void **state)
{
    (void)state;
    shoal_op_desc desc = usual(0);
    shoal_op_plan *plan = NULL, *kept = NULL;
    shoal_op *op = NULL;
    assert_ok(shoali_plans_prepare(ops, &desc, &plain, &plan));
    for (desc.count = 1; desc.count <= 2 * SHOALI_PLANS_KEPT; desc.count++)
        if (desc.count != COUNT)
            shoali_op_free(make(&desc));
    assert_true(plan->held.listed);
    desc.count = COUNT;
    assert_ok(shoali_op_of(plan, &desc, &plain, SHOALI_MAIN_ROUND, &op));
    shoali_plans_give_up(plan); /* its run goes on */
    assert_int_equal(op->plan->count, COUNT);
    shoali_op_free(op);
    assert_ok(shoali_plans_prepare(ops, &desc, &plain, &kept));
    shoali_plans_free(ops, SHOAL_EEPOCH);
    assert_null(ops->plans);
    assert_int_equal(ops->plans_kept, 0);
    assert_null(kept->ops);
    assert_int_equal(kept->held.gone, SHOAL_EEPOCH);
    shoali_plans_give_up(kept);
}

/* ------------------------------------------------------------------ flows that rest */

static void sum(const char *codec, shoal_status wanted)
{
    const uint32_t before = world->rank[0].end_count;
    for (uint32_t r = 0; r < 4; r++) {
        shoal_op_desc desc = usual(r);
        desc.push_codec = codec;
        (void)opsworld_start(world, r, &desc);
    }
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(world->rank[r].end_count, before + 1);
        assert_int_equal(opsworld_last(world, r)->status, wanted);
    }
}

static void fill(void)
{
    for (uint32_t r = 0; r < 4; r++)
        for (size_t i = 0; i < COUNT; i++)
            bufs[r][i] = (float)(r + i % 9);
}

static void check_sums(void)
{
    for (uint32_t r = 0; r < 4; r++)
        for (size_t i = 0; i < COUNT; i++)
            assert_true(bufs[r][i] == (float)(6 + 4 * (i % 9)));
}

static void a_flow_rests_and_runs_again(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        if (i == 3) /* by now nothing is missing */
            (void)shoali_alloc_fail_at(1);
        fill();
        sum(NULL, SHOAL_OK);
        check_sums();
        assert_non_null(ops->plans->held.idle->kept.rests);
    }
    (void)shoali_alloc_fail_at(0);
}

/* What has failed is built anew. */
static void after_a_failure_it_runs_as_ever(void **state)
{
    (void)state;
    fill();
    sum(NULL, SHOAL_OK);
    fill();
    bufs[2][7] = NAN;
    sum(NULL, SHOAL_ENOTFINITE);
    assert_null(ops->plans->held.idle->kept.rests);
    for (int i = 0; i < 2; i++) {
        fill();
        sum(NULL, SHOAL_OK);
        check_sums();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_repeats_finds_its_plan_and_its_run, setup, teardown),
        cmocka_unit_test_setup_teardown(runs_that_rest_are_few, setup, teardown),
        cmocka_unit_test_setup_teardown(the_table_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_are_for_one_run, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_that_cannot_be_leaves_its_plan, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_prepared_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flow_rests_and_runs_again, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_failure_it_runs_as_ever, setup, teardown)};
    return CHECK_RUN(tests);
}
