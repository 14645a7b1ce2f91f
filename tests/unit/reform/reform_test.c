/* SPDX-License-Identifier: Apache-2.0 */
/* From one epoch into the next, by real communicators. */
#include "reform/reform.h"

#include "calls/calls.h"
#include "endpoint/endpoint.h"
#include "support/alone.h"
#include "support/check.h"
#include "support/fake_comm.h"

enum { LONG_US = 60 * 1000 * 1000 };
static fake_wire wire;

static void members_that_are_fixed_stay_so(void **state)
{
    (void)state;
    shoal_comm *none = NULL;
    shoal_comm *comm = alone_make();
    assert_status(shoal_comm_reform(&comm, 0, 0, NULL), SHOAL_EINVAL);
    assert_error_has("reform = true");
    assert_status(shoal_comm_reform(&none, 0, 0, NULL), SHOAL_EINVAL);
    assert_status(shoal_comm_reform(NULL, 0, 0, NULL), SHOAL_EINVAL);
    assert_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

/* Newcomers are no reason once a member has made all its steps; members that go are. */
static void whoever_ends_waits_for_members_only(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 2, &wire);
    assert_false(shoal_comm_reform_wanted(comm));
    assert_false(shoal_comm_reform_wanted(NULL));
    atomic_store(&comm->reform.wanted, true);
    assert_true(shoal_comm_reform_wanted(comm));
    atomic_store(&comm->reform.ending, true);
    assert_false(shoal_comm_reform_wanted(comm));
    atomic_store(&comm->reform.going, true);
    assert_true(shoal_comm_reform_wanted(comm));
    fake_comm_free(comm);
}

static shoal_view views[2];
static uint32_t told[2];

static void note_lost(void *ctx, uint32_t endpoint, const shoali_lost_peer *what)
{
    (void)endpoint;
    (void)what;
    ++*(uint32_t *)ctx;
}

static void reform(pair *p, uint32_t rank)
{
    views[rank] = (shoal_view){.size = sizeof views[rank]};
    p->status[rank] = shoali_comm_reform(&p->comm[rank], 10 + 5 * rank, LONG_US, &views[rank],
                                         note_lost, &told[rank]);
}

static void sum(pair *p, uint32_t rank)
{
    float x = 1;
    p->status[rank] = shoal_allreduce(p->comm[rank], &x, 1, "ring", "identity");
    p->status[rank] = x == 2 ? p->status[rank] : SHOAL_ECORRUPT;
}

static void join_to_reform(pair *p)
{
    memset(told, 0, sizeof told);
    pair_init(p);
    p->desc[0].reform = p->desc[1].reform = true;
    pair_join(p);
    assert_true(p->status[0] == SHOAL_OK && p->status[1] == SHOAL_OK);
}

/* All agree on the epoch, on who was how far, and what is owed is still owed. */
static void both_go_on_together(void **state)
{
    (void)state;
    const float owed[] = {0.25F, -1};
    shoali_residual kept;
    pair p;
    join_to_reform(&p);
    assert_ok(shoali_comm_set_residual(p.comm[1], 7, owed, 2));
    pair_both(&p, reform);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(p.status[i], SHOAL_OK);
        assert_true(views[i].epoch == views[0].epoch && views[i].epoch > 0);
        assert_true(views[i].rank == i && views[i].rank_count == 2);
        assert_true(views[i].done_min == 10 && views[i].done_max == 15 && views[i].done_rank == 1);
        assert_int_equal(told[i], 0); /* nobody was lost */
    }
    assert_int_equal(shoali_comm_residuals(p.comm[1], &kept, 1), 1);
    assert_true(kept.key == 7 && kept.count == 2);
    assert_memory_equal(kept.values, owed, sizeof owed);
    pair_both(&p, sum);
    assert_true(p.status[0] == SHOAL_OK && p.status[1] == SHOAL_OK);
    pair_free(&p);
}

/* Who said goodbye does not count: the one that is left is all. */
static void one_goes_on_when_the_other_has_left(void **state)
{
    (void)state;
    pair p;
    join_to_reform(&p);
    shoal_comm_destroy(p.comm[1]);
    p.comm[1] = NULL;
    reform(&p, 0);
    assert_ok(p.status[0]);
    assert_true(views[0].rank_count == 1 && views[0].rank == 0 && views[0].epoch > 0);
    assert_true(views[0].done_min == 10 && views[0].done_max == 10);
    assert_ok(shoal_barrier(p.comm[0]));
    pair_free(&p);
}

static void a_child_process_does_not_reform(void **state)
{
    (void)state;
    pair p;
    join_to_reform(&p);
    shoal_comm *comm = p.comm[0];
    atomic_store(&comm->loop.forked, true);
    assert_status(shoal_comm_reform(&p.comm[0], 0, 0, NULL), SHOAL_EFORKED);
    assert_ptr_equal(p.comm[0], comm);
    atomic_store(&comm->loop.forked, false);
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(members_that_are_fixed_stay_so),
        CHECK_TEST(whoever_ends_waits_for_members_only),
        CHECK_TEST(both_go_on_together),
        CHECK_TEST(one_goes_on_when_the_other_has_left),
        CHECK_TEST(a_child_process_does_not_reform),
    };
    return CHECK_RUN(tests);
}
