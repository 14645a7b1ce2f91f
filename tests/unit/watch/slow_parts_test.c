/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up runs of four ranks in which one is late for another reason than computing or its link,
 * and runs in which all have the same. SEEDS of each. */
#include "base/rng.h"
#include "support/check.h"
#include "watch/slow.h"

enum { RANKS = 4, STEPS = 120, SEEDS = 20 };
#define NOBODY UINT32_MAX
static const double COMPUTE_US = 20000, DATA_US = 1000, EXCHANGE_US = 10000, BATCH = 16;

typedef struct job {
    float compute_us[STEPS * RANKS], data_us[STEPS * RANKS], disk_us[STEPS * RANKS];
    float paused_us[STEPS * RANKS], samples[STEPS * RANKS], step_us[STEPS];
    double links[RANKS];
    shoali_slow ranks[RANKS];
} job;

/* All alike, within a few per cent; a part of a checkpoint every tenth step. */
static void healthy(job *j, uint64_t seed)
{
    memset(j, 0, sizeof *j);
    for (uint32_t at = 0; at < STEPS * RANKS; at++) {
        j->data_us[at] = (float)(DATA_US * (1 + 0.1 * shoali_rng_double(seed, 1, at)));
        j->samples[at] = (float)BATCH;
        j->compute_us[at] = (float)(COMPUTE_US * (1 + 0.05 * shoali_rng_normal(seed, 2, at)));
        if (at / RANKS % 10 == 0)
            j->disk_us[at] = (float)(30000 * (1 + shoali_rng_double(seed, 3, at)));
    }
}

static void expect(job *j, uint32_t rank, uint32_t cause)
{
    for (uint32_t s = 0; s < STEPS; s++) {
        double last = 0;
        for (uint32_t i = 0; i < RANKS; i++) {
            const double took = (double)(j->compute_us[s * RANKS + i] +
                                         j->paused_us[s * RANKS + i]);
            last = took > last ? took : last;
        }
        j->step_us[s] = (float)(last + EXCHANGE_US);
    }
    const shoali_slow_input input = {.ranks = RANKS,
                                     .windows = STEPS,
                                     .steps = STEPS,
                                     .compute_us = j->compute_us,
                                     .step_us = j->step_us,
                                     .sends = j->links,
                                     .receives = j->links,
                                     .data_us = j->data_us,
                                     .disk_us = j->disk_us,
                                     .paused_us = j->paused_us,
                                     .samples = j->samples};
    shoali_slow_judge(&input, j->ranks);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(j->ranks[i].cause, i == rank ? cause : SHOALI_SLOW_NOT);
}

static void what_all_have_is_nobodys_fault(void **state)
{
    (void)state;
    static job j;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        healthy(&j, seed);
        expect(&j, NOBODY, SHOALI_SLOW_NOT);
        for (uint32_t at = 0; at < STEPS * RANKS; at++) { /* all make batches slowly, all pause */
            j.compute_us[at] += 30000;
            j.data_us[at] += 30000;
            j.disk_us[at] *= 10;
            j.paused_us[at] = at / RANKS % 30 == 0 ? 400000 : 0;
        }
        expect(&j, NOBODY, SHOALI_SLOW_NOT);
    }
}

static void the_reason_of_long_computing_is_told(void **state)
{
    (void)state;
    static job j;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const uint32_t slow = (uint32_t)seed % RANKS;
        healthy(&j, seed);
        for (uint32_t at = slow; at < STEPS * RANKS; at += RANKS)
            j.compute_us[at] += 15000;
        expect(&j, slow, SHOALI_SLOW_COMPUTE);
        for (uint32_t at = slow; at < STEPS * RANKS; at += RANKS)
            j.data_us[at] += 10000;
        expect(&j, slow, SHOALI_SLOW_INPUT);
        for (uint32_t at = slow; at < STEPS * RANKS; at += RANKS)
            j.data_us[at] -= 5000; /* 5 of 15 ms: not most of it */
        expect(&j, slow, SHOALI_SLOW_COMPUTE);
    }
}

/* In every other step one has all samples, as in the last step of short epochs. */
static void who_has_more_samples_is_not_slow(void **state)
{
    (void)state;
    static job j;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        healthy(&j, seed);
        for (uint32_t at = 0; at < STEPS * RANKS; at++)
            if (at / RANKS % 2 == 1 && at % RANKS != 1) {
                j.samples[at] = 0;
                j.compute_us[at] = 20;
            }
        expect(&j, 1, SHOALI_SLOW_LOAD);
        for (uint32_t at = 0; at < STEPS * RANKS; at++)
            j.samples[at] = (float)BATCH; /* the same times, of as many samples */
        expect(&j, 1, SHOALI_SLOW_COMPUTE);
    }
}

static void a_slow_disk_is_named(void **state)
{
    (void)state;
    static job j;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const uint32_t slow = (uint32_t)seed % RANKS;
        healthy(&j, seed);
        for (uint32_t at = slow; at < STEPS * RANKS; at += RANKS)
            j.disk_us[at] *= 8;
        expect(&j, slow, SHOALI_SLOW_DISK);
        healthy(&j, seed);
        for (uint32_t at = slow; at < STEPS * RANKS; at += RANKS)
            j.disk_us[at] *= 1.5F; /* 2 ms of 30 per step */
        expect(&j, NOBODY, SHOALI_SLOW_NOT);
    }
}

static void few_long_pauses_are_named(void **state)
{
    (void)state;
    static job j;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const uint32_t slow = (uint32_t)seed % RANKS, first = (uint32_t)seed;
        healthy(&j, seed);
        j.paused_us[first * RANKS + slow] = 900000; /* of 3.8 s */
        expect(&j, slow, SHOALI_SLOW_PAUSE);
        j.paused_us[(first + 20) * RANKS + (slow + 1) % RANKS] = 400000;
        expect(&j, NOBODY, SHOALI_SLOW_NOT); /* another one, too: the machine is busy */
        healthy(&j, seed);
        j.paused_us[first * RANKS + slow] = 250000;
        expect(&j, NOBODY, SHOALI_SLOW_NOT);
    }
}

static void a_pause_in_most_steps_is_none(void **state)
{
    (void)state;
    static job j;
    healthy(&j, 1);
    for (uint32_t s = 0; s < STEPS; s++)
        if (s % 3 > 0) {
            j.paused_us[s * RANKS + 2] = 20000;
            j.compute_us[s * RANKS + 2] += 20000;
        }
    expect(&j, 2, SHOALI_SLOW_COMPUTE);
}

static void causes_have_names(void **state)
{
    (void)state;
    assert_string_equal(shoali_slow_name(SHOALI_SLOW_INPUT), "input");
    assert_string_equal(shoali_slow_name(SHOALI_SLOW_LOAD), "load");
    assert_string_equal(shoali_slow_name(SHOALI_SLOW_DISK), "disk");
    assert_string_equal(shoali_slow_name(SHOALI_SLOW_PAUSE), "pause");
    assert_string_equal(shoali_slow_name(SHOALI_SLOW_CAUSES), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_all_have_is_nobodys_fault),
        CHECK_TEST(the_reason_of_long_computing_is_told),
        CHECK_TEST(who_has_more_samples_is_not_slow),
        CHECK_TEST(a_slow_disk_is_named),
        CHECK_TEST(few_long_pauses_are_named),
        CHECK_TEST(a_pause_in_most_steps_is_none),
        CHECK_TEST(causes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
