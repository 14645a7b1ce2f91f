/* SPDX-License-Identifier: Apache-2.0 */
#include "base/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"

static shoal_status read_open(FILE *file, const char *path, size_t max_bytes, char **bytes_out,
                              size_t *len_bytes_out)
{
    struct stat info;
    if (fstat(fileno(file), &info) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot read %s", path);
    if ((uintmax_t)info.st_size > max_bytes)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %lld bytes, at most %zu are read", path,
                           (long long)info.st_size, max_bytes);
    size_t len_bytes = (size_t)info.st_size;
    char *bytes = shoali_alloc(len_bytes + 1);
    if (bytes == NULL)
        return SHOAL_ENOMEM;
    if (fread(bytes, 1, len_bytes, file) != len_bytes) {
        shoali_free(bytes);
        return shoali_fail(SHOAL_EIO, "cannot read %s: shorter than its size, is it being written?",
                           path);
    }
    *bytes_out = bytes;
    *len_bytes_out = len_bytes;
    return SHOAL_OK;
}

shoal_status shoali_open_file(const char *path, FILE **file_out)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe without a writer: no wait */
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot open %s", path);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return shoali_fail(SHOAL_EIO, "cannot read %s: not a regular file", path);
    }
    *file_out = fdopen(fd, "rb");
    if (*file_out != NULL)
        return SHOAL_OK;
    close(fd);
    return shoali_fail(SHOAL_ENOMEM, "no memory to read %s", path);
}

shoal_status shoali_read_file(const char *path, size_t max_bytes, char **bytes_out,
                              size_t *len_bytes_out)
{
    FILE *file;
    SHOALI_TRY(shoali_open_file(path, &file));
    shoal_status status = read_open(file, path, max_bytes, bytes_out, len_bytes_out);
    fclose(file);
    return status;
}
