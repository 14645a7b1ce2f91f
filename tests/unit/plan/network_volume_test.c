/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes by hand, and against the meaning of each collective (planning.md 3.3). */
#include <math.h>

#include "base/rng.h"
#include "plan/network.h"
#include "support/check.h"

static const uint32_t groups[] = {4, 1, 8, 2};

static void by_hand(void **state)
{
    (void)state;
    double m[4];
    shoali_network_volume(SHOALI_COMM_ALL_REDUCE, 64, groups, 4, m);
    assert_true(m[0] == 96 && m[1] == 0 && m[2] == 28 && m[3] == 2);
    shoali_network_volume(SHOALI_COMM_REDUCE_SCATTER, 64, groups, 4, m);
    assert_true(m[0] == 48 && m[1] == 0 && m[2] == 14 && m[3] == 1);
    shoali_network_volume(SHOALI_COMM_ALL_GATHER, 1, groups, 4, m);
    assert_true(m[3] == 1 && m[2] == 14 && m[1] == 0 && m[0] == 48);
    shoali_network_volume(SHOALI_COMM_ALL_TO_ALL, 64, groups, 4, m);
    assert_true(m[0] == 48 && m[1] == 0 && m[2] == 56 && m[3] == 32);
    shoali_network_volume(SHOALI_COMM_NONE, 64, groups, 4, m);
    assert_true(m[0] == 0 && m[2] == 0);
}

/* An all-reduce sends 2 (P - 1) / P of its bytes in all, however the P are spread over dimensions;
 * it is a reduce-scatter and the all-gather of what that leaves. */
static void totals_do_not_depend_on_the_shape(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    for (int trial = 0; trial < 200; trial++) {
        uint32_t size[5];
        double all[5], scatter[5], gather[5], members = 1, sum = 0;
        for (int d = 0; d < 5; d++) {
            size[d] = 1 + (uint32_t)(shoali_rng_next(&rng) % 9);
            members *= size[d];
        }
        double bytes = 1e6 * shoali_rng_next_double(&rng);
        shoali_network_volume(SHOALI_COMM_ALL_REDUCE, bytes, size, 5, all);
        shoali_network_volume(SHOALI_COMM_REDUCE_SCATTER, bytes, size, 5, scatter);
        shoali_network_volume(SHOALI_COMM_ALL_GATHER, bytes / members, size, 5, gather);
        for (int d = 0; d < 5; d++) {
            sum += all[d];
            assert_true(fabs(all[d] - scatter[d] - gather[d]) <= 1e-9 * bytes);
        }
        assert_true(fabs(sum - 2 * bytes * (members - 1) / members) <= 1e-9 * bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(by_hand),
                                       CHECK_TEST(totals_do_not_depend_on_the_shape)};
    return CHECK_RUN(tests);
}
