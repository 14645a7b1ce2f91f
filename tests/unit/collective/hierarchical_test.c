/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/steps.h"

static void two_by_two_as_in_the_picture(void **state)
{
    (void)state;
    steps_are(&(steps_of){"hierarchical:dims=2/2", .size = 4, .me = 0},
              "1 push send 1 to 1 x1; 1 push send 3 to 1 x1; "
              "1 push add 0 from 1 x1; 1 push add 2 from 1 x1; "
              "2 push send 2 to 2 x2; 2 push add 0 from 2 x2; own 0 x4; "
              "3 pull send 0 to 2 x4; 3 pull set 2 from 2 x4; "
              "4 pull send 0 to 1 x4; 4 pull send 2 to 1 x4; "
              "4 pull set 1 from 1 x4; 4 pull set 3 from 1 x4");
    steps_are(&(steps_of){"hierarchical:dims=2/2", .size = 4, .me = 3},
              "1 push send 0 to 2 x1; 1 push send 2 to 2 x1; "
              "1 push add 1 from 2 x1; 1 push add 3 from 2 x1; "
              "2 push send 1 to 1 x2; 2 push add 3 from 1 x2; own 3 x4; "
              "3 pull send 3 to 1 x4; 3 pull set 1 from 1 x4; "
              "4 pull send 1 to 2 x4; 4 pull send 3 to 2 x4; "
              "4 pull set 0 from 2 x4; 4 pull set 2 from 2 x4");
}

static void one_dimension_is_the_ring(void **state)
{
    (void)state;
    steps_are(&(steps_of){"hierarchical:dims=3", .size = 3, .me = 1},
              "1 push send 0 to 2 x1; 1 push add 2 from 0 x1; "
              "2 push send 2 to 2 x2; 2 push add 1 from 0 x2; own 1 x3; "
              "3 pull send 1 to 2 x3; 3 pull set 0 from 0 x3; "
              "4 pull send 0 to 2 x3; 4 pull set 2 from 0 x3");
}

static void direct_inside_takes_one_round_per_dimension(void **state)
{
    (void)state;
    steps_are(&(steps_of){"hierarchical:dims=3,inner=direct", .size = 3, .me = 0},
              "1 push send 1 to 1 x1; 1 push add 0 from 2 x1; "
              "1 push send 2 to 2 x1; 1 push add 0 from 1 x1; own 0 x3; "
              "2 pull send 0 to 1 x3; 2 pull set 2 from 2 x3; "
              "2 pull send 0 to 2 x3; 2 pull set 1 from 1 x3");
    steps_of which = {"hierarchical:dims=4/1/3,inner=direct", .size = 12};
    assert_int_equal(steps_cost(&which, 144).rounds, 4);
}

/* sent = received = 2 (P-1)/P n, added (P-1)/P n for any dims; rounds 2 sum(d - 1) with rings; the
 * dimensions by default are the prime factors. */
static void the_cost_is_the_formula(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t size, rounds;
    } grids[] = {
        {"hierarchical:dims=4/2", 8, 8},
        {"hierarchical:dims=2/4", 8, 8},
        {"hierarchical:dims=2/2/2", 8, 6},
        {"hierarchical:dims=8", 8, 14},
        {"hierarchical:dims=3/1/5", 15, 12},
        {"hierarchical", 8, 6},
        {"hierarchical", 12, 8},
        {"hierarchical", 13, 24},
        {"hierarchical", 1, 0},
        {"hierarchical", 17 * 19, 68},
    };
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        uint64_t size = grids[i].size, n = 12 * size;
        shoali_cost cost = steps_cost(
            &(steps_of){grids[i].spec, .size = grids[i].size, .me = grids[i].size / 2}, n);
        assert_int_equal(cost.sent_elems, 2 * (size - 1) * n / size);
        assert_int_equal(cost.received_elems, cost.sent_elems);
        assert_int_equal(cost.added_elems, (size - 1) * n / size);
        assert_int_equal(cost.rounds, grids[i].rounds);
    }
}

/* Dimension k carries 2 (d_k - 1) n / (d_0 .. d_k): with four consecutive ranks per host, hosts
 * exchange a quarter of what a flat ring would have to send over each host's busiest link. */
static void upper_dimensions_carry_little(void **state)
{
    (void)state;
    uint64_t n = 960, within = 0, across = 0;
    shoali_collective grid;
    shoal_schedule schedule;
    shoal_schedule_args args = {8, 8, 5, 0, NULL, NULL};
    shoal_arena *arena = shoali_arena_create(4096);
    assert_ok(shoali_collective_open("hierarchical:dims=4/2", &grid));
    assert_ok(shoali_collective_build(&grid, SHOAL_ALL_REDUCE, &args, arena, &schedule));
    for (uint32_t i = 0; i < schedule.count; i++)
        if (schedule.steps[i].kind == SHOAL_SEND)
            *(schedule.steps[i].peer / 4 == 1 ? &within : &across) += n / 8;
    assert_int_equal(within, 2 * 3 * n / 4);
    assert_int_equal(across, 2 * 1 * n / 8);
    shoali_collective_close(&grid);
    shoali_arena_destroy(arena);
}

static void wrong_dims_are_refused(void **state)
{
    (void)state;
    assert_status(steps_status(&(steps_of){"hierarchical:dims=4/3", .size = 8}), SHOAL_EINVAL);
    assert_error_has("the number of members, 8");
    assert_status(steps_status(&(steps_of){"hierarchical:dims=0/8", .size = 8}), SHOAL_EINVAL);
    assert_error_has("from 1 to");
    assert_status(steps_status(&(steps_of){"hierarchical:dims=2x4", .size = 8}), SHOAL_EINVAL);
    steps_of huge = {"hierarchical:dims=32768/32768/32768/32768/32768", .size = 8};
    assert_status(steps_status(&huge), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(two_by_two_as_in_the_picture),
        CHECK_TEST(one_dimension_is_the_ring),
        CHECK_TEST(direct_inside_takes_one_round_per_dimension),
        CHECK_TEST(the_cost_is_the_formula),
        CHECK_TEST(upper_dimensions_carry_little),
        CHECK_TEST(wrong_dims_are_refused),
    };
    return CHECK_RUN(tests);
}
