/* SPDX-License-Identifier: Apache-2.0 */
/* Networks in virtual time take the same steps as without time, whatever the links do; protocols
 * whose replicas differ end with one model; runs repeat. */
#include "shoal/train.h"

#include <math.h>
#include <string.h>

#include "support/check.h"
#include "support/scratch_dir.h"
#include "support/tinydata.h"

enum { WORKERS = 4, EPOCHS = 4 };

static const char *dir;
static char model[300];

static int set_up(void **state)
{
    (void)state;
    dir = scratch_dir_make();
    tiny_data_write(dir, check_seed());
    snprintf(model, sizeof model, "%s/model.json", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_dir_remove();
    return 0;
}

static shoal_train_desc describe(const char *sync)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = model;
    desc.data = dir;
    desc.batch = 4;
    desc.epochs = EPOCHS;
    desc.lr = 0.1;
    desc.optimizer = "sgd:momentum=0.5,decay=1e-4";
    desc.schedule = "cosine";
    desc.sync = sync;
    return desc;
}

static shoal_sim *run(const char *sync, const char *compute)
{
    const shoal_train_desc desc = describe(sync);
    shoal_sim_desc world = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim = NULL;
    world.workers = WORKERS;
    world.compute = compute;
    world.network = "links:rate=1mbit,hosts=2";
    assert_ok(shoal_train_in_virtual_time(&desc, &world, &sim));
    assert_ok(shoal_sim_run(sim));
    return sim;
}

static shoal_sim_results results(const shoal_sim *sim)
{
    shoal_sim_results r = {.size = sizeof r};
    assert_ok(shoal_sim_results_get(sim, &r));
    return r;
}

static void check_equal(const shoal_sim *a, uint32_t i, const shoal_sim *b, uint32_t j)
{
    size_t count = 0, other = 0;
    const float *x = shoal_sim_params(a, i, &count), *y = shoal_sim_params(b, j, &other);
    assert_true(count > 0 && count == other);
    assert_memory_equal(x, y, count * sizeof *x);
}

static double accuracy(const shoal_sim *sim, uint32_t worker)
{
    shoal_sim_endpoint_results e = {.size = sizeof e};
    assert_ok(shoal_sim_endpoint_get(sim, worker, &e));
    return e.test_accuracy;
}

/* Batch norm's statistics are each worker's own in time and common without, so there is none. */
static void time_changes_no_step(void **state)
{
    (void)state;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = describe(NULL);
    shoal_train *train = NULL;
    tiny_model_write(dir, false);
    desc.simulate = WORKERS;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    do
        assert_ok(shoal_train_step(train, &progress));
    while (!progress.done);
    shoal_sim *sim = run("all_reduce", "fixed:ms=5,jitter=0.2,slow=2:3x");
    const shoal_sim_results r = results(sim);
    assert_int_equal(r.iterations_min, progress.steps);
    assert_true(r.test_loss == progress.test_loss);
    assert_true(r.test_accuracy == progress.test_accuracy);
    assert_true(isnan(accuracy(sim, 0)));
    shoal_train_destroy(train);
    shoal_sim_destroy(sim);
}

static void every_protocol_trains(void **state)
{
    (void)state;
    static const char *const syncs[] = {"param_server",
                                        "param_server:dedicated,async",
                                        "hop",
                                        "local_sgd:every=3",
                                        "diloco:every=4",
                                        "ad_psgd",
                                        "ripples",
                                        "d_psgd"};
    tiny_model_write(dir, true);
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++) {
        shoal_sim *sim = run(syncs[i], "fixed:ms=5,jitter=0.2");
        const shoal_sim_results r = results(sim);
        uint32_t points;
        const shoal_sim_point *curve = shoal_sim_curve(sim, &points);
        assert_true(points > 2 && isnan(curve[0].loss));
        assert_true(curve[points - 1].loss < curve[1].loss);
        assert_true(r.train_loss == curve[points - 1].loss && r.test_accuracy > 30);
        for (uint32_t w = 1; w < WORKERS; w++)
            check_equal(sim, w, sim, 0);
        shoal_sim_destroy(sim);
    }
}

static void a_run_repeats(void **state)
{
    (void)state;
    tiny_model_write(dir, true);
    shoal_sim *sims[2];
    for (int i = 0; i < 2; i++)
        sims[i] = run("ad_psgd", "fixed:ms=5,jitter=0.3,random=6x");
    assert_true(results(sims[0]).log_hash == results(sims[1]).log_hash);
    assert_true(results(sims[0]).test_loss == results(sims[1]).test_loss);
    check_equal(sims[0], 3, sims[1], 3);
    for (uint32_t w = 0; w < WORKERS; w++)
        assert_true(accuracy(sims[0], w) == accuracy(sims[1], w) && accuracy(sims[0], w) > 20);
    shoal_sim_destroy(sims[0]);
    shoal_sim_destroy(sims[1]);
}

/* A run until a virtual second tests workers where they are. */
static void a_run_of_seconds_is_tested(void **state)
{
    (void)state;
    shoal_train_desc desc = describe("hop");
    shoal_sim_desc world = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim = NULL;
    tiny_model_write(dir, false);
    world.compute = "fixed:ms=10";
    world.until_s = 0.5;
    assert_ok(shoal_train_in_virtual_time(&desc, &world, &sim));
    assert_ok(shoal_sim_run(sim));
    assert_true(results(sim).test_accuracy > 20 && accuracy(sim, 3) > 20);
    shoal_sim_destroy(sim);
    desc.no_evaluation = true;
    assert_ok(shoal_train_in_virtual_time(&desc, &world, &sim));
    assert_ok(shoal_sim_run(sim));
    assert_true(isnan(results(sim).test_accuracy) && isnan(accuracy(sim, 3)));
    shoal_sim_destroy(sim);
}

static void bad_combinations_are_refused(void **state)
{
    (void)state;
    shoal_train_desc desc = describe(NULL);
    const shoal_sim_desc world = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim = NULL;
    desc.simulate = 2;
    assert_status(shoal_train_in_virtual_time(&desc, &world, &sim), SHOAL_EINVAL);
    assert_error_has("nor simulate");
    desc.simulate = 0;
    desc.data = "/nowhere";
    assert_true(shoal_train_in_virtual_time(&desc, &world, &sim) != SHOAL_OK);
    assert_error_has("/nowhere");
    desc.data = dir;
    desc.optimizer = "sgd:speed=1";
    assert_status(shoal_train_in_virtual_time(&desc, &world, &sim), SHOAL_EINVAL);
    assert_null(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(time_changes_no_step),
        CHECK_TEST(every_protocol_trains),
        CHECK_TEST(a_run_repeats),
        CHECK_TEST(a_run_of_seconds_is_tested),
        CHECK_TEST(bad_combinations_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
