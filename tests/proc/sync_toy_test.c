/* SPDX-License-Identifier: Apache-2.0 */
/* Protocols outside of the table on real ranks, against the simulation: messages to one peer,
 * timers, operations of some members, broadcasts, APPLY, mixes that are too long for the progress
 * thread. */
#include "driver/driver.h"
#include "driver/real.h"
#include "driver/sim.h"
#include "support/example_sync.h"
#include "support/ranks.h"
#include "support/toy_sync.h"

enum { COUNT = 66000, ITERATIONS = 4, WORKERS = 3 }; /* COUNT: a MIX for the work thread */
#define SECONDS(n) ((int64_t)(n)*1000 * 1000)

static const char problem_spec[] = "quadratic:lr=0.2,momentum=0.5";
static const shoal_tensor tensors[] = {{.key = 1, .count = 50000, .lr_scale = 1},
                                       {.key = 2, .offset = 50000, .count = 16000, .lr_scale = 1}};

typedef struct plan {
    const shoali_sync_row *row;
    const char *codec;
    float expected[WORKERS][COUNT];
} plan;

typedef struct trainee {
    shoali_problem *problem;
    float params[COUNT], grads[COUNT], velocity[COUNT];
} trainee;

static shoal_status owner(void *user, float *sum_in_weights_out, size_t offset, size_t count,
                          uint64_t iteration, float scale)
{
    trainee *t = user;
    (void)iteration;
    shoali_problem_step(t->problem, t->velocity, t->params + offset, sum_in_weights_out, scale,
                        offset, count, sum_in_weights_out);
    return SHOAL_OK;
}

static void check_toy(const rank_env *env, const shoal_sync *sync)
{
    const toy_state *toy = sync->machine.state;
    rank_check(toy->broken == 0);
    rank_check(toy->messages == (env->rank == 0 ? ITERATIONS * (WORKERS - 1) : 0));
    rank_check(toy->timers == 1 && toy->timer_us >= toy->started_us + 1000);
}

static void train(const rank_env *env)
{
    static trainee t;
    const plan *p = env->arg;
    shoal_sync_desc desc = SHOAL_SYNC_DESC_INIT;
    shoal_sync *sync;
    shoal_verdict verdict;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoali_problem_open(problem_spec, WORKERS, COUNT, 1, &t.problem));
    shoali_problem_start(t.problem, t.params);
    desc.codec = p->codec;
    desc.params = t.params;
    desc.grads = t.grads;
    desc.count = COUNT;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    rank_ok(shoali_sync_create_row(comm, &desc, p->row, &sync));
    shoali_sync_set_owner(sync, owner, &t);
    for (uint64_t k = 0; k < ITERATIONS; k++) {
        shoali_problem_gradient(t.problem, env->rank, k, t.params, 0, COUNT, t.grads);
        rank_ok(shoal_sync_before_update(sync, &verdict));
        if (verdict.apply)
            shoali_problem_step(t.problem, t.velocity, t.params, t.grads, verdict.grad_scale, 0,
                                COUNT, t.params);
        rank_ok(shoal_sync_after_update(sync, &verdict));
    }
    rank_check(memcmp(t.params, p->expected[env->rank], sizeof t.params) == 0);
    rank_ok(shoal_barrier(comm)); /* all messages of the others are here */
    if (p->row == &toy_sync)
        check_toy(env, sync);
    shoal_sync_destroy(sync);
    shoali_problem_close(t.problem);
    shoal_comm_destroy(comm);
}

static void equals_the_simulation(const shoali_sync_row *row, const char *codec)
{
    static plan p;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim;
    size_t count;
    desc.workers = WORKERS;
    desc.iterations = ITERATIONS;
    desc.codec = codec;
    desc.problem = problem_spec;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    assert_ok(shoali_sim_create_row(&desc, row, &sim));
    assert_ok(shoal_sim_run(sim));
    p.row = row;
    p.codec = codec;
    for (uint32_t w = 0; w < WORKERS; w++)
        memcpy(p.expected[w], shoal_sim_params(sim, w, &count), sizeof p.expected[w]);
    shoal_sim_destroy(sim);
    ranks_run(WORKERS, "file", NULL, train, &p, SECONDS(40));
}

static void every_action_works_on_real_ranks(void **state)
{
    (void)state;
    equals_the_simulation(&toy_sync, "identity");
}

static void the_example_works_on_real_ranks(void **state)
{
    (void)state;
    equals_the_simulation(&example_sync_averaging, "identity");
}

static void residuals_are_the_same_in_both_worlds(void **state)
{
    (void)state;
    equals_the_simulation(shoali_sync_row_at(0), "inceptionn:ef");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_action_works_on_real_ranks),
        CHECK_TEST(the_example_works_on_real_ranks),
        CHECK_TEST(residuals_are_the_same_in_both_worlds),
    };
    return CHECK_RUN(tests);
}
