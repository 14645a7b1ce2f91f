/* SPDX-License-Identifier: Apache-2.0 */
/* Dumped gradients are what the first step moved the weights by. */
#include "support/check.h"

#include <math.h>

#include "support/scratch_dir.h"
#include "support/tinydata.h"
#include "worker/worker.h"

static shoal_gradients *open_step(int step)
{
    char path[300];
    shoal_gradients *g = NULL;
    snprintf(path, sizeof path, "%s/g/step-%06d.safetensors", tiny_dir, step);
    assert_ok(shoal_gradients_open(path, &g));
    return g;
}

static void gradients_are_dumped(void **state)
{
    (void)state;
    char dump[300];
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train *train = NULL;
    snprintf(dump, sizeof dump, "%s/g", tiny_dir);
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 8;
    desc.lr = 0.5;
    desc.optimizer = "sgd:momentum=0";
    desc.dump_gradients = dump;
    desc.dump_every = 4;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    size_t count = shoali_net_count(train->net);
    float *before = malloc(count * sizeof *before);
    assert_non_null(before);
    memcpy(before, shoali_net_params(train->net), count * sizeof *before);
    assert_ok(shoal_train_step(train, &progress));

    shoal_gradients *g = open_step(1);
    const char *name;
    size_t n, seen = 0;
    const float *after = shoali_net_params(train->net), *values;
    for (uint32_t i = 0; (values = shoal_gradients_at(g, i, &name, &n)) != NULL; i++) {
        assert_string_equal(name, shoal_model_tensor_name(train->model, i));
        assert_int_equal(n, train->tensors[i].count);
        for (size_t e = 0; e < n; e++) {
            size_t at = train->tensors[i].offset + e;
            double moved = ((double)before[at] - (double)after[at]) / 0.5;
            assert_true(fabs(moved - (double)values[e]) < 1e-5);
        }
        seen += n;
    }
    assert_int_equal(seen, count);
    shoal_gradients_close(g);
    while (!progress.done)
        assert_ok(shoal_train_step(train, &progress));
    shoal_gradients_close(open_step(4));
    shoal_gradients_close(open_step(8));
    shoal_train *other = NULL; /* two runs would be mixed, whether the first has ended or not */
    assert_status(shoal_train_create(NULL, &desc, &other), SHOAL_EINVAL);
    assert_error_has("another run dumps");
    shoal_train_destroy(train);
    assert_status(shoal_train_create(NULL, &desc, &other), SHOAL_EINVAL);
    assert_error_has("holds gradients of another run");
    free(before);
}

static void a_bad_file_is_named(void **state)
{
    (void)state;
    shoal_gradients *g = NULL;
    scratch_write("short.safetensors", "abc", 3);
    assert_status(shoal_gradients_open(scratch_path("short.safetensors"), &g), SHOAL_ECORRUPT);
    assert_error_has("short.safetensors");
    assert_status(shoal_gradients_open("/nonexistent/x", &g), SHOAL_EIO);
    assert_null(g);
    shoal_gradients_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(gradients_are_dumped),
        CHECK_TEST(a_bad_file_is_named),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
