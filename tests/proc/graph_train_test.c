/* SPDX-License-Identifier: Apache-2.0 */
/* Training with protocols on graphs, one worker four times slower: all come to the end, with one
 * model, though they have not made the same number of steps. */
#include <math.h>

#include "support/ranks.h"
#include "support/tinydata.h"
#include "train/train.h"

enum { WORKERS = 4, DEADLINE_US = 30000000 };

static void train(const rank_env *env)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_summary summary = {.size = sizeof summary};
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 8;
    desc.epochs = 100;
    desc.max_steps = 40;
    desc.lr = 0.05;
    desc.sync = env->arg;
    desc.slow = env->rank == 1 ? 4 : 1;
    desc.compute_ms = 1;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    do
        rank_ok(shoal_train_step(train, &progress));
    while (!progress.done);
    rank_check(train->step == 40);
    rank_ok(shoali_train_check_replicas(train));
    rank_ok(shoal_train_summarise(train, &summary));
    rank_check(isfinite(summary.test_loss));
    rank_check(summary.worker_accuracy_min >= 0 &&
               summary.worker_accuracy_max >= summary.worker_accuracy_min);
    bool skips = strstr(env->arg, "skip") != NULL && env->rank == 1;
    rank_check(skips ? train->totals.steps < 40 : train->totals.steps <= 40);
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void trainers_finish_together(void **state)
{
    (void)state;
    static const char *const specs[] = {"hop:backup=1,skip=10", "ad_psgd", "d_psgd"};
    tiny_set_up(NULL);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        ranks_run(WORKERS, "tcp", NULL, train, specs[i], DEADLINE_US);
    tiny_tear_down(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(trainers_finish_together)};
    return CHECK_RUN(tests);
}
