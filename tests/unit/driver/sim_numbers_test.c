/* SPDX-License-Identifier: Apache-2.0 */
/* What a task is asked, how often and with what. Its numbers: everybody starts at 1, worker w's
 * gradient is w, a step goes by scale * gradient. */
#include "driver/sim.h"

#include <math.h>

#include "support/check.h"

enum { WORKERS = 3, ITERATIONS = 4, COUNT = 10 };

typedef struct toy {
    uint32_t opened, closed, gradients[WORKERS], tested;
    uint64_t last[WORKERS], steps;
    bool refuse;
} toy;

static shoal_status open_toy(void *ctx, uint32_t workers, uint32_t endpoints,
                             uint64_t *iterations_inout)
{
    toy *t = ctx;
    assert_true(workers == WORKERS && endpoints >= WORKERS);
    t->opened++;
    if (*iterations_inout == 0)
        *iterations_inout = ITERATIONS;
    return t->refuse ? SHOAL_EIO : SHOAL_OK;
}

static void start(void *ctx, float *params_out)
{
    (void)ctx;
    for (int j = 0; j < COUNT; j++)
        params_out[j] = 1;
}

static shoal_status gradient(void *ctx, uint32_t worker, uint64_t iteration, const float *params,
                             float *grads_out)
{
    toy *t = ctx;
    assert_int_equal(iteration, t->gradients[worker]++);
    assert_true(isfinite(params[COUNT - 1]));
    for (int j = 0; j < COUNT; j++)
        grads_out[j] = (float)worker;
    return SHOAL_OK;
}

static void step(void *ctx, const shoali_task_step *s)
{
    ((toy *)ctx)->steps++;
    assert_true(s->iteration < ITERATIONS && s->offset + s->count <= COUNT);
    for (size_t j = 0; j < s->count; j++)
        s->params_out[j] = s->params[j] - s->scale * s->grads[j];
}

static double loss(void *ctx)
{
    (void)ctx;
    return 7;
}

static shoal_status test_worker(void *ctx, uint32_t worker, const float *params,
                                double *accuracy_out)
{
    (void)params;
    ((toy *)ctx)->tested++;
    *accuracy_out = 50 + worker;
    return SHOAL_OK;
}

static shoal_status test(void *ctx, const float *params, shoal_sim_results *r)
{
    (void)ctx;
    r->test_loss = (double)params[0];
    r->test_accuracy = 99;
    return SHOAL_OK;
}

static void close_toy(void *ctx)
{
    ((toy *)ctx)->closed++;
}

static shoal_status create(toy *t, const char *sync, uint32_t workers, const char *faults,
                           shoal_sim **sim_out)
{
    static const shoal_tensor tensors[] = {{.key = 1, .count = 6, .lr_scale = 1},
                                           {.key = 2, .offset = 6, .count = 4, .lr_scale = 1}};
    const shoali_task task = {.ctx = t,
                              .open = open_toy,
                              .start = start,
                              .gradient = gradient,
                              .step = step,
                              .loss = loss,
                              .test_worker = test_worker,
                              .test = test,
                              .close = close_toy};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.workers = workers;
    desc.sync = sync;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.faults = faults;
    return shoali_sim_create_task(&desc, &task, sim_out);
}

static shoal_sim_results run(toy *t, const char *sync, const char *faults, double *accuracy_out)
{
    shoal_sim *sim = NULL;
    shoal_sim_results r = {.size = sizeof r};
    shoal_sim_endpoint_results e = {.size = sizeof e};
    assert_ok(create(t, sync, WORKERS, faults, &sim));
    assert_ok(shoal_sim_run(sim));
    assert_ok(shoal_sim_results_get(sim, &r));
    assert_ok(shoal_sim_endpoint_get(sim, 1, &e));
    *accuracy_out = e.test_accuracy;
    shoal_sim_destroy(sim);
    assert_int_equal(t->closed, 1);
    return r;
}

static void replicas_that_are_equal(void **state)
{
    (void)state;
    toy t = {0};
    double accuracy;
    const shoal_sim_results r = run(&t, "all_reduce", NULL, &accuracy);
    assert_int_equal(r.iterations_min, ITERATIONS);
    assert_int_equal(t.steps, ITERATIONS * WORKERS);
    assert_true(fabs(r.test_loss - (1 - ITERATIONS)) < 1e-6); /* the mean gradient is 1 */
    assert_true(r.test_accuracy == 99 && r.train_loss == 7);
    assert_int_equal(t.tested, 0);
    assert_true(isnan(accuracy));
}

static void replicas_that_differ(void **state)
{
    (void)state;
    toy t = {0};
    double accuracy;
    const shoal_sim_results r = run(&t, "local_sgd:every=3", NULL, &accuracy);
    assert_true(fabs(r.test_loss - (1 - ITERATIONS)) < 1e-6);
    assert_int_equal(t.tested, WORKERS);
    assert_true(accuracy == 51);
}

static void the_servers_step(void **state)
{
    (void)state;
    toy t = {0};
    double accuracy;
    const shoal_sim_results r = run(&t, "param_server:dedicated", NULL, &accuracy);
    assert_true(fabs(r.test_loss - (1 - ITERATIONS)) < 1e-6);
    assert_true(t.steps >= ITERATIONS && t.steps < ITERATIONS * WORKERS);
}

/* The dead are no part of the job's model: workers 0 and 2 are left, and differ by their steps. */
static void the_dead_do_not_count(void **state)
{
    (void)state;
    toy t = {0};
    shoal_sim *sim = NULL;
    shoal_sim_results r = {.size = sizeof r};
    assert_ok(create(&t, "hop:graph=complete", WORKERS, "plan:die=1@0.15", &sim));
    assert_status(shoal_sim_run(sim), SHOAL_ECANCELLED);
    assert_ok(shoal_sim_results_get(sim, &r));
    assert_int_equal(t.gradients[1], 1);
    assert_true(fabs(r.test_loss - (1 - ITERATIONS)) < 1e-6); /* gradients 0 and 2 */
    shoal_sim_destroy(sim);
}

static void failures_close_the_task(void **state)
{
    (void)state;
    toy t = {.refuse = true};
    shoal_sim *sim = NULL;
    assert_status(create(&t, "all_reduce", WORKERS, NULL, &sim), SHOAL_EIO);
    assert_int_equal(t.closed, 1);
    assert_status(create(&t, "hopp", WORKERS, NULL, &sim), SHOAL_EINVAL);
    assert_int_equal(t.closed, 2);
    assert_int_equal(t.opened, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(replicas_that_are_equal), CHECK_TEST(replicas_that_differ),
        CHECK_TEST(the_servers_step),        CHECK_TEST(the_dead_do_not_count),
        CHECK_TEST(failures_close_the_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
