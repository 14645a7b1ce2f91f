/* SPDX-License-Identifier: Apache-2.0 */
/* ADMM against its formulas in double, and whether it brings matrices where it should. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "shoal/circulant.h"
#include "support/tinydata.h"
#include "worker/admm.h"
#include "worker/worker.h"

enum { IN = TINY_SIDE * TINY_SIDE, OUT = 16, COUNT = IN * OUT, BLOCK = 4, STEPS_PER_EPOCH = 3 };

static char circulant[300];

static int set_up(void **state)
{
    tiny_set_up(state);
    snprintf(circulant, sizeof circulant, "%s:circulant=%d", tiny_model, BLOCK);
    return 0;
}

static shoal_train_desc describe(const char *admm, uint32_t epochs)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 32;
    desc.epochs = epochs;
    desc.admm = admm;
    desc.admm_model = circulant;
    return desc;
}

static double run(const shoal_train_desc *desc, shoal_train **train_out)
{
    shoal_train_progress progress = {.size = sizeof progress};
    assert_ok(shoal_train_create(NULL, desc, train_out));
    do
        assert_ok(shoal_train_step(*train_out, &progress));
    while (!progress.done);
    return progress.admm_gap;
}

/* ---------------------------------------------------------------- the formulas */

/* The hidden layer's matrix is the first tensor: Z of v by loops over each block's diagonals. */
static void project(const double *v, double *z)
{
    for (int r = 0; r < OUT; r++)
        for (int c = 0; c < IN; c++) {
            double sum = 0;
            int top = r / BLOCK * BLOCK, left = c / BLOCK * BLOCK;
            for (int i = 0; i < BLOCK; i++)
                sum += v[(top + (r - top + i) % BLOCK) * IN + left + (c - left + i) % BLOCK];
            z[r * IN + c] = sum / BLOCK;
        }
}

/* One turn: U is divided by the growth of rho. */
static void reference_turn(const float *w, double factor, double *z, double *u)
{
    double v[COUNT];
    for (int i = 0; i < COUNT; i++)
        v[i] = (double)w[i] + u[i];
    project(v, z);
    for (int i = 0; i < COUNT; i++)
        u[i] = (v[i] - z[i]) / factor;
}

static void expect_pull(shoal_train *train, double rho, const double *z, const double *u)
{
    const float scale = 0.25f;
    for (size_t i = 0; i < train->param_count; i++)
        train->grads[i] = 1;
    shoali_admm_pull(train, scale);
    for (int i = 0; i < COUNT; i++) {
        double slope = rho * ((double)train->params[i] - z[i] + u[i]);
        assert_true(fabs((double)scale * ((double)train->grads[i] - 1) - slope) < 1e-6);
    }
    for (size_t i = COUNT; i < train->param_count; i++)
        assert_true(train->grads[i] == 1); /* nothing else is pulled */
}

static void steps_follow_the_formulas(void **state)
{
    uint64_t seed = check_seed();
    double z[COUNT], u[COUNT] = {0}, w[COUNT];
    shoal_train *train = NULL;
    shoal_train_desc desc = describe("admm:rho=0.01,factor=3,iterations=4", 4);
    (void)state;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    for (int i = 0; i < COUNT; i++)
        w[i] = (double)train->params[i];
    project(w, z);
    expect_pull(train, 0.01, z, u);
    for (uint32_t turn = 1; turn < 4; turn++) {
        for (int i = 0; i < COUNT; i++)
            train->params[i] = (float)(0.3 * shoali_rng_normal(seed, turn, (uint64_t)i));
        train->step = (uint64_t)turn * STEPS_PER_EPOCH - 1; /* not yet */
        assert_ok(shoali_admm_turn(train));
        expect_pull(train, 0.01 * pow(3, turn - 1), z, u);
        train->step++;
        assert_ok(shoali_admm_turn(train));
        reference_turn(train->params, 3, z, u);
        expect_pull(train, 0.01 * pow(3, turn), z, u);
    }
    shoal_train_destroy(train);
}

/* ---------------------------------------------------------------- a run */

/* Stronger pulls leave less distance; the projected weights are what the next run begins with. */
static void matrices_become_block_circulant(void **state)
{
    double gap[2];
    shoal_train *train = NULL;
    shoal_circulant_desc shape = SHOAL_CIRCULANT_DESC_INIT;
    float dense[COUNT], values[COUNT / BLOCK];
    char out[300];
    static const char *const specs[] = {"admm:rho=1e-3,factor=1,iterations=5",
                                        "admm:rho=3,factor=1.5,iterations=5"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(out, sizeof out, "%s/admm%d", tiny_dir, i);
        shoal_train_desc desc = describe(specs[i], 20);
        desc.out = out;
        gap[i] = run(&desc, &train);
        memcpy(dense, train->params, sizeof dense);
        shoal_train_destroy(train);
    }
    print_message("gaps %.4f, %.4f\n", gap[0], gap[1]);
    assert_true(gap[0] > 0.5 && gap[1] < 0.1);
    shape.in = IN;
    shape.out = OUT;
    shape.block = BLOCK;
    shoal_circulant_project(&shape, dense, values);
    shoal_train_desc last = describe(NULL, 2);
    last.model = circulant;
    last.start = out;
    assert_ok(shoal_train_create(NULL, &last, &train));
    assert_memory_equal(train->params, values, sizeof values);
    shoal_train_destroy(train);
}

static void a_resumed_run_goes_on_bit_for_bit(void **state)
{
    float want[COUNT];
    char out[300];
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = describe("admm:rho=0.05,iterations=4", 4);
    (void)state;
    snprintf(out, sizeof out, "%s/cut", tiny_dir);
    run(&desc, &train);
    memcpy(want, train->params, sizeof want);
    shoal_train_destroy(train);
    desc.out = out;
    desc.checkpoint_every = 1;
    assert_ok(shoal_train_create(NULL, &desc, &train));
    for (int i = 0; i < 7; i++)
        assert_ok(shoal_train_step(train, &progress));
    shoal_train_destroy(train);
    desc.resume = out;
    run(&desc, &train);
    assert_memory_equal(train->params, want, sizeof want);
    shoal_train_destroy(train);
}

/* ---------------------------------------------------------------- what cannot be */

static void refused(shoal_train_desc desc, shoal_status status, const char *why)
{
    shoal_train *train = NULL;
    assert_status(shoal_train_create(NULL, &desc, &train), status);
    assert_error_has(why);
}

static void what_cannot_be_is_refused(void **state)
{
    shoal_train_desc desc = describe("admm:rhu=1", 1);
    (void)state;
    refused(desc, SHOAL_EINVAL, "rho");
    desc.admm = "admm:iterations=0";
    refused(desc, SHOAL_EINVAL, "iterations");
    desc.admm = "admm";
    desc.admm_model = NULL;
    refused(desc, SHOAL_EINVAL, "block-circulant model");
    desc.admm_model = tiny_model;
    refused(desc, SHOAL_EINVAL, "no more block-circulant matrices");
    desc.admm_model = "lenet";
    refused(desc, SHOAL_EINVAL, "tensors");
    desc.admm = NULL;
    desc.start = "/no/such/run";
    refused(desc, SHOAL_EIO, "/no/such/run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(steps_follow_the_formulas),
        CHECK_TEST(matrices_become_block_circulant),
        CHECK_TEST(a_resumed_run_goes_on_bit_for_bit),
        CHECK_TEST(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
