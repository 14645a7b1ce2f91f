/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs that need more than one step to show what they do, in training on real ranks: powersgd,
 * blocks, onebit and demo, whose states go through a checkpoint, and the choice of `auto`. */
#include "support/ranks.h"

#include <math.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "driver/driver.h"
#include "files/safetensors.h"
#include "shoal/watch.h"
#include "support/tinydata.h"
#include "worker/codec_choice_parts.h"
#include "worker/together.h"

enum { STEPS = 14, WORKERS = 3, DEADLINE_US = 30000000 };

/** One run of all ranks: up to `stop` of STEPS steps, in DIR/out, a checkpoint every 5. */
typedef struct part {
    const char *codec, *out, *collective;
    uint64_t stop;
    bool resume, chooses;
    const char *optimizer; /* NULL: the default */
} part;

static shoal_train_desc tiny_desc(const part *p)
{
    static char out[300];
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    snprintf(out, sizeof out, "%s/%s", tiny_dir, p->out);
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 4;
    desc.epochs = 100;
    desc.max_steps = STEPS;
    desc.lr = 0.05;
    desc.no_evaluation = true;
    desc.check_every = 1;
    desc.optimizer = p->optimizer;
    desc.codec = p->codec;
    desc.collective = p->collective;
    desc.out = out;
    desc.checkpoint_every = 5;
    desc.resume = p->resume ? out : NULL;
    return desc;
}

/* All ranks see the same candidates and chose the same one. */
static void check_choice(shoal_train *train)
{
    shoal_train_candidate c = {.size = sizeof c};
    uint32_t count = 0, chosen = UINT32_MAX;
    for (; shoal_train_choice(train, count, &c); count++) {
        rank_check(c.exchange_ms > 0 && isfinite(c.step_ms) && c.sent_bytes > 0);
        rank_check(c.step_ms >= 0 && c.code_ms >= 0);
        if (c.chosen) {
            rank_check(strcmp(c.codec, shoal_train_codec(train)) == 0);
            chosen = count;
        }
    }
    rank_check(count >= 2 && chosen < count);
    float both[3] = {(float)chosen, -(float)chosen, 0};
    rank_check(shoal_train_choice(train, chosen, &c));
    both[2] = (float)c.step_ms;
    float most[3];
    memcpy(most, both, sizeof most);
    rank_ok(shoali_train_reduce(train, most, 3, SHOAL_MAX, "choice"));
    rank_check(memcmp(most, both, sizeof most) == 0);
}

static void run_part(const rank_env *env)
{
    const part *p = env->arg;
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    const shoal_train_desc desc = tiny_desc(p);
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    rank_check(train->step == (p->resume ? 5u : 0u));
    if (p->chooses)
        rank_check((shoali_choice_made(train) != NULL) == p->resume);
    do {
        rank_ok(shoal_train_step(train, &progress));
        if (p->chooses && !p->resume && progress.step == 3)
            check_choice(train);
    } while (progress.step < p->stop);
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void run(const part *p)
{
    ranks_run(WORKERS, "tcp", NULL, run_part, p, DEADLINE_US);
}

static shoali_safetensors *open_last(const char *out, const char *name)
{
    char path[400];
    shoali_safetensors *file = NULL;
    snprintf(path, sizeof path, "%s/%s/checkpoints/step-%d/%s", tiny_dir, out, STEPS, name);
    assert_ok(shoali_safetensors_open(path, &file));
    return file;
}

/* Bit for bit the same, all tensors of both. */
static void assert_same(const char *out, const char *other, const char *name)
{
    shoali_safetensors *a = open_last(out, name), *b = open_last(other, name);
    static float x[4096], y[4096];
    const char *tensor;
    size_t count = 0, i = 0;
    for (; (tensor = shoali_safetensors_name(a, i, &count)) != NULL; i++) {
        assert_true(count <= 4096);
        assert_ok(shoali_safetensors_read(a, tensor, x, count));
        assert_ok(shoali_safetensors_read(b, tensor, y, count));
        assert_memory_equal(x, y, count * sizeof x[0]);
    }
    assert_true(i > 0);
    assert_null(shoali_safetensors_name(b, i, &count));
    shoali_safetensors_close(a);
    shoali_safetensors_close(b);
}

/* Replicas equal after every step (check_every = 1), state and residuals in the checkpoint: who
 * goes on from it ends where the others do. `name` is of the folders. */
static void goes_on_from_a_checkpoint(const char *codec, const char *collective,
                                      const char *optimizer, const char *name)
{
    char whole_in[32], half_in[32], dense_in[32];
    snprintf(whole_in, sizeof whole_in, "%s-whole", name);
    snprintf(half_in, sizeof half_in, "%s-half", name);
    snprintf(dense_in, sizeof dense_in, "%s-dense", name);
    const part whole = {codec, whole_in, collective, STEPS, false, false, optimizer},
               half = {codec, half_in, collective, 7, false, false, optimizer},
               rest = {codec, half_in, collective, STEPS, true, false, optimizer},
               dense = {"identity",
                        dense_in,
                        collective,
                        STEPS,
                        false,
                        false,
                        strstr(codec, "local=") == NULL ? optimizer : "adam:freeze=3,eps=0.1"};
    run(&whole);
    run(&half);
    run(&rest);
    assert_same(whole_in, half_in, "common.safetensors");
    for (int rank = 0; rank < WORKERS; rank++) {
        char file[64];
        snprintf(file, sizeof file, "rank-%d.safetensors", rank);
        assert_same(whole_in, half_in, file);
    }
    run(&dense); /* and it does make a difference */
    static float x[1024], y[1024];
    shoali_safetensors *a = open_last(whole_in, "common.safetensors"),
                       *b = open_last(dense_in, "common.safetensors");
    size_t count = 0;
    const char *first = shoali_safetensors_name(a, 0, &count);
    assert_true(count <= 1024);
    assert_ok(shoali_safetensors_read(a, first, x, count));
    assert_ok(shoali_safetensors_read(b, first, y, count));
    assert_memory_not_equal(x, y, count * sizeof x[0]);
    shoali_safetensors_close(a);
    shoali_safetensors_close(b);
}

static void powersgd_goes_on_from_a_checkpoint(void **state)
{
    (void)state;
    goes_on_from_a_checkpoint("powersgd:rank=1", "ring", NULL, "powersgd");
}

static void blocks_go_on_from_a_checkpoint(void **state)
{
    (void)state;
    goes_on_from_a_checkpoint("blocks:block=32,k=0.2,pick=random", "omnireduce:block=32", NULL,
                              "blocks");
}

/* Whole steps are the 1st to 3rd, 5th and 7th: the checkpoint of step 5 lies among them. */
static void onebit_goes_on_from_a_checkpoint(void **state)
{
    (void)state;
    goes_on_from_a_checkpoint("onebit:warmup=8,kappa=2", "ring", "adam:freeze=8,kappa=2,eps=0.1",
                              "onebit");
}

/* Workers meet behind steps 7 and 11: at the checkpoint of step 5 each has its own weights, and so
 * it has at the end, where their mean is taken. */
static void apart_goes_on_from_a_checkpoint(void **state)
{
    (void)state;
    goes_on_from_a_checkpoint("onebit:warmup=3,local=4", "ring", "adam:freeze=3,local=4,eps=0.1",
                              "apart");
}

/* Momenta of three ranks, each its own. */
static void demo_goes_on_from_a_checkpoint(void **state)
{
    (void)state;
    goes_on_from_a_checkpoint("demo:k=2,chunk=4", "ring", "sgd:momentum=0", "demo");
}

/* What is delivered in all steps and what ranks still keep are the gradients: through the comm,
 * in whose store the state lives until it is told to forget. */
static void state_is_kept_and_forgotten(const rank_env *env)
{
    enum { ROWS = 12, COLS = 9, COUNT = ROWS * COLS };
    const part *p = env->arg;
    const shoal_tensor table = {
        .key = 5, .count = COUNT, .rows = ROWS, .cols = COLS, .lr_scale = 1};
    shoal_comm *comm = rank_join(env);
    double delivered[COUNT] = {0}, source[COUNT] = {0}, kept[COUNT] = {0};
    float buf[COUNT], residual[COUNT];
    for (int step = 0; step < 4; step++) {
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        shoal_op *op = NULL;
        for (int i = 0; i < COUNT; i++) {
            buf[i] = (float)((i * 37 + step * 11 + (int)env->rank * 5) % 23) - 11;
            for (uint32_t r = 0; r < env->size; r++)
                source[i] += (i * 37 + step * 11 + (int)r * 5) % 23 - 11;
        }
        desc.buf = buf;
        desc.count = COUNT;
        desc.tensors = &table;
        desc.tensor_count = 1;
        desc.push_codec = p->codec;
        desc.collective = p->collective;
        rank_ok(shoal_op_start(comm, &desc, &op));
        rank_ok(shoal_op_wait(&op, -1, NULL));
        for (int i = 0; i < COUNT; i++)
            delivered[i] += (double)buf[i];
    }
    shoali_residual stored[2];
    rank_check(shoali_comm_residuals(comm, stored, 2) == 1 && stored[0].count >= COUNT);
    memcpy(residual, stored[0].values + (stored[0].count - COUNT), sizeof residual);
    rank_ok(shoal_allreduce(comm, residual, COUNT, "ring", "identity"));
    double most = 0;
    for (int i = 0; i < COUNT; i++) {
        kept[i] = (double)residual[i];
        rank_check(fabs(delivered[i] + kept[i] - source[i]) < 1e-3);
        most = fmax(most, fabs(kept[i]));
    }
    rank_check(most > 1);
    shoali_comm_forget_residuals(comm);
    rank_check(shoali_comm_residuals(comm, stored, 2) == 0);
    shoal_comm_destroy(comm);
}

static void powersgd_loses_nothing_for_good(void **state)
{
    (void)state;
    static const part p = {.codec = "powersgd:rank=2", .collective = "ring"};
    ranks_run(WORKERS, "tcp", NULL, state_is_kept_and_forgotten, &p, DEADLINE_US);
}

static void blocks_lose_nothing_for_good(void **state)
{
    (void)state;
    static const part parts[] = {
        {.codec = "blocks:block=32,k=0.3", .collective = "omnireduce:block=32"},
        {.codec = "blocks:block=32,k=0.3", .collective = "ring"}};
    for (size_t i = 0; i < 2; i++)
        ranks_run(WORKERS, "tcp", NULL, state_is_kept_and_forgotten, &parts[i], DEADLINE_US);
}

/* Unasked it is lossless: the weights are float32's, bit for bit, whatever it chose. The choice is
 * in the checkpoint. */
static void auto_changes_no_bit(void **state)
{
    (void)state;
    static const part off = {"identity", "off", "ring", STEPS, false, false, NULL},
                      first = {"auto", "auto", "ring", 7, false, true, NULL},
                      rest = {"auto", "auto", "ring", STEPS, true, true, NULL};
    run(&off);
    run(&first);
    run(&rest);
    assert_same("off", "auto", "common.safetensors");
    shoali_safetensors *file = open_last("auto", "common.safetensors");
    assert_non_null(shoali_safetensors_metadata(file, "chosen_codec"));
    shoali_safetensors_close(file);
}

/* Codecs with residuals and transforms are measured without leaving any. */
static void measuring_leaves_nothing(const rank_env *env)
{
    const part p = {"auto:allow=powersgd:rank=1+blockint:rel=0.1+terngrad",
                    "allowed",
                    "ring",
                    3,
                    false,
                    true,
                    NULL};
    shoal_train *train = NULL;
    shoal_train_candidate c = {.size = sizeof c};
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc(&p);
    desc.out = NULL;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    for (int step = 0; step < 3; step++)
        rank_ok(shoal_train_step(train, &progress));
    check_choice(train);
    bool lossless = false;
    uint32_t lossy = 0;
    for (uint32_t i = 0; shoal_train_choice(train, i, &c); i++) {
        lossless = lossless || (c.chosen && c.lossless);
        lossy += !c.lossless;
    }
    rank_check(lossy == 3);
    if (lossless)
        rank_check(shoali_comm_residuals(comm, NULL, 0) == 0);
    shoal_train_destroy(train);
    desc.sync = "local_sgd";
    desc.checkpoint_every = 0; /* which local_sgd refuses, too */
    rank_status(shoal_train_create(comm, &desc, &train), SHOAL_EINVAL);
    rank_error_has("cannot change its codec");
    shoal_comm_destroy(comm);
}

static void auto_measures_what_is_allowed(void **state)
{
    (void)state;
    ranks_run(WORKERS, "tcp", NULL, measuring_leaves_nothing, NULL, DEADLINE_US);
}

/* ---------------------------------------------------------------- auto:error= */

/* As if this had been chosen; the codec of the next exchange. */
static void start_in(shoal_train *train, const char *codec, const char *ladder)
{
    shoali_choice_resume(train, codec, ladder);
    rank_check(strcmp(shoal_train_codec(train), codec) == 0);
    rank_ok(shoali_sync_set_codec(train->sync, codec));
}

/* |sum of x over ranks|^2 of each rank's x [count], and of the sum + y. */
static double square(const float *x, const float *y, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double v = (double)x[i] + (y != NULL ? (double)y[i] : 0);
        sum += v * v;
    }
    return sum;
}

/* What all ranks together owe, from the residuals as a checkpoint would have them. */
static void sum_owed(shoal_train *train, float *out)
{
    shoali_residual all[16];
    const size_t count = shoali_comm_residuals(train->comm, all, 16);
    memset(out, 0, train->param_count * sizeof *out);
    for (size_t r = 0; r < count && r < 16; r++)
        for (uint32_t t = 0; t < train->tensor_count; t++)
            if (train->tensors[t].key == all[r].key)
                memcpy(out + train->tensors[t].offset, all[r].values, all[r].count * sizeof *out);
    rank_ok(shoali_train_reduce(train, out, train->param_count, SHOAL_SUM, "owed"));
}

enum { PARAMS = 4096 };

/* Three steps with feedback: the error is what is owed of what was to be delivered. Then one whose
 * bound is broken: it delivers all of that, and nothing is owed. */
static void feedback_is_measured(const rank_env *env)
{
    const part p = {"auto:error=0.9,every=1,allow=int4:ef", "fed", "ring", 3, false, false, NULL};
    static float delivered[PARAMS], owed[PARAMS];
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_codec_check check = {.size = sizeof check};
    shoal_train_codec_fall fall = {.size = sizeof fall};
    shoal_train_desc desc = tiny_desc(&p);
    desc.out = NULL;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    rank_check(train->param_count <= PARAMS);
    start_in(train, "int4:ef", NULL);
    for (uint64_t step = 1; step <= 3; step++) {
        rank_ok(shoal_train_step(train, &progress));
        memcpy(delivered, train->grads, train->param_count * sizeof *delivered);
        sum_owed(train, owed);
        const double wanted = square(delivered, owed, train->param_count),
                     error = square(owed, NULL, train->param_count) / wanted;
        rank_check(shoal_train_codec_bound(train, &check) && check.checks == step);
        rank_check(error > 1e-4 && fabs(check.last - error) < 1e-3 * error);
        rank_check(!shoal_train_codec_fell(train, 0, &fall));
    }
    rank_check(shoali_comm_residuals(comm, NULL, 0) > 0);
    train->choice->bound.most = 1e-7;
    rank_ok(shoal_train_step(train, &progress));
    rank_check(shoal_train_codec_fell(train, 0, &fall) && fall.step == 4);
    rank_check(shoali_comm_residuals(comm, NULL, 0) == 0);
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

/* The sum of the first step, by a trainer without a codec. */
static void exact_sum(shoal_comm *comm, const part *p, float *out)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = tiny_desc(p);
    desc.out = NULL;
    rank_ok(shoal_train_create(comm, &desc, &train));
    rank_ok(shoal_train_step(train, &progress));
    memcpy(out, train->grads, train->param_count * sizeof *out);
    shoal_train_destroy(train);
}

/* What `shoal status` shows of this job. */
static void status_says(const char *words)
{
    shoal_watch *watch;
    rank_ok(shoal_watch_ask("codec_train_test", DEADLINE_US / 3, &watch));
    rank_check(strstr(shoal_watch_notes(watch), words) != NULL);
    shoal_watch_close(watch);
}

/* A bound that the codec breaks at once: the error is that of its sum, the step's own sum is
 * float32's, and the next step is the next rung's. */
static void a_broken_bound(const rank_env *env)
{
    const part
        plain = {"identity", "x", "ring", 1, false, false, NULL},
        loose = {"auto:error=1,every=1,allow=fp8:ef=off", "x", "ring", 1, false, false, NULL},
        tight = {
            "auto:error=1e-7,every=1,allow=fp8:ef=off+bf16", "x", "ring", 1, false, false, NULL};
    static float exact[PARAMS], got[PARAMS];
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_codec_check check = {.size = sizeof check};
    shoal_train_codec_fall fall = {.size = sizeof fall};
    setenv("SHOAL_STATUS_DIR", tiny_dir, 1);
    setenv("SHOAL_JOB", "codec_train_test", 1);
    shoal_comm *comm = rank_join(env);
    exact_sum(comm, &plain, exact);
    for (int broken = 0; broken < 2; broken++) {
        shoal_train_desc desc = tiny_desc(broken ? &tight : &loose);
        desc.out = NULL;
        rank_ok(shoal_train_create(comm, &desc, &train));
        start_in(train, "fp8", broken ? "fp8+bf16" : NULL);
        rank_ok(shoal_train_step(train, &progress));
        const size_t count = train->param_count;
        for (size_t i = 0; i < count; i++)
            got[i] = train->grads[i] - exact[i];
        const double error = square(got, NULL, count) / square(exact, NULL, count);
        rank_check(shoal_train_codec_bound(train, &check) && check.checks == 1);
        rank_check(broken ? error < 1e-12 : fabs(check.last - error) < 1e-3 * error);
        rank_check(check.last > 1e-6);
        rank_check(shoal_train_codec_fell(train, 0, &fall) == (broken == 1));
        rank_check(strcmp(shoal_train_codec(train), broken ? "bf16" : "fp8") == 0);
        if (broken) {
            rank_check(fall.step == 1 && fall.error == check.last && strcmp(fall.to, "bf16") == 0);
            rank_ok(shoal_train_step(train, &progress)); /* bf16 is not good enough, either */
            rank_check(shoal_train_codec_fell(train, 1, &fall) && fall.step == 2);
            rank_check(strcmp(shoal_train_codec(train), "identity") == 0);
            rank_ok(shoal_train_step(train, &progress));
            rank_check(shoal_train_codec_bound(train, &check) && check.checks == 2);
            status_says("codec auto: bf16 lost");
        }
        shoal_train_destroy(train);
    }
    shoal_comm_destroy(comm);
}

static void auto_holds_its_bound(void **state)
{
    (void)state;
    ranks_run(WORKERS, "tcp", NULL, feedback_is_measured, NULL, DEADLINE_US);
    ranks_run(WORKERS, "tcp", NULL, a_broken_bound, NULL, DEADLINE_US);
}

/* A run that falls at each check: in step 4, before its checkpoint of step 5, in 8 and in 12. */
static void run_bound(const rank_env *env)
{
    static const char ladder[] = "eden:bits=1,ef+eden:bits=3,ef+int8:ef+expo";
    const part *p = env->arg;
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_codec_fall fall = {.size = sizeof fall};
    const shoal_train_desc desc = tiny_desc(p);
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    if (!p->resume)
        start_in(train, "eden:bits=1,ef", ladder);
    else
        rank_check(strcmp(shoal_train_codec(train), "eden:bits=3,ef") == 0);
    do {
        rank_ok(shoal_train_step(train, &progress));
    } while (progress.step < p->stop);
    if (p->stop == STEPS)
        rank_check(shoal_train_codec_fell(train, p->resume ? 1 : 2, &fall) && fall.step == 12);
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void a_bound_goes_on_from_a_checkpoint(void **state)
{
    (void)state;
    static const char codec[] =
        "auto:error=1e-7,every=4,allow=eden:bits=1,ef+eden:bits=3,ef+int8:ef";
    const part whole = {codec, "bound-whole", "ring", STEPS, false, false, NULL},
               half = {codec, "bound-half", "ring", 7, false, false, NULL},
               rest = {codec, "bound-half", "ring", STEPS, true, false, NULL};
    ranks_run(WORKERS, "tcp", NULL, run_bound, &whole, DEADLINE_US);
    ranks_run(WORKERS, "tcp", NULL, run_bound, &half, DEADLINE_US);
    ranks_run(WORKERS, "tcp", NULL, run_bound, &rest, DEADLINE_US);
    assert_same("bound-whole", "bound-half", "common.safetensors");
    shoali_safetensors *file = open_last("bound-half", "common.safetensors");
    assert_string_equal(shoali_safetensors_metadata(file, "chosen_codec"), "expo");
    assert_string_equal(shoali_safetensors_metadata(file, "codec_ladder"), "expo");
    shoali_safetensors_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(powersgd_goes_on_from_a_checkpoint), CHECK_TEST(powersgd_loses_nothing_for_good),
        CHECK_TEST(blocks_go_on_from_a_checkpoint),     CHECK_TEST(blocks_lose_nothing_for_good),
        CHECK_TEST(onebit_goes_on_from_a_checkpoint),   CHECK_TEST(apart_goes_on_from_a_checkpoint),
        CHECK_TEST(demo_goes_on_from_a_checkpoint),     CHECK_TEST(auto_changes_no_bit),
        CHECK_TEST(auto_measures_what_is_allowed),      CHECK_TEST(auto_holds_its_bound),
        CHECK_TEST(a_bound_goes_on_from_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
