/* SPDX-License-Identifier: Apache-2.0 */
/* Protocols on real ranks. The simulation with real numbers is the reference: the same machines,
 * schedules and codecs in another world, so every parameter has to come out the same, bit for bit;
 * the simulation itself is held to plain SGD by tests/conformance/sync_test.c. */
#include <math.h>
#include <signal.h>

#include "base/clock.h"
#include "driver/driver.h"
#include "driver/sim_problem.h"
#include "shoal/sim.h"
#include "support/ranks.h"

enum { TENSORS = 6, COUNT = 700, ITERATIONS = 8 };
#define SECONDS(n) ((int64_t)(n)*1000 * 1000)

static const char problem_spec[] = "quadratic:lr=0.2,momentum=0.5,noise=0.1";

typedef struct plan {
    const char *sync, *collective, *codec;
    uint32_t workers, servers;
    shoal_nonfinite nonfinite;
    uint32_t nan_worker;
    uint64_t nan_iteration; /* UINT64_MAX: never */
    bool sgd;               /* the optimiser of the public ABI */
    bool whole;             /* no ready calls: before_update announces everything */
    float expected[COUNT];
} plan;

/* One rank's training state: what a trainer would hold. */
typedef struct trainee {
    shoali_problem *problem;
    shoal_tensor tensors[TENSORS];
    float params[COUNT], grads[COUNT], velocity[COUNT];
    shoal_sync *sync;
    uint64_t skipped;
} trainee;

static void make_tensors(shoal_tensor *tensors)
{
    static const size_t counts[TENSORS] = {300, 1, 199, 50, 100, 50};
    size_t at = 0;
    for (uint32_t i = 0; i < TENSORS; i++) {
        tensors[i] = (shoal_tensor){.key = i + 1, .offset = at, .count = counts[i], .lr_scale = 1};
        at += counts[i];
    }
}

static shoal_status owner(void *user, float *sum_in_weights_out, size_t offset, size_t count,
                          uint64_t iteration, float scale)
{
    trainee *t = user;
    (void)iteration;
    shoali_problem_step(t->problem, t->velocity, t->params + offset, sum_in_weights_out, scale,
                        offset, count, sum_in_weights_out);
    return SHOAL_OK;
}

static void open_trainee(const rank_env *env, shoal_comm *comm, const plan *p, trainee *t)
{
    shoal_sync_desc desc = SHOAL_SYNC_DESC_INIT;
    memset(t, 0, sizeof *t);
    make_tensors(t->tensors);
    rank_ok(shoali_problem_open(problem_spec, p->workers, COUNT, 1, &t->problem));
    shoali_problem_start(t->problem, t->params);
    desc.sync = p->sync;
    desc.collective = p->collective;
    desc.codec = p->codec;
    desc.params = t->params;
    desc.grads = t->grads;
    desc.count = COUNT;
    desc.tensors = t->tensors;
    desc.tensor_count = TENSORS;
    desc.bucket_bytes = 800;
    desc.nonfinite = p->nonfinite;
    rank_ok(shoal_sync_create(comm, &desc, &t->sync));
    if (p->sgd)
        rank_ok(shoal_sync_set_sgd(t->sync, 0.2, 0.5)); /* as in problem_spec */
    else
        shoali_sync_set_owner(t->sync, owner, t);
    (void)env;
}

static void close_trainee(trainee *t)
{
    shoal_sync_destroy(t->sync);
    shoali_problem_close(t->problem);
}

/* One step as a trainer makes it; the first failure of its calls. */
static shoal_status step(const rank_env *env, const plan *p, trainee *t, uint64_t k,
                         shoal_verdict *next)
{
    shoal_verdict verdict;
    for (uint32_t i = TENSORS; i-- > 0;) {
        const shoal_tensor *range = &t->tensors[i];
        shoali_problem_gradient(t->problem, env->rank, k, t->params + range->offset, range->offset,
                                range->count, t->grads + range->offset);
        if (i == 0 && k == p->nan_iteration && env->rank == p->nan_worker)
            memset(t->grads, 0xff, sizeof *t->grads);
        shoal_status status = p->whole ? SHOAL_OK
                                       : shoal_sync_ready(t->sync, range->offset, range->count);
        if (status != SHOAL_OK)
            return status;
    }
    shoal_status status = shoal_sync_before_update(t->sync, &verdict);
    if (status != SHOAL_OK)
        return status;
    rank_check(verdict.iteration == k && !verdict.stop);
    t->skipped += verdict.skipped;
    if (verdict.apply)
        shoali_problem_step(t->problem, t->velocity, t->params, t->grads, verdict.grad_scale, 0,
                            COUNT, t->params);
    rank_ok(shoal_sync_after_update(t->sync, next));
    rank_check(next->iteration == k + 1);
    return SHOAL_OK;
}

static void train(const rank_env *env)
{
    const plan *p = env->arg;
    rank_env own = *env;
    trainee t;
    shoal_verdict next;
    own.desc.servers = (int32_t)p->servers;
    shoal_comm *comm = rank_join(&own);
    open_trainee(env, comm, p, &t);
    if (env->rank >= p->workers) {
        rank_ok(shoal_sync_serve(t.sync));
    } else {
        for (uint64_t k = 0; k < ITERATIONS; k++)
            rank_ok(step(env, p, &t, k, &next));
        shoal_sync_stats stats = {.size = sizeof stats};
        rank_ok(shoal_sync_last_stats(t.sync, &stats));
        rank_check(stats.operations == 3 && (env->size == 1 || stats.sent_payload_bytes > 0));
        rank_check(stats.sent_payload_bytes <= stats.sent_elems * 4);
        rank_check(t.skipped == (p->nan_iteration < ITERATIONS ? 1 : 0));
    }
    if (env->rank < p->workers ||
        p->servers == 1) /* one of several servers has its own ranges only */
        rank_check(memcmp(t.params, p->expected, sizeof t.params) == 0);
    close_trainee(&t);
    shoal_comm_destroy(comm);
}

/* What the simulation makes of the same job. */
static void expect(plan *p)
{
    char faults[48] = "";
    shoal_tensor tensors[TENSORS];
    shoal_sim *sim;
    size_t count;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    make_tensors(tensors);
    if (p->nan_iteration < ITERATIONS)
        snprintf(faults, sizeof faults, "plan:nan=%u@%llu", p->nan_worker,
                 (unsigned long long)p->nan_iteration);
    desc.workers = p->workers;
    desc.iterations = ITERATIONS;
    desc.sync = p->sync;
    desc.collective = p->collective;
    desc.codec = p->codec;
    desc.problem = problem_spec;
    desc.network = "links:hosts=1"; /* as here: some protocols look at it */
    desc.tensors = tensors;
    desc.tensor_count = TENSORS;
    desc.bucket_bytes = 800;
    desc.nonfinite = p->nonfinite;
    desc.faults = faults;
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_ok(shoal_sim_run(sim));
    memcpy(p->expected, shoal_sim_params(sim, 0, &count), sizeof p->expected);
    assert_int_equal(count, COUNT);
    shoal_sim_destroy(sim);
}

static void run_plan(plan *p)
{
    if (p->nonfinite == SHOAL_NONFINITE_STOP)
        p->nan_iteration = UINT64_MAX;
    expect(p);
    ranks_run(p->workers + p->servers, "file", NULL, train, p, SECONDS(30));
}

static void all_reduce_equals_the_simulation(void **state)
{
    (void)state;
    static const struct {
        uint32_t workers;
        const char *collective, *codec;
    } cases[] = {{1, "ring", "identity"},      {2, "ring", "identity"},
                 {3, "ring:both", "identity"}, {4, "halving_doubling", "fp16"},
                 {4, "ring", "inceptionn"},    {3, "gather", "identity"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan p = {.sync = "all_reduce",
                  .collective = cases[i].collective,
                  .codec = cases[i].codec,
                  .workers = cases[i].workers,
                  .whole = i % 2 == 1};
        run_plan(&p);
    }
}

/* Twice on one communicator: the second as if there had been no first. */
static void train_again(const rank_env *env)
{
    const plan *p = env->arg;
    shoal_comm *comm = rank_join(env);
    for (int time = 0; time < 2; time++) {
        trainee t;
        shoal_verdict next;
        open_trainee(env, comm, p, &t);
        for (uint64_t k = 0; k < ITERATIONS; k++)
            rank_ok(step(env, p, &t, k, &next));
        rank_check(memcmp(t.params, p->expected, sizeof t.params) == 0);
        close_trainee(&t);
    }
    shoal_comm_destroy(comm);
}

static void a_protocol_begins_without_residuals(void **state)
{
    (void)state;
    plan p = {.sync = "all_reduce",
              .collective = "gather",
              .codec = "topk:k=0.1", /* with error feedback, and nothing of it is random */
              .workers = 3,
              .nan_iteration = UINT64_MAX};
    expect(&p);
    ranks_run(p.workers, "file", NULL, train_again, &p, SECONDS(30));
}

static void param_server_equals_the_simulation(void **state)
{
    (void)state;
    static const struct {
        const char *sync, *codec;
        uint32_t workers, servers;
    } cases[] = {{"param_server", "identity", 1, 0},
                 {"param_server", "identity", 3, 0},
                 {"param_server:servers=3,pull=codec", "fp16", 4, 0},
                 {"param_server:dedicated", "fp16", 3, 1},
                 {"param_server:servers=2,dedicated", "identity", 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan p = {.sync = cases[i].sync,
                  .codec = cases[i].codec,
                  .workers = cases[i].workers,
                  .sgd = i % 2 == 1,
                  .servers = cases[i].servers};
        run_plan(&p);
    }
}

static void a_nan_is_skipped_by_all(void **state)
{
    (void)state;
    static const struct {
        const char *sync;
        uint32_t servers;
    } cases[] = {{"all_reduce", 0}, {"param_server:servers=2", 0}, {"param_server:dedicated", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan p = {.sync = cases[i].sync,
                  .workers = 3,
                  .servers = cases[i].servers,
                  .nonfinite = SHOAL_NONFINITE_SKIP,
                  .nan_worker = 1,
                  .nan_iteration = 3};
        run_plan(&p);
    }
}

/* ---------------------------------------------------------------- replicas that differ */

static void train_apart(const rank_env *env)
{
    const plan *p = env->arg;
    rank_env own = *env;
    trainee t;
    shoal_verdict next;
    own.desc.servers = (int32_t)p->servers;
    shoal_comm *comm = rank_join(&own);
    open_trainee(env, comm, p, &t);
    if (env->rank >= p->workers) {
        rank_ok(shoal_sync_serve(t.sync));
    } else {
        for (uint64_t k = 0; k < ITERATIONS; k++)
            rank_ok(step(env, p, &t, k, &next));
        rank_ok(shoal_sync_finish(t.sync));
        bool same = memcmp(t.params, p->expected, sizeof t.params) == 0;
        rank_check(same || !p->whole); /* whole: what happens does not depend on time */
        for (size_t j = 0; j < COUNT; j++)
            rank_check(fabs((double)t.params[j] - (double)p->expected[j]) < 2);
    }
    close_trainee(&t);
    shoal_comm_destroy(comm);
}

static void rounds_and_groups_equal_the_simulation(void **state)
{
    (void)state;
    static const struct {
        const char *sync, *codec;
        uint32_t servers;
        bool exact;
    } cases[] = {{"local_sgd:every=3", "identity", 0, true},
                 {"diloco:every=2,momentum=0.5", "fp16", 0, true},
                 {"diloco:every=4,fragments=2,delay=1,momentum=0.5", "identity", 0, true},
                 {"diloco:every=2,quorum=2,momentum=0.5", "identity", 0, false},
                 {"noloco:every=2", "identity", 0, true},
                 {"noloco:every=3,pull=1", "expo", 0, true},
                 {"ripples:static", "identity", 0, true},
                 {"ripples:smart,laggards", "identity", 0, false},
                 {"ripples:random,group=2", "identity", 0, false},
                 {"param_server:dedicated,sequential", "identity", 1, false},
                 {"param_server:dedicated,servers=2,async", "fp16", 2, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan p = {.sync = cases[i].sync,
                  .codec = cases[i].codec,
                  .workers = 4,
                  .servers = cases[i].servers,
                  .whole = cases[i].exact,
                  .nan_iteration = UINT64_MAX};
        expect(&p);
        ranks_run(p.workers + p.servers, "file", NULL, train_apart, &p, SECONDS(60));
    }
}

/* Rank 0 controls the groups and is killed; the others go on and end alike. */
static void survive_the_controller(const rank_env *env)
{
    const plan *p = env->arg;
    trainee t;
    shoal_verdict next;
    shoal_comm *comm = rank_join(env);
    open_trainee(env, comm, p, &t);
    for (uint64_t k = 0; k < ITERATIONS; k++) {
        if (k == 3) {
            atomic_fetch_add(&env->board->ready, 1);
            while (env->rank == 0)
                (void)shoali_now_us();
        }
        rank_ok(step(env, p, &t, k, &next));
    }
    rank_ok(shoal_sync_finish(t.sync));
    close_trainee(&t);
    shoal_comm_destroy(comm);
}

static void the_loss_of_rank_0_is_survived(void **state)
{
    (void)state;
    static const char *const specs[] = {"ripples", "ripples:static", "local_sgd:every=2",
                                        "diloco:every=2,momentum=0.5", "noloco:every=2"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        plan p = {.sync = specs[i], .workers = 4, .nan_iteration = UINT64_MAX};
        ranks r;
        ranks_start(&r, 4, "file", NULL, survive_the_controller, &p);
        ranks_wait_ready(&r, 4, SECONDS(30));
        ranks_kill(&r, 0, SIGKILL);
        ranks_finish(&r, 0, SECONDS(30));
    }
}

/* ---------------------------------------------------------------- ends */

static void meet_a_nan(const rank_env *env)
{
    const plan *p = env->arg;
    trainee t;
    shoal_verdict next;
    shoal_comm *comm = rank_join(env);
    open_trainee(env, comm, p, &t);
    for (uint64_t k = 0; k < p->nan_iteration; k++)
        rank_ok(step(env, p, &t, k, &next));
    rank_status(step(env, p, &t, p->nan_iteration, &next), SHOAL_ENOTFINITE);
    rank_note_error(env);
    rank_error_has("rank 1");
    rank_check(shoal_last_error()->rank == 1);
    rank_status(shoal_sync_before_update(t.sync, &next), SHOAL_ENOTFINITE); /* it stays so */
    close_trainee(&t);
    shoal_comm_destroy(comm);
}

static void a_nan_stops_all_with_one_text(void **state)
{
    (void)state;
    plan p = {.sync = "all_reduce", .workers = 3, .nan_worker = 1, .nan_iteration = 2};
    ranks r;
    ranks_start(&r, 3, "file", NULL, meet_a_nan, &p);
    ranks_finish(&r, RANKS_MAX, SECONDS(30));
}

/* Rank 2 ends after three steps; the others hear of it as verdict.stop. */
static void leave_early(const rank_env *env)
{
    const plan *p = env->arg;
    trainee t;
    shoal_verdict next = {0}, verdict;
    shoal_comm *comm = rank_join(env);
    open_trainee(env, comm, p, &t);
    for (uint64_t k = 0; k < 3; k++)
        rank_ok(step(env, p, &t, k, &next));
    if (env->rank != 2 && !next.stop) {
        rank_ok(shoal_sync_before_update(t.sync, &verdict));
        rank_check(verdict.stop && !verdict.apply);
        rank_ok(shoal_sync_before_update(t.sync, &verdict)); /* and again */
        rank_check(verdict.stop);
    }
    close_trainee(&t);
    shoal_comm_destroy(comm);
}

static void a_worker_that_leaves_stops_the_others(void **state)
{
    (void)state;
    plan p = {.sync = "all_reduce", .workers = 3, .nan_iteration = UINT64_MAX};
    ranks_run(3, "file", NULL, leave_early, &p, SECONDS(30));
}

static void outlive_a_kill(const rank_env *env)
{
    const plan *p = env->arg;
    rank_env own = *env;
    trainee t;
    shoal_verdict next;
    shoal_status status = SHOAL_OK;
    own.desc.servers = (int32_t)p->servers;
    shoal_comm *comm = rank_join(&own);
    open_trainee(env, comm, p, &t);
    if (env->rank >= p->workers) {
        status = shoal_sync_serve(t.sync);
    } else {
        for (uint64_t k = 0; status == SHOAL_OK; k++) {
            if (k == 3) {
                atomic_fetch_add(&env->board->ready, 1);
                while (env->rank == 1) /* the victim computes for ever */
                    (void)shoali_now_us();
            }
            status = step(env, p, &t, k, &next);
        }
    }
    rank_status(status, SHOAL_EPEER);
    rank_error_has("rank 1");
    close_trainee(&t);
    shoal_comm_destroy(comm);
}

static void a_killed_worker_is_named_by_all(void **state)
{
    (void)state;
    static const struct {
        const char *sync;
        uint32_t servers;
    } cases[] = {{"all_reduce", 0}, {"param_server:dedicated", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan p = {.sync = cases[i].sync,
                  .workers = 3,
                  .servers = cases[i].servers,
                  .nan_iteration = UINT64_MAX};
        ranks r;
        ranks_start(&r, 3 + p.servers, "file", NULL, outlive_a_kill, &p);
        ranks_wait_ready(&r, 3, SECONDS(20));
        ranks_kill(&r, 1, 9);
        ranks_finish(&r, 1, SECONDS(20));
    }
}

/* ---------------------------------------------------------------- misuse */

static void misuse(const rank_env *env)
{
    trainee t;
    shoal_verdict verdict;
    shoal_sync *second = NULL;
    shoal_comm *comm = rank_join(env);
    const plan p = {.sync = "all_reduce", .workers = 2, .nan_iteration = UINT64_MAX};
    shoal_sync_desc desc = SHOAL_SYNC_DESC_INIT;
    rank_status(shoal_sync_create(comm, &desc, &second), SHOAL_EINVAL);
    rank_status(shoal_sync_create(NULL, &desc, &second), SHOAL_EINVAL);
    open_trainee(env, comm, &p, &t);
    rank_status(shoal_sync_ready(t.sync, 600, 50), SHOAL_EINVAL); /* not at the end */
    rank_status(shoal_sync_ready(t.sync, 640, 60), SHOAL_EINVAL); /* not a whole tensor */
    rank_status(shoal_sync_ready(t.sync, 0, 0), SHOAL_EINVAL);
    rank_status(shoal_sync_serve(t.sync), SHOAL_EINVAL);
    rank_error_has("is a worker");
    rank_check(shoali_sync_is_exact(t.sync));
    rank_ok(step(env, &p, &t, 0, &verdict));
    close_trainee(&t);
    shoal_sync_destroy(NULL);
    /* a second protocol on the same comm, after a create that fails on one rank alone before it
     * meets the others */
    if (env->rank == 1) {
        desc.sync = "nothing";
        rank_status(shoal_sync_create(comm, &desc, &second), SHOAL_EINVAL);
    }
    const plan ps = {.sync = "param_server:servers=2", .workers = 2, .nan_iteration = UINT64_MAX};
    open_trainee(env, comm, &ps, &t);
    for (uint64_t k = 0; k < 3; k++)
        rank_ok(step(env, &ps, &t, k, &verdict));
    close_trainee(&t);
    /* without its optimiser a parameter server says so */
    open_trainee(env, comm, &ps, &t);
    shoali_sync_set_owner(t.sync, NULL, NULL);
    shoal_status status = step(env, &ps, &t, 0, &verdict);
    rank_check(status == SHOAL_EINVAL);
    close_trainee(&t);
    shoal_comm_destroy(comm);
}

static void misuse_is_refused_and_protocols_follow_each_other(void **state)
{
    (void)state;
    ranks_run(2, "file", NULL, misuse, NULL, SECONDS(30));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(all_reduce_equals_the_simulation),
        CHECK_TEST(param_server_equals_the_simulation),
        CHECK_TEST(a_protocol_begins_without_residuals),
        CHECK_TEST(a_nan_is_skipped_by_all),
        CHECK_TEST(rounds_and_groups_equal_the_simulation),
        CHECK_TEST(the_loss_of_rank_0_is_survived),
        CHECK_TEST(a_nan_stops_all_with_one_text),
        CHECK_TEST(a_worker_that_leaves_stops_the_others),
        CHECK_TEST(a_killed_worker_is_named_by_all),
        CHECK_TEST(misuse_is_refused_and_protocols_follow_each_other),
    };
    return CHECK_RUN(tests);
}
