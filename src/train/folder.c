/* SPDX-License-Identifier: Apache-2.0 */
/* A run folder has one holder: rank 0 keeps OUT/lock locked for as long as it trains. What another
 * run has left there is gone on from, or left alone. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "train/trainer.h"

enum { PATH_BYTES = 4096, LINE_BYTES = 1 << 16 };

static shoal_status path_in(char out[PATH_BYTES], const char *folder, const char *name)
{
    if (snprintf(out, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "path is too long: %s", folder);
}

static bool is_same(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

static shoal_status in_use(const char *folder, int fd)
{
    char holder[128] = "";
    ssize_t length = read(fd, holder, sizeof holder - 1);
    holder[length > 0 ? strcspn(holder, "\n") : 0] = '\0';
    shoal_status status = shoali_fail(SHOAL_EINVAL, "%s is in use by another run (%s)", folder,
                                      holder[0] != '\0' ? holder : "which is just beginning");
    shoali_error_advice("Wait for its end and go on with --resume %s, or take another --out.",
                        folder);
    return status;
}

static shoal_status lock(shoal_train *train, const char *folder)
{
    char path[PATH_BYTES], holder[128], host[65] = "";
    SHOALI_TRY(path_in(path, folder, "lock"));
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        shoal_status status = errno == EWOULDBLOCK
                                  ? in_use(folder, fd)
                                  : shoali_fail_os(SHOAL_EIO, errno, "cannot lock %s", path);
        close(fd);
        return status;
    }
    gethostname(host, sizeof host - 1);
    int length = snprintf(holder, sizeof holder, "process %d on host %s\n", (int)getpid(), host);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, holder, (size_t)length, 0) != length) {
        shoal_status status = shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
        close(fd);
        return status;
    }
    train->folder_lock = fd + 1;
    return SHOAL_OK;
}

shoal_status shoali_folder_hold(shoal_train *train)
{
    const char *folder = train->desc.out, *resume = train->desc.resume;
    char path[PATH_BYTES];
    struct stat metrics;
    if (folder == NULL || train->rank != 0 || train->membership > 0)
        return SHOAL_OK;
    SHOALI_TRY(lock(train, folder));
    SHOALI_TRY(path_in(path, folder, "metrics.jsonl"));
    bool goes_on = resume != NULL && is_same(resume, folder);
    if (goes_on || stat(path, &metrics) != 0 || metrics.st_size == 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL, "%s holds a run already", folder);
    shoali_error_advice("Go on with it: --resume %s --out %s; or take another --out.", folder,
                        folder);
    return status;
}

void shoali_folder_release(shoal_train *train)
{
    if (train->folder_lock > 0)
        close(train->folder_lock - 1);
    train->folder_lock = 0;
}

/* ------------------------------------------------------------------ metrics of steps undone */

/* Whole lines of steps up to `step`: what a run that goes on from there does not make again. */
static bool copy_lines(FILE *from, FILE *to, uint64_t step)
{
    char line[LINE_BYTES];
    bool ok = true;
    while (ok && fgets(line, sizeof line, from) != NULL) {
        json_error_t error;
        size_t length = strlen(line);
        bool whole = length > 0 && line[length - 1] == '\n';
        json_t *object = whole ? json_loads(line, 0, &error) : NULL;
        const json_t *at = json_object_get(object, "step");
        if (object != NULL && (at == NULL || json_integer_value(at) <= (json_int_t)step))
            ok = fwrite(line, 1, length, to) == length;
        json_decref(object);
    }
    return ok && !ferror(from);
}

shoal_status shoali_folder_trim(const char *path, uint64_t step)
{
    char temporary[PATH_BYTES];
    FILE *from = fopen(path, "re");
    if (from == NULL)
        return errno == ENOENT ? SHOAL_OK
                               : shoali_fail_os(SHOAL_EIO, errno, "cannot read %s", path);
    if (snprintf(temporary, sizeof temporary, "%s.tmp%d", path, (int)getpid()) >= PATH_BYTES) {
        fclose(from);
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", path);
    }
    FILE *to = fopen(temporary, "we");
    bool ok = to != NULL && copy_lines(from, to, step) && fflush(to) == 0 && fsync(fileno(to)) == 0;
    int error = errno;
    fclose(from);
    ok = (to == NULL || fclose(to) == 0) && ok && rename(temporary, path) == 0;
    if (ok)
        return SHOAL_OK;
    unlink(temporary);
    return shoali_fail_os(SHOAL_EIO, error, "cannot cut %s back to step %" PRIu64, path, step);
}
