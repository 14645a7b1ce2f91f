/* SPDX-License-Identifier: Apache-2.0 */
/* What operations owe, as checkpoints read and write it; without a thread, so by the caller's. */
#include "calls/calls.h"

#include "codec/codec.h"
#include "ops/residual.h"
#include "support/check.h"
#include "support/fake_comm.h"

static fake_wire wire;
static const float three[] = {1, 2, 3}, two[] = {10, 20};

static shoal_comm *make(void)
{
    shoal_comm *comm = fake_comm_make(0, 2, &wire);
    assert_ok(shoali_comm_set_residual(comm, 7, three, 3));
    assert_ok(shoali_comm_set_residual(comm, 9, two, 2));
    return comm;
}

static void unmake(shoal_comm *comm)
{
    shoali_comm_forget_residuals(comm);
    assert_int_equal(shoali_comm_residuals(comm, NULL, 0), 0);
    fake_comm_free(comm);
}

static void what_is_set_is_listed(void **state)
{
    (void)state;
    shoali_residual listed[4];
    shoal_comm *comm = make();
    assert_int_equal(shoali_comm_residuals(comm, NULL, 0), 2);
    assert_int_equal(shoali_comm_residuals(comm, listed, 4), 2);
    for (int i = 0; i < 2; i++) {
        const bool first = listed[i].key == 7;
        assert_int_equal(listed[i].count, first ? 3 : 2);
        assert_memory_equal(listed[i].values, first ? three : two, listed[i].count * sizeof(float));
    }
    assert_true(listed[0].key != listed[1].key);
    unmake(comm);
}

/* By key and size; tensors of another size owe nothing, nor is a codec without feedback owed. */
static void what_is_owed_comes_on_top(void **state)
{
    (void)state;
    const shoal_tensor tensors[] = {{.key = 9, .offset = 1, .count = 2},
                                    {.key = 7, .offset = 4, .count = 2},
                                    {.key = 8, .offset = 6, .count = 2}};
    float want[8] = {0, 1, 1, 0, 5, 5, 6, 6};
    const float before[8] = {0, 1, 1, 0, 5, 5, 6, 6};
    const float after[8] = {0, 11, 21, 0, 5, 5, 6, 6};
    shoal_comm *comm = make();
    assert_ok(shoali_comm_add_owed(comm, "fp16", tensors, 3, want));
    assert_memory_equal(want, before, sizeof want);
    assert_ok(shoali_comm_add_owed(comm, "topk:k=0.1,ef", tensors, 3, want));
    assert_memory_equal(want, after, sizeof want);
    assert_status(shoali_comm_add_owed(comm, "none-such", tensors, 3, want), SHOAL_EINVAL);
    unmake(comm);
}

static void a_child_process_has_none(void **state)
{
    (void)state;
    shoal_comm *comm = make();
    atomic_store(&comm->loop.forked, true);
    assert_int_equal(shoali_comm_residuals(comm, NULL, 0), 0);
    assert_status(shoali_comm_set_residual(comm, 7, three, 3), SHOAL_EFORKED);
    atomic_store(&comm->loop.forked, false);
    assert_int_equal(shoali_comm_residuals(comm, NULL, 0), 2);
    unmake(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_is_set_is_listed),
        CHECK_TEST(what_is_owed_comes_on_top),
        CHECK_TEST(a_child_process_has_none),
    };
    return CHECK_RUN(tests);
}
