/* SPDX-License-Identifier: Apache-2.0 */
#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/plain_file.h"

/* A name of a descriptor that linkat takes; an unmounted /proc has none. */
static bool name_of(int fd, char out[48])
{
    snprintf(out, 48, "/proc/self/fd/%d", fd);
    return access(out, F_OK) == 0;
}

/* A file without a name in the folder of `path`; NULL: not on this file system. */
static FILE *open_nameless(const char *path)
{
    char folder[PATH_MAX], name[48];
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder)
        return NULL;
    snprintf(folder, sizeof folder, "%.*s", (int)length, slash == NULL ? "." : path);
    const int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    FILE *file = fd >= 0 && name_of(fd, name) ? fdopen(fd, "wb") : NULL;
    if (file == NULL && fd >= 0)
        close(fd);
    return file;
}

shoal_status shoali_new_file_open(const char *path, shoali_new_file *out)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* /dev/null would be renamed over */
        return shoali_fail(SHOAL_EIO, "cannot create %s: it is there, and no regular file", path);
    size_t scratch_bytes = strlen(path) + 32;
    shoali_new_file made = {.path = shoali_strdup(path)};
    made.scratch = made.path != NULL ? shoali_alloc(scratch_bytes) : NULL;
    if (made.scratch == NULL) {
        shoali_new_file_discard(&made);
        return SHOAL_ENOMEM;
    }
    snprintf(made.scratch, scratch_bytes, "%s.%ld.part", path, (long)getpid());
    made.file = open_nameless(path);
    made.nameless = made.file != NULL;
    if (made.file == NULL)
        made.file = shoali_scratch_file(made.scratch); /* processes get the ids of others again */
    if (made.file == NULL) {
        int os_error = errno;
        shoali_free(made.scratch);
        made.scratch = NULL;
        shoali_new_file_discard(&made);
        return shoali_fail_os(SHOAL_EIO, os_error, "cannot create %s", path);
    }
    *out = made;
    return SHOAL_OK;
}

/* /dev/stdout that goes to a file: what else goes there is to stay. -1: none of those. */
static int standard_stream(const struct stat *info)
{
    struct stat each;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &each) == 0 && each.st_dev == info->st_dev && each.st_ino == info->st_ino)
            return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return -1;
}

/* A pipe that nobody reads is refused, not waited for. */
static int open_waiting_for_nobody(const char *path)
{
    const int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

static shoal_status take_as_it_is(int fd, const char *path, shoali_new_file *out)
{
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
    shoali_new_file made = {.path = shoali_strdup(path), .as_it_is = true};
    made.file = made.path != NULL ? fdopen(fd, "wb") : NULL;
    if (made.file == NULL) {
        close(fd);
        shoali_new_file_discard(&made);
        return SHOAL_ENOMEM;
    }
    *out = made;
    return SHOAL_OK;
}

/* Where a link leads, that of a file that is yet to be made, too. */
static shoal_status follow(const char *path, char out[PATH_MAX])
{
    char to[PATH_MAX];
    struct stat info;
    if ((size_t)snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX)
        return shoali_fail_os(SHOAL_EIO, ENAMETOOLONG, "cannot write %s", path);
    for (int links = 0; lstat(out, &info) == 0 && S_ISLNK(info.st_mode); links++) {
        const ssize_t length = readlink(out, to, sizeof to - 1);
        const char *slash = strrchr(out, '/');
        size_t folder = length > 0 && to[0] != '/' && slash != NULL ? (size_t)(slash - out) + 1 : 0;
        if (length <= 0 || links == 40 || folder + (size_t)length >= PATH_MAX)
            return shoali_fail_os(SHOAL_EIO, length < 0 ? errno : ELOOP, "cannot write %s", path);
        memcpy(out + folder, to, (size_t)length);
        out[folder + (size_t)length] = '\0';
    }
    return SHOAL_OK;
}

shoal_status shoali_new_file_open_named(const char *path, shoali_new_file *out)
{
    char target[PATH_MAX];
    struct stat info;
    if (path[0] == '\0' || path[strlen(path) - 1] == '/')
        return shoali_fail(SHOAL_EIO, "cannot write '%s': it names no file", path);
    const bool there = stat(path, &info) == 0;
    const int stream = there ? standard_stream(&info) : -1;
    if (stream >= 0 || (there && !S_ISREG(info.st_mode)))
        return take_as_it_is(stream >= 0 ? stream : open_waiting_for_nobody(path), path, out);
    SHOALI_TRY(follow(path, target));
    return shoali_new_file_open(target, out);
}

shoal_status shoali_new_file_target(const char *path, char *target_out)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return shoali_fail(SHOAL_EIO, "cannot write %s: not a regular file", path);
    SHOALI_TRY(follow(path, target_out));
    return shoali_new_file_may(target_out);
}

shoal_status shoali_new_file_may(const char *path)
{
    shoali_new_file file;
    SHOALI_TRY(shoali_new_file_open_named(path, &file));
    shoali_new_file_discard(&file);
    return SHOAL_OK;
}

/* Under its scratch name, to be renamed from there: linkat replaces nothing. */
static bool give_name(shoali_new_file *f)
{
    char name[48];
    if (!f->nameless)
        return true;
    if ((unlink(f->scratch) != 0 && errno != ENOENT) || !name_of(fileno(f->file), name) ||
        linkat(AT_FDCWD, name, AT_FDCWD, f->scratch, AT_SYMLINK_FOLLOW) != 0)
        return false;
    f->nameless = false;
    return true;
}

/* Why an earlier write failed, ferror does not say: the next one says it again. */
static bool flush_out(FILE *file)
{
    const bool failed = ferror(file) != 0;
    if (failed)
        clearerr(file);
    if (failed && fputc('\n', file) != EOF && fflush(file) == 0)
        errno = EIO;
    return !failed && fflush(file) == 0;
}

shoal_status shoali_new_file_flush(shoali_new_file *f)
{
    return flush_out(f->file) ? SHOAL_OK
                              : shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", f->path);
}

shoal_status shoali_new_file_commit(shoali_new_file *f)
{
    int failed = !flush_out(f->file) ||
                 (!f->as_it_is && (fsync(fileno(f->file)) != 0 || !give_name(f)));
    int os_error = errno;
    if (fclose(f->file) != 0 && !failed) {
        failed = 1;
        os_error = errno;
    }
    f->file = NULL;
    if (!failed && !f->as_it_is && rename(f->scratch, f->path) != 0) {
        failed = 1;
        os_error = errno;
    }
    shoal_status status = failed ? shoali_fail_os(SHOAL_EIO, os_error, "cannot write %s", f->path)
                                 : SHOAL_OK;
    if (!failed) {
        shoali_free(f->scratch); /* renamed: nothing for discard to remove */
        f->scratch = NULL;
    }
    shoali_new_file_discard(f);
    return status;
}

void shoali_new_file_discard(shoali_new_file *f)
{
    if (f->file != NULL)
        fclose(f->file);
    if (f->scratch != NULL && !f->nameless)
        unlink(f->scratch);
    shoali_free(f->scratch);
    shoali_free(f->path);
    *f = (shoali_new_file){0};
}
