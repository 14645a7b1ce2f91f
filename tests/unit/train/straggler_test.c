/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "train/straggler.h"

enum { RANKS = 4, STEPS = 40 };

typedef struct job {
    float compute_us[STEPS * RANKS], sends[RANKS * RANKS];
    shoali_straggler_input input;
    shoal_train_rank ranks[RANKS];
} job;

/* Even workers around a ring of 1 Gbit/s; computing varies by 2 %. */
static void even(job *j, uint64_t seed)
{
    memset(j, 0, sizeof *j);
    for (uint64_t i = 0; i < STEPS * RANKS; i++)
        j->compute_us[i] = (float)(20000 * (1 + 0.02 * shoali_rng_double(seed, 1, i)));
    for (uint32_t i = 0; i < RANKS; i++)
        j->sends[i * RANKS + (i + 1) % RANKS] = 118e6F;
    j->input = (shoali_straggler_input){.ranks = RANKS,
                                        .steps = STEPS,
                                        .first_step = 100,
                                        .compute_us = j->compute_us,
                                        .sends = j->sends,
                                        .step_us = 50000,
                                        .wait_us = 29000};
}

static void expect(job *j, uint32_t rank, const char *cause)
{
    shoali_straggler_judge(&j->input, j->ranks);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_string_equal(j->ranks[i].cause, i == rank ? cause : "");
}

static void even_workers_have_no_straggler(void **state)
{
    (void)state;
    job j;
    even(&j, check_seed());
    expect(&j, RANKS, "");
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
    expect(&j, 3, "compute");
    assert_true(j.ranks[3].since_step >= 100 && j.ranks[3].since_step <= 110);
    /* 30 of 40 steps take 80 instead of at most 20.4 ms */
    assert_true(j.ranks[3].caused_ms > 0.75 * 59 && j.ranks[3].caused_ms < 0.75 * 60.1);
    assert_true(j.ranks[3].last_share >= 0.75);
}

static void the_slow_end_of_slow_links_is_named(void **state)
{
    (void)state;
    job j;
    even(&j, check_seed());
    j.sends[1 * RANKS + 2] = j.sends[2 * RANKS + 3] = 12e6F; /* into 2 and out of 2 */
    expect(&j, 2, "network");
    assert_true(fabs(j.ranks[1].receives_bytes_s - 118e6) < 1e3);
    even(&j, check_seed());
    j.sends[1 * RANKS + 2] = j.sends[2 * RANKS + 3] = 12e6F;
    j.input.wait_us = 1000; /* nobody waits for it */
    expect(&j, RANKS, "");
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
    expect(&j, 0, "compute");
    assert_true(j.ranks[1].last_share < 1e-9);
    memset(j.compute_us, 0, sizeof j.compute_us);
    memset(j.ranks, 0, sizeof j.ranks);
    expect(&j, RANKS, "");
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
