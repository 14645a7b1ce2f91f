/* SPDX-License-Identifier: Apache-2.0 */
/* run.json: what it keeps, that a changed one is refused, and that a run goes on by it alone. */
#include "folder/run_file.h"

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
    desc.lr = 0.1;
    desc.check_every = UINT32_MAX;
    desc.out = out;
    desc.options = "{\"lab\": \"rate=1gbit\", \"batch\": \"what the desc says counts\"}";
    return desc;
}

static int set_up(void **state)
{
    tiny_set_up(state);
    snprintf(out, sizeof out, "%s/run", tiny_dir);
    shoal_train_desc desc = desc_of_run();
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    if (shoal_train_create(NULL, &desc, &train) != SHOAL_OK)
        return 1;
    for (int i = 0; i < 7; i++)
        if (shoal_train_step(train, &progress) != SHOAL_OK)
            return 1;
    shoal_train_destroy(train);
    return 0;
}

static const char *option(const json_t *run, const char *name)
{
    return json_string_value(json_object_get(json_object_get(run, "options"), name));
}

static void it_says_all_of_the_run(void **state)
{
    (void)state;
    json_t *run = NULL, *data, *model;
    assert_ok(shoali_run_file_read(out, &run));
    assert_string_equal(option(run, "lr"), "0.1");
    assert_string_equal(option(run, "batch"), "10");
    assert_string_equal(option(run, "lab"), "rate=1gbit");
    assert_string_equal(option(run, "seed"), "1"); /* a default */
    assert_string_equal(option(run, "check-every"), "0");
    assert_true(option(run, "data")[0] == '/' && option(run, "out") == NULL);
    data = json_object_get(run, "data");
    assert_int_equal(json_integer_value(json_object_get(data, "train")), TINY_TRAIN);
    assert_int_equal(json_integer_value(json_object_get(data, "classes")), TINY_CLASSES);
    assert_int_equal(json_array_size(json_object_get(data, "mean")), 1);
    assert_int_equal(strlen(json_string_value(json_object_get(data, "sha256"))), 64);
    model = json_object_get(run, "model");
    assert_int_equal(json_array_size(json_object_get(model, "layers")), 4);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(run, "cluster"), "workers")), 1);
    json_decref(run);
}

static void a_changed_one_is_refused(void **state)
{
    (void)state;
    size_t length = 0;
    json_t *run = NULL;
    char *text = scratch_read("run/run.json", &length);
    for (size_t at = 0; at < length; at += 7) { /* a bit here and there */
        text[at] ^= 4;
        scratch_write("run/run.json", text, length);
        shoal_status status = shoali_run_file_read(out, &run);
        if (status == SHOAL_OK) { /* the last digit of a number may say the same number */
            json_decref(run);
            assert_true(text[at] >= '0' && text[at] <= '9');
        } else {
            assert_int_equal(status, SHOAL_ECORRUPT);
            assert_error_has("run.json");
        }
        text[at] ^= 4;
    }
    scratch_write("run/run.json", text, length);
    free(text);
    assert_status(shoali_run_file_read(tiny_dir, &run), SHOAL_EIO);
    assert_error_has("run.json");
}

static void a_run_goes_on_by_it_alone(void **state)
{
    (void)state;
    shoal_train *train = NULL;
    shoal_train_desc desc = desc_of_run();
    desc.resume = out;
    desc.model = desc.data = desc.out = NULL;
    assert_int_equal(rename(tiny_model, scratch_path("gone")), 0);
    assert_ok(shoal_train_create(NULL, &desc, &train));
    assert_int_equal(train->step, 7);
    assert_string_equal(shoal_train_model(train), tiny_model);
    shoal_train_destroy(train);
    assert_int_equal(rename(scratch_path("gone"), tiny_model), 0);
    desc.out = out;
    desc.options = "[]";
    assert_status(shoal_train_create(NULL, &desc, &train), SHOAL_EINVAL);
    assert_error_has("no JSON object");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(it_says_all_of_the_run),
        CHECK_TEST(a_changed_one_is_refused),
        CHECK_TEST(a_run_goes_on_by_it_alone),
    };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
