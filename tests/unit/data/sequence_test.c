/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sequences: what is written is read, values normalised; whatever is wrong is said. */
#include "support/check.h"

#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "data/sequence.h"
#include "support/scratch_dir.h"

enum { VALUES = 3, COUNT = 3, FRAMES = 9, HEAD = 40 };
static const uint32_t lengths[COUNT] = {4, 1, 4};

static void make(uint64_t seed, bool tokens, const char *dir, shoali_sequences *s, uint16_t *labels,
                 float *x)
{
    char path[256];
    *s = (shoali_sequences){.values = tokens ? 1 : VALUES,
                            .classes = 5,
                            .count = COUNT,
                            .tokens = tokens,
                            .frames = FRAMES,
                            .lengths = lengths,
                            .labels = labels,
                            .x = x};
    for (size_t t = 0; t < FRAMES; t++)
        labels[t] = (uint16_t)shoali_rng_below(seed, 1, t, 5);
    for (size_t i = 0; i < (size_t)FRAMES * VALUES; i++)
        x[i] = (float)(3 + (double)(i % VALUES) * shoali_rng_normal(seed, 2, i));
    snprintf(path, sizeof path, "%s/train.shoalseq", dir);
    assert_ok(shoali_sequences_write(path, s));
    snprintf(path, sizeof path, "%s/test.shoalseq", dir);
    assert_ok(shoali_sequences_write(path, s));
}

static void what_is_written_is_read_and_normalised(void **state)
{
    const char *dir = *state;
    uint16_t labels[FRAMES];
    float x[FRAMES * VALUES], got[2 * 6 * VALUES];
    uint32_t got_labels[2 * 6], got_lengths[2];
    static const uint32_t which[2] = {2, 1};
    shoali_sequences s;
    shoali_dataset *d;
    make(check_seed(), false, dir, &s, labels, x);
    assert_ok(shoali_dataset_open(dir, &d));
    assert_true(d->sequences && !d->tokens);
    assert_int_equal(d->height, 4);
    assert_int_equal(d->width, VALUES);
    assert_int_equal(d->train.count, COUNT);
    shoali_dataset_fill_sequences(d, &d->train, which, 2, 6, got, got_labels, got_lengths);
    assert_int_equal(got_lengths[0], 4);
    assert_int_equal(got_lengths[1], 1);
    for (size_t v = 0; v < VALUES; v++) {
        double mean = 0, variance = 0;
        for (size_t t = 0; t < FRAMES; t++)
            mean += (double)x[t * VALUES + v] / FRAMES;
        for (size_t t = 0; t < FRAMES; t++)
            variance += pow((double)x[t * VALUES + v] - mean, 2) / FRAMES;
        double scale = variance > 0 ? 1 / sqrt(variance) : 1;
        for (size_t t = 0; t < 6; t++) {
            double want = t < 4 ? ((double)x[(5 + t) * VALUES + v] - mean) * scale : 0;
            assert_true(fabs((double)got[t * VALUES + v] - want) < 1e-5);
        }
    }
    for (size_t t = 0; t < 4; t++)
        assert_int_equal(got_labels[t], labels[5 + t]);
    assert_int_equal(got_labels[6], labels[4]);
    shoali_dataset_close(d);
}

static void tokens_stay_as_they_are(void **state)
{
    uint16_t labels[FRAMES];
    float x[FRAMES * VALUES];
    shoali_sequences s;
    shoali_dataset *d;
    make(1, true, *state, &s, labels, x);
    assert_ok(shoali_dataset_open(*state, &d));
    assert_true(d->tokens);
    assert_memory_equal(d->train.frames, x, FRAMES * sizeof(float));
    shoali_dataset_close(d);
}

/* Overwrite bytes of the train file, or cut it. */
static void damage(const char *dir, long at, const void *bytes, size_t count, long cut)
{
    char path[256];
    snprintf(path, sizeof path, "%s/train.shoalseq", dir);
    if (cut >= 0)
        assert_int_equal(truncate(path, cut), 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void damaged_files_are_refused(void **state)
{
    static const uint32_t huge = 0xffffffff, zero = 0, two = 2, five = 5;
    static const float nan_value = NAN;
    static const struct {
        long at;
        const void *bytes;
        size_t count;
        const char *reason;
    } rows[] = {
        {0, "X", 1, "SHOALSEQ"},
        {8, &two, 4, "version 2"},
        {12, &two, 4, "kind 2"},
        {16, &zero, 4, "0 values"},
        {16, &huge, 4, "values"},
        {20, &two, 4, "class"},
        {24, &huge, 4, "sequences"},
        {32, &huge, 4, "too small"},
        {36, &huge, 4, "frames"},
        {HEAD, &zero, 4, "0 frames"},
        {HEAD, &five, 4, "announced"},
        {HEAD + 12, &five, 2, "class 5 of 5"},
        {HEAD + 12 + 2 * FRAMES, &nan_value, 4, "not finite"},
        {HEAD + 12 + (2 + 4 * VALUES) * FRAMES, "x", 1, "goes on"},
    };
    const char *dir = *state;
    uint16_t labels[FRAMES];
    float x[FRAMES * VALUES];
    shoali_sequences s;
    shoali_dataset *d = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        make(3, false, dir, &s, labels, x);
        damage(dir, rows[i].at, rows[i].bytes, rows[i].count, -1);
        if (shoali_dataset_open(dir, &d) != SHOAL_ECORRUPT)
            fail_msg("row %zu was taken", i);
        assert_error_has(rows[i].reason);
    }
    for (long cut = 1; cut < HEAD + 12 + (2 + 4 * VALUES) * FRAMES; cut += 7) {
        make(3, false, dir, &s, labels, x);
        damage(dir, 0, "S", 1, cut);
        assert_status(shoali_dataset_open(dir, &d), SHOAL_ECORRUPT);
    }
}

static int open_dir(void **state)
{
    *state = (char *)(uintptr_t)scratch_dir_make();
    return 0;
}

static int close_dir(void **state)
{
    (void)state;
    scratch_dir_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_is_written_is_read_and_normalised),
        CHECK_TEST(tokens_stay_as_they_are),
        CHECK_TEST(damaged_files_are_refused),
    };
    return cmocka_run_group_tests(tests, open_dir, close_dir);
}
