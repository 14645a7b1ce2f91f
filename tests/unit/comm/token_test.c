/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/launch.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(comes_from_descriptor_file_or_fd),
                                       CHECK_TEST(bad_tokens_are_refused)};
    return CHECK_RUN(tests);
}
