/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of Kaldi and HTK files as a data set; lists that do not fit are refused, with their
 * line. */
#include "support/check.h"

#include <math.h>

#include "data/loader.h"
#include "support/scratch_dir.h"

/* Two utterances of 2 x 1: at bytes 2 and 27. */
static const char ark[] = "a \0BFM \4\2\0\0\0\4\1\0\0\0\0\0\x80\x3f\0\0\0\x40"
                          "b \0BFM \4\1\0\0\0\4\1\0\0\0\0\0\x40\x40";
static const char htk[] = "\0\0\0\1\0\1\x86\xa0\0\x4\0\x6\x40\x80\0\0";

static void text(const char *name, const char *content)
{
    scratch_write(name, content, strlen(content));
}

static void write_good(void)
{
    scratch_write("x.ark", ark, sizeof ark - 1);
    scratch_write("c.mfc", htk, sizeof htk - 1);
    text("train.scp", "a x.ark:2\nc c.mfc\n\nb x.ark:27\r\n");
    text("train.ali", "c 3\na 0 2\nb 1 \nnobody 1 1\n");
    text("test.scp", "b x.ark:27\n");
    text("test.ali", "b 1\n");
}

static void refused(const char *dir, const char *name, const char *content, shoal_status status,
                    const char *part)
{
    shoali_dataset *d = NULL;
    write_good();
    text(name, content);
    assert_status(shoali_dataset_open(dir, &d), status);
    assert_error_has(part);
}

static void lists_become_a_data_set(void **state)
{
    const char *dir = *state;
    shoali_dataset *d = NULL;
    static const uint32_t all[] = {0, 1, 2};
    float x[6];
    uint32_t labels[6], lengths[3];
    write_good();
    assert_ok(shoali_dataset_open(dir, &d));
    assert_string_equal(d->format, "scp");
    assert_true(d->sequences && !d->tokens);
    assert_int_equal(d->classes, 4);
    assert_int_equal(d->train.count, 3);
    assert_int_equal(d->test.count, 1);
    shoali_dataset_fill_sequences(d, &d->train, all, 3, 2, x, labels, lengths);
    static const double values[] = {1, 2, 4, 2.5, 3, 2.5}; /* mean 2.5, deviation sqrt(1.25) */
    for (int i = 0; i < 6; i++)
        assert_true(fabs((double)x[i] - (values[i] - 2.5) / sqrt(1.25)) < 1e-6);
    assert_int_equal(labels[0], 0);
    assert_int_equal(labels[1], 2);
    assert_int_equal(labels[2], 3);
    assert_int_equal(labels[4], 1);
    shoali_dataset_close(d);
}

static void what_does_not_fit_is_refused(void **state)
{
    const char *dir = *state;
    refused(dir, "train.scp", "a\n", SHOAL_ECORRUPT, "train.scp, line 1");
    refused(dir, "train.scp", "\n \n", SHOAL_ECORRUPT, "names no utterance");
    refused(dir, "train.scp", "a x.ark:2\nd x.ark:27\n", SHOAL_ECORRUPT, "no labels of d");
    refused(dir, "train.scp", "a x.ark:900\n", SHOAL_ECORRUPT, "nothing at byte 900");
    refused(dir, "train.scp", "a x.ark:2x\n", SHOAL_ECORRUPT, "no number behind the colon");
    refused(dir, "train.scp", "a other.ark:2\n", SHOAL_EIO, "other.ark");
    refused(dir, "train.scp", "a gunzip -c x.gz |\n", SHOAL_ECORRUPT, "commands are not run");
    refused(dir, "train.ali", "a 0\nb 1\nc 3\n", SHOAL_ECORRUPT, "label 2 of 2 is missing");
    refused(dir, "train.ali", "a 0 1 2\nb 1\nc 3\n", SHOAL_ECORRUPT, "more labels");
    refused(dir, "train.ali", "a 0 -1\nb 1\nc 3\n", SHOAL_ECORRUPT, "label 2 of 2");
    refused(dir, "train.ali", "a 0 70000\nb 1\nc 3\n", SHOAL_ECORRUPT, "label 2 of 2");
}

static int set_up(void **state)
{
    *state = (void *)(uintptr_t)scratch_dir_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_dir_remove();
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CHECK_TEST(lists_become_a_data_set),
        CHECK_TEST(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
