/* SPDX-License-Identifier: Apache-2.0 */
/* Shares and orders against what can be worked out by hand, and a search in real numbers. */
#include "collective/rates.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

enum { MOST = 16 };

typedef struct made {
    float to[(MOST - 1) * MOST];
    uint32_t place[MOST];
    shoal_arena *arena;
    shoali_rates rates;
} made;

/* Bytes per second of each link; pair(i, j), if given, for what lies between two members. */
static void judge(made *m, uint32_t size, const float *link, float (*pair)(uint32_t, uint32_t))
{
    for (uint32_t k = 1; k < size; k++)
        for (uint32_t i = 0; i < size; i++) {
            uint32_t j = (i + k) % size;
            float rate = link[i] < link[j] ? link[i] : link[j];
            float between = pair != NULL ? pair(i, j) : rate;
            m->to[(k - 1) * size + i] = between < rate ? between : rate;
        }
    m->arena = shoali_arena_create(1024);
    assert_non_null(m->arena);
    assert_ok(shoali_rates_judge(m->to, size - 1, size, m->place, m->arena, &m->rates));
}

static void on_hosts_of_their_own(made *m)
{
    memset(m, 0, sizeof *m);
    for (uint32_t i = 0; i < MOST; i++)
        m->place[i] = i;
}

static void shares_are(const float *link, uint32_t size, const uint32_t *want)
{
    made m;
    uint32_t shares[MOST];
    on_hosts_of_their_own(&m);
    judge(&m, size, link, NULL);
    shoali_rates_shares(&m.rates, size, shares);
    for (uint32_t i = 0; i < size; i++)
        assert_int_equal(shares[i], want[i]);
    shoali_arena_destroy(m.arena);
}

static void shares_by_hand(void **state)
{
    (void)state;
    shares_are((float[]){5, 5, 5, 5}, 4, (uint32_t[]){1, 1, 1, 1});
    shares_are((float[]){10, 10, 10, 5}, 4, (uint32_t[]){1, 1, 1, 0});
    shares_are((float[]){1, 10, 10, 10, 10, 10, 10, 10}, 8, (uint32_t[]){0, 1, 1, 1, 1, 1, 1, 1});
    shares_are((float[]){5, 9}, 2, (uint32_t[]){1, 1});
    /* measured a little less: no difference */
    shares_are((float[]){10, 8.9f, 9.5f, 9}, 4, (uint32_t[]){1, 1, 1, 1});
    /* T = 6 / 3.8: (0.8 T - 1) / 2 = 0.13, (T - 1) / 2 = 0.29; of 48 blocks 6 and 14 */
    shares_are((float[]){10, 8, 10, 10}, 4, (uint32_t[]){7, 3, 7, 7});
    shares_are((float[]){0, 0, 0}, 3, (uint32_t[]){1, 1, 1}); /* nothing is known */
}

/* Whole percents of the fastest, at least one; 100 from 85 on, and where nothing was measured. */
static void percents_by_hand(void **state)
{
    (void)state;
    static const struct {
        float link[5];
        uint32_t want[5];
    } cases[] = {
        {{1000, 1000, 804, 806, 506}, {100, 100, 80, 81, 51}},
        {{1000, 1000, 840, 1, 860}, {100, 100, 84, 1, 100}},
        {{0, 0, 0, 0, 0}, {100, 100, 100, 100, 100}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        made m;
        on_hosts_of_their_own(&m);
        judge(&m, 5, cases[c].link, NULL);
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(m.rates.percent[i], cases[c].want[i]);
        shoali_arena_destroy(m.arena);
    }
}

/* The earliest end of all, were vectors divisible at will: bisection on the shares it leaves. */
static double earliest(const shoali_rates *rates)
{
    double low = 0, high = 100;
    for (int step = 0; step < 100; step++) {
        double end = (low + high) / 2, shares = 0;
        for (uint32_t i = 0; i < rates->size; i++)
            shares += fmax(0, end * rates->percent[i] / 100 - 1) / (rates->size - 2);
        *(shares < 1 ? &low : &high) = end;
    }
    for (uint32_t i = 0; i < rates->size; i++) /* everyone's own vector passes its own link */
        high = fmax(high, 100.0 / rates->percent[i]);
    return high;
}

static void no_division_ends_much_earlier(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (uint32_t draw = 0; draw < 300; draw++) {
        made m;
        uint32_t shares[MOST], sum = 0;
        uint32_t size = 3 + (uint32_t)shoali_rng_below(seed, 1, draw, MOST - 2);
        float link[MOST];
        double last = 0;
        for (uint32_t i = 0; i < size; i++)
            link[i] = 1 + (float)shoali_rng_below(seed, 2 + draw, i, 20);
        on_hosts_of_their_own(&m);
        judge(&m, size, link, NULL);
        shoali_rates_shares(&m.rates, size, shares);
        for (uint32_t i = 0; i < size; i++)
            sum += shares[i];
        assert_in_range(sum, 1, 13 * size);
        for (uint32_t i = 0; i < size; i++)
            last = fmax(last, (1 + (size - 2.0) * shares[i] / sum) * 100 / m.rates.percent[i]);
        double best = earliest(&m.rates);
        if (last < best * (1 - 1e-9) || last > best * 1.08)
            fail_msg("%u members, draw %u: ends at %g, could at %g", size, draw, last, best);
        shoali_arena_destroy(m.arena);
    }
}

static void ranks_of_one_host_say_nothing_about_its_link(void **state)
{
    (void)state;
    made m;
    uint32_t shares[MOST];
    on_hosts_of_their_own(&m);
    m.place[1] = 0; /* 0 and 1 on one host, 2 and 3 on another, whose link is slow */
    m.place[3] = 2;
    for (uint32_t k = 1; k < 4; k++)
        for (uint32_t i = 0; i < 4; i++)
            m.to[(k - 1) * 4 + i] = m.place[i] == m.place[(i + k) % 4] ? 1e9f : i < 2 ? 1e6f : 5e5f;
    m.arena = shoali_arena_create(1024);
    assert_ok(shoali_rates_judge(m.to, 3, 4, m.place, m.arena, &m.rates));
    for (uint32_t i = 0; i < 4; i++) /* each link's slower direction; all the same here */
        assert_int_equal(m.rates.percent[i], 100);
    shoali_rates_shares(&m.rates, 4, shares);
    assert_int_equal(shares[0], shares[3]);
    assert_int_equal(m.rates.order[1], 1); /* neighbours of one host stand side by side */
    shoali_arena_destroy(m.arena);
}

static float two_racks(uint32_t i, uint32_t j)
{
    return i % 2 == j % 2 ? 10 : 2;
}

static float a_bad_cable(uint32_t i, uint32_t j)
{
    return (i == 0 && j == 1) || (i == 1 && j == 0) ? 1 : 10;
}

static void orders_by_hand(void **state)
{
    (void)state;
    const float equal[8] = {10, 10, 10, 10, 10, 10, 10, 10};
    static const uint32_t racks[] = {0, 2, 4, 6, 1, 3, 5, 7}, cable[] = {0, 2, 1, 3};
    made m;
    on_hosts_of_their_own(&m);
    judge(&m, 8, equal, NULL);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(m.rates.order[i], i);
    shoali_arena_destroy(m.arena);
    judge(&m, 8, equal, two_racks);
    assert_memory_equal(m.rates.order, racks, sizeof racks);
    shoali_arena_destroy(m.arena);
    judge(&m, 4, equal, a_bad_cable);
    assert_memory_equal(m.rates.order, cable, sizeof cable);
    shoali_arena_destroy(m.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(shares_by_hand),
        CHECK_TEST(percents_by_hand),
        CHECK_TEST(no_division_ends_much_earlier),
        CHECK_TEST(ranks_of_one_host_say_nothing_about_its_link),
        CHECK_TEST(orders_by_hand),
    };
    return CHECK_RUN(tests);
}
