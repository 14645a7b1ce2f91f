/* SPDX-License-Identifier: Apache-2.0 */
/* The job's secret. It never stands in an argument list or a log; the launcher passes it by file or
 * descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "meet/launch.h"

enum {
    MIN_TOKEN_BYTES = 16, /* 128 bits, were they all random */
    MIN_VARIETY = 5       /* different bytes; 16 random hex digits have fewer once in 10^6 */
};

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static int variety(const uint8_t *bytes, size_t len_bytes)
{
    bool seen[256] = {false};
    int different = 0;
    for (size_t i = 0; i < len_bytes; i++) {
        different += !seen[bytes[i]];
        seen[bytes[i]] = true;
    }
    return different;
}

static shoal_status keep(const uint8_t *bytes, size_t len_bytes, const char *from,
                         shoali_token *token_out)
{
    while (len_bytes > 0 && is_space(bytes[len_bytes - 1]))
        len_bytes--;
    while (len_bytes > 0 && is_space(bytes[0])) {
        bytes++;
        len_bytes--;
    }
    if (len_bytes < MIN_TOKEN_BYTES || len_bytes > SHOALI_MAX_TOKEN_BYTES) {
        shoal_status status = shoali_fail(SHOAL_EINVAL,
                                          "the token from %s has %zu bytes, not %d..%d", from,
                                          len_bytes, MIN_TOKEN_BYTES, SHOALI_MAX_TOKEN_BYTES);
        shoali_error_advice("Make one with: openssl rand -hex 32");
        return status;
    }
    if (variety(bytes, len_bytes) < MIN_VARIETY) {
        shoal_status status = shoali_fail(
            SHOAL_EINVAL, "the token from %s can be guessed: it has only %d different bytes", from,
            variety(bytes, len_bytes));
        shoali_error_advice("Make one with: openssl rand -hex 32");
        return status;
    }
    memcpy(token_out->bytes, bytes, len_bytes);
    token_out->len_bytes = len_bytes;
    return SHOAL_OK;
}

/* A file that others may read holds no secret. Root's may be readable for a group: root has chosen
 * whom, and systemd and Kubernetes hand out credentials so. What has no name (a memfd, a pipe) only
 * who got the descriptor can read. */
static shoal_status check_private(int fd, const char *from)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink == 0)
        return SHOAL_OK; /* what is no descriptor is found out by reading */
    const mode_t others = info.st_mode & (info.st_uid == 0 ? 027 : 077);
    if (others == 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "the token from %s is open to other users: its mode is %04o",
                                      from, (unsigned)(info.st_mode & 07777));
    shoali_error_advice("chmod 600 it, and make another token where users have had access.");
    return status;
}

/* One read is enough for what may be accepted. Offset 0 each time, so every comm of a process finds
 * it again; a pipe can be read once. */
static shoal_status keep_from(int fd, const char *from, shoali_token *token_out)
{
    uint8_t bytes[2 * SHOALI_MAX_TOKEN_BYTES];
    SHOALI_TRY(check_private(fd, from));
    ssize_t got = pread(fd, bytes, sizeof bytes, 0);
    if (got < 0 && errno == ESPIPE)
        got = read(fd, bytes, sizeof bytes);
    if (got < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot read the token from %s", from);
    return keep(bytes, (size_t)got, from, token_out);
}

shoal_status shoali_token_find(const shoal_comm_desc *desc, shoali_env env, void *ctx,
                               shoali_token *token_out)
{
    const char *path = env(ctx, "SHOAL_TOKEN_FILE"), *number = env(ctx, "SHOAL_TOKEN_FD");
    token_out->len_bytes = 0;
    if (desc->token != NULL)
        return keep((const uint8_t *)desc->token, strlen(desc->token), "the descriptor", token_out);
    if (path != NULL && path[0] != '\0') {
        int fd = open(path,
                      O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe without a writer is empty */
        if (fd < 0)
            return shoali_fail_os(SHOAL_EIO, errno, "cannot open SHOAL_TOKEN_FILE %s", path);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        shoal_status status = keep_from(fd, path, token_out);
        close(fd);
        return status;
    }
    if (number != NULL && number[0] != '\0') {
        char *end;
        long fd = strtol(number, &end, 10);
        if (*end != '\0' || fd < 0 || fd > 1 << 20)
            return shoali_fail(SHOAL_EINVAL, "SHOAL_TOKEN_FD '%.20s' is not a descriptor", number);
        return keep_from((int)fd, "SHOAL_TOKEN_FD", token_out);
    }
    return SHOAL_OK;
}
