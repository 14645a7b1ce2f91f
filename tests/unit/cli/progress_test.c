/* SPDX-License-Identifier: Apache-2.0 */
/* What a long command shows, under a clock that the test sets. */
#include "cli/progress.h"

#include "support/check.h"

static char out[PROGRESS_BYTES];

/* What is drawn at `ms`; "": nothing. */
static const char *at(progress_bar *p, int64_t ms, unsigned columns)
{
    if (progress_tick(p, ms, columns, out) == 0)
        out[0] = '\0';
    return out;
}

static void a_line_every_ten_seconds_elsewhere(void **state)
{
    (void)state;
    progress_bar p;
    progress_init(&p, "train", "steps", false, 1000);
    progress_set(&p, 0, 600, NULL);
    for (int64_t ms = 1000; ms < 11000; ms += 100)
        assert_string_equal(at(&p, ms, 80), "");
    progress_set(&p, 100, 600, "loss 0.5");
    assert_string_equal(at(&p, 11000, 80),
                        "shoal train: 100/600 steps  10/s  50 s left  loss 0.5\n");
    assert_string_equal(at(&p, 20900, 80), "");
    progress_set(&p, 400, 600, NULL);
    assert_string_equal(at(&p, 21000, 80),
                        "shoal train: 400/600 steps  20/s  10 s left  loss 0.5\n");
}

static void a_bar_from_the_second_second_on(void **state)
{
    (void)state;
    progress_bar p;
    progress_init(&p, "sim", "rounds", true, 0);
    progress_set(&p, 0, 8, NULL);
    assert_string_equal(at(&p, 1900, 60), "");
    progress_set(&p, 2, 8, NULL);
    assert_string_equal(at(&p, 2000, 60),
                        "\rsim  25 % [#####................] 2/8 rounds  1/s  6 s left\033[K");
    assert_string_equal(at(&p, 2050, 60), "");
    assert_true(at(&p, 2100, 60)[0] == '\r');
    assert_int_equal(progress_hide(&p, out), 4);
    assert_string_equal(out, "\r\033[K");
    assert_int_equal(progress_hide(&p, out), 0);
    assert_string_equal(at(&p, 4000, 60), ""); /* until there is more to say */
    progress_set(&p, 8, 8, NULL);
    assert_string_equal(at(&p, 4000, 60),
                        "\rsim 100 % [#####################] 8/8 rounds  2/s  0 s left\033[K");
}

static void it_fits_every_width(void **state)
{
    (void)state;
    for (unsigned columns = 1; columns <= 220; columns++) {
        progress_bar p;
        progress_init(&p, "train", "steps", true, 0);
        progress_set(&p, 0, 123456, "loss 0.1234  epoch 12/100  waits for rank 3: compute");
        progress_set(&p, 61728, 123456, NULL);
        const char *line = at(&p, 100000, columns);
        const size_t length = strlen(line);
        assert_true(line[0] == '\r' && strcmp(line + length - 3, "\033[K") == 0);
        const size_t shown = length - 4;
        assert_true(shown < columns || columns == 1);
        if (columns >= 60) { /* what matters most */
            assert_non_null(strstr(line, " 50 %"));
            assert_non_null(strstr(line, "61728/123456 steps  617/s  1:40 min left"));
        }
        assert_true((strstr(line, "####") != NULL) == (columns >= 64));
        if (columns >= 130)
            assert_non_null(strstr(line, "waits for rank 3: compute\033"));
    }
}

static void what_is_not_known(void **state)
{
    (void)state;
    progress_bar p;
    progress_init(&p, "predict", "candidates", true, 0);
    assert_string_equal(at(&p, 65000, 80), "\rpredict: for 1:05 min\033[K");
    progress_set(&p, 10, 0, "a\033]b\n"); /* nothing in it moves the cursor */
    progress_set(&p, 30, 0, NULL);
    assert_string_equal(at(&p, 70000, 80),
                        "\rpredict: 30 candidates  0.286/s  for 1:10 min  a?]b?\033[K");
    progress_set(&p, 40, 30, NULL); /* more than all */
    assert_string_equal(at(&p, 80000, 200),
                        "\rpredict: 40 candidates  0.375/s  for 1:20 min  a?]b?\033[K");
}

static void a_run_that_goes_on_counts_its_own_steps(void **state)
{
    (void)state;
    progress_bar p;
    progress_init(&p, "train", "steps", false, 0);
    progress_set(&p, 9000, 10000, NULL);
    progress_set(&p, 9500, 10000, NULL);
    assert_string_equal(at(&p, 10000, 80), "shoal train: 9500/10000 steps  50/s  10 s left\n");
    progress_set(&p, 9500, 1e7, NULL);
    assert_string_equal(at(&p, 20000, 80),
                        "shoal train: 9500/10000000 steps  25/s  111:00 h left\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_line_every_ten_seconds_elsewhere),
        CHECK_TEST(a_bar_from_the_second_second_on),
        CHECK_TEST(it_fits_every_width),
        CHECK_TEST(what_is_not_known),
        CHECK_TEST(a_run_that_goes_on_counts_its_own_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
