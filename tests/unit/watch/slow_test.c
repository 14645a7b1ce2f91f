/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up runs: equal workers, whatever their noise, and one that is slow, by computing or by its
 * link. SEEDS of each. */
#include "watch/slow.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

enum { RANKS_MOST = 8, STEPS = 100, SEEDS = 20, NOBODY = UINT32_MAX };
static const double COMPUTE_US = 20000, EXCHANGE_US = 20000, LINE = 118e6;

typedef struct job {
    float compute_us[STEPS * RANKS_MOST], step_us[STEPS];
    double sends[RANKS_MOST], receives[RANKS_MOST];
    shoali_slow_input input;
    shoali_slow ranks[RANKS_MOST];
} job;

/* How computing varies: independently by a share; with spells of some steps in which one worker's
 * core is also somebody else's; seldom, but by far. */
typedef struct noise {
    double share, spells, outliers;
} noise;

static double random_at(uint64_t seed, uint64_t stream, uint64_t i)
{
    return shoali_rng_double(seed, stream, i);
}

static double varied(const noise *n, uint64_t seed, uint32_t step, uint32_t rank)
{
    const uint64_t at = (uint64_t)step * RANKS_MOST + rank, spell = (step + 3 * rank) / 7;
    double us = COMPUTE_US * (1 + n->share * shoali_rng_normal(seed, 1, at));
    if (random_at(seed, 2 + rank, spell) < n->spells)
        us *= 1.8;
    if (random_at(seed, 20, at) < n->outliers)
        us *= 10;
    return us > 1 ? us : 1;
}

/* The step ends when the last has computed and all have exchanged. */
static void time_steps(job *j)
{
    double wait_us = 0;
    for (uint32_t s = 0; s < j->input.windows; s++) {
        const float *row = j->compute_us + s * j->input.ranks;
        double last = 0, sum = 0;
        for (uint32_t i = 0; i < j->input.ranks; i++) {
            last = fmax(last, (double)row[i]);
            sum += (double)row[i];
        }
        j->step_us[s] = (float)(last + EXCHANGE_US);
        wait_us += (double)j->step_us[s] - sum / j->input.ranks;
    }
    j->input.wait_us = wait_us / j->input.windows;
}

static void run(job *j, uint32_t ranks, uint32_t steps, const noise *n, uint64_t seed)
{
    memset(j, 0, sizeof *j);
    j->input = (shoali_slow_input){.ranks = ranks,
                                   .windows = steps,
                                   .steps = steps,
                                   .compute_us = j->compute_us,
                                   .step_us = j->step_us,
                                   .sends = j->sends,
                                   .receives = j->receives};
    for (uint32_t s = 0; s < steps; s++)
        for (uint32_t i = 0; i < ranks; i++)
            j->compute_us[s * ranks + i] = (float)varied(n, seed, s, i);
    for (uint32_t i = 0; i < ranks; i++) { /* fair, but not evenly so */
        j->sends[i] = LINE * (0.75 + 0.25 * random_at(seed, 30, i));
        j->receives[i] = LINE * (0.75 + 0.25 * random_at(seed, 31, i));
    }
    time_steps(j);
}

static void slow_worker(job *j, uint32_t rank, double factor)
{
    for (uint32_t s = 0; s < j->input.windows; s++)
        j->compute_us[s * j->input.ranks + rank] *= (float)factor;
    time_steps(j);
}

/* In a ring: into it and out of it, so its neighbours are slow on one side. */
static void slow_link(job *j, uint32_t rank, double factor)
{
    const uint32_t ranks = j->input.ranks, before = (rank + ranks - 1) % ranks;
    const double rate = LINE * factor, longer_us = EXCHANGE_US * (1 / factor - 1);
    j->sends[rank] = j->receives[rank] = rate;
    j->sends[before] = j->receives[(rank + 1) % ranks] = rate;
    for (uint32_t s = 0; s < j->input.windows; s++)
        j->step_us[s] += (float)longer_us;
    j->input.wait_us += longer_us;
}

static void expect(job *j, uint32_t rank, uint32_t cause)
{
    shoali_slow_judge(&j->input, j->ranks);
    for (uint32_t i = 0; i < j->input.ranks; i++)
        assert_int_equal(j->ranks[i].cause, i == rank ? cause : SHOALI_SLOW_NOT);
}

static const noise quiet = {.share = 0.02};
static const noise kinds[] = {{.share = 0.02},
                              {.share = 0.3},
                              {.share = 0.05, .spells = 0.3},
                              {.share = 0.05, .outliers = 0.03},
                              {.share = 0.2, .spells = 0.2, .outliers = 0.02}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void equal_workers_have_no_straggler(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 3, 4, 8};
    job j;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (size_t k = 0; k < KINDS; k++)
            for (size_t i = 0; i < 4; i++) {
                double shares = 0;
                run(&j, sizes[i], STEPS, &kinds[k], seed);
                expect(&j, NOBODY, SHOALI_SLOW_NOT);
                for (uint32_t r = 0; r < sizes[i]; r++)
                    shares += j.ranks[r].last_share;
                assert_true(fabs(shares - 1) < 1e-9);
            }
}

static void a_slow_worker_is_named(void **state)
{
    (void)state;
    job j;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (size_t k = 0; k < KINDS; k++) {
            const uint32_t ranks = 2 + (uint32_t)seed % 4, slow = (uint32_t)seed % ranks;
            run(&j, ranks, STEPS, &kinds[k], seed);
            slow_worker(&j, slow, 4);
            expect(&j, slow, SHOALI_SLOW_COMPUTE);
            run(&j, ranks, SHOAL_VERDICT_STEPS, &quiet, seed);
            slow_worker(&j, slow, 1.5);
            expect(&j, slow, SHOALI_SLOW_COMPUTE);
        }
}

static void the_slow_end_of_slow_links_is_named(void **state)
{
    (void)state;
    job j;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (size_t k = 0; k < KINDS; k++) {
            const uint32_t ranks = 4 + (uint32_t)seed % 3, slow = (uint32_t)seed % ranks;
            run(&j, ranks, STEPS, &kinds[k], seed);
            slow_link(&j, slow, 0.1);
            expect(&j, slow, SHOALI_SLOW_NETWORK);
            run(&j, ranks, SHOAL_VERDICT_STEPS, &quiet, seed);
            slow_link(&j, slow, 0.4);
            expect(&j, slow, SHOALI_SLOW_NETWORK);
            slow_link(&j, slow, 0.2);
            j.sends[(slow + 2) % ranks] = j.receives[(slow + 3) % ranks] = 0.5 * LINE;
            expect(&j, slow, SHOALI_SLOW_NETWORK); /* a busy core slows another one, too */
        }
}

static void both_causes_have_a_culprit_each(void **state)
{
    (void)state;
    job j;
    run(&j, 6, STEPS, &quiet, check_seed());
    slow_worker(&j, 1, 4);
    slow_link(&j, 4, 0.1);
    shoali_slow_judge(&j.input, j.ranks);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(j.ranks[i].cause, i == 1   ? SHOALI_SLOW_COMPUTE
                                           : i == 4 ? SHOALI_SLOW_NETWORK
                                                    : SHOALI_SLOW_NOT);
}

static void few_steps_and_small_effects_name_nobody(void **state)
{
    (void)state;
    job j;
    run(&j, 4, SHOAL_VERDICT_STEPS - 1, &quiet, check_seed());
    slow_worker(&j, 1, 4);
    slow_link(&j, 3, 0.1);
    expect(&j, NOBODY, SHOALI_SLOW_NOT);
    run(&j, 4, STEPS, &(noise){0}, check_seed()); /* a sure effect, of 9 % of a step */
    slow_worker(&j, 1, 1.2);
    expect(&j, NOBODY, SHOALI_SLOW_NOT);
    assert_true(j.ranks[1].caused_us > 3900);
    run(&j, 4, STEPS, &quiet, check_seed()); /* nobody waits for it */
    slow_link(&j, 3, 0.1);
    j.input.wait_us = 0.09 * (double)j.step_us[0];
    expect(&j, NOBODY, SHOALI_SLOW_NOT);
    run(&j, 2, STEPS, &quiet, check_seed()); /* nobody can say which end it is */
    slow_link(&j, 0, 0.1);
    expect(&j, NOBODY, SHOALI_SLOW_NOT);
    run(&j, 4, STEPS, &quiet, check_seed()); /* who is slow among such links? */
    for (uint32_t i = 0; i < 4; i++)
        j.sends[i] = j.receives[i] = LINE / (1 + i);
    expect(&j, NOBODY, SHOALI_SLOW_NOT);
}

static void it_is_said_since_when(void **state)
{
    (void)state;
    job j;
    run(&j, 4, STEPS, &quiet, check_seed());
    for (uint32_t s = STEPS / 4; s < STEPS; s++)
        j.compute_us[s * 4 + 3] = 80000;
    time_steps(&j);
    expect(&j, 3, SHOALI_SLOW_COMPUTE);
    assert_true(j.ranks[3].last_since <= STEPS / 4);
    /* three of four steps take 80 instead of about 20 ms */
    assert_true(j.ranks[3].caused_us > 0.75 * 57e3 && j.ranks[3].caused_us < 0.75 * 61e3);
    assert_true(j.ranks[3].last_share >= 0.75);
    j.input.windows = j.input.steps = 0;
    expect(&j, NOBODY, SHOALI_SLOW_NOT);
}

static void steps_without_some_ranks_count_for_the_others(void **state)
{
    (void)state;
    job j;
    run(&j, 4, STEPS, &quiet, check_seed());
    for (uint32_t s = 0; s < STEPS; s++) {
        j.compute_us[s * 4 + 1] = 0;
        j.compute_us[s * 4 + 0] = 60000;
    }
    time_steps(&j);
    expect(&j, 0, SHOALI_SLOW_COMPUTE);
    assert_true(j.ranks[1].last_share < 1e-9);
    memset(j.compute_us, 0, sizeof j.compute_us);
    expect(&j, NOBODY, SHOALI_SLOW_NOT);
}

static void rates_need_time_and_have_a_ceiling(void **state)
{
    (void)state;
    assert_true(fabs(shoali_slow_rate(12.5e6, 1e5, 0) - 125e6) < 1);
    assert_true(fabs(shoali_slow_rate(43e6, 1e5, 125e6) - 125e6) < 1); /* a shaper's burst */
    assert_true(shoali_slow_rate(43e6, 99999, 0) < 1e-9);
    assert_true(shoali_slow_rate(0, 0, 125e6) < 1e-9);
}

static void an_interval_holds_the_mean_and_repeats(void **state)
{
    (void)state;
    double x[200];
    uint32_t holds = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (uint32_t i = 0; i < 200; i++)
            x[i] = 5 + shoali_rng_normal(seed, 1, i);
        const shoali_slow_mean m = shoali_slow_bootstrap(x, 200),
                               again = shoali_slow_bootstrap(x, 200);
        assert_true(m.low < m.mean && m.mean < m.high);
        assert_memory_equal(&m, &again, sizeof m);
        assert_true(m.high - m.low > 0.15 && m.high - m.low < 0.6); /* 4.7 / sqrt(200) = 0.33 */
        holds += m.low <= 5 && 5 <= m.high;
    }
    assert_true(holds >= SEEDS - 2);
    assert_true(fabs(shoali_slow_bootstrap(x, 1).low - x[0]) < 1e-12);
    assert_true(shoali_slow_bootstrap(x, 0).high < 1e-12);
}

/* ------------------------------------------------------------------ each rule by itself */

static const noise none = {0};

/* All links alike, and so long a wait that a slow one has an effect. */
static void equal_links(job *j, uint32_t ranks)
{
    run(j, ranks, STEPS, &none, 1);
    for (uint32_t i = 0; i < ranks; i++)
        j->sends[i] = j->receives[i] = LINE;
    j->input.wait_us = EXCHANGE_US;
}

static void one_link(job *j, uint32_t rank, double factor)
{
    j->sends[rank] = j->receives[rank] = factor * LINE;
}

/* However much longer it takes, whoever is last in fewer than half of the steps is no straggler. */
static void it_is_last_in_half_of_the_steps(void **state)
{
    (void)state;
    job j;
    for (uint32_t of_ten = 4; of_ten <= 6; of_ten += 2) {
        run(&j, 4, STEPS, &quiet, check_seed());
        for (uint32_t s = 0; s < STEPS; s++)
            j.compute_us[s * 4 + 1] = 3 * s % 10 < of_ten ? 200000 : 10000;
        time_steps(&j);
        expect(&j, of_ten == 6 ? 1 : NOBODY, of_ten == 6 ? SHOALI_SLOW_COMPUTE : SHOALI_SLOW_NOT);
        assert_true(fabs(j.ranks[1].last_share - of_ten / 10.0) < 1e-9);
    }
}

static void a_slow_link_has_less_than_three_fifths_of_the_median(void **state)
{
    (void)state;
    job j;
    equal_links(&j, 5);
    one_link(&j, 2, 0.65);
    expect(&j, NOBODY, SHOALI_SLOW_NOT);
    one_link(&j, 2, 0.55);
    expect(&j, 2, SHOALI_SLOW_NETWORK);
    assert_true(fabs(j.ranks[0].median_link_s - LINE) < 1);
}

/* Between two, neither end of the one link is to blame. */
static void two_have_no_slow_link(void **state)
{
    (void)state;
    job j;
    equal_links(&j, 2);
    one_link(&j, 0, 0.1);
    expect(&j, NOBODY, SHOALI_SLOW_NOT);
}

/* Who computes for too long cannot send meanwhile, so that is the cause. */
static void a_rank_has_one_cause(void **state)
{
    (void)state;
    job j;
    equal_links(&j, 5);
    slow_worker(&j, 3, 4);
    one_link(&j, 3, 0.1);
    expect(&j, 3, SHOALI_SLOW_COMPUTE);
}

/* Steps that take longer by themselves, ten at a time, hide what a link costs. */
static void an_effect_within_the_steps_own_noise_names_nobody(void **state)
{
    (void)state;
    job j;
    for (uint32_t noisy = 0; noisy < 2; noisy++) {
        equal_links(&j, 5);
        one_link(&j, 2, 0.5);
        for (uint32_t s = 0; s < STEPS; s++)
            j.step_us[s] = noisy && s / 10 % 2 == 0 ? 10000 : noisy ? 190000 : 100000;
        j.input.wait_us = 30000; /* half of it is the link's: 15 % of a step */
        expect(&j, noisy ? NOBODY : 2, noisy ? SHOALI_SLOW_NOT : SHOALI_SLOW_NETWORK);
    }
}

/* From the end backwards, as long as four of five steps were its own: every second one was before
 * step 50, so 50 - 32. */
static void since_when_means_four_of_five(void **state)
{
    (void)state;
    job j;
    run(&j, 4, STEPS, &none, 1);
    for (uint32_t s = 0; s < STEPS; s++)
        j.compute_us[s * 4 + (s >= 50 || s % 2 == 0 ? 3 : 0)] = 80000;
    time_steps(&j);
    expect(&j, 3, SHOALI_SLOW_COMPUTE);
    assert_int_equal(j.ranks[3].last_since, 18);
}

/* Of a long run the last windows are judged, and counted from its beginning. */
static void the_last_windows_count(void **state)
{
    (void)state;
    enum { WINDOWS = SHOALI_SLOW_WINDOWS, ALL = WINDOWS + WINDOWS / 2 };
    static float compute_us[ALL * 4], step_us[ALL];
    static const double links[4];
    shoali_slow ranks[4];
    for (uint32_t s = 0; s < ALL; s++) {
        for (uint32_t i = 0; i < 4; i++)
            compute_us[s * 4 + i] = 20000;
        compute_us[s * 4 + (s < WINDOWS ? 1 : 2)] = 80000;
        step_us[s] = 100000;
    }
    shoali_slow_judge(&(shoali_slow_input){.ranks = 4,
                                           .windows = ALL,
                                           .steps = ALL,
                                           .compute_us = compute_us,
                                           .step_us = step_us,
                                           .sends = links,
                                           .receives = links},
                      ranks);
    assert_true(fabs(ranks[1].last_share - 0.5) < 1e-9 && fabs(ranks[2].last_share - 0.5) < 1e-9);
    assert_int_equal(ranks[2].last_since, WINDOWS);
}

/* What lasts for ten values counts once, not ten times: the mean's deviation is 1 / sqrt(20), and
 * 98 % lie within 4.7 of them. */
static void an_interval_knows_of_spells(void **state)
{
    (void)state;
    double x[200], width = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (uint32_t i = 0; i < 200; i++)
            x[i] = shoali_rng_normal(seed, 2, i / 10);
        const shoali_slow_mean m = shoali_slow_bootstrap(x, 200);
        width += (m.high - m.low) / SEEDS;
    }
    assert_true(width > 0.65 && width < 1.3);
}

/* Of steps of 40 ms a slow link takes 9, and is named; of steps of 80, in which all wait for 40 ms
 * until rank 1 has computed, and the exchange is 6 ms, it takes 3: the computing alone is. */
static void a_wait_for_computing_is_no_wait_for_a_link(void **state)
{
    (void)state;
    static job j;
    for (uint64_t computing = 0; computing <= 1; computing++) {
        run(&j, 8, STEPS, &(noise){0}, 1);
        for (uint32_t s = 0; s < STEPS && computing; s++)
            j.compute_us[s * j.input.ranks + 1] += 40000;
        time_steps(&j);
        for (uint32_t i = 0; i < 8; i++)
            j.sends[i] = j.receives[i] = i == 5 ? 0.55 * LINE : LINE;
        j.input.wait_us -= computing ? 14000 : 0;
        shoali_slow_judge(&j.input, j.ranks);
        assert_int_equal(j.ranks[5].cause, computing ? SHOALI_SLOW_NOT : SHOALI_SLOW_NETWORK);
        assert_int_equal(j.ranks[1].cause, computing ? SHOALI_SLOW_COMPUTE : SHOALI_SLOW_NOT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(equal_workers_have_no_straggler),
        CHECK_TEST(a_slow_worker_is_named),
        CHECK_TEST(the_slow_end_of_slow_links_is_named),
        CHECK_TEST(both_causes_have_a_culprit_each),
        CHECK_TEST(a_wait_for_computing_is_no_wait_for_a_link),
        CHECK_TEST(few_steps_and_small_effects_name_nobody),
        CHECK_TEST(it_is_said_since_when),
        CHECK_TEST(steps_without_some_ranks_count_for_the_others),
        CHECK_TEST(rates_need_time_and_have_a_ceiling),
        CHECK_TEST(an_interval_holds_the_mean_and_repeats),
        CHECK_TEST(it_is_last_in_half_of_the_steps),
        CHECK_TEST(a_slow_link_has_less_than_three_fifths_of_the_median),
        CHECK_TEST(two_have_no_slow_link),
        CHECK_TEST(a_rank_has_one_cause),
        CHECK_TEST(an_effect_within_the_steps_own_noise_names_nobody),
        CHECK_TEST(since_when_means_four_of_five),
        CHECK_TEST(the_last_windows_count),
        CHECK_TEST(an_interval_knows_of_spells),
    };
    return CHECK_RUN(tests);
}
