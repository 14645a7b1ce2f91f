/* SPDX-License-Identifier: Apache-2.0 */
/* Protocols on graphs with real ranks: where the order of events does not matter they end with the
 * same bits as in simulation; all end with one mean; whoever is killed is left out. */
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver/driver.h"
#include "driver/sim.h"
#include "support/ranks.h"

enum { COUNT = 3000, ITERATIONS = 12, WORKERS = 4, DEADLINE_US = 30000000 };

static const char problem_spec[] = "quadratic:lr=0.2,momentum=0.5,noise=0.01";
static const shoal_tensor tensor = {.key = 1, .count = COUNT, .lr_scale = 1};

typedef struct plan {
    const char *spec, *codec; /* codec NULL: none */
    bool exact, mortal;
    float expected[COUNT];
} plan;

typedef struct trainee {
    shoali_problem *problem;
    shoal_sync *sync;
    float params[COUNT], grads[COUNT], velocity[COUNT];
    uint64_t comm_us, operations; /* of all steps */
} trainee;

static void join_protocol(trainee *t, shoal_comm *comm, const plan *p)
{
    shoal_sync_desc desc = SHOAL_SYNC_DESC_INIT;
    rank_ok(shoali_problem_open(problem_spec, WORKERS, COUNT, 1, &t->problem));
    shoali_problem_start(t->problem, t->params);
    desc.sync = p->spec;
    desc.codec = p->codec;
    desc.params = t->params;
    desc.grads = t->grads;
    desc.count = COUNT;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    rank_ok(shoal_sync_create(comm, &desc, &t->sync));
}

static uint64_t iterate(trainee *t, uint32_t rank, uint64_t iteration)
{
    shoal_verdict verdict, next;
    shoali_problem_gradient(t->problem, rank, iteration, t->params, 0, COUNT, t->grads);
    rank_ok(shoal_sync_ready(t->sync, 0, COUNT));
    rank_ok(shoal_sync_before_update(t->sync, &verdict));
    rank_check(verdict.apply && verdict.grad_scale == 1 && verdict.iteration == iteration);
    shoali_problem_step(t->problem, t->velocity, t->params, t->grads, 1, 0, COUNT, t->params);
    rank_ok(shoal_sync_after_update(t->sync, &next));
    rank_check(next.iteration > iteration && !next.stop);
    shoal_sync_stats stats = {.size = sizeof stats};
    rank_ok(shoal_sync_last_stats(t->sync, &stats));
    t->comm_us += stats.comm_us;
    t->operations += stats.operations;
    return next.iteration;
}

static void work(const rank_env *env)
{
    static trainee t;
    const plan *p = env->arg;
    shoal_comm *comm = rank_join(env);
    uint64_t start_us = shoali_now_us(); /* others' operations may begin before the first step */
    join_protocol(&t, comm, p);
    for (uint64_t k = 0; k < ITERATIONS;) {
        for (int more = 0; more < 40 && env->rank == 1; more++) /* a slow worker */
            shoali_problem_gradient(t.problem, 1, k, t.params, 0, COUNT, t.grads);
        k = iterate(&t, env->rank, k);
        atomic_store(&env->board->rank[env->rank].steps, (unsigned)k);
        if (p->mortal && env->rank == 2 && k >= 4) {
            atomic_fetch_add(&env->board->ready, 1);
            (void)pause(); /* killed here */
        }
    }
    /* Operations in the background may end in a later step than they began in. */
    rank_check(t.comm_us <= shoali_now_us() - start_us && (t.comm_us > 0) == (t.operations > 0));
    rank_ok(shoal_sync_finish(t.sync));
    float same[COUNT];
    uint32_t members[WORKERS], count = shoali_sync_final_members(t.sync, members);
    rank_check(count == (p->mortal ? WORKERS - 1 : WORKERS));
    memcpy(same, t.params, sizeof same);
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoal_op *op;
    desc.buf = same;
    desc.count = COUNT;
    desc.reduce = SHOAL_MAX;
    desc.members = members;
    desc.member_count = count;
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_ok(shoal_op_wait(&op, -1, NULL));
    rank_check(memcmp(same, t.params, sizeof same) == 0);
    for (size_t j = 0; p->exact && j < COUNT; j++)
        rank_check(t.params[j] == p->expected[j]);
    shoal_sync_destroy(t.sync);
    shoali_problem_close(t.problem);
    shoal_comm_destroy(comm);
}

static void simulate(plan *p)
{
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim;
    desc.workers = WORKERS;
    desc.iterations = ITERATIONS;
    desc.sync = p->spec;
    desc.codec = p->codec;
    desc.problem = problem_spec;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_ok(shoal_sim_run(sim));
    memcpy(p->expected, sim->nodes[0].tensors.params, sizeof p->expected);
    shoal_sim_destroy(sim);
}

static void synchronous_forms_end_as_simulated(void **state)
{
    (void)state;
    static const char *const specs[][2] = {{"d_psgd"},
                                           {"d_psgd:serial"},
                                           {"hop:graph=complete,tokens=2"},
                                           {"hop:notify_ack"},
                                           {"d_psgd:graph=one_way"},
                                           {"hop:graph=exponential,serial"},
                                           {"d_psgd", "eden:bits=4"},
                                           {"d_psgd:serial", "topk:k=0.1"},
                                           {"d_psgd", "expo"},
                                           {"hop:graph=complete,tokens=2", "topk:k=0.1"}};
    static plan p;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        p = (plan){.spec = specs[i][0], .codec = specs[i][1], .exact = true};
        simulate(&p);
        ranks_run(WORKERS, "tcp", NULL, work, &p, DEADLINE_US);
    }
}

static void all_forms_end_with_one_mean(void **state)
{
    (void)state;
    static const char *const specs[][2] = {{"hop:backup=1,skip=10"},
                                           {"hop:graph=exponential,backup=1,skip=4"},
                                           {"hop:graph=one_way,staleness=3"},
                                           {"hop:staleness=3,backup=1,skip=4"},
                                           {"hop:backup=1,skip=10", "eden:bits=4"},
                                           {"hop:staleness=3,backup=1,skip=4", "int8"},
                                           {"ad_psgd"},
                                           {"ad_psgd", "expo"},
                                           {"ad_psgd:blocking,all,split"}};
    static plan p;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        p = (plan){.spec = specs[i][0], .codec = specs[i][1]};
        ranks_run(WORKERS, "tcp", NULL, work, &p, DEADLINE_US);
    }
}

static void the_killed_is_left_out(void **state)
{
    (void)state;
    static const char *const specs[][2] = {
        {"d_psgd"}, {"hop:backup=1,skip=10"}, {"ad_psgd"}, {"d_psgd", "eden:bits=4"}};
    static plan p;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        ranks r;
        p = (plan){.spec = specs[i][0], .codec = specs[i][1], .mortal = true};
        ranks_start(&r, WORKERS, "tcp", NULL, work, &p);
        ranks_wait_ready(&r, 1, DEADLINE_US);
        ranks_kill(&r, 2, SIGKILL);
        ranks_finish(&r, 2, DEADLINE_US);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(synchronous_forms_end_as_simulated),
        CHECK_TEST(all_forms_end_with_one_mean),
        CHECK_TEST(the_killed_is_left_out),
    };
    return CHECK_RUN(tests);
}
