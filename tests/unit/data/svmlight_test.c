/* SPDX-License-Identifier: Apache-2.0 */
/* Texts into data sets: classes, which samples are for tests, wishes that cannot be. */
#include "support/check.h"
#include "support/scratch_dir.h"

#include <stdio.h>
#include <stdlib.h>

#include "data/loader.h"
#include "shoal/data.h"

enum { SAMPLES = 60 };

static char from[4096], other[4096], dir[4096];

/* Class 3 once in three, feature n of sample n alone. */
static int set_up(void **state)
{
    char text[SAMPLES * 32];
    size_t length = 0;
    if (scratch_set_up(state) != 0)
        return -1;
    for (int n = 0; n < SAMPLES; n++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%d %d:%d\n",
                                   n % 3 == 0 ? 3 : -7, n + 1, n + 1);
    scratch_write("text", text, length);
    scratch_write("other", "3 99:1\n-7 1:1 2:2\n", 18);
    snprintf(from, sizeof from, "%s", scratch_path("text"));
    snprintf(other, sizeof other, "%s", scratch_path("other"));
    snprintf(dir, sizeof dir, "%s", scratch_path("made"));
    return 0;
}

static shoal_svmlight_desc usual(void)
{
    shoal_svmlight_desc desc = SHOAL_SVMLIGHT_DESC_INIT;
    desc.from = from;
    desc.dir = dir;
    return desc;
}

static void classes_are_divided_alike(void **state)
{
    shoal_svmlight_desc desc = usual();
    shoal_svmlight_info info;
    shoali_dataset *d;
    bool seen[SAMPLES] = {false};
    uint32_t third = 0;
    (void)state;
    desc.test = 0.2;
    assert_ok(shoal_svmlight_make(&desc, &info));
    assert_true(info.train == 48 && info.test == 12 && info.pairs == SAMPLES);
    assert_true(info.vocab == SAMPLES && info.classes == 2 && info.most == 1);
    assert_ok(shoali_dataset_open(dir, &d));
    for (int s = 0; s < 2; s++) {
        const shoali_split *split = s == 0 ? &d->train : &d->test;
        for (uint32_t n = 0; n < split->count; n++) {
            const uint32_t feature = (uint32_t)split->frames[2 * n];
            assert_true(feature < SAMPLES && !seen[feature]);
            seen[feature] = true;
            assert_true(split->frames[2 * n + 1] == (float)(feature + 1));
            assert_true(n == 0 || split->frames[2 * n - 2] < (float)feature);
            assert_int_equal(split->labels[n], feature % 3 == 0); /* -7 is class 0, 3 is 1 */
            third += s == 1 && split->labels[n] == 1;
        }
    }
    assert_int_equal(third, 4);
    shoali_dataset_close(d);
    size_t length;
    char *classes = scratch_read("made/classes.txt", &length);
    assert_string_equal(classes, "-7\n3\n");
    free(classes);
}

static void the_seed_decides(void **state)
{
    shoal_svmlight_desc desc = usual();
    shoal_svmlight_info info;
    size_t length[3];
    void *bytes[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        desc.seed = i < 2 ? 5 : 6;
        assert_ok(shoal_svmlight_make(&desc, &info));
        bytes[i] = scratch_read("made/train.pairs", &length[i]);
    }
    assert_true(length[0] == length[1] && length[0] == length[2]);
    assert_memory_equal(bytes[0], bytes[1], length[0]);
    assert_memory_not_equal(bytes[0], bytes[2], length[0]);
    for (int i = 0; i < 3; i++)
        free(bytes[i]);
}

static void tests_may_be_a_text_of_their_own(void **state)
{
    shoal_svmlight_desc desc = usual();
    shoal_svmlight_info info;
    (void)state;
    desc.test_from = other;
    assert_ok(shoal_svmlight_make(&desc, &info));
    assert_true(info.train == SAMPLES && info.test == 2 && info.vocab == 99 && info.most == 2);
    desc.vocab = 200;
    assert_ok(shoal_svmlight_make(&desc, &info));
    assert_int_equal(info.vocab, 200);
}

static void refused(const shoal_svmlight_desc *desc, shoal_status status, const char *why)
{
    shoal_svmlight_info info;
    assert_status(shoal_svmlight_make(desc, &info), status);
    assert_error_has(why);
}

static void what_cannot_be_is_refused(void **state)
{
    shoal_svmlight_desc desc = usual();
    (void)state;
    desc.vocab = 59;
    refused(&desc, SHOAL_EINVAL, "there are 60 features, more than the 59 that were said");
    desc.vocab = 0;
    desc.test = 1e-3;
    refused(&desc, SHOAL_EINVAL, "name tests by --test-from");
    desc.test_from = other;
    refused(&desc, SHOAL_EINVAL, "leave one out");
    desc.test = 0;
    desc.from = other;
    desc.test_from = from;
    desc.dir = "/proc/none";
    refused(&desc, SHOAL_EIO, "cannot make the directory");
    scratch_write("one", "1 1:1\n1 2:1\n", 12);
    char one[4096];
    snprintf(one, sizeof one, "%s", scratch_path("one"));
    desc.from = one;
    refused(&desc, SHOAL_ECORRUPT, "samples of 1 classes");
    desc.from = from;
    desc.test_from = one;
    refused(&desc, SHOAL_ECORRUPT, "has class 1, which");
    desc.from = NULL;
    refused(&desc, SHOAL_EINVAL, "a text to read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(classes_are_divided_alike),
        CHECK_TEST(the_seed_decides),
        CHECK_TEST(tests_may_be_a_text_of_their_own),
        CHECK_TEST(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_tear_down);
}
