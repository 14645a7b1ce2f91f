/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <errno.h>
#include <pthread.h>

#include "base/error.h"

static void a_failure_clears_what_stood_before(void **state)
{
    (void)state;
    assert_int_equal(shoali_fail_os(SHOAL_EIO, ENOENT, "cannot open %s", "a"), SHOAL_EIO);
    shoali_error_about(3, "b", "join", 17);
    shoali_error_advice("Look for %s.", "it");
    const shoal_error *error = shoal_last_error();
    assert_string_equal(error->text, "cannot open a: No such file or directory");
    assert_int_equal(error->os_error, ENOENT);
    assert_int_equal(error->rank, 3);
    assert_string_equal(error->host, "b");
    assert_string_equal(error->operation, "join");
    assert_int_equal(error->waited_us, 17);
    assert_string_equal(error->advice, "Look for it.");

    assert_int_equal(shoali_fail(SHOAL_EINVAL, "no"), SHOAL_EINVAL);
    assert_string_equal(error->text, "no");
    assert_int_equal(error->rank, -1);
    assert_int_equal(error->waited_us, -1);
    assert_int_equal(error->os_error, 0);
    assert_string_equal(error->host, "");
    assert_string_equal(error->advice, "");
}

static void no_text_of_others_reaches_a_terminal_raw(void **state)
{
    (void)state;
    (void)shoali_fail(SHOAL_EIO, "rank 0 says \x1b]0;owned\x07");
    shoali_error_about(0, "h\x1b[2J", "jo\nin", 0);
    shoali_error_advice("Look at \xc2\x9b%s.", "\x1b[31mthis");
    assert_string_equal(shoal_last_error()->text, "rank 0 says ?]0;owned?");
    assert_string_equal(shoal_last_error()->host, "h?[2J");
    assert_string_equal(shoal_last_error()->operation, "jo?in");
    assert_string_equal(shoal_last_error()->advice, "Look at ???[31mthis.");
}

static void missing_facts_leave_the_known_ones(void **state)
{
    (void)state;
    (void)shoali_fail(SHOAL_EPEER, "lost");
    shoali_error_about(2, "host", "all-reduce 9", 5);
    shoali_error_about(-1, NULL, NULL, -1);
    assert_int_equal(shoal_last_error()->rank, 2);
    assert_string_equal(shoal_last_error()->operation, "all-reduce 9");
    assert_int_equal(shoal_last_error()->waited_us, 5);
}

static void the_last_text_may_be_its_own_argument(void **state)
{
    (void)state;
    (void)shoali_fail(SHOAL_EIO, "inner");
    (void)shoali_fail(SHOAL_EIO, "outer: %s", shoal_last_error()->text);
    assert_string_equal(shoal_last_error()->text, "outer: inner");
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)shoali_fail_os(SHOAL_EIO, EIO, "%s", text);
    shoali_error_about(0, text, text, 0);
    shoali_error_advice("%s", text);
    const shoal_error *error = shoal_last_error();
    assert_true(strlen(error->text) < sizeof error->text);
    assert_non_null(strstr(error->text, "xx...xx"));
    assert_non_null(strstr(error->text, "xx: Input/output error")); /* the reason is not lost */
    (void)shoali_fail(SHOAL_EINVAL, "%s", text);
    assert_int_equal(strlen(error->text), sizeof error->text - 1);
    shoali_error_about(0, text, text, 0);
    shoali_error_advice("%s", text);
    assert_int_equal(strlen(error->host), sizeof error->host - 1);
    assert_int_equal(strlen(error->advice), sizeof error->advice - 1);
}

static void *fail_elsewhere(void *kept)
{
    (void)shoali_fail(SHOAL_ECORRUPT, "in the other thread");
    shoali_error_get(kept);
    return NULL;
}

static void threads_keep_their_own(void **state)
{
    (void)state;
    shoal_error kept;
    pthread_t thread;
    (void)shoali_fail(SHOAL_EINVAL, "in this thread");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &kept), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(shoal_last_error()->text, "in this thread");
    assert_int_equal(shoali_error_set(&kept), SHOAL_ECORRUPT);
    assert_string_equal(shoal_last_error()->text, "in the other thread");
}

static shoal_status tries(shoal_status first, int *reached)
{
    SHOALI_TRY(first);
    *reached = 1;
    return SHOAL_OK;
}

static void try_returns_early(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(tries(SHOAL_EAUTH, &reached), SHOAL_EAUTH);
    assert_int_equal(reached, 0);
    assert_int_equal(tries(SHOAL_OK, &reached), SHOAL_OK);
    assert_int_equal(reached, 1);
}

/* Values are ABI: each stands in the group that its decade names, and name and text exist. */
static void every_status_has_name_text_and_group(void **state)
{
    (void)state;
    static const shoal_status all[] = {
#define ROW(name, value, text) SHOAL_##name,
        SHOAL_STATUS_LIST(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_true(all[i] < 2 || (all[i] >= 10 && all[i] < 60));
        assert_string_not_equal(shoal_status_name(all[i]), "?");
        assert_string_not_equal(shoal_status_text(all[i]), "unknown status");
        for (size_t j = 0; j < i; j++)
            assert_true(all[i] != all[j]);
    }
    assert_string_equal(shoal_status_name((shoal_status)999), "?");
    assert_string_equal(shoal_status_text((shoal_status)999), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_failure_clears_what_stood_before),
        CHECK_TEST(no_text_of_others_reaches_a_terminal_raw),
        CHECK_TEST(missing_facts_leave_the_known_ones),
        CHECK_TEST(the_last_text_may_be_its_own_argument),
        CHECK_TEST(long_texts_are_cut),
        CHECK_TEST(threads_keep_their_own),
        CHECK_TEST(try_returns_early),
        CHECK_TEST(every_status_has_name_text_and_group),
    };
    return CHECK_RUN(tests);
}
