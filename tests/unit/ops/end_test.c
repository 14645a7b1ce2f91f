/* SPDX-License-Identifier: Apache-2.0 */
/* Ends that come from outside: which operations they end, what is said, and who is told. */
#include "base/error.h"
#include "support/check.h"
#include "support/opsworld.h"

enum { RANKS = 4 };

static float value[RANKS];
static opsworld *world;
static shoal_op *all, *pair; /* of rank 0: among all, and with rank 1 */

static int setup(void **state)
{
    (void)state;
    static const uint32_t two[] = {0, 1};
    world = opsworld_create(RANKS, 3);
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = &value[0];
    desc.count = 1;
    all = opsworld_start(world, 0, &desc);
    desc.members = two;
    desc.member_count = 2;
    pair = opsworld_start(world, 0, &desc);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    shoali_run_cancel_all(&world->rank[0].ops);
    opsworld_run(world, UINT64_MAX);
    opsworld_destroy(world);
    return 0;
}

static void a_loss_ends_those_with_it(void **state)
{
    (void)state;
    shoali_run_peer_lost(&world->rank[0].ops, 2, SHOAL_EAUTH, "it is a stranger");
    assert_true(all->failing && !pair->failing);
    assert_int_equal(all->error.status, SHOAL_EAUTH);
    assert_int_equal(all->error.rank, 2);
    assert_string_equal(all->error.text, "all-reduce 1: it is a stranger");
    assert_non_null(strstr(all->error.advice, "output of rank 2 on host2"));
    for (uint32_t r = 1; r < RANKS; r++)
        assert_non_null(world->first[0][r]); /* told */
}

static void a_broken_link_ends_those_over_it(void **state)
{
    (void)state;
    shoali_run_link_broke(&world->rank[0].ops, 1, "the cable is out");
    assert_true(all->failing && pair->failing);
    assert_int_equal(pair->error.status, SHOAL_EPEER);
    assert_non_null(strstr(pair->error.text, "the cable is out"));
    assert_non_null(strstr(pair->error.advice, "cable to rank 1"));
}

static void one_that_reforms_ends_those_with_it(void **state)
{
    (void)state;
    shoali_run_peer_leaving(&world->rank[0].ops, 3);
    assert_true(all->failing && !pair->failing);
    assert_int_equal(all->error.status, SHOAL_EEPOCH);
    assert_non_null(strstr(all->error.advice, "shoal_comm_reform"));
}

static void all_end_where_this_one_reforms(void **state)
{
    (void)state;
    shoali_run_all_leaving(&world->rank[0].ops);
    assert_true(all->failing && pair->failing);
    assert_int_equal(pair->error.status, SHOAL_EEPOCH);
}

static void all_end_where_this_one_is_destroyed(void **state)
{
    (void)state;
    shoali_run_cancel_all(&world->rank[0].ops);
    assert_int_equal(all->error.status, SHOAL_ECANCELLED);
    assert_int_equal(pair->error.status, SHOAL_ECANCELLED);
    assert_int_equal(all->error.rank, 0);
    assert_non_null(strstr(all->error.text, "rank 0 (host host0) destroys its communicator"));
}

/* What failed first is what is said, however many more reasons come before it can end. */
static void the_first_reason_stays(void **state)
{
    (void)state;
    static float values[2];
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = values;
    desc.count = 2;
    desc.push_codec = "inceptionn:prescale=auto";
    shoal_op *op = opsworld_start(world, 0, &desc);
    assert_true(op->rounds.job_open); /* which refers to the buffer until it is over */
    world->now_us += 500;
    shoali_run_peer_lost(&world->rank[0].ops, 2, SHOAL_EPEER, "first");
    shoali_run_all_leaving(&world->rank[0].ops);
    shoali_run_peer_lost(&world->rank[0].ops, 3, SHOAL_EPEER, "second");
    assert_true(op->failing && !op->ended);
    assert_string_equal(op->error.text, "all-reduce 2: first");
    assert_int_equal(op->error.waited_us, 500);
    assert_string_equal(op->error.operation, "all-reduce 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_loss_ends_those_with_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_broken_link_ends_those_over_it, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_reforms_ends_those_with_it, setup, teardown),
        cmocka_unit_test_setup_teardown(all_end_where_this_one_reforms, setup, teardown),
        cmocka_unit_test_setup_teardown(all_end_where_this_one_is_destroyed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_reason_stays, setup, teardown)};
    return CHECK_RUN(tests);
}
