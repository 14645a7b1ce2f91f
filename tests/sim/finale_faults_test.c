/* SPDX-License-Identifier: Apache-2.0 */
/* The final mean, under deaths in the middle of what a worker says, and links that break between
 * two that live, several and one way, too (support/finale_world.h). Nobody that lives ends with
 * another mean than the others; whoever ends without one knows that the others go on without it, or
 * may. SHOAL_SOAK_RUNS: how many lives of each kind; SHOAL_TEST_SEED: which. */
#include <stdlib.h>

#include "base/arena.h"
#include "support/check.h"
#include "support/finale_world.h"

enum { SEEDS = 1500 };

typedef struct outcome {
    uint64_t lives, died, broke;
    uint64_t left_behind; /* somebody is */
    uint64_t nobody;      /* that lives has a mean */
    uint64_t in_vain;     /* the same, though enough of them reached each other and lived */
} outcome;

/* How many of those that live have no mean. */
static uint32_t check_means(const finale_world *w, uint64_t seed, bool *some_out)
{
    uint64_t result = 0;
    uint32_t behind = 0;
    for (uint32_t i = 0; i < w->size; i++) {
        const finale_node *n = &w->nodes[i];
        if (n->dead)
            continue;
        if (n->through == n->behind ||
            (n->through && (n->param == 0 || (result != 0 && n->param != result))))
            fail_msg("seed %llu: worker %u of %u %s", (unsigned long long)seed, i, w->size,
                     n->through && n->behind ? "has a mean, and is left behind"
                     : n->through            ? "has another mean"
                                             : "does not get through");
        behind += n->behind;
        result = n->through ? n->param : result;
    }
    *some_out = result != 0;
    return behind;
}

static outcome search(const char *name, const finale_plan *plan, bool costs_one_each)
{
    outcome o = {.lives = check_number("SHOAL_SOAK_RUNS", SEEDS)};
    finale_world *w = shoali_alloc(sizeof *w);
    assert_non_null(w);
    for (uint64_t seed = 0; seed < o.lives; seed++) {
        bool some;
        (void)finale_live(w, seed, plan);
        const uint32_t behind = check_means(w, seed, &some);
        if (costs_one_each && behind > w->breaks)
            fail_msg("%s, seed %llu: %u left behind by %u broken links", name,
                     (unsigned long long)seed, behind, w->breaks);
        o.died += w->deaths > 0;
        o.broke += w->breaks > 0;
        o.left_behind += behind > 0;
        o.nobody += behind > 0 && !some;
        o.in_vain += behind > 0 && !some && w->deaths == 0 && finale_some_could(w);
        finale_free(w);
    }
    shoali_free(w);
    print_message("%s: %llu lives; somebody died in %llu, links broke in %llu; left behind: some "
                  "in %llu, all in %llu, of which needlessly %llu\n",
                  name, (unsigned long long)o.lives, (unsigned long long)o.died,
                  (unsigned long long)o.broke, (unsigned long long)o.left_behind,
                  (unsigned long long)o.nobody, (unsigned long long)o.in_vain);
    return o;
}

static void who_lives_has_the_same_mean(void **state)
{
    (void)state;
    const outcome o = search("deaths", &(finale_plan){.alive = 2}, true);
    assert_true(o.died > o.lives / 3);
}

static void a_broken_link_costs_one_worker_at_most(void **state)
{
    (void)state;
    const outcome o = search(
        "a link", &(finale_plan){.alive = FINALE_MOST, .breaks = 1, .resets_only = true}, true);
    assert_true(o.broke > o.lives / 2 && o.left_behind > o.lives / 10);
    assert_int_equal(o.nobody, 0);
}

static void broken_links_make_no_second_mean(void **state)
{
    (void)state;
    const outcome o = search("links", &(finale_plan){.alive = FINALE_MOST, .breaks = 4}, false);
    assert_true(o.broke > o.lives / 2 && o.left_behind > o.lives / 10);
    assert_true(o.nobody < o.lives / 2 && o.in_vain <= o.lives / 100);
}

static void parts_make_no_second_mean(void **state)
{
    (void)state;
    const outcome o = search("parts", &(finale_plan){.alive = FINALE_MOST, .partitions = 2}, false);
    assert_true(o.broke > o.lives / 2 && o.left_behind > o.lives / 10);
    assert_true(o.nobody < o.lives / 2 && o.in_vain <= o.lives / 100);
}

static void trouble_of_all_kinds_makes_no_second_mean(void **state)
{
    (void)state;
    const outcome o = search("all", &(finale_plan){.alive = 1, .breaks = 3, .partitions = 1},
                             false);
    const outcome n = search(
        "no proof", &(finale_plan){.alive = 1, .breaks = 2, .partitions = 1, .no_proof = true},
        false);
    assert_true(o.died > o.lives / 3 && n.died > n.lives / 3);
}

static void a_mean_that_few_know_of_is_kept(void **state)
{
    (void)state;
    const finale_plan plan = {.alive = 2, .breaks = 1, .partitions = 1, .strikes = true};
    const outcome o = search("strikes", &plan, false);
    assert_true(o.died > o.lives / 3 && o.broke > o.lives / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(who_lives_has_the_same_mean),
        CHECK_TEST(a_broken_link_costs_one_worker_at_most),
        CHECK_TEST(broken_links_make_no_second_mean),
        CHECK_TEST(parts_make_no_second_mean),
        CHECK_TEST(trouble_of_all_kinds_makes_no_second_mean),
        CHECK_TEST(a_mean_that_few_know_of_is_kept),
    };
    return CHECK_RUN(tests);
}
