/* SPDX-License-Identifier: Apache-2.0 */
/* What lost packets cost, against draws of each packet and sums by hand. */
#include "collective/lost.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

static bool everywhere(void *ctx, uint32_t peer, double *loss_out, double *latency_out)
{
    (void)ctx;
    (void)peer;
    *loss_out = 0.01;
    *latency_out = 1e-3;
    return true;
}

static void count(const char *spec, uint32_t size, const uint32_t *tails, uint32_t rounds)
{
    shoali_collective collective;
    shoali_lost lost = {0};
    shoal_arena *arena = shoali_arena_create(1 << 16);
    assert_ok(shoali_collective_open(spec, &collective));
    for (uint32_t me = 0; me < size; me++) {
        const shoal_schedule_args args = {.size = size, .contributors = size, .me = me};
        shoal_schedule schedule;
        assert_ok(shoali_collective_build(&collective, SHOAL_ALL_REDUCE, &args, arena, &schedule));
        assert_int_equal(schedule.rounds, rounds);
        if (me == 0)
            assert_ok(shoali_lost_open(&lost, arena, rounds, size));
        shoali_lost_count(&lost, &schedule, (shoali_lost_way){everywhere, NULL}, 1);
    }
    for (uint32_t round = 0; round < rounds; round++)
        assert_int_equal(lost.tails[round], tails[round]);
    assert_true(lost.loss == 0.01 && lost.latency_s == 1e-3);
    shoali_collective_close(&collective);
    shoali_arena_destroy(arena);
}

/* A ring sends on by one way until its end; halves go to another member each round, but for the two
 * in the middle; direct sends twice by each way. */
static void what_follows_on_the_same_way(void **state)
{
    (void)state;
    count("ring", 4, (const uint32_t[]){0, 0, 0, 0, 0, 4}, 6);
    count("halving_doubling", 4, (const uint32_t[]){4, 0, 4, 4}, 4);
    count("direct", 4, (const uint32_t[]){0, 12}, 2);
}

/* A message's last packet is lost once, twice, ...: 0.2, 0.6, 1.4 s; all wait for the latest. */
static void tails_are_those_of_drawn_messages(void **state)
{
    (void)state;
    enum { DRAWS = 200000, MESSAGES = 5 };
    const double loss = 0.05;
    const uint64_t seed = check_seed();
    double sum = 0, drawn = 0, late = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double latest = 0;
        for (uint64_t m = 0; m < MESSAGES; m++) {
            double wait = 0, timer = 0.2;
            for (uint64_t k = 0; k < 12 && shoali_rng_double(seed, 16 * m + k, i) < loss; k++) {
                wait += timer;
                timer *= 2;
            }
            latest = fmax(latest, wait);
        }
        sum += latest;
        late += latest > 0.5;
        drawn += shoali_lost_draw_s(loss, 0, MESSAGES, ((double)i + 0.5) / DRAWS);
    }
    assert_true(late > 0); /* the second timer is among them */
    assert_true(fabs(shoali_lost_tails_s(loss, 0, MESSAGES) / (sum / DRAWS) - 1) < 0.02);
    assert_true(fabs(shoali_lost_tails_s(loss, 0, MESSAGES) / (drawn / DRAWS) - 1) < 0.01);
    assert_true(shoali_lost_tails_s(0, 0, 100) == 0 && shoali_lost_draw_s(0, 0, 100, 0) == 0);
    assert_true(fabs(shoali_lost_tails_s(1e-6, 0.05, 1) - 0.3e-6) < 1e-10);
}

/* Rounds in which every link draws each of its packets; the one that loses most is waited for, and
 * a round trip for each round in which one of the last packets of a window is lost. */
static void rounds_are_those_of_drawn_packets(void **state)
{
    (void)state;
    enum { DRAWS = 3000, LINKS = 4, PACKETS = 150, ROUNDS = 6 };
    const double loss = 0.02, packet_s = 1e-4, window = sqrt(1.5 / 0.02);
    const uint64_t seed = check_seed();
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t most = 0, all = 0, waits = 0;
        for (uint64_t link = 0; link < LINKS; link++) {
            uint64_t lost = 0;
            for (uint64_t p = 0; p < PACKETS; p++) {
                const bool gone = shoali_rng_double(seed, link * PACKETS + p, i) < loss;
                lost += gone;
                waits = waits || (gone && p >= PACKETS - (uint64_t)(window + 0.5));
            }
            most = lost > most ? lost : most;
            all += lost;
        }
        sum += packet_s * ((double)most - (double)all / LINKS) + (double)waits * window * packet_s;
    }
    const shoali_lost_load load = {.loss = loss,
                                   .packets = PACKETS * ROUNDS,
                                   .packet_s = packet_s,
                                   .links = LINKS,
                                   .messages = LINKS,
                                   .rounds = ROUNDS,
                                   .chunks = 1};
    const double told = shoali_lost_rounds_s(&load), drawn = ROUNDS * sum / DRAWS;
    if (fabs(told / drawn - 1) > 0.05)
        fail_msg("told %g s, drawn %g s", told, drawn);
    shoali_lost_load other = load;
    other.loss = 0;
    assert_true(shoali_lost_rounds_s(&other) == 0);
    other = load;
    other.chunks = 8; /* a round passes beside the next */
    assert_true(shoali_lost_rounds_s(&other) < told / 2);
}

/* 100 ms there and back, 1 %: sqrt(150) packets of 1448 bytes each trip, whatever the link. */
static void long_ways_are_as_fast_as_their_window(void **state)
{
    (void)state;
    const shoali_lost_load load = {.loss = 0.01,
                                   .latency_s = 0.05,
                                   .packets = 1e6,
                                   .packet_s = 1e-6,
                                   .links = 1,
                                   .messages = 1,
                                   .rounds = 1,
                                   .chunks = 1};
    const double seconds = shoali_lost_rounds_s(&load) + 1e6 * 1e-6;
    assert_true(fabs(seconds / (1e6 / sqrt(150) * 0.1) - 1) < 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_on_the_same_way),
        cmocka_unit_test(tails_are_those_of_drawn_messages),
        cmocka_unit_test(rounds_are_those_of_drawn_packets),
        cmocka_unit_test(long_ways_are_as_fast_as_their_window),
    };
    return CHECK_RUN(tests);
}
