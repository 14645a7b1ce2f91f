/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that take different numbers of samples, on real ranks: a round of diloco is the mean of
 * what they have moved, weighted by their samples. The reference is that sentence, in double. */
#include <math.h>

#include "driver/driver.h"
#include "driver/sim_problem.h"
#include "support/ranks.h"

enum { COUNT = 300, WORKERS = 3, EVERY = 4, ROUNDS = 3, BATCH = 10, DEADLINE_US = 30000000 };

static const char problem_spec[] = "quadratic:lr=0.1,momentum=0,noise=0.1";
static const shoal_tensor tensor = {.key = 1, .count = COUNT, .lr_scale = 1};

/* Another division in each round, of WORKERS * BATCH. */
static uint32_t samples_of(uint32_t worker, uint64_t iteration)
{
    static const uint32_t divisions[ROUNDS][WORKERS] = {{10, 10, 10}, {2, 8, 20}, {27, 1, 2}};
    return divisions[iteration / EVERY][worker];
}

static void reference(shoali_problem *problem, double *base)
{
    float at[COUNT], g[COUNT];
    double x[WORKERS][COUNT];
    shoali_problem_start(problem, at);
    for (size_t j = 0; j < COUNT; j++)
        base[j] = x[0][j] = x[1][j] = x[2][j] = (double)at[j];
    for (uint64_t k = 0; k < (uint64_t)EVERY * ROUNDS; k++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            for (size_t j = 0; j < COUNT; j++)
                at[j] = (float)x[w][j];
            shoali_problem_gradient(problem, w, k, at, 0, COUNT, g);
            for (size_t j = 0; j < COUNT; j++)
                x[w][j] -= 0.1 * (double)g[j];
        }
        for (size_t j = 0; (k + 1) % EVERY == 0 && j < COUNT; j++) {
            double sum = 0, taken = 0;
            for (uint32_t w = 0; w < WORKERS; w++) {
                sum += samples_of(w, k) * (base[j] - x[w][j]);
                taken += samples_of(w, k);
            }
            base[j] -= 0.5 * sum / taken;
            x[0][j] = x[1][j] = x[2][j] = base[j];
        }
    }
}

static void work(const rank_env *env)
{
    static float params[COUNT], grads[COUNT], velocity[COUNT];
    static double expected[COUNT];
    shoal_sync_desc desc = SHOAL_SYNC_DESC_INIT;
    shoali_problem *problem;
    shoal_sync *sync;
    shoal_verdict verdict, next;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoali_problem_open(problem_spec, WORKERS, COUNT, 1, &problem));
    shoali_problem_start(problem, params);
    desc.sync = env->arg;
    desc.params = params;
    desc.grads = grads;
    desc.count = COUNT;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    rank_ok(shoal_sync_create(comm, &desc, &sync));
    rank_check(shoali_sync_by_samples(sync));
    for (uint64_t k = 0; k < (uint64_t)EVERY * ROUNDS; k++) {
        shoali_problem_gradient(problem, env->rank, k, params, 0, COUNT, grads);
        rank_ok(shoal_sync_before_update(sync, &verdict));
        shoali_problem_step(problem, velocity, params, grads, verdict.grad_scale, 0, COUNT, params);
        shoali_sync_set_samples(sync, samples_of(env->rank, k), BATCH);
        rank_ok(shoal_sync_after_update(sync, &next));
    }
    rank_ok(shoal_sync_finish(sync));
    reference(problem, expected);
    for (size_t j = 0; j < COUNT; j++)
        rank_check(fabs((double)params[j] - expected[j]) < 1e-4);
    shoal_sync_destroy(sync);
    shoali_problem_close(problem);
    shoal_comm_destroy(comm);
}

static void rounds_are_weighted_by_samples(void **state)
{
    (void)state;
    static const char *const specs[] = {"diloco:every=4,momentum=0,lr=0.5",
                                        "diloco:every=4,momentum=0,lr=0.5,quorum=3"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        ranks_run(WORKERS, "tcp", NULL, work, specs[i], DEADLINE_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(rounds_are_weighted_by_samples)};
    return CHECK_RUN(tests);
}
