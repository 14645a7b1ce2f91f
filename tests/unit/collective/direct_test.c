/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/steps.h"

static void weighted_as_in_the_picture(void **state)
{
    (void)state;
    const char *spec = "direct:weights=1/1/1/0";
    steps_are(&(steps_of){spec, .size = 4, .me = 0},
              "1 push send 1 to 1 x1; 1 push add 0 from 3 x1; "
              "1 push send 2 to 2 x1; 1 push add 0 from 2 x1; 1 push add 0 from 1 x1; own 0 x4; "
              "2 pull send 0 to 1 x4; 2 pull send 0 to 2 x4; 2 pull set 2 from 2 x4; "
              "2 pull send 0 to 3 x4; 2 pull set 1 from 1 x4");
    steps_are(&(steps_of){spec, .size = 4, .me = 3},
              "1 push send 0 to 0 x1; 1 push send 1 to 1 x1; 1 push send 2 to 2 x1; "
              "2 pull set 2 from 2 x4; 2 pull set 1 from 1 x4; 2 pull set 0 from 0 x4");
}

static void a_member_owns_as_many_blocks_as_its_weight(void **state)
{
    (void)state;
    steps_are(&(steps_of){"direct:weights=2/3", .size = 2, .me = 1},
              "1 push send 0-1 to 0 x1; 1 push add 2-4 from 0 x1; own 2-4 x2; "
              "2 pull send 2-4 to 0 x2; 2 pull set 0-1 from 0 x2");
}

/* (1 - v) n + (P-1) v n each way, (P-1) v n added, with the share v = w / sum(w) */
static void the_cost_is_the_formula(void **state)
{
    (void)state;
    static const uint32_t weights[] = {3, 1, 0, 2};
    for (uint32_t me = 0; me < 4; me++) {
        uint64_t n = 600, share = n * weights[me] / 6;
        shoali_cost cost = steps_cost(&(steps_of){"direct:weights=3/1/0/2", .size = 4, .me = me},
                                      n);
        assert_int_equal(cost.sent_elems, n - share + 3 * share);
        assert_int_equal(cost.received_elems, cost.sent_elems);
        assert_int_equal(cost.added_elems, 3 * share);
        assert_int_equal(cost.rounds, 2);
    }
    for (uint32_t size = 2; size <= 17; size++) {
        uint64_t n = 12 * size;
        shoali_cost cost = steps_cost(&(steps_of){"direct", .size = size, .me = size - 1}, n);
        assert_int_equal(cost.sent_elems, 2 * (size - 1) * n / size);
        assert_int_equal(cost.rounds, 2);
    }
}

/* measurements.md section 8: with one link of half the rate and weights 1, 1, 1, 0, the slow member
 * carries n each way instead of the ring's 1.5 n. */
static void a_slow_member_carries_one_vector(void **state)
{
    (void)state;
    steps_of slow = {"direct:weights=1/1/1/0", .size = 4, .me = 3};
    assert_int_equal(steps_cost(&slow, 3000).sent_elems, 3000);
    slow.me = 0;
    assert_int_equal(steps_cost(&slow, 3000).sent_elems, 5000);
}

static void bad_weights_are_refused(void **state)
{
    (void)state;
    assert_status(steps_status(&(steps_of){"direct:weights=1/1", .size = 3}), SHOAL_EINVAL);
    assert_error_has("2 weights with the sum 2 for 3 members");
    assert_status(steps_status(&(steps_of){"direct:weights=0/0", .size = 2}), SHOAL_EINVAL);
    assert_status(steps_status(&(steps_of){"direct:weights=1/1025", .size = 2}), SHOAL_EINVAL);
    assert_error_has("from 0 to 1024");
    assert_status(steps_status(&(steps_of){"direct:weights=1/-1", .size = 2}), SHOAL_EINVAL);
    assert_status(steps_status(&(steps_of){"direct:weights=1//1", .size = 2}), SHOAL_EINVAL);
    assert_status(steps_status(&(steps_of){"direct:weights=1/1/", .size = 2}), SHOAL_EINVAL);
}

static void weights_give_up_equal_shards(void **state)
{
    (void)state;
    steps_of scatter = {"direct:weights=1/0/2", .size = 3, .kind = SHOAL_REDUCE_SCATTER};
    for (scatter.me = 0; scatter.me < 3; scatter.me++)
        assert_status(steps_status(&scatter), SHOAL_EINVAL);
    scatter.spec = "direct";
    scatter.me = 1;
    steps_are(&scatter, "1 push send 2 to 2 x1; 1 push add 1 from 0 x1; "
                        "1 push send 0 to 0 x1; 1 push add 1 from 2 x1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(weighted_as_in_the_picture),
        CHECK_TEST(a_member_owns_as_many_blocks_as_its_weight),
        CHECK_TEST(the_cost_is_the_formula),
        CHECK_TEST(a_slow_member_carries_one_vector),
        CHECK_TEST(bad_weights_are_refused),
        CHECK_TEST(weights_give_up_equal_shards),
    };
    return CHECK_RUN(tests);
}
