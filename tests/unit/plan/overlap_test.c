/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "plan/predict.h"

/* With processors of its own the fluid is the bucket recurrence. */
static void the_recurrence(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (uint64_t trial = 0; trial < 500; trial++) {
        shoali_bucket_time b[8] = {{0}};
        double end = 0, total = 0, compute = 1 + 10 * shoali_rng_double(seed, trial, 0);
        uint32_t count = 1 + (uint32_t)(8 * shoali_rng_double(seed, trial, 1)) % 8;
        for (uint32_t i = 0; i < count; i++) {
            b[i].ready_s = compute * (i + 1) / count;
            b[i].link_s = 3 * shoali_rng_double(seed, trial, 10 + i);
            b[i].wait_s = 0.1 * shoali_rng_double(seed, trial, 20 + i);
            b[i].cpu_s = b[i].link_s * shoali_rng_double(seed, trial, 30 + i);
            double exchange = b[i].link_s + b[i].wait_s;
            end = fmax(end, b[i].ready_s) + exchange;
            total += exchange;
        }
        shoali_overlap got = shoali_overlap_run(b, count, compute, INFINITY, 0);
        double want = fmax(end, compute);
        assert_true(fabs(got.finish_s - want) < 1e-9 * want);
        assert_true(fabs(got.exposed_s - (want - compute)) < 1e-9 * want);
        assert_true(fabs(got.hidden_s - (total - got.exposed_s)) < 1e-9 * want);
    }
}

/* Half a processor per worker: the work of both adds up, whatever the order. */
static void a_shared_processor(void **state)
{
    (void)state;
    shoali_bucket_time all_cpu = {.ready_s = 0, .cpu_s = 2};
    shoali_overlap got = shoali_overlap_run(&all_cpu, 1, 3, 0.5, 0);
    assert_true(fabs(got.finish_s - 10) < 1e-9); /* (2 + 3) / 0.5 */
    shoali_bucket_time all_link = {.ready_s = 0, .link_s = 2};
    got = shoali_overlap_run(&all_link, 1, 3, 0.5, 0);
    assert_true(fabs(got.finish_s - 6) < 1e-9 && got.exposed_s < 1e-9);
    shoali_bucket_time late = {.ready_s = 3, .link_s = 2, .wait_s = 1};
    got = shoali_overlap_run(&late, 1, 3, 1, 0);
    assert_true(fabs(got.finish_s - 6) < 1e-9 && fabs(got.exposed_s - 3) < 1e-9);
}

/* What the exchange takes from the computation: busy_share of it while both run. */
static void a_stolen_share(void **state)
{
    (void)state;
    shoali_bucket_time b = {.ready_s = 0, .link_s = 2};
    shoali_overlap got = shoali_overlap_run(&b, 1, 3, INFINITY, 0.25);
    assert_true(fabs(got.finish_s - 3.5) < 1e-9); /* 2 s at 3/4 speed, then 1.5 s */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_recurrence),
        CHECK_TEST(a_shared_processor),
        CHECK_TEST(a_stolen_share),
    };
    return CHECK_RUN(tests);
}
