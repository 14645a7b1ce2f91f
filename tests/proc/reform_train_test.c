/* SPDX-License-Identifier: Apache-2.0 */
/* A training run loses workers and gets others: it makes all its steps, takes every sample once,
 * and its replicas stay equal. */
#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "support/ranks.h"
#include "support/tinydata.h"
#include "train/train.h"

enum { MEMBERS = 3, EPOCHS = 30 };
#define SECONDS(n) ((int64_t)(n)*1000 * 1000)

typedef struct plan {
    uint32_t victim;
    const char *optimizer, *codec;
    bool replace;
} plan;

static uint64_t serial_of(const shoal_train *train)
{
    uint64_t epoch, in_epoch;
    shoali_train_place(train, train->step, &epoch, &in_epoch);
    return epoch * train->data.set->train.count +
           shoali_sampler_taken(train->data.sampler, epoch, in_epoch);
}

/* One step, or what it takes to go on. next: the serial of the first sample that no step took. */
static void go_on(const rank_env *env, shoal_train *train, shoal_comm **comm, uint64_t *next,
                  shoal_train_progress *progress)
{
    uint64_t before = train->step, serial = serial_of(train);
    shoal_status status = shoal_train_step(train, progress);
    if (train->step > before) { /* even if what follows it failed */
        rank_check(serial == *next);
        *next = serial_of(train);
        rank_check(*next > serial);
    }
    while (status != SHOAL_OK) {
        rank_check(status == SHOAL_EPEER || status == SHOAL_EEPOCH || status == SHOAL_ECANCELLED);
        before = train->step;
        status = shoal_train_reform(train, comm, SECONDS(15));
        if (status == SHOAL_OK)
            atomic_fetch_add(&env->board->reformed, 1);
        if (train->step > before) /* another was a step ahead */
            *next = serial_of(train);
        rank_check(serial_of(train) == *next);
    }
}

static shoal_comm *join(const rank_env *env)
{
    const plan *p = env->arg;
    rank_env own = *env;
    own.desc.reform = true;
    own.desc.world_size = MEMBERS;
    if (env->rank >= MEMBERS) {
        own.desc.rank = (int32_t)p->victim;
        while (atomic_load(&env->board->go) == 0)
            (void)poll(NULL, 0, 1);
    }
    return rank_join(&own);
}

static void train_on(const rank_env *env)
{
    const plan *p = env->arg;
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    shoal_comm *comm = join(env);
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 5;
    desc.epochs = EPOCHS;
    desc.optimizer = p->optimizer;
    desc.codec = p->codec;
    desc.check_every = 5;
    desc.compute_ms = 2;
    desc.reform = true;
    rank_ok(shoal_train_create(comm, &desc, &train));
    uint64_t next = serial_of(train);
    while (!progress.done) {
        if (train->step == 20)
            atomic_fetch_add(&env->board->ready, 1);
        go_on(env, train, &comm, &next, &progress);
    }
    rank_check(next == (uint64_t)EPOCHS * train->data.set->train.count);
    rank_check(train->workers == (p->replace ? MEMBERS : MEMBERS - 1));
    rank_ok(shoali_train_check_replicas(train));
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void lose(const plan *p)
{
    ranks r;
    ranks_start(&r, MEMBERS + (p->replace ? 1 : 0), "file", NULL, train_on, p);
    ranks_wait_ready(&r, MEMBERS, SECONDS(20));
    ranks_kill(&r, p->victim, SIGKILL);
    uint64_t until_us = shoali_now_us() + (uint64_t)SECONDS(15);
    while (p->replace && atomic_load(&r.board->reformed) < MEMBERS - 1 &&
           shoali_now_us() < until_us)
        (void)poll(NULL, 0, 1);
    atomic_store(&r.board->go, 1);
    ranks_finish(&r, p->victim, SECONDS(30));
}

static void the_others_take_its_samples(void **state)
{
    (void)state;
    lose(&(plan){.victim = 1, .optimizer = "sgd:momentum=0.9", .codec = "identity"});
    lose(&(plan){.victim = 0, .optimizer = "adam", .codec = "int8"});
}

static void a_replacement_takes_over_the_state(void **state)
{
    (void)state;
    lose(&(plan){.victim = 2, .optimizer = "adam", .codec = "identity", .replace = true});
    lose(&(plan){.victim = 0, .optimizer = "sgd:momentum=0.9", .codec = "int8", .replace = true});
}

/* Steps are counted in the codec's state: among bits, and while all travels whole. */
static void a_codec_that_counts_steps_goes_on(void **state)
{
    (void)state;
    for (int replace = 0; replace < 2; replace++) {
        lose(&(plan){.victim = 1,
                     .optimizer = "adam:freeze=6,eps=0.1",
                     .codec = "onebit:warmup=6",
                     .replace = replace});
        lose(&(plan){.victim = 0,
                     .optimizer = "adam:freeze=60,eps=0.1",
                     .codec = "onebit:warmup=60",
                     .replace = replace});
    }
}

static void what_cannot_reform_is_refused(void **state)
{
    static const char *const syncs[] = {"param_server:dedicated,async", "param_server"};
    (void)state;
    shoal_train *train = NULL;
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.reform = true;
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++) {
        desc.sync = syncs[i];
        assert_status(shoal_train_create(NULL, &desc, &train), SHOAL_EINVAL);
        const char *advice = shoal_last_error()->advice; /* what is possible */
        assert_non_null(strstr(advice, "all_reduce"));
        assert_non_null(strstr(advice, "local_sgd"));
        assert_true((strstr(advice, "goes on without lost workers by itself") != NULL) == (i == 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_others_take_its_samples),
        CHECK_TEST(a_replacement_takes_over_the_state),
        CHECK_TEST(a_codec_that_counts_steps_goes_on),
        CHECK_TEST(what_cannot_reform_is_refused),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
