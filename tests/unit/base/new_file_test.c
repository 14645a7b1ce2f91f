/* SPDX-License-Identifier: Apache-2.0 */
#include "base/new_file.h"

#include <dirent.h>
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
        CHECK_TEST(failures_name_the_path),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
