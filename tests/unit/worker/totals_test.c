/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker has counted is what its metrics file says, step by step. */
#include <jansson.h>
#include <math.h>

#include "support/check.h"
#include "support/tinydata.h"
#include "worker/worker.h"

static double sum_of(const char *path, const char *key)
{
    char line[1024];
    double sum = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        sum += json_number_value(json_object_get(object, key)); /* 0 where it has none */
        json_decref(object);
    }
    fclose(file);
    return sum;
}

static void totals_are_those_of_the_metrics(void **state)
{
    (void)state;
    char out[256], path[300];
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_totals totals = {.size = sizeof totals};
    shoal_train *train = NULL;
    snprintf(out, sizeof out, "%s/out", tiny_dir);
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 8;
    desc.out = out;
    desc.checkpoint_every = 5;
    desc.max_steps = 7;
    desc.nonfinite = SHOAL_NONFINITE_SKIP;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    shoal_train_count(train, &totals);
    assert_true(totals.steps == 0 && totals.checkpoint_step == 0 && totals.workers == 1);
    const float first = train->params[0];
    train->params[0] = NAN;
    assert_ok(shoal_train_step(train, &progress));
    train->params[0] = first;
    for (int step = 1; step < 6; step++)
        assert_ok(shoal_train_step(train, &progress));
    shoal_train_count(train, &totals);
    assert_int_equal(totals.checkpoint_step, 5);
    assert_ok(shoal_train_step(train, &progress));
    shoal_train_count(train, &totals);
    shoal_train_destroy(train);
    assert_int_equal(totals.steps, 7);
    assert_int_equal(totals.skipped, 1);
    assert_true((double)totals.samples == sum_of(path, "samples"));
    assert_true(fabs(totals.step_s * 1e6 - sum_of(path, "step_us")) <= 7);
    assert_true(fabs(totals.compute_s * 1e6 - sum_of(path, "compute_us")) <= 7);
    assert_true(fabs(totals.update_s * 1e6 - sum_of(path, "update_us")) <= 7);
    assert_true(totals.compute_s > 0 && totals.step_s >= totals.compute_s + totals.update_s);
    assert_true(totals.wait_s == 0 && totals.sent_bytes == 0 && totals.lost == 0);
}

/* Lower bounds alone: a machine may be as busy as it likes. */
static void computing_is_told_apart(void **state)
{
    (void)state;
    enum { STEPS = 3, MS = 30 };
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_totals totals = {.size = sizeof totals};
    shoal_train *train = NULL;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 8;
    desc.max_steps = STEPS;
    desc.compute_ms = MS;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    const double forward = train->info.forward_flops / train->pace.total_flops;
    for (int step = 0; step < STEPS; step++)
        assert_ok(shoal_train_step(train, &progress));
    shoal_train_count(train, &totals);
    shoal_train_destroy(train);
    assert_true(fabs(totals.data_s + totals.forward_s + totals.backward_s - totals.compute_s) <
                1e-9);
    assert_true(totals.data_s > 0 || totals.compute_s > 0);
    assert_true((totals.data_s + totals.forward_s) * 1e3 >= 0.99 * forward * MS * STEPS);
    assert_true(totals.backward_s > 0 && forward > 0.1 && forward < 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(totals_are_those_of_the_metrics),
        CHECK_TEST(computing_is_told_apart),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
