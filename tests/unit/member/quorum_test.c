/* SPDX-License-Identifier: Apache-2.0 */
/* Who may decide, against all that can be known: every membership of up to five, every set of dead,
 * every pair of parts that do not reach each other, and every knowledge of the dead in each. */
#include "member/quorum.h"
#include "support/check.h"

enum { MOST = 5 };

/* here, known: bits of members. */
static bool decides(uint32_t count, uint32_t here, uint32_t known)
{
    shoali_tally tally = {0};
    for (uint32_t i = 0; i < count; i++)
        shoali_tally_add(&tally, here >> i & 1    ? SHOALI_VOTE_HERE
                                 : known >> i & 1 ? SHOALI_VOTE_GONE
                                                  : SHOALI_VOTE_AWAY);
    return shoali_tally_decides(&tally);
}

static void of_two_parts_at_most_one_decides(void **state)
{
    (void)state;
    uint32_t cases = 0;
    for (uint32_t n = 1; n <= MOST; n++)
        for (uint32_t dead = 0; dead < 1u << n; dead++)
            for (uint32_t a = 0; a < 1u << n; a++)
                for (uint32_t b = 0; b < 1u << n; b++) {
                    if ((a & b) != 0 || ((a | b) & dead) != 0)
                        continue;
                    for (uint32_t knows_a = 0; knows_a < 1u << n; knows_a++)
                        for (uint32_t knows_b = 0; knows_b < 1u << n; knows_b++) {
                            if ((knows_a & ~dead) != 0 || (knows_b & ~dead) != 0)
                                continue;
                            cases++;
                            if (decides(n, a, knows_a) && decides(n, b, knows_b))
                                fail_msg("%u members, dead %x: both %x (knows %x) and %x (knows "
                                         "%x) decide",
                                         n, dead, a, knows_a, b, knows_b);
                        }
                }
    assert_true(cases > 10000);
}

/* As long as nobody is cut off: whoever is alive goes on, if all deaths are known. */
static void all_who_live_decide(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= MOST; n++)
        for (uint32_t dead = 0; dead + 1 < 1u << n; dead++)
            assert_true(decides(n, ~dead & ((1u << n) - 1), dead));
}

/* One of several is lost, and nobody knows how. */
static void one_unexplained_loss_ends_nothing_but_a_pair_without_its_lowest(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MOST; n++)
        for (uint32_t lost = 0; lost < n; lost++)
            assert_int_equal(decides(n, ((1u << n) - 1) & ~(1u << lost), 0),
                             !(n == 2 && lost == 0));
}

static void halves(void **state)
{
    (void)state;
    assert_true(decides(4, 0x3, 0));
    assert_false(decides(4, 0xc, 0));
    assert_true(decides(4, 0x9, 0));
    assert_true(decides(4, 0x4, 0x3)); /* 2 of 2 and 3, as 0 and 1 are dead */
    assert_false(decides(4, 0x8, 0x3));
    assert_false(decides(4, 0x4, 0x2));
    assert_false(decides(1, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(of_two_parts_at_most_one_decides),
        CHECK_TEST(all_who_live_decide),
        CHECK_TEST(one_unexplained_loss_ends_nothing_but_a_pair_without_its_lowest),
        CHECK_TEST(halves),
    };
    return CHECK_RUN(tests);
}
