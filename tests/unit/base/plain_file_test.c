/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plain_file.h"

static char dir[] = "/tmp/shoal-plain-XXXXXX";
static char path[64], victim[64];

static void write_to(FILE *file, const char *text)
{
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_holds(const char *where, const char *text)
{
    char found[32] = "";
    FILE *file = fopen(where, "re");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found - 1, file), strlen(text));
    fclose(file);
    assert_string_equal(found, text);
}

static int make_dir(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(victim, sizeof victim, "%s/victim", dir);
    FILE *file = fopen(victim, "we");
    if (file == NULL)
        return -1;
    write_to(file, "mine");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    unlink(victim);
    return rmdir(dir);
}

static void files_are_emptied_or_added_to(void **state)
{
    (void)state;
    FILE *file;
    assert_ok(shoali_plain_file(path, false, &file));
    write_to(file, "one");
    assert_ok(shoali_plain_file(path, true, &file));
    write_to(file, "two");
    assert_holds(path, "onetwo");
    assert_ok(shoali_plain_file(path, false, &file));
    write_to(file, "3");
    assert_holds(path, "3");
    assert_int_equal(unlink(path), 0);
}

static void links_and_pipes_are_refused(void **state)
{
    (void)state;
    FILE *file = NULL;
    assert_int_equal(symlink(victim, path), 0);
    for (int append = 0; append < 2; append++) {
        assert_status(shoali_plain_file(path, append, &file), SHOAL_EIO);
        assert_error_has("it is a symbolic link");
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody reads it, and opening it does not wait */
    assert_status(shoali_plain_file(path, false, &file), SHOAL_EIO);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_status(shoali_plain_file(path, false, &file), SHOAL_EIO);
    assert_error_has("no regular file");
    close(reader);
    assert_int_equal(unlink(path), 0);
    assert_holds(victim, "mine");
}

static void scratch_files_replace_what_lies_there(void **state)
{
    (void)state;
    assert_int_equal(symlink(victim, path), 0);
    FILE *file = shoali_scratch_file(path);
    assert_non_null(file);
    write_to(file, "new");
    assert_holds(path, "new");
    assert_holds(victim, "mine");
    assert_int_equal(unlink(path), 0);
    assert_null(shoali_scratch_file("/nowhere/at/all"));
    assert_int_equal(errno, ENOENT);
}

static void a_folder_may_be_a_link_of_this_user(void **state)
{
    (void)state;
    assert_ok(shoali_plain_folder(dir));
    assert_int_equal(symlink(dir, path), 0);
    assert_ok(shoali_plain_folder(path));
    if (geteuid() == 0) {
        assert_int_equal(lchown(path, 1234, 1234), 0);
        assert_status(shoali_plain_folder(path), SHOAL_EIO);
        assert_error_has("a symbolic link that user 1234 has made");
    }
    assert_int_equal(unlink(path), 0);
    assert_ok(shoali_plain_folder(path));
    assert_int_equal(rmdir(path), 0);
    assert_status(shoali_plain_folder(victim), SHOAL_EIO);
    assert_error_has(victim);
    assert_error_has("there is a file of that name");
    assert_int_equal(symlink("/nowhere/at/all", path), 0);
    assert_status(shoali_plain_folder(path), SHOAL_EIO);
    assert_error_has("a symbolic link of that name leads to no directory");
    assert_int_equal(unlink(path), 0);
    assert_status(shoali_plain_folder("/nowhere/at/all"), SHOAL_EIO);
}

/* A worker that stood still writes on in a file to which another one has added. */
static void writers_do_not_write_over_each_other(void **state)
{
    (void)state;
    FILE *one = NULL, *other = NULL;
    assert_ok(shoali_plain_file(path, false, &one));
    assert_true(fputs("one\n", one) >= 0 && fflush(one) == 0);
    assert_ok(shoali_plain_file(path, true, &other));
    write_to(other, "two\n");
    write_to(one, "three\n");
    assert_holds(path, "one\ntwo\nthree\n");
    assert_ok(shoali_plain_file(path, false, &one));
    write_to(one, "new\n");
    assert_holds(path, "new\n");
    assert_int_equal(unlink(path), 0);
}

/* A limit on the size of files stands for a full disk: it takes the part that fits. */
static void lines_are_added_whole_or_not_at_all(void **state)
{
    (void)state;
    struct rlimit before, few;
    FILE *file = NULL;
    assert_ok(shoali_plain_file(path, false, &file));
    const int fd = fileno(file);
    assert_true(shoali_append_whole(fd, "one\n", 4));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    few = (struct rlimit){.rlim_cur = 6, .rlim_max = before.rlim_max};
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    const bool put = shoali_append_whole(fd, "two\n", 4);
    const int why = errno;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, old);
    assert_false(put);
    assert_int_equal(why, EFBIG);
    assert_holds(path, "one\n");
    assert_true(shoali_append_whole(fd, "two\n", 4));
    assert_holds(path, "one\ntwo\n");
    fclose(file);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(files_are_emptied_or_added_to),
                                       CHECK_TEST(writers_do_not_write_over_each_other),
                                       CHECK_TEST(links_and_pipes_are_refused),
                                       CHECK_TEST(scratch_files_replace_what_lies_there),
                                       CHECK_TEST(lines_are_added_whole_or_not_at_all),
                                       CHECK_TEST(a_folder_may_be_a_link_of_this_user)};
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
