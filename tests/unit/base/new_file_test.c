/* SPDX-License-Identifier: Apache-2.0 */
#include "base/new_file.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/check.h"

static char dir[] = "/tmp/shoal-new-file-XXXXXX";
static char path[64];

static int make_dir(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/f", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir); /* fails if anything was left behind */
}

static void assert_holds(const char *text)
{
    char found[32] = "";
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_true(fread(found, 1, sizeof found - 1, file) == strlen(text));
    fclose(file);
    assert_string_equal(found, text);
}

static void a_file_appears_whole_and_replaces(void **state)
{
    shoali_new_file f;
    (void)state;
    assert_ok(shoali_new_file_open(path, &f));
    fputs("one", f.file);
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(shoali_new_file_commit(&f));
    assert_holds("one");
    assert_ok(shoali_new_file_open(path, &f));
    fputs("two!", f.file);
    fflush(f.file);
    assert_holds("one");
    assert_ok(shoali_new_file_commit(&f));
    assert_holds("two!");
    shoali_new_file_discard(&f);
    assert_holds("two!");
}

static void discarding_leaves_what_was_there(void **state)
{
    shoali_new_file f;
    (void)state;
    assert_ok(shoali_new_file_open(path, &f));
    fputs("three", f.file);
    shoali_new_file_discard(&f);
    assert_holds("two!");
}

/* A killed process leaves its scratch file, and another one gets its id. */
static void what_another_process_left_is_no_hindrance(void **state)
{
    char scratch[128], victim[128];
    shoali_new_file f;
    (void)state;
    snprintf(scratch, sizeof scratch, "%s.%ld.part", path, (long)getpid());
    snprintf(victim, sizeof victim, "%s/victim", dir);
    FILE *left = fopen(scratch, "we");
    assert_non_null(left);
    fputs("half", left);
    fclose(left);
    assert_ok(shoali_new_file_open(path, &f));
    fputs("four", f.file);
    assert_ok(shoali_new_file_commit(&f));
    assert_holds("four");
    assert_int_equal(symlink(victim, scratch), 0);
    assert_ok(shoali_new_file_open(path, &f));
    fputs("two!", f.file);
    assert_ok(shoali_new_file_commit(&f));
    assert_holds("two!");
    assert_int_equal(access(victim, F_OK), -1);
}

/* A link that the user has made, to a file or to one that is yet to be made, stays one. */
static void a_named_link_is_followed(void **state)
{
    char link[64];
    shoali_new_file f;
    (void)state;
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(symlink("f", link), 0);
    for (int there = 1; there >= 0; there--) {
        assert_ok(shoali_new_file_open_named(link, &f));
        fputs("two!", f.file);
        assert_ok(shoali_new_file_commit(&f));
        assert_holds("two!");
        assert_int_equal(unlink(there ? path : link), 0);
        assert_int_equal(access(link, F_OK), -1);
    }
    assert_int_equal(symlink("link", link), 0);
    assert_status(shoali_new_file_open_named(link, &f), SHOAL_EIO);
    assert_int_equal(unlink(link), 0);
}

/* Nothing of it is seen before it is whole, and an attempt leaves nothing. */
static void a_named_file_or_what_is_none(void **state)
{
    shoali_new_file f;
    (void)state;
    assert_ok(shoali_new_file_open_named("/dev/null", &f));
    fputs("gone", f.file);
    assert_ok(shoali_new_file_commit(&f));
    assert_int_equal(access("/dev/null", W_OK), 0);
    unlink(path);
    assert_ok(shoali_new_file_may(path));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_status(shoali_new_file_may(path), SHOAL_EIO); /* nobody reads */
    assert_int_equal(unlink(path), 0);
    assert_status(shoali_new_file_may("/nowhere/at/all"), SHOAL_EIO);
    assert_status(shoali_new_file_may(dir), SHOAL_EIO);
    assert_status(shoali_new_file_may(""), SHOAL_EIO);
    assert_ok(shoali_new_file_open(path, &f));
    fputs("two!", f.file);
    assert_ok(shoali_new_file_commit(&f));
}

static void failures_name_the_path(void **state)
{
    shoali_new_file f;
    (void)state;
    assert_status(shoali_new_file_open("/nowhere/at/all", &f), SHOAL_EIO);
    assert_error_has("/nowhere/at/all");
    assert_status(shoali_new_file_open("/dev/null", &f), SHOAL_EIO);
    assert_error_has("no regular file");
    assert_status(shoali_new_file_open(dir, &f), SHOAL_EIO);
    assert_ok(shoali_new_file_open(path, &f));
    fclose(f.file);
    f.file = fopen("/dev/full", "we");
    if (f.file == NULL)
        skip();
    fputs("four", f.file);
    assert_status(shoali_new_file_commit(&f), SHOAL_EIO);
    assert_error_has(path);
    assert_holds("two!");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_file_appears_whole_and_replaces),
        CHECK_TEST(discarding_leaves_what_was_there),
        CHECK_TEST(what_another_process_left_is_no_hindrance),
        CHECK_TEST(a_named_link_is_followed),
        CHECK_TEST(a_named_file_or_what_is_none),
        CHECK_TEST(failures_name_the_path),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
