/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be trained is refused with a sentence that says why. */
#include "support/check.h"

#include "support/tinydata.h"
#include <jansson.h>

#include "worker/worker.h"

static int set_up(void **state)
{
    tiny_set_up(state);
    tiny_model_write(tiny_dir, true);
    return 0;
}

static void refused(const shoal_train_desc *desc, shoal_status status, const char *why)
{
    shoal_train *train = NULL;
    assert_status(shoal_train_create(NULL, desc, &train), status);
    assert_error_has(why);
    assert_null(train);
}

static void bad_descriptions(void **state)
{
    (void)state;
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    refused(&desc, SHOAL_EINVAL, "needs a model and a data directory");
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.size = 3;
    refused(&desc, SHOAL_EINVAL, "SHOAL_TRAIN_DESC_INIT");
    desc.size = sizeof desc;
    desc.lr = -1;
    refused(&desc, SHOAL_EINVAL, "out of range");
    desc.lr = 0;
    desc.model = "lenet";
    refused(&desc, SHOAL_EINVAL, "takes 1 x 28 x 28 inputs, the data in");
    desc.model = tiny_model;
    desc.optimizer = "sgd:momentun=0.9";
    refused(&desc, SHOAL_EINVAL, "momentum");
    desc.optimizer = NULL;
    desc.schedule = "cosinus";
    refused(&desc, SHOAL_EINVAL, "cosine");
    desc.schedule = NULL;
    desc.data = "/no/such/dir";
    refused(&desc, SHOAL_EIO, "/no/such/dir");
    desc.data = tiny_dir;
    desc.resume = tiny_dir;
    refused(&desc, SHOAL_EIO, "no checkpoint to go on from");
    desc.resume = NULL;
    desc.out = "/proc/1/nothing";
    refused(&desc, SHOAL_EIO, "cannot make the directory");
}

static void metrics_are_json_lines(void **state)
{
    (void)state;
    char path[256], line[2048];
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 32;
    snprintf(path, sizeof path, "%s/run", tiny_dir);
    desc.out = path;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    do
        assert_ok(shoal_train_step(train, &progress));
    while (!progress.done);
    shoal_train_destroy(train);
    snprintf(path, sizeof path, "%s/run/metrics.jsonl", tiny_dir);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    unsigned steps = 0, epochs = 0;
    double samples = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        steps += json_object_get(object, "compute_us") != NULL;
        epochs += json_object_get(object, "test_accuracy") != NULL;
        samples += json_number_value(json_object_get(object, "samples"));
        json_decref(object);
    }
    fclose(file);
    assert_int_equal(steps, 3); /* 70 samples by 32: the last step is partial */
    assert_int_equal(epochs, 1);
    assert_true(samples == TINY_TRAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(bad_descriptions),
                                       CHECK_TEST(metrics_are_json_lines)};
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
