/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics and checkpoints agree: a checkpoint keeps how long its rank's metrics file was and what
 * it held (a mark), and a run that goes on from there cuts the file back to that. Files without a
 * mark, or that are not what it says, are cut by their lines. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/plain_file.h"
#include "base/read_file.h"
#include "files/safetensors.h"
#include "folder/written.h"

enum { LINE_BYTES = 1 << 16 };

/* ------------------------------------------------------------------ marks */

/* Add what stands behind *at, up to `end`. */
static bool add_rest(FILE *file, uint64_t end, shoali_digest *digest, uint64_t *at)
{
    char bytes[LINE_BYTES];
    size_t got = 1;
    if (fseeko(file, (off_t)*at, SEEK_SET) != 0)
        return false;
    while (*at < end && got > 0) {
        const uint64_t left = end - *at;
        got = fread(bytes, 1, left < sizeof bytes ? (size_t)left : sizeof bytes, file);
        shoali_digest_add(digest, bytes, got);
        *at += got;
    }
    return !ferror(file);
}

shoal_status shoali_metrics_mark(shoal_train *train)
{
    shoali_metrics_marks *marks = &train->folder.marks;
    struct stat info;
    FILE *file;
    if (train->folder.metrics == NULL)
        return SHOAL_OK;
    SHOALI_TRY(shoali_metrics_put_out(train));
    if (fsync(marks->file - 1) != 0 || fstat(marks->file - 1, &info) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", marks->path);
    SHOALI_TRY(shoali_open_file(marks->path, &file));
    if (marks->digest.hash == NULL)
        shoali_digest_begin(&marks->digest);
    bool ok = add_rest(file, (uint64_t)info.st_size, &marks->digest, &marks->hashed);
    fclose(file);
    const char *name = strrchr(marks->path, '/');
    shoali_metrics_at at = {.bytes = marks->hashed};
    snprintf(at.file, sizeof at.file, "%s", name != NULL ? name + 1 : marks->path);
    if (!ok || !shoali_digest_text(&marks->digest, at.sha256))
        return shoali_fail(SHOAL_EIO, "cannot read %s again", marks->path);
    marks->at = at;
    return SHOAL_OK;
}

/* Whether the file begins with what a mark says. */
static bool is_as_marked(const char *path, const shoali_metrics_at *at)
{
    char text[SHOALI_DIGEST_CHARS + 1];
    shoali_digest digest;
    uint64_t read = 0;
    FILE *file;
    if (shoali_open_file(path, &file) != SHOAL_OK)
        return false;
    shoali_digest_begin(&digest);
    bool ok = add_rest(file, at->bytes, &digest, &read) && read == at->bytes &&
              shoali_digest_text(&digest, text) && strcmp(text, at->sha256) == 0;
    shoali_digest_end(&digest);
    fclose(file);
    return ok;
}

/* ------------------------------------------------------------------ cutting */

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
        at = at != NULL ? at : json_object_get(object, "replica");
        at = at != NULL ? at : json_object_get(object, "at_step");
        if (object != NULL && (at == NULL || json_integer_value(at) <= (json_int_t)step))
            ok = fwrite(line, 1, length, to) == length;
        json_decref(object);
    }
    return ok && !ferror(from);
}

static shoal_status cut_lines(const char *path, uint64_t step)
{
    char temporary[SHOALI_PATH_BYTES];
    FILE *from;
    if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= SHOALI_PATH_BYTES)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", path);
    SHOALI_TRY(shoali_open_file(path, &from));
    FILE *to = shoali_scratch_file(temporary);
    bool ok = to != NULL && copy_lines(from, to, step) && fflush(to) == 0 && fsync(fileno(to)) == 0;
    int error = errno;
    fclose(from);
    ok = (to == NULL || fclose(to) == 0) && ok && rename(temporary, path) == 0;
    if (ok)
        return shoali_sync_folder_of(path);
    unlink(temporary);
    return shoali_fail_os(SHOAL_EIO, error, "cannot cut %s back to step %" PRIu64, path, step);
}

shoal_status shoali_metrics_cut(const char *path, uint64_t step, const shoali_metrics_at *at)
{
    const char *name = strrchr(path, '/');
    if (access(path, F_OK) != 0 && errno == ENOENT && at->bytes == 0)
        return SHOAL_OK;
    if (at->bytes == 0 || strcmp(name != NULL ? name + 1 : path, at->file) != 0)
        return access(path, F_OK) == 0 ? cut_lines(path, step) : SHOAL_OK;
    if (is_as_marked(path, at))
        return truncate(path, (off_t)at->bytes) == 0
                   ? SHOAL_OK
                   : shoali_fail_os(SHOAL_EIO, errno, "cannot cut %s", path);
    shoali_log(WARN,
               "%s is damaged: its first %" PRIu64
               " bytes are not those that were written (SHA-256); what can be read of it stays",
               path, at->bytes);
    return access(path, F_OK) == 0 ? cut_lines(path, step) : SHOAL_OK;
}

/* metrics.R.jsonl of a rank that writes it itself. */
static bool is_of_a_rank(const char *name, uint32_t ranks)
{
    char own[64];
    static const char start[] = "metrics.";
    if (strcmp(name, "metrics.jsonl") == 0)
        return true;
    if (strncmp(name, start, sizeof start - 1) != 0)
        return false;
    unsigned long rank = strtoul(name + sizeof start - 1, NULL, 10);
    if (rank == 0 || rank >= ranks)
        return false;
    snprintf(own, sizeof own, "metrics.%lu.jsonl", rank);
    return strcmp(own, name) == 0;
}

shoal_status shoali_metrics_cut_others(const char *folder, uint32_t ranks, uint64_t step)
{
    char path[SHOALI_PATH_BYTES];
    shoal_status status = SHOAL_OK;
    DIR *dir = opendir(folder);
    for (struct dirent *entry;
         dir != NULL && status == SHOAL_OK && (entry = readdir(dir)) != NULL;) {
        const char *name = entry->d_name, *end = strstr(name, ".jsonl");
        if (strncmp(name, "metrics.", 8) != 0 || end == NULL || is_of_a_rank(name, ranks))
            continue;
        status = shoali_path_join(path, folder, name);
        if (status == SHOAL_OK && end[6] != '\0')
            unlink(path); /* .jsonl.tmp of a process that was killed */
        else if (status == SHOAL_OK)
            status = cut_lines(path, step);
    }
    if (dir != NULL)
        closedir(dir);
    return status;
}
