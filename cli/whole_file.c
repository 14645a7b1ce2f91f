/* SPDX-License-Identifier: Apache-2.0 */
#include "whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* Beside its file; what a killed process left there is removed. */
static FILE *open_scratch(const char *target, char scratch[PATH_MAX])
{
    if ((size_t)snprintf(scratch, PATH_MAX, "%s.%ld.part", target, (long)getpid()) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return unlink(scratch) == 0 || errno == ENOENT ? fopen(scratch, "wxe") : NULL;
}

static bool finish(FILE *out, bool good)
{
    const int error = errno;
    if (fclose(out) != 0)
        return false;
    errno = error;
    return good;
}

/* A regular file, or none yet, and where links lead. */
static bool is_replaceable(const char *path, bool inside, char target[PATH_MAX])
{
    struct stat info;
    if (inside || lstat(path, &info) != 0 || !S_ISLNK(info.st_mode))
        return (size_t)snprintf(target, PATH_MAX, "%s", path) < PATH_MAX &&
               (lstat(path, &info) != 0 || S_ISREG(info.st_mode));
    return realpath(path, target) != NULL && strncmp(target, "/proc/", 6) != 0 &&
           strncmp(path, "/dev/", 5) != 0 && stat(target, &info) == 0 && S_ISREG(info.st_mode);
}

static bool begin(whole_file *file, const char *path, bool inside)
{
    char target[PATH_MAX], scratch[PATH_MAX];
    struct stat info;
    *file = (whole_file){.path = path, .inside = inside};
    if (inside && lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        errno = S_ISLNK(info.st_mode) ? ELOOP : EINVAL;
        return false;
    }
    if (is_replaceable(path, inside, target)) {
        FILE *probe = open_scratch(target, scratch);
        if (probe == NULL)
            return false;
        fclose(probe);
        (void)unlink(scratch);
    } else if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return false;
    }
    file->out = open_memstream(&file->text, &file->bytes);
    return file->out != NULL;
}

bool whole_file_begin(whole_file *file, const char *path)
{
    return begin(file, path, false);
}

bool whole_file_begin_inside(whole_file *file, const char *path)
{
    return begin(file, path, true);
}

static bool write_out(const whole_file *file)
{
    char target[PATH_MAX], scratch[PATH_MAX];
    const bool replace = is_replaceable(file->path, file->inside, target);
    FILE *out = replace ? open_scratch(target, scratch) : cli_write(file->path);
    if (out == NULL)
        return false;
    const bool good = finish(out, fwrite(file->text, 1, file->bytes, out) == file->bytes);
    if (!replace || (good && rename(scratch, target) == 0))
        return good;
    const int error = errno;
    (void)unlink(scratch);
    errno = error;
    return false;
}

bool whole_file_end(whole_file *file, bool good)
{
    good = ferror(file->out) == 0 && good;
    errno = good ? 0 : EIO;
    good = fclose(file->out) == 0 && good && write_out(file);
    const int error = errno;
    free(file->text);
    *file = (whole_file){0};
    errno = error;
    return good;
}
