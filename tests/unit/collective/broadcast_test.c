/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/steps.h"

/* All members of a broadcast, counted from the root. */
static steps_of member(const char *spec, uint32_t size, uint32_t root, uint32_t from_root)
{
    return (steps_of){spec, .size = size, .me = (root + from_root) % size, .root = root,
                      .kind = SHOAL_BROADCAST};
}

static void a_chain_passes_on_what_it_gets(void **state)
{
    (void)state;
    steps_of first = member("broadcast", 4, 3, 0), second = member("broadcast", 4, 3, 1),
             last = member("broadcast", 4, 3, 3);
    steps_are(&first, "own 0 x1; 1 pull send 0 to 0 x1");
    steps_are(&second, "1 pull set 0 from 3 x1; 2 pull send 0 to 1 x1");
    steps_are(&last, "3 pull set 0 from 1 x1");
}

static void a_tree_doubles_each_round(void **state)
{
    (void)state;
    steps_of root = member("broadcast:tree", 4, 1, 0), next = member("broadcast:tree", 4, 1, 1),
             third = member("broadcast:tree", 4, 1, 2), last = member("broadcast:tree", 4, 1, 3);
    steps_are(&root, "own 0 x1; 1 pull send 0 to 2 x1; 2 pull send 0 to 3 x1");
    steps_are(&next, "1 pull set 0 from 1 x1; 2 pull send 0 to 0 x1");
    steps_are(&third, "2 pull set 0 from 1 x1");
    steps_are(&last, "2 pull set 0 from 2 x1");
}

/* chain: n each, P-1 rounds; tree: ceil(log2 P) n at the root, ceil(log2 P) rounds */
static void the_cost_is_the_formula(void **state)
{
    (void)state;
    for (uint32_t size = 2, log2_size = 1; size <= 17; size++) {
        if (size > UINT32_C(1) << log2_size)
            log2_size++;
        steps_of root = member("broadcast", size, 1, 0),
                 last = member("broadcast", size, 1, size - 1);
        assert_int_equal(steps_cost(&root, 7).sent_elems, 7);
        assert_int_equal(steps_cost(&root, 7).rounds, size - 1);
        assert_int_equal(steps_cost(&last, 7).sent_elems, 0);
        assert_int_equal(steps_cost(&last, 7).received_elems, 7);
        root.spec = "broadcast:tree";
        assert_int_equal(steps_cost(&root, 7).sent_elems, 7 * log2_size);
        assert_int_equal(steps_cost(&root, 7).rounds, log2_size);
    }
}

static void it_carries_nothing_else(void **state)
{
    (void)state;
    assert_status(steps_status(&(steps_of){"broadcast", .size = 2, .kind = SHOAL_ALL_REDUCE}),
                  SHOAL_EINVAL);
    assert_error_has("cannot carry an all-reduce");
    assert_status(steps_status(&(steps_of){"ring", .size = 2, .kind = SHOAL_BROADCAST}),
                  SHOAL_EINVAL);
    assert_error_has("Use one of: broadcast.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_chain_passes_on_what_it_gets),
        CHECK_TEST(a_tree_doubles_each_round),
        CHECK_TEST(the_cost_is_the_formula),
        CHECK_TEST(it_carries_nothing_else),
    };
    return CHECK_RUN(tests);
}
