/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of svmlight: what is read of one, plain and compressed, and what is refused with its line.
 */
#include "support/check.h"
#include "support/scratch_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/svmlight_text.h"

static const char plain[] = "+1 1:0.5 3:-2e-1 # a comment\n"
                            "\n"
                            "  # nothing\n"
                            "-1\t2:1   \r\n"
                            "7 # no features\n"
                            "-1 1:0 16777216:.25";

static void check_plain(const shoali_svmlight *t)
{
    static const float pairs[][2] = {{0, 0.5f}, {2, -0.2f}, {1, 1}, {16777215, 0.25f}};
    static const uint64_t starts[] = {0, 2, 3, 3, 4};
    static const int64_t labels[] = {1, -1, 7, -1};
    assert_int_equal(t->count, 4);
    assert_memory_equal(t->starts, starts, sizeof starts);
    assert_memory_equal(t->labels, labels, sizeof labels);
    assert_memory_equal(t->pairs, pairs, sizeof pairs);
    assert_int_equal(t->features, 16777216);
}

static void texts_are_read(void **state)
{
    shoali_svmlight t;
    (void)state;
    scratch_write("plain", plain, sizeof plain - 1);
    assert_ok(shoali_svmlight_read(scratch_path("plain"), false, &t));
    check_plain(&t);
    shoali_svmlight_free(&t);
    scratch_write_gz("plain.gz", plain, sizeof plain - 1);
    assert_ok(shoali_svmlight_read(scratch_path("plain.gz"), false, &t));
    check_plain(&t);
    shoali_svmlight_free(&t);
    scratch_write("zero", "1 0:3\n", 6);
    assert_ok(shoali_svmlight_read(scratch_path("zero"), true, &t));
    assert_true(t.pairs[0] == 0 && t.pairs[1] == 3 && t.features == 1);
    shoali_svmlight_free(&t);
}

/* Longer than what is held at a time, lines across its edges. */
static void long_texts_are_read(void **state)
{
    enum { SAMPLES = 40000, LINE = 140 };
    char *text = malloc((size_t)SAMPLES * LINE);
    size_t length = 0;
    shoali_svmlight t;
    (void)state;
    assert_non_null(text);
    for (int n = 0; n < SAMPLES; n++) {
        length += (size_t)sprintf(text + length, "%d", n % 3);
        for (int i = 1; i <= n % 13; i++)
            length += (size_t)sprintf(text + length, " %d:%d", i * 5, n);
        length += (size_t)sprintf(text + length, "\n");
    }
    assert_true(length > 1 << 21);
    scratch_write("long", text, length);
    free(text);
    assert_ok(shoali_svmlight_read(scratch_path("long"), false, &t));
    assert_int_equal(t.count, SAMPLES);
    for (uint32_t n = 0; n < SAMPLES; n++) {
        assert_int_equal(t.labels[n], n % 3);
        assert_int_equal(t.starts[n + 1] - t.starts[n], n % 13 == 0 || n == 0 ? 0 : n % 13);
        for (uint64_t i = t.starts[n]; i < t.starts[n + 1]; i++)
            assert_true(t.pairs[2 * i] == (float)(5 * (i - t.starts[n]) + 4) &&
                        t.pairs[2 * i + 1] == (float)n);
    }
    shoali_svmlight_free(&t);
}

static void refused(const char *text, size_t length, const char *why)
{
    shoali_svmlight t;
    scratch_write("bad", text, length);
    assert_status(shoali_svmlight_read(scratch_path("bad"), false, &t), SHOAL_ECORRUPT);
    assert_error_has(why);
    shoali_svmlight_free(&t);
}

static void what_is_wrong_is_said_with_its_line(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"1 1:1\n1 3:1 3:2\n", "line 2: '3:2': indices of a sample must ascend"},
        {"1 0:1\n", "line 1: index 0, where indices begin at 1"},
        {"1 qid:3 1:1\n", "line 1: qid: ranking is not taken"},
        {"1,2 1:1\n", "line 1: '1,2': several classes of a sample"},
        {"0.5 1:1\n", "line 1: class 0.5 is no whole number"},
        {"cat 1:1\n", "line 1: 'cat' instead of a class"},
        {"1e99 1:1\n", "no whole number"},
        {"nan 1:1\n", "instead of a class"},
        {"1 1:nan\n", "'1:nan' instead of INDEX:VALUE"},
        {"1 1:1e39\n", "'1:1e39': its value is no number of float32"},
        {"1 1: 2\n", "'1:' instead of INDEX:VALUE"},
        {"1 1\n", "'1' instead of INDEX:VALUE"},
        {"1 -1:2\n", "'-1:2' instead of INDEX:VALUE"},
        {"1 1:2:3\n", "'1:2:3' instead of INDEX:VALUE"},
        {"1 16777217:1\n", "there may be 16777216 features"},
        {"1 99999999999999999999:1\n", "instead of INDEX:VALUE"},
        {"# nothing\n\n", "holds no samples"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i].text, strlen(bad[i].text), bad[i].why);
    refused("1 1:1\n1 2:1\0001\n", 15, "line 2: a byte of 0");
}

static void a_line_without_end_is_refused(void **state)
{
    const size_t length = (1 << 22) + 100;
    char *text = malloc(length);
    (void)state;
    assert_non_null(text);
    memset(text, ' ', length);
    memcpy(text, "1 1:1\n", 6);
    refused(text, length, "line 2: it is longer than");
    free(text);
}

static void a_file_that_is_cut_off_is_refused(void **state)
{
    shoali_svmlight t;
    size_t length;
    (void)state;
    scratch_write_gz("cut.gz", plain, sizeof plain - 1);
    void *bytes = scratch_read("cut.gz", &length);
    scratch_write("cut.gz", bytes, length - 9);
    free(bytes);
    assert_status(shoali_svmlight_read(scratch_path("cut.gz"), false, &t), SHOAL_ECORRUPT);
    shoali_svmlight_free(&t);
    assert_status(shoali_svmlight_read("/nonexistent", false, &t), SHOAL_EIO);
    shoali_svmlight_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(texts_are_read),
        CHECK_TEST(long_texts_are_read),
        CHECK_TEST(what_is_wrong_is_said_with_its_line),
        CHECK_TEST(a_line_without_end_is_refused),
        CHECK_TEST(a_file_that_is_cut_off_is_refused),
    };
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_tear_down);
}
