/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_share.h"

#include <math.h>

#include "support/check.h"
#include "support/max_min.h"

#include "base/arena.h"
#include "base/rng.h"

enum { LINKS = 24, FLOWS = 40 };

/* What has been added, kept a second time. */
typedef struct world {
    shoali_sharing share;
    double capacity[LINKS], weights[FLOWS][LINKS], told[FLOWS];
    bool present[FLOWS];
    shoali_rng rng;
} world;

static uint32_t below(world *w, uint32_t bound)
{
    return (uint32_t)(shoali_rng_next(&w->rng) % bound);
}

static void add(world *w, uint32_t f, bool even)
{
    shoali_load loads[LINKS];
    bool used[LINKS] = {false};
    uint64_t peak = 0;
    uint32_t count = 1 + below(w, below(w, 4) == 0 ? LINKS : 3);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t link = below(w, LINKS);
        while (used[link])
            link = (link + 1) % LINKS;
        used[link] = true;
        loads[i] = (shoali_load){link, even ? 1000 : below(w, 1000)};
        loads[i].bytes += i == 0; /* one of them at least */
        peak = loads[i].bytes > peak ? loads[i].bytes : peak;
    }
    memset(w->weights[f], 0, sizeof w->weights[f]);
    for (uint32_t i = 0; i < count; i++)
        w->weights[f][loads[i].link] = (double)loads[i].bytes / (double)peak;
    assert_ok(shoali_share_add(&w->share, f, loads, count));
    w->present[f] = true;
    w->told[f] = -1;
}

static void change(world *w, bool even)
{
    uint32_t f = below(w, FLOWS), link = below(w, LINKS);
    if (below(w, 4) == 0) {
        w->capacity[link] = even ? 1 + below(w, 2) : 0.5 + shoali_rng_next_double(&w->rng);
        shoali_share_resize(&w->share, link, w->capacity[link]);
    } else if (w->present[f]) {
        shoali_share_remove(&w->share, f);
        w->present[f] = false;
    } else {
        add(w, f, even);
    }
}

/* All rates against the definition; and who got another rate was told so. */
static void compare(world *w)
{
    double weights[FLOWS * LINKS], rates[FLOWS];
    uint32_t numbers[FLOWS], count = 0;
    const uint32_t *changed;
    uint32_t changes = shoali_share_solve(&w->share, &changed);
    for (uint32_t i = 0; i < changes; i++) {
        assert_true(w->present[changed[i]]);
        w->told[changed[i]] = shoali_share_rate(&w->share, changed[i]);
    }
    for (uint32_t f = 0; f < FLOWS; f++)
        if (w->present[f]) {
            memcpy(&weights[count * LINKS], w->weights[f], sizeof w->weights[f]);
            numbers[count++] = f;
        }
    max_min_rates(w->capacity, LINKS, weights, count, rates);
    for (uint32_t i = 0; i < count; i++) {
        double rate = shoali_share_rate(&w->share, numbers[i]);
        assert_true(fabs(rate - rates[i]) <= 1e-9 * rates[i]);
        assert_true(rate == w->told[numbers[i]]);
    }
}

static void run(uint64_t stream, bool even, uint32_t steps)
{
    world w = {.rng = {check_seed(), stream, 0}};
    for (uint32_t l = 0; l < LINKS; l++)
        w.capacity[l] = even ? 1 : 0.5 + shoali_rng_next_double(&w.rng);
    assert_ok(shoali_share_init(&w.share, w.capacity, LINKS));
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t together = 1 + below(&w, below(&w, 8) == 0 ? 10 : 1);
        for (uint32_t k = 0; k < together; k++)
            change(&w, even);
        compare(&w);
    }
    shoali_share_fini(&w.share);
}

static void rates_are_those_of_the_definition_after_any_change(void **state)
{
    (void)state;
    for (uint64_t stream = 0; stream < 40; stream++)
        run(stream, false, 150);
}

/* Equal loads on equal links, or of one of two rates: many fill at the same level. */
static void ties_do_not_confuse_it(void **state)
{
    (void)state;
    for (uint64_t stream = 100; stream < 140; stream++)
        run(stream, true, 150);
}

static void a_dead_link_stops_what_is_on_it_and_nothing_else(void **state)
{
    (void)state;
    const double capacity[] = {0, 4};
    const shoali_load both[] = {{0, 10}, {1, 10}}, one = {1, 10};
    const uint32_t *changed;
    shoali_sharing share;
    assert_ok(shoali_share_init(&share, capacity, 2));
    assert_ok(shoali_share_add(&share, 3, both, 2));
    assert_ok(shoali_share_add(&share, 5, &one, 1));
    assert_int_equal(shoali_share_solve(&share, &changed), 2);
    assert_true(shoali_share_rate(&share, 3) == 0 && shoali_share_rate(&share, 5) == 4);
    assert_int_equal(shoali_share_solve(&share, &changed), 0);
    shoali_share_remove(&share, 3);
    assert_int_equal(shoali_share_solve(&share, &changed), 0);
    shoali_share_fini(&share);
}

static void no_memory_changes_nothing(void **state)
{
    (void)state;
    const double capacity[] = {1};
    const shoali_load load = {0, 10};
    const uint32_t *changed;
    shoali_sharing share;
    shoal_status status = SHOAL_ENOMEM;
    assert_ok(shoali_share_init(&share, capacity, 1));
    for (size_t k = 1; status != SHOAL_OK; k++) {
        shoali_alloc_fail_at(k);
        status = shoali_share_add(&share, 0, &load, 1);
        shoali_alloc_fail_at(0);
        assert_true(status == SHOAL_OK || status == SHOAL_ENOMEM);
        assert_int_equal(shoali_share_solve(&share, &changed), status == SHOAL_OK);
    }
    assert_true(shoali_share_rate(&share, 0) == 1);
    shoali_share_fini(&share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(rates_are_those_of_the_definition_after_any_change),
        CHECK_TEST(ties_do_not_confuse_it),
        CHECK_TEST(a_dead_link_stops_what_is_on_it_and_nothing_else),
        CHECK_TEST(no_memory_changes_nothing),
    };
    return CHECK_RUN(tests);
}
