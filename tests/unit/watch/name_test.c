/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/name.h"

#include "support/check.h"

static void label_is(const char *job, const char *rendezvous, const char *wanted)
{
    char label[SHOALI_WATCH_LABEL_BYTES];
    shoali_watch_label(job, "python3", rendezvous, label);
    assert_string_equal(label, wanted);
}

static void jobs_without_a_name_get_one(void **state)
{
    (void)state;
    char one[SHOALI_WATCH_LABEL_BYTES], other[SHOALI_WATCH_LABEL_BYTES];
    label_is("shoal", "tcp://10.0.0.1:29500", "python3-29500");
    label_is("shoal#3", "tcp://[fe80::1]:29501", "python3-29501");
    label_is("night", "tcp://10.0.0.1:29500", "night");
    label_is("night#12", "tcp://10.0.0.1:29500", "night");
    label_is("night#b", "tcp://10.0.0.1:29500", "night#b");
    label_is("night#", "tcp://10.0.0.1:29500", "night#");
    label_is("shoals", "", "shoals");
    shoali_watch_label("shoal", "train", "file:///tmp/a", one);
    shoali_watch_label("shoal", "train", "file:///tmp/b", other);
    assert_string_not_equal(one, other);
}

static void names_come_back(void **state)
{
    (void)state;
    const shoali_watch_name name = {.number = 0xabc, .rank = 70000, .random = UINT32_MAX};
    shoali_watch_name in = name, out;
    char text[80];
    shoali_watch_plain("resnet 50, ../ of the night, and quite long", in.job);
    assert_string_equal(in.job, "resnet_50______of_the_night__and");
    assert_true(shoali_watch_name_format(&in, text, sizeof text));
    assert_string_equal(text, "resnet_50______of_the_night__and.00000abc.70000.ffffffff");
    assert_true(shoali_watch_name_parse(text, &out));
    assert_memory_equal(&in.job, out.job, strlen(in.job) + 1);
    assert_int_equal(out.number, name.number);
    assert_int_equal(out.rank, name.rank);
    assert_int_equal(out.random, name.random);
    assert_false(shoali_watch_name_format(&in, text, 20));
}

static void other_files_are_none_of_ours(void **state)
{
    (void)state;
    static const char *const files[] = {"",
                                        ".",
                                        ".0.12345678",
                                        "job",
                                        "job.1.2",
                                        "job.1.2.3.4",
                                        "job..2.3",
                                        "job.1.x.3",
                                        "job.-1.2.3",
                                        "job. 1.2.3",
                                        "job.1.2.g",
                                        "j/b.1.2.3",
                                        "job.1.2.",
                                        "job.123456789.2.3",
                                        "job.1.4294967296.3",
                                        "job.1.2.00000000000",
                                        "abcdefghijklmnopqrstuvwxyz0123456.1.2.3"};
    shoali_watch_name name;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_false(shoali_watch_name_parse(files[i], &name));
    assert_true(shoali_watch_name_parse("a.1.2.3", &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(jobs_without_a_name_get_one),
        CHECK_TEST(names_come_back),
        CHECK_TEST(other_files_are_none_of_ours),
    };
    return CHECK_RUN(tests);
}
