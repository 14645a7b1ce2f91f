/* SPDX-License-Identifier: Apache-2.0 */
/* A description's fields, each alone, as what its job asks for. */
#include "shoal/job.h"

#include "shoal/train.h"
#include "support/check.h"

static uint32_t asks_of(const shoal_train_desc *desc)
{
    shoal_job job = SHOAL_JOB_INIT;
    shoal_train_job(desc, 3, &job);
    assert_int_equal(job.size, sizeof job);
    assert_int_equal(job.workers, desc->simulate > 0 ? desc->simulate : 3);
    return job.asks;
}

static void each_field_asks_for_its_feature(void **state)
{
    (void)state;
    shoal_train_desc desc[14];
    for (size_t i = 0; i < 14; i++)
        desc[i] = (shoal_train_desc)SHOAL_TRAIN_DESC_INIT;
    desc[1].simulate = 8;
    desc[2].reform = true;
    desc[3].plan = "p";
    desc[4].admm = "a";
    desc[5].batch_auto = true;
    desc[6].no_exchange = true;
    desc[7].resume = "r";
    desc[8].nonfinite = SHOAL_NONFINITE_SKIP;
    desc[9].compute_ms = 1;
    desc[10].dump_gradients = "d";
    desc[11].clip_norm = 0.5;
    desc[12].checkpoint_every = 5;
    desc[13].may_stop = true;
    const uint32_t bits[14] = {0,
                               SHOAL_JOB_SIMULATED,
                               SHOAL_JOB_REFORM,
                               SHOAL_JOB_PLAN,
                               SHOAL_JOB_ADMM,
                               SHOAL_JOB_BATCH_AUTO,
                               SHOAL_JOB_NO_EXCHANGE,
                               SHOAL_JOB_RESUME,
                               SHOAL_JOB_SKIPS,
                               SHOAL_JOB_PACED,
                               SHOAL_JOB_DUMPS,
                               SHOAL_JOB_CLIPS,
                               SHOAL_JOB_CHECKPOINTS,
                               SHOAL_JOB_STOPS};
    for (size_t i = 0; i < 14; i++)
        assert_int_equal(asks_of(&desc[i]), bits[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(each_field_asks_for_its_feature)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
