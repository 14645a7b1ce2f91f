/* SPDX-License-Identifier: Apache-2.0 */
#include "base/read_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "support/check.h"

static void whole_bounded_and_ended(void **state)
{
    (void)state;
    char path[] = "/tmp/shoal-read-XXXXXX";
    char *bytes = NULL;
    size_t len = 0;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a\0b", 3), 3);
    close(fd);
    assert_ok(shoali_read_file(path, 3, &bytes, &len));
    assert_int_equal(len, 3);
    assert_memory_equal(bytes, "a\0b\0", 4);
    shoali_free(bytes);
    assert_status(shoali_read_file(path, 2, &bytes, &len), SHOAL_ECORRUPT);
    assert_error_has("at most 2");
    unlink(path);
    assert_status(shoali_read_file(path, 3, &bytes, &len), SHOAL_EIO);
    assert_error_has(path);
    assert_status(shoali_read_file("/dev/zero", 3, &bytes, &len), SHOAL_EIO);
    assert_error_has("not a regular file");
}

/* Neither is waited for: nobody writes into the pipe. */
static void pipes_and_folders_are_refused(void **state)
{
    (void)state;
    char dir[] = "/tmp/shoal-read-XXXXXX", path[64];
    char *bytes = NULL;
    size_t len = 0;
    FILE *file = NULL;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_status(shoali_read_file(path, 3, &bytes, &len), SHOAL_EIO);
    assert_error_has("not a regular file");
    assert_status(shoali_open_file(path, &file), SHOAL_EIO);
    assert_status(shoali_open_file(dir, &file), SHOAL_EIO);
    assert_error_has("not a regular file");
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(whole_bounded_and_ended),
                                       CHECK_TEST(pipes_and_folders_are_refused)};
    return CHECK_RUN(tests);
}
