/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "comm/slow.h"

enum { RANKS = 4, STEPS = 40 };

typedef struct job {
    float compute_us[STEPS * RANKS];
    double sends[RANKS], receives[RANKS];
    shoali_slow_input input;
    shoali_slow ranks[RANKS];
} job;

/* Even workers around a ring of 1 Gbit/s; computing varies by 2 %. */
static void even(job *j, uint64_t seed)
{
    memset(j, 0, sizeof *j);
    for (uint64_t i = 0; i < STEPS * RANKS; i++)
        j->compute_us[i] = (float)(20000 * (1 + 0.02 * shoali_rng_double(seed, 1, i)));
    for (uint32_t i = 0; i < RANKS; i++)
        j->sends[i] = j->receives[i] = 118e6;
    j->input = (shoali_slow_input){.ranks = RANKS,
                                   .windows = STEPS,
                                   .compute_us = j->compute_us,
                                   .sends = j->sends,
                                   .receives = j->receives,
                                   .step_us = 50000,
                                   .wait_us = 29000};
}

/* rank RANKS: nobody. */
static void expect(job *j, uint32_t rank, uint32_t cause)
{
    shoali_slow_judge(&j->input, j->ranks);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(j->ranks[i].cause, i == rank ? cause : SHOALI_SLOW_NOT);
}

static void even_workers_have_no_straggler(void **state)
{
    (void)state;
    job j;
    even(&j, check_seed());
    expect(&j, RANKS, SHOALI_SLOW_NOT);
    double shares = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        shares += j.ranks[i].last_share;
    assert_true(fabs(shares - 1) < 1e-9);
}

static void a_slow_worker_is_named_since_when(void **state)
{
    (void)state;
    job j;
    even(&j, check_seed());
    for (uint32_t s = 10; s < STEPS; s++)
        j.compute_us[s * RANKS + 3] = 80000;
    expect(&j, 3, SHOALI_SLOW_COMPUTE);
    assert_true(j.ranks[3].last_since <= 10);
    /* 30 of 40 steps take 80 instead of at most 20.4 ms */
    assert_true(j.ranks[3].caused_us > 0.75 * 59e3 && j.ranks[3].caused_us < 0.75 * 60.1e3);
    assert_true(j.ranks[3].last_share >= 0.75);
}

static void the_slow_end_of_slow_links_is_named(void **state)
{
    (void)state;
    job j;
    even(&j, check_seed());
    /* a ring: into 2 and out of 2, so its neighbours are slow on one side */
    j.sends[1] = j.receives[2] = j.sends[2] = j.receives[3] = 12e6;
    expect(&j, 2, SHOALI_SLOW_NETWORK);
    assert_true(fabs(j.ranks[2].median_link_s - 118e6) < 1e3);
    even(&j, check_seed());
    j.sends[1] = j.receives[2] = j.sends[2] = j.receives[3] = 12e6;
    j.input.wait_us = 1000; /* nobody waits for it */
    expect(&j, RANKS, SHOALI_SLOW_NOT);
}

static void steps_without_some_ranks_count_for_the_others(void **state)
{
    (void)state;
    job j;
    even(&j, check_seed());
    for (uint32_t s = 0; s < STEPS; s++) {
        j.compute_us[s * RANKS + 1] = 0;
        j.compute_us[s * RANKS + 0] = 60000;
    }
    expect(&j, 0, SHOALI_SLOW_COMPUTE);
    assert_true(j.ranks[1].last_share < 1e-9);
    memset(j.compute_us, 0, sizeof j.compute_us);
    expect(&j, RANKS, SHOALI_SLOW_NOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(even_workers_have_no_straggler),
        CHECK_TEST(a_slow_worker_is_named_since_when),
        CHECK_TEST(the_slow_end_of_slow_links_is_named),
        CHECK_TEST(steps_without_some_ranks_count_for_the_others),
    };
    return CHECK_RUN(tests);
}
