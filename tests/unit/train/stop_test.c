/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is asked to stop ends with a checkpoint, from which it goes on; what cannot stop is
 * refused. Several workers: tests/cli/stop_test.py. */
#include "support/check.h"

#include "support/tinydata.h"
#include "worker/worker.h"

enum { STEPS = 12, ASKED = 4 };

static int set_up(void **state)
{
    tiny_set_up(state);
    tiny_model_write(tiny_dir, true);
    return 0;
}

static shoal_train_desc desc_of(const char *out)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 4;
    desc.epochs = 100;
    desc.max_steps = STEPS;
    desc.checkpoint_every = 10 * STEPS;
    desc.no_evaluation = true;
    desc.out = out;
    desc.may_stop = true;
    return desc;
}

/* Step until it stops, or is done. */
static shoal_train_progress run(const shoal_train_desc *desc, uint64_t ask_at)
{
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    assert_ok(shoal_train_create(NULL, desc, &train));
    do {
        if (progress.step == ask_at)
            shoal_train_ask_to_stop(train);
        assert_ok(shoal_train_step(train, &progress));
        train->stop.next = 0; /* at once, not in half a second */
    } while (!progress.done && !progress.stopped);
    assert_int_equal(train->folder.saved.step, progress.step);
    shoal_train_destroy(train);
    return progress;
}

static void it_ends_with_a_checkpoint_and_goes_on(void **state)
{
    (void)state;
    char out[256];
    snprintf(out, sizeof out, "%s/stopped", tiny_dir);
    shoal_train_desc desc = desc_of(out);
    shoal_train_progress progress = run(&desc, ASKED);
    assert_true(progress.stopped && !progress.done);
    assert_int_equal(progress.step, ASKED + 1);
    desc.resume = out;
    progress = run(&desc, STEPS + 1); /* nobody asks */
    assert_true(progress.done && !progress.stopped);
    assert_int_equal(progress.step, STEPS);
}

static void refused(const shoal_train_desc *desc, const char *why)
{
    shoal_train *train = NULL;
    assert_status(shoal_train_create(NULL, desc, &train), SHOAL_EINVAL);
    assert_error_has(why);
}

static void what_cannot_stop_is_refused(void **state)
{
    (void)state;
    char out[256];
    snprintf(out, sizeof out, "%s/refused", tiny_dir);
    shoal_train_desc desc = desc_of(NULL);
    refused(&desc, "needs a folder");
    desc.out = out;
    desc.checkpoint_every = 0; /* which local_sgd refuses as well */
    desc.sync = "local_sgd:every=4";
    refused(&desc, "local_sgd:every=4 cannot stop early");
    desc.sync = "param_server:servers=1,dedicated";
    refused(&desc, "its workers are not in step");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(it_ends_with_a_checkpoint_and_goes_on),
        CHECK_TEST(what_cannot_stop_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
