/* SPDX-License-Identifier: Apache-2.0 */
/* The flow interface with something that is no schedule: timers, control frames, silent members. */
#include "base/rng.h"
#include "support/check.h"
#include "support/enginecase.h"
#include "support/toyflow.h"

/* Members whose bit is set in silent contribute zeros. */
static void open_run(engine_run *run, uint32_t size, uint32_t silent, uint64_t seed)
{
    engine_case c = {
        .collective = "ring", .size = size, .count = 50, .order_seed = seed, .input_seed = seed};
    assert_true(engine_run_open(&c, run));
    for (uint32_t m = 0; m < size; m++) {
        if (silent >> m & 1) {
            memset(run->inputs[m], 0, 50 * sizeof(float));
            memset(run->bufs[m], 0, 50 * sizeof(float));
        }
        shoali_flow_args args = engine_run_args(run, m);
        assert_ok(memnet_start(run->net, &toy_flow, &args));
    }
}

static void sums(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 6; size++)
        for (uint32_t silent = 0; silent < (uint32_t)1 << size; silent += 3) {
            engine_run run;
            open_run(&run, size, silent, check_seed() + silent);
            if (!memnet_run(run.net, SIZE_MAX, run.text, sizeof run.text)) {
                print_error("stuck: %s\n", run.text);
                fail();
            }
            engine_run_assert_ok(&run);
            engine_run_assert_exact(&run);
            for (uint32_t m = 0; m < size; m++) {
                bool quiet = silent >> m & 1;
                assert_int_equal(memnet_result_of(run.net, m)->stats.sent_payload_bytes,
                                 quiet ? 0 : (size - 1) * 200);
            }
            engine_run_close(&run);
        }
}

static void members_vanish(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 4, 0};
    size_t failed = 0;
    for (int round = 0; round < 100; round++) {
        engine_run run;
        open_run(&run, 4, (uint32_t)round % 16, shoali_rng_next(&rng));
        if (!memnet_run(run.net, shoali_rng_next(&rng) % 60, run.text, sizeof run.text))
            memnet_kill(run.net, (uint32_t)round % 4);
        assert_true(memnet_run(run.net, SIZE_MAX, run.text, sizeof run.text));
        for (uint32_t m = 0; m < 4; m++)
            failed += memnet_result_of(run.net, m)->status == SHOAL_EPEER;
        engine_run_close(&run);
    }
    assert_true(failed > 50);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(sums),
    CHECK_TEST(members_vanish),
};

int main(void)
{
    return CHECK_RUN(tests);
}
