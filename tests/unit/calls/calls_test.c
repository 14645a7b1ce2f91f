/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that are started and waited for in one call. */
#include "calls/calls.h"

#include "support/alone.h"
#include "support/check.h"
#include "support/fake_comm.h"

enum { COUNT = 5 };
static fake_wire wire;

static void what_one_rank_sums_and_gathers_is_its_own(void **state)
{
    (void)state;
    const float before[COUNT] = {1, -2, 3.5F, 0, 1e30F};
    float x[COUNT];
    shoal_comm *comm = alone_make();
    memcpy(x, before, sizeof x);
    assert_ok(shoal_allreduce(comm, x, COUNT, "ring", "identity"));
    assert_ok(shoal_reduce_scatter(comm, x, COUNT, "ring", "identity"));
    assert_ok(shoal_allgather(comm, x, COUNT, "ring", "identity"));
    assert_ok(shoal_broadcast(comm, x, COUNT, 0));
    assert_ok(shoal_barrier(comm));
    assert_memory_equal(x, before, sizeof x);
    shoal_comm_destroy(comm);
}

/* The call says what was wrong, and the next one works. */
static void a_wrong_call_is_refused_and_harms_nothing(void **state)
{
    (void)state;
    float x[COUNT] = {0};
    shoal_comm *comm = alone_make();
    assert_status(shoal_allreduce(comm, x, COUNT, "triangle", "identity"), SHOAL_EINVAL);
    assert_error_has("triangle");
    assert_status(shoal_allreduce(comm, x, COUNT, "ring", "zip"), SHOAL_EINVAL);
    assert_error_has("zip");
    assert_status(shoal_broadcast(comm, x, COUNT, 1), SHOAL_EINVAL);
    assert_status(shoal_barrier(NULL), SHOAL_EINVAL);
    assert_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

/* What the caller asks for of the operation is written within the size that it knows. */
static void stats_are_as_long_as_the_caller_knows(void **state)
{
    (void)state;
    float x[COUNT] = {1, 2, 3, 4, 5};
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoal_op_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    const uint8_t untouched = 0x5a;
    shoal_comm *comm = alone_make();
    desc.kind = SHOAL_ALL_REDUCE;
    desc.buf = x;
    desc.count = COUNT;
    stats.size = 2 * sizeof(uint64_t);
    assert_ok(shoali_comm_run(comm, &desc, &stats));
    assert_int_equal(stats.size, 2 * sizeof(uint64_t));
    assert_memory_equal((uint8_t *)&stats + stats.size, &untouched, 1);
    shoal_comm_destroy(comm);
}

/* Neighbours' shards touch, and none is more than an element longer than another. */
static void shards_are_a_division(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(1, 3, &wire);
    for (size_t count = 0; count < 20; count++) {
        size_t end = 0, least = count, most = 0;
        for (uint32_t rank = 0; rank < 3; rank++) {
            size_t offset, length;
            assert_ok(shoal_comm_shard(comm, rank, count, &offset, &length));
            assert_int_equal(offset, end);
            end += length;
            least = length < least ? length : least;
            most = length > most ? length : most;
        }
        assert_int_equal(end, count);
        assert_true(most - least <= 1);
    }
    size_t offset, length;
    assert_status(shoal_comm_shard(comm, 3, 10, &offset, &length), SHOAL_EINVAL);
    assert_status(shoal_comm_shard(NULL, 0, 10, &offset, &length), SHOAL_EINVAL);
    fake_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_one_rank_sums_and_gathers_is_its_own),
        CHECK_TEST(a_wrong_call_is_refused_and_harms_nothing),
        CHECK_TEST(stats_are_as_long_as_the_caller_knows),
        CHECK_TEST(shards_are_a_division),
    };
    return CHECK_RUN(tests);
}
