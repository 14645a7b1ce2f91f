/* SPDX-License-Identifier: Apache-2.0 */
/* A test of the whole split beside its samples one by one; with the average of the weights, which
 * is lent to the net for the test only. Workers that differ: tests/proc/train_test.c. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "support/tinydata.h"
#include "train/train.h"

static void open_at_step_3(const char *optimizer, shoal_train **train_out)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    shoal_train_progress progress = {.size = sizeof progress};
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 5; /* no divisor of the split */
    desc.optimizer = optimizer;
    assert_ok(shoal_train_create(NULL, &desc, train_out));
    for (int i = 0; i < 3; i++)
        assert_ok(shoal_train_step(*train_out, &progress));
}

/* Mean loss and percent of right answers, by a net of its own that sees one sample at a time. */
static void by_hand(const float *params, double *loss_out, double *accuracy_out)
{
    shoal_model *model = NULL;
    shoali_dataset *data = NULL;
    shoali_net *net = NULL;
    float x[TINY_SIDE * TINY_SIDE];
    uint32_t label, right = 0;
    double sum = 0;
    const shoali_crop crop = {.height = TINY_SIDE, .width = TINY_SIDE};
    assert_ok(shoal_model_open(tiny_model, &model));
    assert_ok(shoali_dataset_open(tiny_dir, &data));
    assert_ok(shoali_net_create(model, 1, 1, &net));
    memcpy(shoali_net_params(net), params, shoali_net_count(net) * sizeof *params);
    for (uint32_t i = 0; i < data->test.count; i++) {
        shoali_loss loss;
        shoali_dataset_fill(data, &data->test, &i, 1, 0, &crop, x, &label);
        const shoali_batch batch = {x, &label, 1, 0, 1, NULL};
        assert_ok(shoali_net_evaluate(net, &batch, &loss));
        sum += loss.sum;
        right += (uint32_t)loss.correct;
    }
    *loss_out = sum / data->test.count;
    *accuracy_out = 100.0 * right / data->test.count;
    shoali_net_destroy(net);
    shoali_dataset_close(data);
    shoal_model_close(model);
}

static void check(shoal_train *train, const float *weights)
{
    double loss, accuracy;
    float own;
    by_hand(weights, &loss, &accuracy);
    assert_ok(shoali_train_evaluate(train, true));
    assert_true(fabs(train->epoch.test_loss - loss) < 1e-5 * loss);
    assert_float_equal(train->epoch.test_accuracy, accuracy, 1e-6);
    assert_ok(shoali_train_evaluate_alone(train, &own));
    assert_float_equal(own, accuracy, 1e-4);
}

static void a_test_is_that_of_its_samples(void **state)
{
    (void)state;
    shoal_train *train = NULL;
    open_at_step_3("sgd", &train);
    check(train, train->params);
    assert_ok(shoali_train_evaluate(train, false)); /* there is none */
    assert_true(isnan(train->epoch.test_loss) && isnan(train->epoch.test_accuracy));
    shoal_train_destroy(train);
}

static void an_average_is_tested_and_the_weights_stay(void **state)
{
    (void)state;
    shoal_train *train = NULL;
    open_at_step_3("sgd:ema=0.5", &train);
    const size_t bytes = train->param_count * sizeof *train->params;
    const float *average = shoali_optim_average(train->update.optim);
    float *before = malloc(bytes);
    assert_non_null(before);
    memcpy(before, train->params, bytes);
    assert_memory_not_equal(before, average, bytes);
    check(train, average);
    assert_memory_equal(before, train->params, bytes);
    free(before);
    shoal_train_destroy(train);
}

static void one_worker_agrees_with_itself(void **state)
{
    (void)state;
    shoal_train *train = NULL;
    open_at_step_3("sgd", &train);
    assert_false(shoali_train_exchanges(train));
    assert_ok(shoali_train_check_replicas(train));
    shoal_train_destroy(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(a_test_is_that_of_its_samples),
                                       CHECK_TEST(an_average_is_tested_and_the_weights_stay),
                                       CHECK_TEST(one_worker_agrees_with_itself)};
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
