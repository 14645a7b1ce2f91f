/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared operations: what can be one, and for how long. */
#include "ops/plan.h"

#include "support/alone.h"
#include "support/check.h"

enum { LONG_US = 60 * 1000 * 1000 };
static float x[4];

static shoal_op_desc sum(void)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = SHOAL_ALL_REDUCE;
    desc.buf = x;
    desc.count = 4;
    return desc;
}

static void a_plan_runs_as_often_as_it_is_asked_to(void **state)
{
    (void)state;
    const shoal_op_desc desc = sum();
    shoal_op_plan *plan = NULL;
    shoal_comm *comm = alone_make();
    assert_ok(shoal_op_prepare(comm, &desc, &plan));
    for (int i = 0; i < 5; i++) {
        float y[4] = {(float)i, 1, 2, 3};
        shoal_op *op = NULL;
        assert_ok(shoal_op_run(plan, y, &op));
        assert_ok(shoal_op_wait(&op, LONG_US, NULL));
        assert_true(y[0] == (float)i && y[3] == 3);
    }
    shoal_op_plan_destroy(plan);
    shoal_op_plan_destroy(NULL);
    shoal_comm_destroy(comm);
}

static void what_differs_from_run_to_run_cannot_be_prepared(void **state)
{
    (void)state;
    const uint32_t rows[] = {0, 1};
    shoal_op_plan *plan = NULL;
    shoal_comm *comm = alone_make();
    shoal_op_desc desc = sum();
    desc.rows = rows;
    assert_status(shoal_op_prepare(comm, &desc, &plan), SHOAL_EINVAL);
    assert_error_has("rows");
    for (int part = 0; part < 3; part++) {
        desc = sum();
        desc.id.group = part == 0;
        desc.id.sequence = part == 1;
        desc.id.round = part == 2;
        assert_status(shoal_op_prepare(comm, &desc, &plan), SHOAL_EINVAL);
        assert_error_has("a name of its own");
    }
    desc = sum();
    desc.size--;
    assert_status(shoal_op_prepare(comm, &desc, &plan), SHOAL_EINVAL);
    desc = sum();
    assert_status(shoal_op_prepare(comm, &desc, NULL), SHOAL_EINVAL);
    assert_status(shoal_op_prepare(comm, NULL, &plan), SHOAL_EINVAL);
    assert_status(shoal_op_prepare(NULL, &desc, &plan), SHOAL_EINVAL);
    assert_null(plan);
    shoal_comm_destroy(comm);
}

/* It outlives its communicator, and says so. */
static void a_plan_of_the_past_is_refused(void **state)
{
    (void)state;
    const shoal_op_desc desc = sum();
    shoal_op_plan *plan = NULL;
    shoal_op *op = NULL;
    shoal_comm *comm = alone_make();
    assert_ok(shoal_op_prepare(comm, &desc, &plan));
    assert_status(shoal_op_run(plan, x, NULL), SHOAL_EINVAL);
    assert_status(shoal_op_run(NULL, x, &op), SHOAL_EINVAL);
    shoal_comm_destroy(comm);
    assert_status(shoal_op_run(plan, x, &op), SHOAL_ECANCELLED);
    assert_error_has("has been destroyed");
    plan->held.gone = SHOAL_EEPOCH;
    assert_status(shoal_op_run(plan, x, &op), SHOAL_EEPOCH);
    assert_error_has("an epoch that is over");
    assert_null(op);
    shoal_op_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_plan_runs_as_often_as_it_is_asked_to),
        CHECK_TEST(what_differs_from_run_to_run_cannot_be_prepared),
        CHECK_TEST(a_plan_of_the_past_is_refused),
    };
    return CHECK_RUN(tests);
}
