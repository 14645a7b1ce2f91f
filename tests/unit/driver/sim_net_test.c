/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_net.h"

#include "support/check.h"

#include "base/rng.h"

enum { LINKS = 4 };
static const double rates[LINKS] = {1, 1, 2, 4}; /* bytes per ns */

static shoali_links *fresh(void)
{
    shoali_links *net = shoali_links_create(rates, LINKS);
    assert_non_null(net);
    return net;
}

/* The next end has to be that of cookie at ns. */
static void expect_end(shoali_links *net, uint64_t ns, uint32_t cookie)
{
    uint32_t got;
    assert_int_equal(shoali_links_next_ns(net), ns);
    assert_false(shoali_links_finished(net, ns - 1, &got));
    assert_true(shoali_links_finished(net, ns, &got));
    assert_int_equal(got, cookie);
}

static void one_coflow_takes_what_its_slowest_link_needs(void **state)
{
    (void)state;
    shoali_links *net = fresh();
    const shoali_load loads[] = {{0, 1000}, {2, 4000}, {3, 4000}};
    assert_int_equal(shoali_links_next_ns(net), UINT64_MAX);
    assert_ok(shoali_links_start(net, 50, loads, 3, 7));
    expect_end(net, 50 + 2000, 7);
    assert_int_equal(shoali_links_carried_bytes(net, 0), 1000);
    assert_int_equal(shoali_links_carried_bytes(net, 3), 4000);
    assert_int_equal(shoali_links_next_ns(net), UINT64_MAX);
    shoali_links_destroy(net);
}

static void two_on_one_link_share_it_and_the_rest_goes_on_alone(void **state)
{
    (void)state;
    shoali_links *net = fresh();
    const shoali_load a = {0, 1000}, b = {0, 3000};
    assert_ok(shoali_links_start(net, 0, &a, 1, 1));
    assert_ok(shoali_links_start(net, 0, &b, 1, 2));
    expect_end(net, 2000, 1); /* half of the link each */
    expect_end(net, 4000, 2); /* 2000 bytes left, alone */
    shoali_links_destroy(net);
}

static void what_one_cannot_use_goes_to_the_other(void **state)
{
    (void)state;
    shoali_links *net = fresh();
    /* 1 is held to rate 1 by link 0; 2 may then have 3 of link 3's 4. */
    const shoali_load slow[] = {{0, 1000}, {3, 1000}}, fast = {3, 3000};
    assert_ok(shoali_links_start(net, 0, slow, 2, 1));
    assert_ok(shoali_links_start(net, 0, &fast, 1, 2));
    expect_end(net, 1000, 1);
    expect_end(net, 1000, 2);
    shoali_links_destroy(net);
}

static void late_starts_and_cancels_change_the_shares(void **state)
{
    (void)state;
    shoali_links *net = fresh();
    const shoali_load a = {0, 1000}, b = {0, 1000};
    assert_ok(shoali_links_start(net, 0, &a, 1, 1));
    assert_ok(shoali_links_start(net, 500, &b, 1, 2)); /* 1 has 500 left */
    assert_int_equal(shoali_links_next_ns(net), 1500);
    assert_true(shoali_links_cancel(net, 700, 2)); /* 1 has 400 left */
    assert_false(shoali_links_cancel(net, 700, 2));
    expect_end(net, 1100, 1);
    shoali_links_destroy(net);
}

/* What stands still keeps what it has moved, and leaves its share to others. */
static void a_pause_keeps_what_was_moved(void **state)
{
    (void)state;
    shoali_links *net = fresh();
    const shoali_load a = {0, 1000}, b = {0, 1000};
    assert_ok(shoali_links_start(net, 0, &a, 1, 1));
    assert_ok(shoali_links_start(net, 0, &b, 1, 2));
    assert_ok(shoali_links_pause(net, 1000, 1, true)); /* 500 left of each */
    expect_end(net, 1500, 2);
    assert_int_equal(shoali_links_next_ns(net), UINT64_MAX);
    assert_ok(shoali_links_pause(net, 4000, 1, false));
    expect_end(net, 4500, 1);
    assert_ok(shoali_links_start(net, 5000, &a, 1, 3));
    assert_ok(shoali_links_pause(net, 5100, 3, true));
    assert_true(shoali_links_cancel(net, 5200, 3));
    assert_int_equal(shoali_links_next_ns(net), UINT64_MAX);
    shoali_links_destroy(net);
}

static void nothing_to_move_ends_at_once(void **state)
{
    (void)state;
    shoali_links *net = fresh();
    const shoali_load none = {0, 0};
    assert_ok(shoali_links_start(net, 9, NULL, 0, 1));
    assert_ok(shoali_links_start(net, 9, &none, 1, 2));
    expect_end(net, 9, 1);
    expect_end(net, 9, 2);
    shoali_links_destroy(net);
}

/* Random coflows on random links. Max-min wastes nothing: no link carries more than it can, and
 * some link is always busy, so the whole takes no longer than all links' work one after the other.
 */
static void random_coflows_obey_capacity(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 3, 0};
    for (int trial = 0; trial < 200; trial++) {
        shoali_links *net = fresh();
        shoali_load loads[12][LINKS];
        double work[LINKS] = {0};
        uint64_t last = 0;
        uint32_t cookie;
        for (uint32_t f = 0; f < 12; f++) {
            for (uint32_t l = 0; l < LINKS; l++) {
                uint64_t bytes = shoali_rng_next(&rng) % 3 == 0 ? 0 : shoali_rng_next(&rng) % 10000;
                loads[f][l] = (shoali_load){l, bytes};
                work[l] += (double)bytes / rates[l];
            }
            assert_ok(shoali_links_start(net, 0, loads[f], LINKS, f));
        }
        for (uint32_t f = 0; f < 12; f++) {
            uint64_t next = shoali_links_next_ns(net);
            assert_true(next >= last && next != UINT64_MAX);
            last = next;
            assert_true(shoali_links_finished(net, next, &cookie));
        }
        double all = 0;
        for (uint32_t l = 0; l < LINKS; l++) {
            assert_true((double)last >= work[l] - 1); /* no link carried more than it can */
            all += work[l];
        }
        assert_true((double)last <= all + 12); /* and some link was always busy */
        shoali_links_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(one_coflow_takes_what_its_slowest_link_needs),
        CHECK_TEST(two_on_one_link_share_it_and_the_rest_goes_on_alone),
        CHECK_TEST(what_one_cannot_use_goes_to_the_other),
        CHECK_TEST(late_starts_and_cancels_change_the_shares),
        CHECK_TEST(a_pause_keeps_what_was_moved),
        CHECK_TEST(nothing_to_move_ends_at_once),
        CHECK_TEST(random_coflows_obey_capacity),
    };
    return CHECK_RUN(tests);
}
