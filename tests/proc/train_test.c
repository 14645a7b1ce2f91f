/* SPDX-License-Identifier: Apache-2.0 */
/* Training on real ranks: N workers with batch B are one worker with N B; replicas that differ, and
 * values that are not finite, are found by every rank. */
#include "support/ranks.h"

#include <math.h>

#include "support/tinydata.h"
#include "train/train.h"

enum { STEPS = 20, WORKERS = 3, DEADLINE_US = 20000000 };

static shoal_train_desc tiny_desc(uint32_t batch)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = batch;
    desc.epochs = 100;
    desc.max_steps = STEPS;
    desc.lr = 0.05;
    desc.no_evaluation = true;
    return desc;
}

typedef struct whole {
    float first[2048]; /* gradient of the first step, a mean over all samples */
    double loss[STEPS];
    size_t count;
} whole;

/* What one worker with the whole batch does. The loss of a step is its own samples' mean. */
static void train_alone(whole *w)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc(8 * WORKERS);
    assert_ok(shoal_train_create(NULL, &desc, &train));
    w->count = shoali_net_count(train->net);
    assert_true(w->count <= 2048);
    double before = 0;
    for (int step = 0; step < STEPS; step++) {
        assert_ok(shoal_train_step(train, &progress));
        bool first = (train->step - 1) % train->steps_per_epoch == 0;
        w->loss[step] = train->epoch.loss - (first ? 0 : before);
        before = train->epoch.loss;
        if (step == 0)
            memcpy(w->first, shoali_net_grads(train->net), w->count * sizeof w->first[0]);
    }
    shoal_train_destroy(train);
}

static void compare_first(const whole *w, const shoal_train *train)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < w->count; i++) {
        double mean = (double)shoali_net_grads(train->net)[i] /
                      WORKERS; /* the exchange left the sum */
        error += (mean - (double)w->first[i]) * (mean - (double)w->first[i]);
        norm += (double)w->first[i] * (double)w->first[i];
    }
    rank_check(sqrt(error) <= 2e-6 * sqrt(norm));
}

static void train_together(const rank_env *env)
{
    const whole *w = env->arg;
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc(8);
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    double before = 0;
    for (int step = 0; step < STEPS; step++) {
        rank_ok(shoal_train_step(train, &progress));
        bool first = (train->step - 1) % train->steps_per_epoch == 0;
        double loss = train->epoch.loss - (first ? 0 : before);
        before = train->epoch.loss;
        rank_ok(shoali_train_sum(train, &loss, 1, "loss of all"));
        rank_check(fabs(loss - w->loss[step]) <= 1e-5 * fabs(w->loss[step]));
        if (step == 0)
            compare_first(w, train);
    }
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void workers_are_one(void **state)
{
    (void)state;
    static whole w;
    train_alone(&w);
    ranks_run(WORKERS, "tcp", NULL, train_together, &w, DEADLINE_US);
}

static void differing(const rank_env *env)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc(4);
    desc.check_every = 2;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    rank_ok(shoal_train_step(train, &progress));
    if (env->rank == 1)
        shoali_net_params(train->net)[7] += 1e-3f;
    rank_status(shoal_train_step(train, &progress), SHOAL_EMISMATCH);
    rank_error_has("differ after step 2");
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void differing_replicas_stop(void **state)
{
    (void)state;
    ranks_run(3, "tcp", NULL, differing, NULL, DEADLINE_US);
}

/* Each worker's running statistics are those of its own batches; evaluation takes their mean. */
static void normalised(const rank_env *env)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc(8);
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    rank_ok(shoal_train_step(train, &progress));
    rank_check(train->steps_per_epoch > 1); /* an epoch's end evaluates, too */
    size_t count, apart = 0;
    float *statistics = shoali_net_state(train->net, &count);
    double own[64], mean[64];
    rank_check(count == 2 * 16); /* means and variances of the model's batch norm */
    for (size_t i = 0; i < count; i++)
        own[i] = mean[i] = (double)statistics[i];
    for (size_t i = 0; i < count; i += 16)
        rank_ok(shoali_train_sum(train, mean + i, 16, "statistics of all"));
    rank_ok(shoali_train_evaluate(train, false));
    for (size_t i = 0; i < count; i++) {
        mean[i] /= WORKERS;
        rank_check(fabs((double)statistics[i] - mean[i]) <= 1e-6 * (1 + fabs(mean[i])));
        apart += fabs(own[i] - mean[i]) > 1e-4 * (1 + fabs(mean[i]));
    }
    rank_check(apart > count / 2); /* else there was nothing to average */
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void statistics_of_batch_norm_are_the_workers_mean(void **state)
{
    (void)state;
    tiny_model_write(tiny_dir, true);
    ranks_run(WORKERS, "tcp", NULL, normalised, NULL, DEADLINE_US);
    tiny_model_write(tiny_dir, false);
}

static void not_finite(const rank_env *env)
{
    const shoal_nonfinite *what = env->arg;
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc(4);
    desc.nonfinite = *what;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    rank_ok(shoal_train_step(train, &progress));
    float *params = shoali_net_params(train->net), kept = params[3];
    if (env->rank == 1)
        params[3] = NAN;
    if (*what == SHOAL_NONFINITE_STOP) {
        rank_status(shoal_train_step(train, &progress), SHOAL_ENOTFINITE);
        rank_error_has("rank 1");
    } else {
        rank_ok(shoal_train_step(train, &progress));
        rank_check(progress.skipped && train->totals.skipped == 1);
        params[3] = kept; /* nobody updated anything: all replicas are what they were */
        rank_ok(shoali_train_check_replicas(train));
        rank_ok(shoal_train_step(train, &progress));
        rank_check(!progress.skipped);
    }
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void not_finite_stops_or_skips(void **state)
{
    (void)state;
    static const shoal_nonfinite kinds[] = {SHOAL_NONFINITE_STOP, SHOAL_NONFINITE_SKIP};
    ranks_run(3, "tcp", NULL, not_finite, &kinds[0], DEADLINE_US);
    ranks_run(3, "tcp", NULL, not_finite, &kinds[1], DEADLINE_US);
}

/* Four workers, the last one four times slower: after three rounds all take equally long, so it has
 * a fourth of the others' samples, and all know the same division. */
static void uneven(const rank_env *env)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc(8);
    desc.sync = env->arg;
    desc.batch_auto = true;
    desc.compute_ms = 8;
    desc.slow = env->rank == 3 ? 4 : 1;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    double seen[2] = {0};
    for (int step = 0; step < STEPS; step++) {
        double before = (double)train->epoch.samples;
        rank_ok(shoal_train_step(train, &progress));
        bool first = (train->step - 1) % train->steps_per_epoch == 0;
        seen[0] += (double)train->epoch.samples - (first ? 0 : before);
        seen[1] += train->step == 1 ? (double)train->epoch.samples : 0;
    }
    rank_check(seen[1] == 8);
    uint32_t sum = 0;
    for (uint32_t w = 0; w < 4; w++)
        sum += train->uneven.batches[w];
    rank_check(sum == 32);
    /* 32 x 4/13 and 1/13; the clock of a busy machine may move one or two */
    rank_check(train->uneven.batches[3] >= 1 && train->uneven.batches[3] <= 4);
    for (uint32_t w = 0; w < 3; w++)
        rank_check(train->uneven.batches[w] >= 8 && train->uneven.batches[w] <= 13);
    uint32_t last = (uint32_t)(train->steps % train->steps_per_epoch);
    double total = (double)train->data.set->train.count *
                       (double)(train->steps / train->steps_per_epoch) +
                   last * 32.0;
    rank_ok(shoali_train_sum(train, seen, 1, "samples of all"));
    rank_check(seen[0] == total);
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void batch_auto_makes_all_equally_long(void **state)
{
    (void)state;
    static const char *const specs[] = {"all_reduce", "local_sgd:every=2", "ripples:static",
                                        "diloco:every=2,quorum=2"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        ranks_run(4, "tcp", NULL, uneven, specs[i], DEADLINE_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(workers_are_one), CHECK_TEST(differing_replicas_stop),
        CHECK_TEST(statistics_of_batch_norm_are_the_workers_mean),
        CHECK_TEST(not_finite_stops_or_skips), CHECK_TEST(batch_auto_makes_all_equally_long)};
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
