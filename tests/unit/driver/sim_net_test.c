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

/* Step from moment to moment, as the simulator does, until a coflow ends; that must be this one. */
static uint64_t end_of(shoali_links *net, uint32_t cookie)
{
    uint32_t got;
    for (;;) {
        uint64_t now_ns = shoali_links_next_ns(net);
        assert_int_not_equal(now_ns, UINT64_MAX);
        if (!shoali_links_finished(net, now_ns, &got))
            continue;
        assert_int_equal(got, cookie);
        return now_ns;
    }
}

/* 4000 of link 0's bytes have 16000 ns: a message of 1000 beside them does not share the link half
 * and half, as it would with a burst, and both have ended when they should. */
static void a_paced_coflow_leaves_room(void **state)
{
    (void)state;
    const shoali_load round = {0, 4000}, message = {0, 1000};
    uint64_t end_ns[2];
    for (int paced = 0; paced < 2; paced++) {
        shoali_links *net = fresh();
        assert_ok(shoali_links_start(net, 0, &round, 1, 1));
        if (paced == 1)
            assert_ok(shoali_links_pace(net, 0, 1, 16000));
        assert_int_not_equal(shoali_links_next_ns(net), UINT64_MAX);
        assert_ok(shoali_links_start(net, 1000, &message, 1, 2));
        end_ns[paced] = end_of(net, 2) - 1000;
        uint64_t round_ns = end_of(net, 1);
        assert_true(paced == 1 ? round_ns <= 16001 && round_ns >= 15999 : round_ns == 5000);
        shoali_links_destroy(net);
    }
    assert_int_equal(end_ns[0], 2000);
    assert_true(end_ns[1] <= 1000 * 4 / 3 + 1);
}

/* Somebody else has half of the link: what was left behind is made good once it is through, or the
 * link is shared as ever behind the moment. */
static void a_paced_coflow_catches_up(void **state)
{
    (void)state;
    const shoali_load round = {0, 4000}, burst = {0, 2000}, flood = {0, 6000};
    shoali_links *net = fresh();
    assert_ok(shoali_links_start(net, 0, &round, 1, 1));
    assert_ok(shoali_links_pace(net, 0, 1, 5000));
    assert_ok(shoali_links_start(net, 0, &burst, 1, 2));
    assert_int_equal(end_of(net, 2), 4000);
    assert_int_equal(end_of(net, 1), 6000); /* all that has crossed the link */
    assert_ok(shoali_links_start(net, 6000, &round, 1, 1));
    assert_ok(shoali_links_pace(net, 6000, 1, 11000));
    assert_ok(shoali_links_start(net, 6000, &flood, 1, 2));
    assert_int_equal(end_of(net, 1), 14000);
    assert_int_equal(end_of(net, 2), 16000);
    shoali_links_destroy(net);
}

/* Half of its time is over, and half of its bytes are through, when somebody begins to wait. */
static void a_paced_coflow_may_be_hurried(void **state)
{
    (void)state;
    const shoali_load round = {0, 4000};
    shoali_links *net = fresh();
    assert_ok(shoali_links_start(net, 0, &round, 1, 1));
    assert_ok(shoali_links_pace(net, 0, 1, 16000));
    while (shoali_links_next_ns(net) < 8000)
        assert_false(shoali_links_finished(net, shoali_links_next_ns(net), &(uint32_t){0}));
    assert_ok(shoali_links_pace(net, 8000, 1, 8000));
    uint64_t end_ns = end_of(net, 1);
    assert_true(end_ns >= 9999 && end_ns <= 10001);
    assert_ok(shoali_links_start(net, 11000, &round, 1, 1));
    assert_ok(shoali_links_pace(net, 11000, 1, 11000)); /* nothing to hurry */
    assert_int_equal(end_of(net, 1), 15000);
    shoali_links_destroy(net);
}

static void a_pause_of_a_paced_coflow_and_its_end(void **state)
{
    (void)state;
    const shoali_load round = {0, 4000};
    shoali_links *net = fresh();
    assert_ok(shoali_links_start(net, 0, &round, 1, 1));
    assert_ok(shoali_links_pace(net, 0, 1, 8000));
    assert_ok(shoali_links_pause(net, 4000, 1, true)); /* half is left */
    assert_int_equal(shoali_links_next_ns(net), UINT64_MAX);
    assert_ok(shoali_links_pause(net, 5000, 1, false)); /* and has 3000 ns */
    uint64_t end_ns = end_of(net, 1);
    assert_true(end_ns >= 7999 && end_ns <= 8001);
    assert_ok(shoali_links_start(net, 9000, &round, 1, 1)); /* the same number, without a brake */
    assert_int_equal(end_of(net, 1), 13000);
    shoali_links_destroy(net);
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
        CHECK_TEST(a_paced_coflow_leaves_room),
        CHECK_TEST(a_paced_coflow_catches_up),
        CHECK_TEST(a_paced_coflow_may_be_hurried),
        CHECK_TEST(a_pause_of_a_paced_coflow_and_its_end),
    };
    return CHECK_RUN(tests);
}
