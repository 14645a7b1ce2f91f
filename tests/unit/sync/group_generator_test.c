/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/group_generator.h"

#include "base/arena.h"
#include "base/rng.h"
#include "support/check.h"

enum { WORKERS = 16, BUSY_US = 1000 };

typedef struct bench {
    shoali_world world;
    uint32_t hosts[WORKERS];
    shoali_generator g;
    void *memory;
} bench;

static void open_bench(bench *b, const shoali_generator_options *options)
{
    b->world = (shoali_world){.workers = WORKERS, .hosts = b->hosts, .seed = check_seed()};
    for (uint32_t i = 0; i < WORKERS; i++)
        b->hosts[i] = i / 4;
    b->memory = shoali_alloc(shoali_generator_bytes(&b->world));
    assert_non_null(b->memory);
    shoali_generator_init(&b->g, &b->world, options, b->memory);
}

static void close_bench(bench *b)
{
    shoali_free(b->memory);
}

static const uint32_t *members(const bench *b, uint32_t group)
{
    return b->g.members + b->g.groups[group].first;
}

static uint32_t groups_with(const bench *b, uint32_t worker)
{
    uint32_t found = 0;
    for (uint32_t k = 0; k < b->g.group_count; k++)
        for (uint32_t i = 0; i < b->g.groups[k].count; i++)
            found += members(b, k)[i] == worker;
    return found;
}

static void a_division_crosses_hosts_and_then_stays_inside(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &(shoali_generator_options){.division = SHOALI_DIVIDE_INTER_INTRA});
    shoali_generator_request(&b.g, 6, 1, BUSY_US);
    assert_int_equal(b.g.group_count, 1 + 4 + 4);
    assert_int_equal(b.g.groups[0].count, 4);
    for (uint32_t k = 0; k < b.g.group_count; k++) {
        assert_int_equal(b.g.groups[k].id, k + 1);
        for (uint32_t i = 0; i < b.g.groups[k].count; i++)
            if (k == 0)
                assert_int_equal(b.hosts[members(&b, k)[i]], i);
            else
                assert_int_equal(b.hosts[members(&b, k)[i]], (k - 1) % 4);
    }
    for (uint32_t k = 1; k <= 4; k++)
        assert_int_equal(b.g.groups[k].count, 3);
    for (uint32_t u = 0; u < WORKERS; u++) {
        assert_int_equal(groups_with(&b, u), 2);
        assert_int_equal(b.g.pending[u], 2);
    }
    shoali_generator_request(&b.g, 3, 1, BUSY_US);
    assert_int_equal(b.g.group_count, 0); /* it has groups */
    close_bench(&b);
}

static void who_lags_by_the_threshold_is_left_out(void **state)
{
    (void)state;
    bench b;
    open_bench(&b,
               &(shoali_generator_options){.division = SHOALI_DIVIDE_INTER_INTRA, .threshold = 4});
    for (uint32_t u = 0; u < WORKERS; u++)
        b.g.asked[u] = u == 2 ? 6 : 10;
    shoali_generator_request(&b.g, 6, 10, BUSY_US);
    assert_int_equal(groups_with(&b, 2), 0);
    for (uint32_t u = 0; u < WORKERS; u++)
        while (b.g.pending[u] > 0)
            shoali_generator_done(&b.g, u);
    shoali_generator_request(&b.g, 2, 7, BUSY_US); /* a laggard that asks gets all that are free */
    assert_int_equal(groups_with(&b, 2), 2);
    assert_int_equal(groups_with(&b, 15), 2);
    close_bench(&b);
}

static void a_laggard_waits_for_others_and_is_in_one_group(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &(shoali_generator_options){
                       .division = SHOALI_DIVIDE_INTER_INTRA, .threshold = 4, .laggards = true});
    for (uint64_t asked = 1; asked <= 3; asked++)
        for (uint32_t u = 0; u < WORKERS; u++) {
            shoali_generator_request(&b.g, u, asked, u == 5 ? 2 * BUSY_US : BUSY_US);
            while (b.g.pending[u] > 0)
                shoali_generator_done(&b.g, u);
        }
    for (uint32_t u = 0; u < WORKERS; u++)
        b.g.pending[u] = 0;
    shoali_generator_request(&b.g, 5, 4, 2 * BUSY_US);
    assert_int_equal(b.g.group_count, 0);
    assert_int_equal(b.g.waiting[5], 1);
    shoali_generator_request(&b.g, 0, 4, BUSY_US);
    assert_int_equal(groups_with(&b, 5), 1);
    assert_int_equal(groups_with(&b, 4), 2);
    assert_int_equal(b.g.waiting[5], 0);
    assert_int_equal(shoali_generator_overdue(&b.g), UINT32_MAX);
    shoali_generator_done(&b.g, 5);
    shoali_generator_request(&b.g, 5, 5, 2 * BUSY_US);
    for (uint32_t u = 0; u < WORKERS; u++)
        if (u != 5)
            shoali_generator_leave(&b.g, u);
    assert_int_equal(shoali_generator_overdue(&b.g), 5); /* nobody else will ask */
    close_bench(&b);
}

/* Whatever asks and leaves, in any order: groups rise, hold each worker once, and none that left;
 * random groups have their size; all is the same with the same seed. */
static void random_requests(void **state)
{
    (void)state;
    for (int trial = 0; trial < 60; trial++) {
        bench b;
        shoali_division division = (shoali_division)(trial % 3);
        open_bench(&b, &(shoali_generator_options){.division = division, .group = 3});
        uint64_t last = 0, asked[WORKERS] = {0};
        for (int step = 0; step < 300; step++) {
            uint32_t u = (uint32_t)shoali_rng_below(check_seed(), 5, trial * 1000 + step, WORKERS);
            if (step % 50 == 49)
                shoali_generator_leave(&b.g, u);
            if (b.g.pending[u] > 0) {
                shoali_generator_done(&b.g, u);
                continue;
            }
            shoali_generator_request(&b.g, u, ++asked[u], BUSY_US);
            assert_int_equal(groups_with(&b, u) > 0, !b.g.out[u]);
            for (uint32_t k = 0; k < b.g.group_count; k++) {
                const shoali_group *group = &b.g.groups[k];
                assert_true(group->id == last + 1);
                last = group->id;
                assert_true(division == SHOALI_DIVIDE_INTER_INTRA || group->count <= 3);
                for (uint32_t i = 0; i < group->count; i++) {
                    assert_false(b.g.out[members(&b, k)[i]]);
                    assert_true(i == 0 || members(&b, k)[i - 1] < members(&b, k)[i]);
                }
            }
        }
        close_bench(&b);
    }
}

/* Workers that are through with their groups at once, as they know of a loss first, ask again and
 * again: who does not get on is picked until it has no more room, and then left alone. */
static void who_is_full_is_not_picked(void **state)
{
    (void)state;
    bench b;
    uint32_t room, picked = 0;
    open_bench(&b, &(shoali_generator_options){.division = SHOALI_DIVIDE_NONE, .group = 3});
    room = shoali_generator_room(&b.world, SHOALI_DIVIDE_NONE);
    for (uint64_t round = 0; round < 1000; round++) {
        uint32_t others = WORKERS - 1; /* but for the last one */
        shoali_generator_request(&b.g, (uint32_t)(round % others), round, UINT64_MAX);
        assert_int_equal(b.g.group_count, 1);
        assert_true(b.g.groups[0].count == 3);
        picked += groups_with(&b, WORKERS - 1);
        assert_true(b.g.pending[WORKERS - 1] == picked && picked <= room);
        for (uint32_t u = 0; u < others; u++)
            while (b.g.pending[u] > 0)
                shoali_generator_done(&b.g, u);
    }
    assert_int_equal(picked, room);
    shoali_generator_done(&b.g, WORKERS - 1);
    for (uint64_t round = 0; round < 1000 && picked == room; round++) {
        shoali_generator_request(&b.g, 0, round, UINT64_MAX);
        picked += groups_with(&b, WORKERS - 1);
        while (b.g.pending[0] > 0)
            shoali_generator_done(&b.g, 0);
        for (uint32_t u = 1; u < WORKERS - 1; u++)
            b.g.pending[u] = 0;
    }
    assert_int_equal(picked, room + 1);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_division_crosses_hosts_and_then_stays_inside),
        CHECK_TEST(who_lags_by_the_threshold_is_left_out),
        CHECK_TEST(a_laggard_waits_for_others_and_is_in_one_group),
        CHECK_TEST(random_requests),
        CHECK_TEST(who_is_full_is_not_picked),
    };
    return CHECK_RUN(tests);
}
