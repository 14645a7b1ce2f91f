/* SPDX-License-Identifier: Apache-2.0 */
/* Several workers in one process train like one worker with their whole batch, whatever the
 * collective; coded exchanges cost what the format says. */
#include "worker/simulated.h"

#include <math.h>

#include "support/check.h"
#include "support/tinydata.h"

static shoal_train_summary train(uint32_t workers, uint32_t batch, const char *collective,
                                 const char *codec)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_summary summary = {.size = sizeof summary};
    shoal_train *t = NULL;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = batch;
    desc.epochs = 4;
    desc.lr = 0.1;
    desc.simulate = workers;
    desc.collective = collective;
    desc.codec = codec;
    assert_ok(shoal_train_create(NULL, &desc, &t));
    do
        assert_ok(shoal_train_step(t, &progress));
    while (!progress.done);
    assert_ok(shoal_train_summarise(t, &summary));
    shoal_train_destroy(t);
    return summary;
}

static void workers_train_like_one(void **state)
{
    (void)state;
    shoal_train_summary one = train(0, 16, NULL, NULL), four = train(4, 4, "ring", "identity");
    shoal_train_summary direct = train(8, 2, "direct", "identity");
    assert_int_equal(one.steps, four.steps);
    assert_int_equal(four.workers, 4);
    assert_true(fabs(one.test_loss - four.test_loss) < 1e-4);
    assert_true(fabs(one.test_loss - direct.test_loss) < 1e-4);
    assert_true(fabs(one.train_loss - four.train_loss) < 1e-4);
}

static void coded_gradients_train_too(void **state)
{
    (void)state;
    static const char *const codecs[] = {"terngrad",
                                         "terngrad:ef",
                                         "terngrad:scaler=own",
                                         "terngrad:scaler=global",
                                         "terngrad:scaler=rms",
                                         "inceptionn"};
    shoal_train_summary plain = train(4, 4, "direct", "identity");
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        shoal_train_summary coded = train(4, 4, "direct", codecs[i]);
        assert_true(isfinite(coded.test_loss) && coded.test_loss < 3 * plain.test_loss + 0.5);
        assert_true(coded.payload_bytes < plain.payload_bytes);
    }
    /* (N - 1) (2 + 4 bits) of 32 + 32, and the ends of pieces */
    double ratio = train(4, 4, "direct", "terngrad").payload_bytes / plain.payload_bytes;
    assert_true(ratio > 6.0 / 64 && ratio < 6.0 / 64 * 1.1);
}

static void bad_combinations_are_refused(void **state)
{
    (void)state;
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    shoal_train *t = NULL;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.simulate = 2;
    desc.sync = "param_server";
    assert_status(shoal_train_create(NULL, &desc, &t), SHOAL_EINVAL);
    assert_error_has("--simulate does not go with --sync param_server");
    desc.sync = NULL;
    desc.resume = tiny_dir;
    assert_status(shoal_train_create(NULL, &desc, &t), SHOAL_EINVAL);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(workers_train_like_one),
        CHECK_TEST(coded_gradients_train_too),
        CHECK_TEST(bad_combinations_are_refused),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
