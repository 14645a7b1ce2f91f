/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that train: whatever way layers are divided, N workers are one worker with the whole batch,
 * and what they send is what the plan says, to the element. */
#include "worker/hybrid.h"
#include "worker/together.h"

#include <math.h>

#include "base/rng.h"
#include "support/ranks.h"
#include "support/scratch_dir.h"
#include "support/tinydata.h"

enum { STEPS = 20, BATCH = 32, PARAMS_MAX = 1 << 15, DEADLINE_US = 30000000 };
static const char *dir;

static int set_up(void **state)
{
    static const char conv[] =
        "{\"name\": \"conv\", \"input\": [1, 6, 6], \"layers\": [\"conv:out=8,kernel=3,pad=1\", "
        "\"maxpool\", \"relu\", \"conv:out=16,kernel=3,pad=1\", \"avgpool:kernel=3\", \"tanh\", "
        "\"flatten\", \"dense:out=32\", \"relu\", \"dense:out=4\"]}";
    static const char flat[] = "{\"name\": \"flat\", \"input\": [1, 6, 6], \"init\": \"xavier\", "
                               "\"layers\": [\"flatten\", \"dense:out=40,bias=off\", \"tanh\", "
                               "\"dense:out=24\", \"tanh\", \"dense:out=4\"]}";
    static const char noisy[] = "{\"name\": \"noisy\", \"input\": [1, 6, 6], \"layers\": "
                                "[\"dense:out=8\", \"dropout\", \"dense:out=4\"]}";
    (void)state;
    dir = scratch_dir_make();
    tiny_data_write(dir, check_seed());
    scratch_write("conv.json", conv, sizeof conv - 1);
    scratch_write("flat.json", flat, sizeof flat - 1);
    scratch_write("noisy.json", noisy, sizeof noisy - 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_dir_remove();
    return 0;
}

/* What one worker with the whole batch does. */
typedef struct whole {
    const char *model;
    float first[PARAMS_MAX]; /* gradient of the first step */
    double loss[STEPS];
    size_t count;
    double test_loss;
} whole;

static shoal_train_desc tiny_desc(void)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.data = dir;
    desc.epochs = 100;
    desc.max_steps = STEPS;
    desc.lr = 0.05;
    return desc;
}

static double loss_of_step(const shoal_train *train, double *before)
{
    bool first = (train->step - 1) % train->steps_per_epoch == 0;
    double loss = train->epoch.loss - (first ? 0 : *before);
    *before = train->epoch.loss;
    return loss;
}

static void train_alone(const char *model, whole *w)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc();
    double before = 0;
    w->model = model;
    desc.model = model;
    desc.batch = BATCH;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    w->count = train->param_count;
    assert_true(w->count <= PARAMS_MAX);
    for (int step = 0; step < STEPS; step++) {
        assert_ok(shoal_train_step(train, &progress));
        w->loss[step] = loss_of_step(train, &before);
        if (step == 0)
            memcpy(w->first, train->grads, w->count * sizeof w->first[0]);
    }
    w->test_loss = train->epoch.test_loss;
    shoal_train_destroy(train);
}

/* The parts of all workers, put together by the way that checkpoints take. */
static void compare_first(const whole *w, shoal_train *train)
{
    float *all = NULL, *params = train->params;
    double error = 0, norm = 0;
    train->params = train->grads;
    rank_ok(shoali_hybrid_collect(train, &all));
    train->params = params;
    for (size_t i = 0; all != NULL && i < w->count; i++) {
        double off = (double)all[i] - (double)w->first[i];
        error += off * off;
        norm += (double)w->first[i] * (double)w->first[i];
    }
    rank_check(sqrt(error) <= 2e-6 * sqrt(norm));
    shoali_free(all);
}

static void check_sent(shoal_train *train, uint64_t planned)
{
    double sent = (double)train->hybrid->traffic.sent_elems;
    rank_ok(shoali_train_sum(train, &sent, 1, "elements of all"));
    rank_check((uint64_t)sent == planned);
}

static void train_by(shoal_comm *comm, const whole *w, const char *path, uint64_t planned)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc();
    double before = 0;
    desc.plan = path;
    rank_ok(shoal_train_create(comm, &desc, &train));
    for (int step = 0; step < STEPS; step++) {
        rank_ok(shoal_train_step(train, &progress));
        double loss = loss_of_step(train, &before);
        rank_ok(shoali_train_sum(train, &loss, 1, "loss of all"));
        rank_check(fabs(loss - w->loss[step]) <= 1e-4 * fabs(w->loss[step]));
        check_sent(train, planned);
        if (step == 0)
            compare_first(w, train);
    }
    rank_check(fabs(train->epoch.test_loss - w->test_loss) <= 1e-4 * w->test_loss);
    shoal_train_destroy(train);
}

/* A random plan that can be run, the same on every rank. */
static shoal_partition *random_plan(const char *model, uint32_t levels, uint64_t seed,
                                    uint64_t round)
{
    for (uint64_t attempt = 0;; attempt++) {
        char rows[64];
        uint32_t layers = strstr(model, "conv") != NULL ? 4 : 3, at = 0;
        shoal_partition_desc desc = SHOAL_PARTITION_DESC_INIT;
        shoal_partition *plan = NULL;
        for (uint32_t level = 0; level < levels; level++) {
            for (uint32_t l = 0; l < layers; l++, at++)
                rows[at] = shoali_rng_below(seed, round, attempt * 64 + at, 2) != 0 ? '1' : '0';
            rows[at++] = level + 1 < levels ? '/' : '\0';
        }
        desc.model = model;
        desc.batch = BATCH;
        desc.levels = levels;
        desc.method = SHOAL_PARTITION_GIVEN;
        desc.given = rows;
        rank_ok(shoal_partition_create(&desc, &plan));
        if (plan->why_not == NULL)
            return plan;
        shoal_partition_destroy(plan);
    }
}

typedef struct job {
    const whole *w;
    uint32_t plans;
} job;

static void train_together(const rank_env *env)
{
    const job *j = env->arg;
    uint64_t seed = check_seed();
    uint32_t levels = (uint32_t)__builtin_ctz(env->size);
    shoal_comm *comm = rank_join(env);
    for (uint32_t round = 0; round < j->plans; round++) {
        char path[256];
        shoal_partition_info info = SHOAL_PARTITION_INFO_INIT;
        shoal_partition *plan = random_plan(j->w->model, levels, seed, round);
        snprintf(path, sizeof path, "%s/plan-%u-%u-%u.json", dir, env->size, env->rank, round);
        rank_ok(shoal_partition_save(plan, path));
        rank_ok(shoal_partition_describe(plan, &info));
        train_by(comm, j->w, path, info.executed_elements);
        shoal_partition_destroy(plan);
    }
    shoal_comm_destroy(comm);
}

static void run_model(const char *name, uint32_t workers, uint32_t plans)
{
    static whole w;
    char model[256];
    job j = {.w = &w, .plans = plans};
    snprintf(model, sizeof model, "%s/%s.json", dir, name);
    train_alone(model, &w);
    ranks_run(workers, "tcp", NULL, train_together, &j, DEADLINE_US);
}

static void two_workers(void **state)
{
    (void)state;
    run_model("flat", 2, 4);
    run_model("conv", 2, 4);
}

static void four_workers(void **state)
{
    (void)state;
    run_model("flat", 4, 6);
    run_model("conv", 4, 6);
}

static void eight_workers(void **state)
{
    (void)state;
    run_model("flat", 8, 2);
    run_model("conv", 8, 2);
}

/* ---------------------------------------------------------------- refusals */

static void make_plan(const char *path, const char *name, uint32_t levels)
{
    char model[256];
    shoal_partition_desc desc = SHOAL_PARTITION_DESC_INIT;
    shoal_partition *plan;
    snprintf(model, sizeof model, "%s/%s.json", dir, name);
    desc.model = model;
    desc.batch = BATCH;
    desc.levels = levels;
    assert_ok(shoal_partition_create(&desc, &plan));
    assert_ok(shoal_partition_save(plan, path));
    shoal_partition_destroy(plan);
}

static void refuse(shoal_train_desc *desc, shoal_status status, const char *says)
{
    shoal_train *train = NULL;
    assert_status(shoal_train_create(NULL, desc, &train), status);
    assert_null(train);
    assert_error_has(says);
}

static void what_does_not_fit_is_refused(void **state)
{
    char path[256];
    shoal_train_desc desc = tiny_desc();
    (void)state;
    snprintf(path, sizeof path, "%s/plan.json", dir);
    desc.plan = path;
    make_plan(path, "flat", 2);
    refuse(&desc, SHOAL_EINVAL, "4 workers, there are 1");
    desc.model = "lenet";
    refuse(&desc, SHOAL_EINVAL, "not lenet");
    desc.model = NULL;
    make_plan(path, "noisy", 0);
    refuse(&desc, SHOAL_ENOTSUP, "dropout1");
    make_plan(path, "flat", 0);
    desc.batch = 7;
    refuse(&desc, SHOAL_EINVAL, "asked for 7");
    desc.batch = 0;
    desc.slow = 2;
    refuse(&desc, SHOAL_EINVAL, "keep their own pace");
    desc.slow = 0;
    desc.compute_ms = 3;
    refuse(&desc, SHOAL_EINVAL, "--compute-ms does not go with --plan");
    desc.compute_ms = 0;
    desc.plan = "/no/such/plan";
    refuse(&desc, SHOAL_EIO, "/no/such/plan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(two_workers),
        CHECK_TEST(four_workers),
        CHECK_TEST(eight_workers),
        CHECK_TEST(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
