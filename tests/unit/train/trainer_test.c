/* SPDX-License-Identifier: Apache-2.0 */
/* A single worker against the same steps written out by hand, and against itself: resumed, slowed
 * down. */
#include "support/check.h"

#include <math.h>

#include "files/safetensors.h"
#include "support/tinydata.h"
#include "worker/worker.h"

enum { BATCH = 8 };
static char out[256];

static int set_up(void **state)
{
    tiny_set_up(state);
    snprintf(out, sizeof out, "%s/out", tiny_dir);
    return 0;
}

static shoal_train_desc tiny_desc(void)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = BATCH;
    desc.epochs = 3;
    desc.lr = 0.05;
    desc.schedule = "cosine";
    return desc;
}

/* Run to the end; the last progress. */
static shoal_train_progress run(shoal_train *train)
{
    shoal_train_progress progress = {.size = sizeof progress};
    do
        assert_ok(shoal_train_step(train, &progress));
    while (!progress.done);
    return progress;
}

/* The same training without the trainer: sampler, batch, gradients, optimiser. */
static void train_by_hand(float *params_out, size_t count)
{
    shoal_model *m = NULL;
    shoali_dataset *data = NULL;
    shoali_net *net = NULL;
    shoali_sampler *sampler = NULL;
    shoali_lr *lr = NULL;
    static float x[BATCH * TINY_SIDE * TINY_SIDE], velocity[4096];
    uint32_t labels[BATCH];
    shoali_crop crop = {.height = TINY_SIDE, .width = TINY_SIDE};
    assert_ok(shoal_model_open(tiny_model, &m));
    assert_ok(shoali_dataset_open(tiny_dir, &data));
    assert_ok(shoali_net_create(m, BATCH, 1, &net));
    assert_ok(shoali_sampler_create(TINY_TRAIN, 1, BATCH, 1, &sampler));
    assert_ok(shoali_lr_create("cosine", &lr));
    assert_int_equal(count, shoali_net_count(net));
    assert_true(count <= sizeof velocity / sizeof velocity[0]);
    memset(velocity, 0, sizeof velocity);
    uint64_t per_epoch = (TINY_TRAIN + BATCH - 1) / BATCH, steps = 3 * per_epoch;
    for (uint64_t step = 0; step < steps; step++) {
        shoali_loss loss;
        shoali_share share = shoali_sampler_share(sampler, step / per_epoch, step % per_epoch, 0);
        shoali_dataset_fill(data, &data->train, share.indices, share.count, share.first_serial,
                            &crop, x, labels);
        shoali_batch batch = {x, labels, share.count, share.first_serial, share.weight, NULL};
        assert_ok(shoali_net_train(net, &batch, NULL, NULL, &loss));
        float rate = (float)shoali_lr_at(lr, 0.05, step, steps);
        for (size_t i = 0; i < count; i++) {
            velocity[i] = 0.9f * velocity[i] + shoali_net_grads(net)[i];
            shoali_net_params(net)[i] -= rate * velocity[i];
        }
    }
    memcpy(params_out, shoali_net_params(net), count * sizeof *params_out);
    shoali_lr_destroy(lr);
    shoali_sampler_destroy(sampler);
    shoali_net_destroy(net);
    shoali_dataset_close(data);
    shoal_model_close(m);
}

static void trains_as_by_hand(void **state)
{
    (void)state;
    static float by_hand[4096];
    shoal_train *train = NULL;
    shoal_train_desc desc = tiny_desc();
    assert_ok(shoal_train_create(NULL, &desc, &train));
    shoal_train_progress progress = run(train);
    size_t count = shoali_net_count(train->net);
    train_by_hand(by_hand, count);
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(by_hand[i] - shoali_net_params(train->net)[i]) <= 1e-5f);
    assert_true(progress.epoch_ended && progress.epoch == 3 && progress.step == 27);
    assert_true(progress.test_accuracy > 60); /* chance is 25 */
    shoal_train_summary summary = {.size = sizeof summary};
    assert_ok(shoal_train_summarise(train, &summary));
    assert_true(summary.workers == 1 && summary.steps == 27 && summary.payload_bytes == 0);
    assert_true(summary.test_accuracy == progress.test_accuracy);
    assert_status(shoal_train_step(train, &progress), SHOAL_EINVAL);
    assert_error_has("ended after 27 steps");
    shoal_train_destroy(train);
}

static void resumed_is_bit_identical(void **state)
{
    (void)state;
    static float whole[4096], parts[4096];
    char line[512];
    shoal_train *train = NULL;
    shoal_train_desc desc = tiny_desc();
    desc.optimizer = "adam";
    assert_ok(shoal_train_create(NULL, &desc, &train));
    run(train);
    size_t count = shoali_net_count(train->net);
    memcpy(whole, shoali_net_params(train->net), count * sizeof whole[0]);
    shoal_train_destroy(train);

    desc.out = out;
    desc.checkpoint_every = 5;
    shoal_train_progress progress = {.size = sizeof progress};
    assert_ok(shoal_train_create(NULL, &desc, &train));
    for (int step = 0; step < 13;
         step++) /* stops after step 13: the newest checkpoint is of step 10 */
        assert_ok(shoal_train_step(train, &progress));
    shoal_train_destroy(train);
    desc.resume = out;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    assert_int_equal(train->step, 10);
    run(train);
    memcpy(parts, shoali_net_params(train->net), count * sizeof parts[0]);
    assert_memory_equal(whole, parts, count * sizeof parts[0]);
    shoal_train_destroy(train);
    assert_status(shoal_train_create(NULL, &desc, &train), SHOAL_EINVAL);
    assert_error_has("already done 27 of 27 steps");
    snprintf(line, sizeof line, "%s/checkpoints/step-10/common.safetensors", out);
    assert_null(fopen(line, "r")); /* only the newest two stay */
    snprintf(line, sizeof line, "%s/checkpoints/step-27/common.safetensors", out);
    shoali_safetensors *file = NULL;
    assert_ok(shoali_safetensors_open(line, &file));
    assert_string_equal(shoali_safetensors_metadata(file, "step"), "27");
    shoali_safetensors_close(file);
}

static void a_compute_time_of_its_own(void **state)
{
    (void)state;
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc();
    desc.compute_ms = 15;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    for (int step = 0; step < 3; step++)
        assert_ok(shoal_train_step(train, &progress));
    assert_true(train->totals.compute_us >=
                3 * 15000.0); /* never shorter; how much longer is the machine's */
    shoal_train_destroy(train);
}

static void gradients_that_are_no_numbers(void **state)
{
    (void)state;
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc();
    assert_ok(shoal_train_create(NULL, &desc, &train));
    train->params[0] = NAN;
    assert_status(shoal_train_step(train, &progress), SHOAL_ENOTFINITE);
    assert_error_has("this worker's gradient of ");
    shoal_train_destroy(train);
    desc.nonfinite = SHOAL_NONFINITE_SKIP;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    const float first = train->params[0];
    train->params[0] = NAN;
    assert_ok(shoal_train_step(train, &progress));
    train->params[0] = first; /* nothing was applied: all else is as it was */
    run(train);
    shoal_train_summary summary = {.size = sizeof summary};
    assert_ok(shoal_train_summarise(train, &summary));
    assert_int_equal(summary.skipped, 1);
    for (size_t i = 0; i < train->param_count; i++)
        assert_true(isfinite(train->params[i]));
    shoal_train_destroy(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(trains_as_by_hand),
        CHECK_TEST(resumed_is_bit_identical),
        CHECK_TEST(gradients_that_are_no_numbers),
        CHECK_TEST(a_compute_time_of_its_own),
    };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
