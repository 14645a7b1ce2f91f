/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas that differ go over to another epoch of the members: they become their exact mean, a
 * newcomer's too, what the protocol carries goes on, and samples that nobody takes are counted. */
#include <math.h>
#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "driver/driver.h"
#include "support/ranks.h"
#include "support/tinydata.h"
#include "train/train.h"

enum { WORKERS = 3, BATCH = 4, COUNT_MAX = 1024 };
#define SECONDS(n) ((int64_t)(n)*1000 * 1000)

/* rank 1 is furthest; the others are two steps and one behind it, of four samples each */
static const int steps_of[WORKERS] = {3, 5, 4};
enum { FURTHEST = 5, LEFT_OUT = (2 + 1) * BATCH };

typedef struct plan {
    const char *sync;
    bool empty; /* rank 2 has no replica, as a newcomer whose first attempt broke off */
} plan;

static shoal_train_desc desc_of(const char *sync)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.sync = sync;
    desc.batch = BATCH;
    desc.epochs = 20;
    desc.optimizer = "sgd:momentum=0.9";
    desc.no_evaluation = true;
    desc.reform = true;
    return desc;
}

static shoal_comm *join_as(const rank_env *env, uint32_t rank)
{
    rank_env own = *env;
    own.desc.reform = true;
    own.desc.world_size = WORKERS;
    own.desc.rank = (int32_t)rank;
    return rank_join(&own);
}

/* Sums of all ranks, in doubles, by the comm that the values are of. */
static void sum(shoal_train *train, double *values, size_t count)
{
    for (size_t i = 0; i < count; i += 8)
        rank_ok(shoali_train_sum(train, values + i, count - i < 8 ? count - i : 8, "expected"));
}

static void meet_apart(const rank_env *env)
{
    static double want[2][COUNT_MAX];
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    const plan *p = env->arg;
    const shoal_train_desc desc = desc_of(p->sync);
    shoal_comm *comm = join_as(env, env->rank);
    const bool none = p->empty && env->rank == 2;
    const int have = p->empty ? WORKERS - 1 : WORKERS;
    uint32_t slots;
    rank_ok(shoal_train_create(comm, &desc, &train));
    const size_t count = train->param_count;
    const float *velocity = shoali_optim_state(train->update.optim, &slots);
    rank_check(train->loose && count <= COUNT_MAX && slots == 1);
    for (int i = 0; i < steps_of[env->rank]; i++)
        rank_ok(shoal_train_step(train, &progress));
    for (size_t i = 0; i < count; i++) {
        want[0][i] = none ? 0 : (double)train->params[i];
        want[1][i] = none ? 0 : (double)velocity[i];
    }
    train->state.torn = none;
    sum(train, want[0], count);
    sum(train, want[1], count);
    rank_meet(env, WORKERS); /* who reforms ends what others are in */
    rank_ok(shoal_train_reform(train, &comm, SECONDS(15)));
    for (size_t i = 0; i < count; i++) {
        const double mean = want[0][i] / have, speed = want[1][i] / have;
        rank_check(fabs((double)train->params[i] - mean) <= 1e-6 * (1 + fabs(mean)));
        rank_check(fabs((double)velocity[i] - speed) <= 1e-6 * (1 + fabs(speed)));
    }
    rank_ok(shoali_train_check_replicas(train)); /* to the last bit */
    rank_check(train->step == FURTHEST &&
               train->state.left_out == (p->empty ? 2 * BATCH : LEFT_OUT));
    rank_ok(shoal_train_step(train, &progress));
    rank_meet(env, 2 * WORKERS);
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void they_become_their_mean(void **state)
{
    (void)state;
    static const plan plans[] = {{"local_sgd:every=1000", false},
                                 {"local_sgd:every=1000", true},
                                 {"diloco:every=1000", false}};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        ranks_run(WORKERS, "tcp", NULL, meet_apart, &plans[i], SECONDS(30));
}

/* Two rounds of an outer step; then its momentum is not zero, and equal on all. */
static void keep_momentum(const rank_env *env)
{
    static float carried[COUNT_MAX], now[COUNT_MAX];
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    const shoal_train_desc desc = desc_of("diloco:every=2,momentum=0.9");
    shoal_comm *comm = join_as(env, env->rank);
    rank_ok(shoal_train_create(comm, &desc, &train));
    for (int i = 0; i < 4; i++)
        rank_ok(shoal_train_step(train, &progress));
    rank_meet(env, WORKERS);
    rank_ok(shoal_train_reform(train, &comm, SECONDS(15)));
    double largest = 0;
    for (size_t i = 0; i < train->param_count; i++) {
        carried[i] = train->state.carried[i];
        largest = fmax(largest, fabs((double)carried[i]));
    }
    rank_check(largest > 1e-6);
    shoali_sync_end(train->sync, now); /* what the protocol of the new epoch began with */
    train->sync = NULL;
    rank_check(memcmp(now, carried, train->param_count * sizeof *now) == 0);
    rank_meet(env, 2 * WORKERS);
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void the_momentum_of_an_outer_step_goes_on(void **state)
{
    (void)state;
    ranks_run(WORKERS, "tcp", NULL, keep_momentum, NULL, SECONDS(30));
}

/* Rank 2 is killed, the others go on as two, a process that is started in its place has their mean,
 * to the last bit; a job that is ending would let nobody in. */
static void lose_one(const rank_env *env)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = desc_of(env->arg);
    const bool newcomer = env->rank == WORKERS;
    desc.epochs = 100000; /* for as long as the test wants */
    while (newcomer && atomic_load(&env->board->go) == 0)
        (void)poll(NULL, 0, 1);
    shoal_comm *comm = join_as(env, newcomer ? 2 : env->rank);
    rank_ok(shoal_train_create(comm, &desc, &train));
    uint32_t epochs = newcomer ? 2 : 0;
    for (uint64_t i = 0; epochs < 2; i++) {
        if (i == 10)
            atomic_fetch_add(&env->board->ready, 1);
        shoal_status status = shoal_train_step(train, &progress);
        while (status != SHOAL_OK) {
            rank_check(status == SHOAL_EPEER || status == SHOAL_EEPOCH ||
                       status == SHOAL_ECANCELLED || status == SHOAL_ETIMEDOUT);
            status = shoal_train_reform(train, &comm, SECONDS(15));
            epochs = train->workers == WORKERS ? 2 : 1;
            if (status == SHOAL_OK && epochs == 1)
                atomic_fetch_add(&env->board->reformed, 1);
        }
    }
    rank_check(train->workers == WORKERS);
    rank_ok(shoali_train_check_replicas(train));
    rank_meet(env, 2 * WORKERS); /* three have said so before */
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void a_newcomer_has_their_mean(void **state)
{
    (void)state;
    static const char *const syncs[] = {"local_sgd:every=4",
                                        "diloco:every=4",
                                        "noloco:every=4",
                                        "ripples:smart",
                                        "ad_psgd",
                                        "d_psgd",
                                        "hop"};
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++) {
        ranks r;
        ranks_start(&r, WORKERS + 1, "file", NULL, lose_one, syncs[i]);
        ranks_wait_ready(&r, WORKERS, SECONDS(20));
        ranks_kill(&r, 2, SIGKILL);
        const uint64_t until_us = shoali_now_us() + (uint64_t)SECONDS(15);
        while (atomic_load(&r.board->reformed) < WORKERS - 1 && shoali_now_us() < until_us)
            (void)poll(NULL, 0, 1);
        atomic_store(&r.board->go, 1);
        ranks_finish(&r, 2, SECONDS(30));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(they_become_their_mean),
        CHECK_TEST(the_momentum_of_an_outer_step_goes_on),
        CHECK_TEST(a_newcomer_has_their_mean),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
