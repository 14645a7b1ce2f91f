/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/steps.h"

static void four_members_as_in_the_picture(void **state)
{
    (void)state;
    steps_are(&(steps_of){"ring", .size = 4, .me = 0},
              "1 push send 3 to 1 x1; 1 push add 2 from 3 x1; "
              "2 push send 2 to 1 x2; 2 push add 1 from 3 x2; "
              "3 push send 1 to 1 x3; 3 push add 0 from 3 x3; own 0 x4; "
              "4 pull send 0 to 1 x4; 4 pull set 3 from 3 x4; "
              "5 pull send 3 to 1 x4; 5 pull set 2 from 3 x4; "
              "6 pull send 2 to 1 x4; 6 pull set 1 from 3 x4");
}

static void both_directions_meet_at_the_owner(void **state)
{
    (void)state;
    steps_are(&(steps_of){"ring:both", .size = 4, .me = 0},
              "1 push send 2 to 1 x1; 1 push send 3 to 3 x1; "
              "1 push add 1 from 3 x1; 1 push add 0 from 1 x1; "
              "2 push send 1 to 1 x2; 2 push add 0 from 3 x2; own 0 x4; "
              "3 pull send 0 to 3 x4; 3 pull send 0 to 1 x4; "
              "3 pull set 1 from 1 x4; 3 pull set 3 from 3 x4; "
              "4 pull send 1 to 3 x4; 4 pull set 2 from 1 x4");
}

static void the_halves_are_operations_of_their_own(void **state)
{
    (void)state;
    steps_are(&(steps_of){"ring", .size = 3, .me = 1, .kind = SHOAL_REDUCE_SCATTER},
              "1 push send 0 to 2 x1; 1 push add 2 from 0 x1; "
              "2 push send 2 to 2 x2; 2 push add 1 from 0 x2");
    steps_are(&(steps_of){"ring", .size = 3, .me = 1, .kind = SHOAL_ALL_GATHER},
              "own 1 x3; 1 pull send 1 to 2 x3; 1 pull set 0 from 0 x3; "
              "2 pull send 0 to 2 x3; 2 pull set 2 from 0 x3");
}

/* sent = received = 2 (P-1)/P n, added (P-1)/P n, encoded n; rounds 2(P-1), both 2 floor(P/2) */
static void the_cost_is_the_formula(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 17; size++)
        for (uint32_t both = 0; both <= 1; both++) {
            uint64_t n = 12 * size;
            steps_of which = {both ? "ring:both" : "ring", .size = size, .me = size / 2};
            shoali_cost cost = steps_cost(&which, n);
            assert_int_equal(cost.sent_elems, 2 * (size - 1) * n / size);
            assert_int_equal(cost.received_elems, cost.sent_elems);
            assert_int_equal(cost.added_elems, (size - 1) * n / size);
            assert_int_equal(cost.encoded_elems, size > 1 ? n : 0);
            assert_int_equal(cost.sends, 2 * (size - 1));
            assert_int_equal(cost.rounds, both ? size / 2 * 2 : 2 * (size - 1));
        }
}

/* Ceilings of specs/gradient-exchange.md section 6, in units of n per direction. */
static void the_ceilings_of_the_paper(void **state)
{
    (void)state;
    assert_int_equal(steps_cost(&(steps_of){"ring", .size = 2}, 1000).sent_elems, 1000);
    assert_int_equal(steps_cost(&(steps_of){"ring", .size = 4}, 1000).sent_elems, 1500);
    assert_int_equal(steps_cost(&(steps_of){"ring", .size = 8}, 1000).sent_elems, 1750);
}

static void both_directions_carry_the_same(void **state)
{
    (void)state;
    for (uint32_t size = 3; size <= 17; size++) {
        uint32_t rightwards = 0, leftwards = 0;
        shoali_collective ring;
        shoal_schedule schedule;
        shoal_schedule_args args = {size, size, 0, 0, NULL, NULL};
        shoal_arena *arena = shoali_arena_create(4096);
        assert_ok(shoali_collective_open("ring:both", &ring));
        assert_ok(shoali_collective_build(&ring, SHOAL_ALL_REDUCE, &args, arena, &schedule));
        for (uint32_t i = 0; i < schedule.count; i++) {
            rightwards += schedule.steps[i].kind == SHOAL_SEND && schedule.steps[i].peer == 1;
            leftwards += schedule.steps[i].kind == SHOAL_SEND && schedule.steps[i].peer == size - 1;
        }
        assert_int_equal(rightwards, size - 1);
        assert_int_equal(leftwards, size - 1);
        shoali_collective_close(&ring);
        shoali_arena_destroy(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(four_members_as_in_the_picture),
        CHECK_TEST(both_directions_meet_at_the_owner),
        CHECK_TEST(the_halves_are_operations_of_their_own),
        CHECK_TEST(the_cost_is_the_formula),
        CHECK_TEST(the_ceilings_of_the_paper),
        CHECK_TEST(both_directions_carry_the_same),
    };
    return CHECK_RUN(tests);
}
