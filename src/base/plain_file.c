/* SPDX-License-Identifier: Apache-2.0 */
#include "base/plain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

shoal_status shoali_plain_folder(const char *path)
{
    struct stat here, there;
    if (mkdir(path, 0777) == 0)
        return SHOAL_OK;
    int error = errno;
    const bool seen = lstat(path, &here) == 0;
    bool known = seen && stat(path, &there) == 0 && S_ISDIR(there.st_mode);
    if (!known && seen)
        return shoali_fail(SHOAL_EIO, "cannot make the directory %s: %s", path,
                           S_ISLNK(here.st_mode)
                               ? "a symbolic link of that name leads to no directory"
                               : "there is a file of that name");
    if (!known)
        return shoali_fail_os(SHOAL_EIO, error, "cannot make the directory %s", path);
    if (!S_ISLNK(here.st_mode) || here.st_uid == geteuid() || here.st_uid == 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EIO, "%s is a symbolic link that user %u has made",
                                      path, (unsigned)here.st_uid);
    shoali_error_advice("It might lead to files of yours: name the folder itself, or another one.");
    return status;
}

shoal_status shoali_plain_file(const char *path, bool append, FILE **file_out)
{
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat info;
    int fd = open(path, flags, 0666);
    if (fd < 0 && errno == ELOOP)
        return shoali_fail(SHOAL_EIO, "cannot write %s: it is a symbolic link", path);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return shoali_fail(SHOAL_EIO, "cannot write %s: it is no regular file", path);
    }
    FILE *file = append || ftruncate(fd, 0) == 0 ? fdopen(fd, "a") : NULL;
    if (file == NULL) {
        shoal_status status = shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
        close(fd);
        return status;
    }
    *file_out = file;
    return SHOAL_OK;
}

bool shoali_append_whole(int fd, const char *bytes, size_t count)
{
    size_t put = 0;
    int error = ENOSPC;
    while (put < count) {
        const ssize_t more = write(fd, bytes + put, count - put);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0) {
            error = more < 0 ? errno : ENOSPC;
            break;
        }
        put += (size_t)more;
    }
    if (put == count)
        return true;
    const off_t end = lseek(fd, 0, SEEK_CUR); /* behind what was added here */
    if (put > 0 && end >= (off_t)put && end == lseek(fd, 0, SEEK_END) &&
        ftruncate(fd, end - (off_t)put) != 0)
        error = errno;
    errno = error;
    return false;
}

FILE *shoali_scratch_file(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return NULL;
    return fopen(path, "wbxe"); /* x: a link that was put there meanwhile is not followed */
}
