/* SPDX-License-Identifier: Apache-2.0 */
/* Three workers' files, written by one process that stands for each of them in turn; real ones are
 * in tests/cli/apart_test.py. */
#include "folder/apart.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"
/* check.h first: cmocka's includes */
#include "folder/checkpoint.h"
#include "support/tinydata.h"

enum { WORKERS = 3, STEP = 1 };
static char out[256];

static shoal_train *open_training(void)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.out = out;
    desc.epochs = 2;
    desc.no_evaluation = true;
    snprintf(out, sizeof out, "%s/out", tiny_dir);
    tiny_model_write(tiny_dir, true);
    assert_ok(shoal_train_create(NULL, &desc, &train));
    assert_ok(shoal_train_step(train, &progress));
    train->workers = WORKERS;
    train->loose = train->folder.apart.able = true;
    return train;
}

/* What a worker has, from now on this one's. */
static void become(shoal_train *train, uint32_t rank)
{
    uint32_t slots = 0;
    size_t states = 0;
    float *slot = shoali_optim_state(train->update.optim, &slots);
    float *state = shoali_net_state(train->net, &states);
    assert_true(slots == 1 && states > 0);
    train->rank = train->members.place = rank;
    for (size_t i = 0; i < train->param_count; i++) {
        train->params[i] = (float)(rank * i);
        slot[i] = (float)(rank + i);
    }
    for (size_t i = 0; i < states; i++)
        state[i] = (float)(rank * rank);
}

static bool is_there(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/checkpoints/%s", out, name);
    return access(path, F_OK) == 0;
}

static void check_common(const shoal_train *train)
{
    static float values[8192];
    char path[512];
    shoali_safetensors *file = NULL;
    const size_t count = train->param_count, states = shoali_apart_floats(train) - 2 * count;
    assert_true(shoali_apart_floats(train) <= sizeof values / sizeof *values);
    snprintf(path, sizeof path, "%s/checkpoints/step-%d/common.safetensors", out, STEP);
    assert_ok(shoali_safetensors_open(path, &file));
    assert_string_equal(shoali_safetensors_metadata(file, "replicas"), "apart");
    assert_ok(shoali_checkpoint_read_weights(train, file, "", values));
    for (size_t i = 0; i < count; i++) /* 0, i, 2 i */
        assert_true(fabsf(values[i] - (float)i) < 1e-3f);
    assert_ok(shoali_safetensors_read(file, "optimizer.momentum", values, count));
    for (size_t i = 0; i < count; i++) /* i, i + 1, i + 2 */
        assert_true(fabsf(values[i] - (float)(i + 1)) < 1e-3f);
    assert_ok(shoali_safetensors_read(file, "batchnorm.state", values, states));
    for (size_t i = 0; i < states; i++) /* 0, 1, 4 */
        assert_true(fabsf(values[i] - 5.0f / 3) < 1e-5f);
    shoali_safetensors_close(file);
}

static void it_is_whole_once_all_have_written(void **state)
{
    (void)state;
    shoal_train *train = open_training();
    static const uint32_t order[] = {1, 0, 2};
    for (size_t i = 0; i < WORKERS; i++) {
        become(train, order[i]);
        assert_int_equal(train->step, STEP);
        assert_ok(shoali_apart_save(train));
        assert_false(is_there("latest") || is_there("step-1/common.safetensors"));
    }
    become(train, 0);
    assert_int_equal(train->folder.apart.count, 1);
    assert_ok(shoali_apart_settle(train, false));
    assert_true(is_there("latest") && train->folder.saved.step == STEP &&
                train->folder.apart.count == 0);
    check_common(train);
    shoal_train_destroy(train);
}

static void other_members_begin_anew(void **state)
{
    (void)state;
    shoal_train *train = NULL;
    tiny_tear_down(state);
    tiny_set_up(state);
    train = open_training();
    become(train, 0);
    assert_ok(shoali_apart_save(train));
    assert_int_equal(train->folder.apart.count, 1);
    train->folder.apart.given_up = true;
    shoali_apart_forget(train);
    assert_true(train->folder.apart.count == 0 && !train->folder.apart.given_up);
    train->folder.apart
        .able = false; /* where no replica is enough to go on from, nothing is written */
    train->step = 2;
    assert_ok(shoali_apart_save(train));
    assert_false(is_there("step-2"));
    shoal_train_destroy(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(it_is_whole_once_all_have_written),
                                       CHECK_TEST(other_members_begin_anew)};
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
