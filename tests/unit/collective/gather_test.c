/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/steps.h"

static void four_members_as_in_the_picture(void **state)
{
    (void)state;
    steps_are(&(steps_of){"gather", .size = 4, .me = 2},
              "own 2 x1; 1 pull send 2 to 3 x1; 1 pull send 2 to 0 x1; 1 pull send 2 to 1 x1; "
              "1 pull set 1 from 1 x1; 1 pull set 0 from 0 x1; 1 pull set 3 from 3 x1");
}

/* Every block is a whole vector: sent = received = (P-1) n, added P n, encoded n, decoded P n. */
static void the_cost_is_the_formula(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 17; size++) {
        shoali_cost cost = steps_cost(&(steps_of){"gather", .size = size, .me = size - 1}, 101);
        assert_int_equal(cost.sent_elems, (size - 1) * 101);
        assert_int_equal(cost.received_elems, (size - 1) * 101);
        assert_int_equal(cost.added_elems, size * 101);
        assert_int_equal(cost.encoded_elems, 101);
        assert_int_equal(cost.decoded_elems, size * 101);
        assert_int_equal(cost.rounds, 1);
    }
}

static void slots_are_the_whole_buffer(void **state)
{
    (void)state;
    size_t offset, count;
    shoali_collective gather;
    shoal_schedule schedule;
    shoal_schedule_args args = {3, 3, 1, 0, NULL, NULL};
    shoal_arena *arena = shoali_arena_create(4096);
    assert_ok(shoali_collective_open("gather", &gather));
    assert_ok(shoali_collective_build(&gather, SHOAL_ALL_REDUCE, &args, arena, &schedule));
    assert_true(schedule.slots);
    assert_int_equal(schedule.blocks, 3);
    shoali_schedule_range(&schedule, 10, 2, &offset, &count);
    assert_int_equal(offset, 0);
    assert_int_equal(count, 10);
    shoali_collective_close(&gather);
    shoali_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(four_members_as_in_the_picture),
        CHECK_TEST(the_cost_is_the_formula),
        CHECK_TEST(slots_are_the_whole_buffer),
    };
    return CHECK_RUN(tests);
}
