/* SPDX-License-Identifier: Apache-2.0 */
/* onebit and adam as a pair: what both have to know alike, and what leaves neither alone. */
#include "support/check.h"

#include <string.h>

#include "shoal/job.h"

static shoal_status ask(const char *codec, const char *optimizer, uint32_t asks)
{
    shoal_job job = SHOAL_JOB_INIT;
    job.codec = codec;
    job.optimizer = optimizer;
    job.asks = asks;
    job.workers = 4;
    return shoal_job_check(&job);
}

/* Codec and optimiser count the same steps, and neither ever counts anew. */
static void renewals_go_together(void **state)
{
    (void)state;
    static const char codec[] = "onebit:warmup=9,kappa=4", adam[] = "adamw:freeze=9,kappa=4";
    assert_ok(ask(codec, adam, 0));
    assert_ok(ask(codec, NULL, 0));
    assert_ok(ask("identity", adam, SHOAL_JOB_REFORM));
    static const char *const others[] = {"sgd", "adam", "adam:freeze=9", "adam:kappa=5,freeze=9"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ask(codec, others[i], 0), SHOAL_EINVAL);
        assert_error_has(others[i]);
        assert_non_null(strstr(shoal_last_error()->advice, "kappa=4"));
    }
    assert_int_equal(ask(codec, adam, SHOAL_JOB_REFORM), SHOAL_EINVAL);
    assert_error_has("--on-loss reform does not go with --codec onebit:warmup=9,kappa=4");
    assert_int_equal(ask(codec, adam, SHOAL_JOB_SKIPS), SHOAL_EINVAL);
    assert_error_has("--nonfinite skip");
    assert_ok(ask("onebit:warmup=9", "adam:freeze=9", SHOAL_JOB_SKIPS));
}

/* As the above, by what goes on between two meetings. */
static void who_goes_apart_meets_alike(void **state)
{
    (void)state;
    static const char codec[] = "onebit:warmup=9,local=4,doubling=7",
                      adam[] = "adamw:doubling=7,local=4,freeze=9";
    assert_ok(ask(codec, adam, 0));
    assert_ok(ask(codec, adam, SHOAL_JOB_RESUME | SHOAL_JOB_CHECKPOINTS | SHOAL_JOB_PACED));
    assert_ok(ask("onebit:local=4", "adam:freeze=100,local=4", 0));
    assert_ok(ask(codec, NULL, 0));
    static const char *const others[] = {"sgd",
                                         "adam",
                                         "adam:freeze=9",
                                         "adam:freeze=9,local=8,doubling=7",
                                         "adam:freeze=9,local=4",
                                         "adam:freeze=8,local=4,doubling=7",
                                         "adam:freeze=9,local=4,doubling=7,beta1=0.8"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(ask(codec, others[i], 0), SHOAL_EINVAL);
        assert_error_has(others[i]);
        assert_non_null(strstr(shoal_last_error()->advice, "freeze=W,local=H"));
    }
    assert_int_equal(ask("identity", adam, 0), SHOAL_EINVAL);
    assert_int_equal(ask("onebit:warmup=9", adam, 0), SHOAL_EINVAL);
    static const struct {
        uint32_t bit;
        const char *option;
    } options[] = {{SHOAL_JOB_REFORM, "--on-loss reform"},
                   {SHOAL_JOB_SKIPS, "--nonfinite skip"},
                   {SHOAL_JOB_SIMULATED, "--simulate"},
                   {SHOAL_JOB_PLAN, "--plan"},
                   {SHOAL_JOB_ADMM, "--admm"},
                   {SHOAL_JOB_BATCH_AUTO, "--batch auto"},
                   {SHOAL_JOB_CLIPS, "--clip-norm"},
                   {SHOAL_JOB_STOPS, "--on-term checkpoint"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        assert_int_equal(ask(codec, adam, options[i].bit), SHOAL_EINVAL);
        assert_error_has(options[i].option);
        assert_error_has(codec);
    }
}

static shoal_status ask_sync(const char *sync, const char *codec, uint32_t workers)
{
    shoal_job job = SHOAL_JOB_INIT;
    job.sync = sync;
    job.codec = codec;
    job.optimizer = "adam:freeze=100,local=4";
    job.workers = workers;
    return shoal_job_check(&job);
}

static void it_takes_sums_of_gradients_and_somebody_to_meet(void **state)
{
    (void)state;
    static const char *const syncs[] = {"local_sgd", "diloco",  "param_server", "hop",
                                        "ripples",   "ad_psgd", "d_psgd",       "noloco"};
    assert_ok(ask_sync("all_reduce", "onebit:local=4", 2));
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++)
        assert_int_equal(ask_sync(syncs[i], "onebit:local=4", 4), SHOAL_EINVAL);
    assert_int_equal(ask_sync("all_reduce", "onebit:local=4", 1), SHOAL_EINVAL);
    assert_error_has("not with one alone");
    assert_int_equal(ask_sync("all_reduce", "onebit:local=3", 4), SHOAL_EINVAL);
    assert_error_has("power of two");
    assert_int_equal(ask_sync("all_reduce", "auto:allow=onebit:local=4", 4), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(renewals_go_together),
        CHECK_TEST(who_goes_apart_meets_alike),
        CHECK_TEST(it_takes_sums_of_gradients_and_somebody_to_meet),
    };
    return CHECK_RUN(tests);
}
