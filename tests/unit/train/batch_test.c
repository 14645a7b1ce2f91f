/* SPDX-License-Identifier: Apache-2.0 */
/* Training on sequences: what can be learned is learned, and what does not fit is refused. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "data/sequence.h"
#include "support/scratch_dir.h"
#include "worker/worker.h"

enum { COUNT = 24, FRAMES = 10, VALUES = 4, CLASSES = 3 };
static const char *dir;
static char sequences[256], model[256];

/* Values of a frame tell its class, in noise. */
static void write_split(const char *name, uint64_t seed)
{
    uint32_t lengths[COUNT];
    uint16_t labels[COUNT * FRAMES];
    float x[COUNT * FRAMES * VALUES];
    uint64_t used = 0;
    for (uint32_t n = 0; n < COUNT; n++) {
        lengths[n] = 4 + (uint32_t)shoali_rng_below(seed, 1, n, FRAMES - 3);
        for (uint32_t t = 0; t < lengths[n]; t++, used++) {
            labels[used] = (uint16_t)shoali_rng_below(seed, 2, used / 3, CLASSES);
            for (uint32_t v = 0; v < VALUES; v++)
                x[used * VALUES + v] = (float)(3 * (v == labels[used]) +
                                               0.3 * shoali_rng_normal(seed, 3, used * VALUES + v));
        }
    }
    const shoali_sequences s = {.values = VALUES,
                                .classes = CLASSES,
                                .count = COUNT,
                                .frames = used,
                                .lengths = lengths,
                                .labels = labels,
                                .x = x};
    assert_ok(shoali_sequences_write(scratch_path(name), &s));
}

static int set_up(void **state)
{
    static const char text[] = "{\"name\": \"m\", \"input\": [1, 12, 4], \"init\": \"xavier\", "
                               "\"layers\": [\"gru:out=8,direction=both\", \"framewise:out=3\"]}";
    (void)state;
    dir = scratch_dir_make();
    write_split("train.shoalseq", 1);
    write_split("test.shoalseq", 2);
    scratch_write("model.json", text, sizeof text - 1);
    snprintf(model, sizeof model, "%s/model.json", dir);
    snprintf(sequences, sizeof sequences, "%s", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_dir_remove();
    return 0;
}

static shoal_train_desc describe(const char *of)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = of;
    desc.data = sequences;
    desc.batch = 4;
    desc.epochs = 15;
    desc.lr = 0.02;
    desc.optimizer = "adam";
    return desc;
}

static void run(const char *of, double *error_rate_out, double *accuracy_out)
{
    shoal_train *train = NULL;
    shoal_train_desc desc = describe(of);
    shoal_train_progress progress = {.size = sizeof progress};
    assert_ok(shoal_train_create(NULL, &desc, &train));
    do
        assert_ok(shoal_train_step(train, &progress));
    while (!progress.done);
    *error_rate_out = progress.symbol_error_rate;
    *accuracy_out = progress.test_accuracy;
    shoal_train_destroy(train);
}

static void frames_and_symbols_are_learned(void **state)
{
    double error_rate, accuracy;
    char ctc[300];
    (void)state;
    run(model, &error_rate, &accuracy);
    assert_true(error_rate < 10 && accuracy > 95);
    snprintf(ctc, sizeof ctc, "%s:loss=ctc", model);
    run(ctc, &error_rate, &accuracy);
    assert_true(error_rate < 20);
}

static void what_does_not_fit_is_refused(void **state)
{
    static const struct {
        const char *spec, *reason;
    } rows[] = {{":length=5", "sequences of 5 frames"}, {NULL, "lenet takes images"}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char of[300];
        shoal_train *train = NULL;
        snprintf(of, sizeof of, "%s%s", rows[i].spec != NULL ? model : "lenet",
                 rows[i].spec != NULL ? rows[i].spec : "");
        shoal_train_desc desc = describe(of);
        assert_status(shoal_train_create(NULL, &desc, &train), SHOAL_EINVAL);
        assert_error_has(rows[i].reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(frames_and_symbols_are_learned),
        CHECK_TEST(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
