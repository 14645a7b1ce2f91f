/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/steps.h"

static void four_members_as_in_the_picture(void **state)
{
    (void)state;
    steps_are(&(steps_of){"halving_doubling", .size = 4, .me = 0},
              "1 push send 2-3 to 2 x1; 1 push add 0-1 from 2 x1; "
              "2 push send 1 to 1 x2; 2 push add 0 from 1 x2; own 0 x4; "
              "3 pull send 0 to 1 x4; 3 pull set 1 from 1 x4; "
              "4 pull send 0-1 to 2 x4; 4 pull set 2-3 from 2 x4");
    steps_are(&(steps_of){"halving_doubling", .size = 4, .me = 3},
              "1 push send 0-1 to 1 x1; 1 push add 2-3 from 1 x1; "
              "2 push send 2 to 2 x2; 2 push add 3 from 2 x2; own 3 x4; "
              "3 pull send 3 to 2 x4; 3 pull set 2 from 2 x4; "
              "4 pull send 2-3 to 1 x4; 4 pull set 0-1 from 1 x4");
}

static void members_beyond_the_power_of_two_are_folded(void **state)
{
    (void)state;
    steps_are(&(steps_of){"halving_doubling", .size = 5, .me = 4},
              "1 push send 0-3 to 0 x1; 6 pull set 0-3 from 0 x5");
    steps_are(&(steps_of){"halving_doubling", .size = 5, .me = 0},
              "1 push add 0-3 from 4 x1; "
              "2 push send 2-3 to 2 x2; 2 push add 0-1 from 2 x1; "
              "3 push send 1 to 1 x3; 3 push add 0 from 1 x2; own 0 x5; "
              "4 pull send 0 to 1 x5; 4 pull set 1 from 1 x5; "
              "5 pull send 0-1 to 2 x5; 5 pull set 2-3 from 2 x5; "
              "6 pull send 0-3 to 4 x5");
}

/* P = Q: sent = received = 2 (Q-1)/Q n, added (Q-1)/Q n, rounds 2 log2 Q; else i - Q adds, receives
 * and sends n more, i sends and receives n, and there are two more rounds. */
static void the_cost_is_the_formula(void **state)
{
    (void)state;
    for (uint32_t size = 2, q = 2, log2_q = 1; size <= 17; size++) {
        if (size == 2 * q) {
            q *= 2;
            log2_q++;
        }
        uint64_t n = 12 * q, base = (q - 1) * n / q;
        for (uint32_t me = 0; me < size; me++) {
            shoali_cost cost = steps_cost(&(steps_of){"halving_doubling", .size = size, .me = me},
                                          n);
            uint64_t host = me < size - q ? n : 0, guest = me >= q ? n : 0;
            assert_int_equal(cost.sent_elems, guest > 0 ? n : 2 * base + host);
            assert_int_equal(cost.received_elems, cost.sent_elems);
            assert_int_equal(cost.added_elems, guest > 0 ? 0 : base + host);
            assert_int_equal(cost.rounds, 2 * (log2_q + (size > q ? 1 : 0)));
        }
    }
}

static void it_has_no_shards(void **state)
{
    (void)state;
    steps_of scatter = {"halving_doubling", .size = 4, .kind = SHOAL_REDUCE_SCATTER};
    assert_status(steps_status(&scatter), SHOAL_EINVAL);
    assert_error_has("cannot carry a reduce-scatter");
    assert_error_has("ring, direct, hierarchical");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(four_members_as_in_the_picture),
        CHECK_TEST(members_beyond_the_power_of_two_are_folded),
        CHECK_TEST(the_cost_is_the_formula),
        CHECK_TEST(it_has_no_shards),
    };
    return CHECK_RUN(tests);
}
