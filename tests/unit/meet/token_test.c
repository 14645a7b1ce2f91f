/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meet/launch.h"

static const char secret[] = "0123456789abcdef";

/* ctx: two strings, the values of SHOAL_TOKEN_FILE and SHOAL_TOKEN_FD. */
static const char *lookup(void *ctx, const char *name)
{
    const char *const *values = ctx;
    return strcmp(name, "SHOAL_TOKEN_FILE") == 0 ? values[0]
           : strcmp(name, "SHOAL_TOKEN_FD") == 0 ? values[1]
                                                 : NULL;
}

static void assert_secret(const shoal_comm_desc *desc, const char *file, const char *fd)
{
    const char *values[] = {file, fd};
    shoali_token token;
    assert_ok(shoali_token_find(desc, lookup, values, &token));
    assert_int_equal(token.len_bytes, strlen(secret));
    assert_memory_equal(token.bytes, secret, strlen(secret));
}

static void assert_refused(const char *given, const char *file, const char *fd, shoal_status status)
{
    const char *values[] = {file, fd};
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    desc.token = given;
    shoali_token token;
    assert_status(shoali_token_find(&desc, lookup, values, &token), status);
    assert_null(strstr(shoal_last_error()->text, "0123456789")); /* errors go to logs */
}

static void comes_from_descriptor_file_or_fd(void **state)
{
    (void)state;
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    char path[] = "/tmp/shoal-token-XXXXXX", number[16];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(dprintf(fd, " %s\n", secret), 18);
    assert_secret(&desc, path, NULL);
    assert_int_equal(unlink(path), 0);
    snprintf(number, sizeof number, "%d", fd);
    assert_secret(&desc, NULL, number);
    assert_secret(&desc, NULL, number); /* every comm of a process finds it */
    close(fd);

    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], secret, strlen(secret)), (ssize_t)strlen(secret));
    snprintf(number, sizeof number, "%d", ends[0]);
    assert_secret(&desc, "", number);
    close(ends[0]);
    close(ends[1]);

    desc.token = secret;
    assert_secret(&desc, "/nowhere", "99");
    desc.token = NULL;
    shoali_token token;
    assert_ok(shoali_token_find(&desc, lookup, (const char *[]){NULL, NULL}, &token));
    assert_int_equal(token.len_bytes, 0);
}

static void bad_tokens_are_refused(void **state)
{
    (void)state;
    char longer[400];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_refused("0123456789abcde", NULL, NULL, SHOAL_EINVAL);
    assert_refused("    0123456789abcde     ", NULL, NULL, SHOAL_EINVAL);
    assert_refused(longer, NULL, NULL, SHOAL_EINVAL);
    assert_refused(NULL, "/nowhere/at/all", NULL, SHOAL_EIO);
    assert_refused(NULL, NULL, "7x", SHOAL_EINVAL);
    assert_refused(NULL, NULL, "-1", SHOAL_EINVAL);
    assert_refused(NULL, NULL, "1000000", SHOAL_EIO);
}

static void guessable_tokens_are_refused(void **state)
{
    (void)state;
    static const char zeros[32];
    int fd = memfd_create("token", MFD_CLOEXEC);
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    assert_int_equal(write(fd, zeros, sizeof zeros), sizeof zeros);
    assert_refused(NULL, NULL, number, SHOAL_EINVAL);
    assert_error_has("can be guessed");
    close(fd);
    assert_refused("aaaaaaaaaaaaaaaa", NULL, NULL, SHOAL_EINVAL);
    assert_refused("0123012301230123", NULL, NULL, SHOAL_EINVAL);
    assert_error_has("only 4 different bytes");
}

static void files_that_others_may_read_are_refused(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        bool mine, roots; /* accepted where a user owns it, and where root does */
    } cases[] = {{0600, true, true},   {0400, true, true},   {0700, true, true},
                 {0640, false, true},  {0660, false, false}, {0604, false, false},
                 {0644, false, false}, {0601, false, false}, {0602, false, false}};
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    char path[] = "/tmp/shoal-token-XXXXXX", number[16];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(dprintf(fd, "%s\n", secret), 17);
    snprintf(number, sizeof number, "%d", fd);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(fchmod(fd, cases[i].mode), 0);
        if (geteuid() == 0 ? cases[i].roots : cases[i].mine) {
            assert_secret(&desc, path, NULL);
            continue;
        }
        assert_refused(NULL, path, NULL, SHOAL_EINVAL);
        assert_error_has("open to other users");
        assert_refused(NULL, NULL, number, SHOAL_EINVAL);
    }
    if (geteuid() == 0) { /* a user's is for that user alone */
        assert_int_equal(fchown(fd, 1234, 1234), 0);
        assert_int_equal(fchmod(fd, 0640), 0);
        assert_refused(NULL, path, NULL, SHOAL_EINVAL);
    }
    assert_int_equal(unlink(path), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(comes_from_descriptor_file_or_fd),
                                       CHECK_TEST(bad_tokens_are_refused),
                                       CHECK_TEST(guessable_tokens_are_refused),
                                       CHECK_TEST(files_that_others_may_read_are_refused)};
    return CHECK_RUN(tests);
}
