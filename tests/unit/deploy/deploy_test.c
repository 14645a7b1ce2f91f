/* SPDX-License-Identifier: Apache-2.0 */
/* A run's checkpoint, opened again: the same figures as at the end of training, fixed point beside
 * them, the matrices as hardware sees them. */
#include "shoal/deploy.h"

#include <math.h>

#include "support/check.h"
#include "support/scratch_dir.h"
#include "support/tinydata.h"

#include "worker/worker.h"

static shoal_train_summary trained;
static char out[256];

static int set_up(void **state)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    static const char model[] = "{\"name\": \"m\", \"input\": [1, 6, 6], \"layers\": [\"flatten\", "
                                "\"circulant:out=24,block=4\", \"relu\", \"dense:out=4\"]}";
    tiny_set_up(state);
    scratch_write("model.json", model, sizeof model - 1);
    snprintf(out, sizeof out, "%s/run", tiny_dir);
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.epochs = 6;
    desc.batch = 10;
    desc.lr = 0.05;
    desc.out = out;
    trained.size = sizeof trained;
    if (shoal_train_create(NULL, &desc, &train) != SHOAL_OK)
        return 1;
    do
        if (shoal_train_step(train, &progress) != SHOAL_OK)
            return 1;
    while (!progress.done);
    shoal_status status = shoal_train_summarise(train, &trained);
    shoal_train_destroy(train);
    return status == SHOAL_OK ? 0 : 1;
}

static shoal_deploy *opened(void)
{
    shoal_deploy *d = NULL;
    shoal_deploy_desc desc = SHOAL_DEPLOY_DESC_INIT;
    desc.from = out;
    desc.data = tiny_dir;
    assert_ok(shoal_deploy_open(&desc, &d));
    return d;
}

static void figures_are_those_of_training(void **state)
{
    (void)state;
    shoal_deploy *d = opened();
    shoal_deploy_result r = {.size = sizeof r}, fixed = r;
    assert_ok(shoal_deploy_evaluate(d, 0, &r));
    assert_true(fabs(r.loss - trained.test_loss) < 1e-5);
    assert_true(fabs(r.accuracy - trained.test_accuracy) < 1e-4);
    assert_int_equal(r.samples, TINY_TEST);
    assert_true(isnan(r.symbol_error_rate));
    assert_ok(shoal_deploy_evaluate(d, 16, &fixed));
    assert_true(fabs(fixed.loss - r.loss) < 0.01 && fixed.loss != r.loss);
    assert_ok(shoal_deploy_evaluate(d, 12, &fixed));
    assert_true(fabs(fixed.loss - r.loss) < 0.05 && fixed.loss != r.loss);
    assert_status(shoal_deploy_evaluate(d, 8, &fixed), SHOAL_EINVAL);
    assert_ok(shoal_deploy_evaluate(d, 12, &r)); /* a failure breaks nothing */
    assert_true(r.loss == fixed.loss);
    shoal_deploy_close(d);
}

static void matrices_and_cycles(void **state)
{
    (void)state;
    shoal_deploy *d = opened();
    shoal_deploy_matrix m = {.size = sizeof m};
    shoal_deploy_result r = {.size = sizeof r};
    assert_false(shoal_deploy_matrix_of(d, 0, &m)); /* nothing in fixed point yet */
    assert_ok(shoal_deploy_evaluate(d, 12, &r));
    assert_true(shoal_deploy_matrix_of(d, 0, &m));
    assert_string_equal(m.name, "circulant1.weight");
    assert_int_equal(m.block_products, 6 * 9);
    assert_int_equal(m.weights, 6 * 9 * 4);
    assert_int_equal(m.multipliers, 6);
    assert_int_equal(shoal_deploy_cycles(&m, 10, 7), 6 + 9 + 7);
    assert_int_equal(shoal_deploy_cycles(&m, 64, 0), 1 + 9);
    assert_true(shoal_deploy_matrix_of(d, 1, &m));
    assert_string_equal(m.name, "dense1.weight");
    assert_int_equal(m.block_products, 4 * 24);
    assert_int_equal(m.multipliers, 1);
    assert_false(shoal_deploy_matrix_of(d, 2, &m));
    shoal_deploy_close(d);
}

static void refused(const char *from, const char *model, const char *data, shoal_status status,
                    const char *part)
{
    shoal_deploy *d = NULL;
    shoal_deploy_desc desc = SHOAL_DEPLOY_DESC_INIT;
    desc.from = from;
    desc.model = model;
    desc.data = data;
    assert_status(shoal_deploy_open(&desc, &d), status);
    assert_error_has(part);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    refused(NULL, NULL, tiny_dir, SHOAL_EINVAL, "SHOAL_DEPLOY_DESC_INIT");
    refused(tiny_dir, NULL, tiny_dir, SHOAL_EIO, "no checkpoint");
    refused(out, NULL, "/no/such/dir", SHOAL_EIO, "/no/such/dir");
    refused(out, "lenet", tiny_dir, SHOAL_EINVAL, "28 x 28");
    scratch_write("x.safetensors", "rubbish", 7);
    refused(scratch_path("x.safetensors"), NULL, tiny_dir, SHOAL_ECORRUPT, "x.safetensors");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CHECK_TEST(figures_are_those_of_training),
        CHECK_TEST(matrices_and_cycles),
        CHECK_TEST(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
