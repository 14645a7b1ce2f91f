/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint needs nothing beside its file: neither the model's file, nor the split that its
 * samples were standardised by. Whoever goes on with another model or other data is refused. */
#include "folder/checkpoint_about.h"

#include <math.h>
#include <unistd.h>

#include "model/model.h"
#include "support/check.h"
#include "support/scratch_dir.h"
#include "support/tinydata.h"

static char out[256];

static shoal_train_desc desc_of_run(void)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 10;
    desc.epochs = 2;
    desc.out = out;
    return desc;
}

static int set_up(void **state)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    tiny_set_up(state);
    snprintf(out, sizeof out, "%s/run", tiny_dir);
    shoal_train_desc desc = desc_of_run();
    if (shoal_train_create(NULL, &desc, &train) != SHOAL_OK)
        return 1;
    do
        if (shoal_train_step(train, &progress) != SHOAL_OK)
            return 1;
    while (!progress.done);
    shoal_train_destroy(train);
    return 0;
}

static shoali_safetensors *opened(void)
{
    shoali_safetensors *file = NULL;
    assert_ok(
        shoali_safetensors_open(scratch_path("run/checkpoints/step-14/common.safetensors"), &file));
    return file;
}

static void the_model_is_inside(void **state)
{
    (void)state;
    shoal_model *inside = NULL, *given = NULL;
    shoali_safetensors *file = opened();
    assert_ok(shoal_model_open(tiny_model, &given));
    assert_int_equal(rename(tiny_model, scratch_path("gone")), 0);
    assert_ok(shoali_about_model(file, "f", &inside));
    assert_true(shoali_same_layers(inside, given));
    assert_string_equal(inside->name, given->name);
    assert_int_equal(rename(scratch_path("gone"), tiny_model), 0);
    shoal_model_close(given);
    assert_ok(shoal_model_open("mlp-small", &given));
    assert_false(shoali_same_layers(inside, given));
    shoal_model_close(given);
    shoal_model_close(inside);
    shoali_safetensors_close(file);
}

static void samples_are_standardised_as_in_training(void **state)
{
    (void)state;
    shoali_dataset *data = NULL;
    shoali_safetensors *file = opened();
    assert_ok(shoali_dataset_open(tiny_dir, &data));
    const float mean = data->mean[0], inverse = data->inv_deviation[0];
    data->mean[0] = 0.5f; /* as of another train split */
    data->inv_deviation[0] = 1;
    assert_ok(shoali_about_standardise(file, "f", "d", data));
    assert_true(data->mean[0] == mean && data->inv_deviation[0] == inverse); /* to the last bit */
    data->classes = 5;
    assert_status(shoali_about_standardise(file, "f", "d", data), SHOAL_EINVAL);
    assert_error_has("f was trained on 4 classes, d has 5");
    data->classes = 4;
    data->channels = 3;
    assert_status(shoali_about_standardise(file, "f", "d", data), SHOAL_EINVAL);
    assert_error_has("3 channels");
    data->channels = 1;
    data->sequences = true;
    assert_status(shoali_about_standardise(file, "f", "d", data), SHOAL_EINVAL);
    assert_error_has("was trained on images");
    data->sequences = false;
    shoali_dataset_close(data);
    shoali_safetensors_close(file);
}

static void refused(const shoal_train_desc *desc, const char *says)
{
    shoal_train *train = NULL;
    assert_status(shoal_train_create(NULL, desc, &train), SHOAL_EINVAL);
    assert_error_has(says);
}

static void another_run_is_refused(void **state)
{
    (void)state;
    static const char layers[] = "{\"name\": \"m\", \"input\": [1, 6, 6], \"layers\": "
                                 "[\"flatten\", \"dense:out=16\", \"relu\", \"dense:out=4\"]}";
    shoal_train_desc desc = desc_of_run();
    char path[300], labels[300];
    desc.resume = out;
    desc.epochs = 3;
    desc.seed = 2;
    refused(&desc, "use the same to resume");
    desc.seed = 1;
    scratch_write("other.json", layers, sizeof layers - 1); /* the same tensors: relu, not tanh */
    snprintf(path, sizeof path, "%s/other.json", tiny_dir);
    desc.model = path;
    refused(&desc, "whose layers are others");
    desc.model = tiny_model;
    snprintf(labels, sizeof labels, "t10k-labels-idx1-ubyte");
    size_t length = 0;
    uint8_t *bytes = scratch_read(labels, &length);
    bytes[length - 1] = (uint8_t)((bytes[length - 1] + 1) % TINY_CLASSES);
    scratch_write(labels, bytes, length);
    refused(&desc, "was trained on other samples");
    bytes[length - 1] = (uint8_t)((bytes[length - 1] + TINY_CLASSES - 1) % TINY_CLASSES);
    scratch_write(labels, bytes, length);
    free(bytes);
    shoal_train *train = NULL;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    assert_int_equal(train->step, 14);
    shoal_train_destroy(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_model_is_inside),
        CHECK_TEST(samples_are_standardised_as_in_training),
        CHECK_TEST(another_run_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
