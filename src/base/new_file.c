/* SPDX-License-Identifier: Apache-2.0 */
#include "base/new_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/plain_file.h"

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

shoal_status shoali_new_file_commit(shoali_new_file *f)
{
    int failed = fflush(f->file) != 0 || ferror(f->file) || fsync(fileno(f->file)) != 0;
    int os_error = errno;
    if (fclose(f->file) != 0 && !failed) {
        failed = 1;
        os_error = errno;
    }
    f->file = NULL;
    if (!failed && rename(f->scratch, f->path) != 0) {
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
    if (f->scratch != NULL)
        unlink(f->scratch);
    shoali_free(f->scratch);
    shoali_free(f->path);
    *f = (shoali_new_file){0};
}
