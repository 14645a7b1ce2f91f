/* SPDX-License-Identifier: Apache-2.0 */
#include "files/checkpoint_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/plain_file.h"
#include "base/read_file.h"
#include "files/safetensors.h"

enum { NAME_BYTES = 160 };

shoal_status shoali_path_join(char out[SHOALI_PATH_BYTES], const char *folder, const char *name)
{
    if (snprintf(out, SHOALI_PATH_BYTES, "%s/%s", folder, name) < SHOALI_PATH_BYTES)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "path is too long: %s", folder);
}

shoal_status shoali_path_number(char out[SHOALI_PATH_BYTES], const char *folder, const char *prefix,
                                uint64_t number, const char *suffix)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%" PRIu64 "%s", prefix, number, suffix);
    return shoali_path_join(out, folder, name);
}

bool shoali_number_after(const char *name, const char *prefix, int base, uint64_t *value_out)
{
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0 || !isxdigit((unsigned char)name[length]))
        return false;
    char *end = NULL;
    errno = 0;
    *value_out = strtoull(name + length, &end, base);
    return end != name + length && errno == 0 && *end == '\0';
}

shoal_status shoali_write_line(const char *path, const char *text)
{
    char temporary[SHOALI_PATH_BYTES];
    if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= SHOALI_PATH_BYTES)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", path);
    FILE *file = shoali_scratch_file(temporary);
    bool ok = file != NULL && fprintf(file, "%s\n", text) > 0 && fflush(file) == 0 &&
              fsync(fileno(file)) == 0;
    int error = errno;
    if (file != NULL && fclose(file) != 0 && ok) {
        error = errno;
        ok = false;
    }
    if (ok && rename(temporary, path) == 0)
        return shoali_sync_folder_of(path);
    error = ok ? errno : error;
    unlink(temporary);
    return shoali_fail_os(SHOAL_EIO, error, "cannot write %s", path);
}

/* ------------------------------------------------------------------ names */

int shoali_checkpoint_order(shoali_checkpoint a, shoali_checkpoint b)
{
    if (a.step != b.step)
        return a.step < b.step ? -1 : 1;
    return a.epoch < b.epoch ? -1 : a.epoch > b.epoch;
}

static void name_of(shoali_checkpoint which, char name[NAME_BYTES])
{
    if (which.epoch == 0)
        snprintf(name, NAME_BYTES, "step-%" PRIu64, which.step);
    else
        snprintf(name, NAME_BYTES, "step-%" PRIu64 "-%" PRIu64, which.step, which.epoch);
}

static bool is_name(const char *name, shoali_checkpoint *which_out)
{
    shoali_checkpoint which = {0};
    char again[NAME_BYTES];
    char *rest = NULL;
    if (strncmp(name, "step-", 5) != 0)
        return false;
    which.step = strtoull(name + 5, &rest, 10);
    which.epoch = *rest == '-' ? strtoull(rest + 1, NULL, 10) : 0;
    name_of(which, again); /* in one way only */
    *which_out = which;
    return which.step > 0 && strcmp(name, again) == 0;
}

shoal_status shoali_checkpoint_path(const char *out, shoali_checkpoint which,
                                    char folder[SHOALI_PATH_BYTES])
{
    char above[SHOALI_PATH_BYTES], name[NAME_BYTES];
    name_of(which, name);
    SHOALI_TRY(shoali_path_join(above, out, "checkpoints"));
    return shoali_path_join(folder, above, name);
}

shoal_status shoali_checkpoint_make(const char *out, shoali_checkpoint which,
                                    char folder[SHOALI_PATH_BYTES])
{
    char above[SHOALI_PATH_BYTES];
    SHOALI_TRY(shoali_plain_folder(out));
    SHOALI_TRY(shoali_path_join(above, out, "checkpoints"));
    SHOALI_TRY(shoali_plain_folder(above));
    SHOALI_TRY(shoali_sync_folder_of(above));
    SHOALI_TRY(shoali_checkpoint_path(out, which, folder));
    SHOALI_TRY(shoali_plain_folder(folder));
    return shoali_sync_folder_of(folder);
}

/* ------------------------------------------------------------------ which there are */

shoal_status shoali_checkpoint_name_latest(const char *out, shoali_checkpoint which)
{
    char path[SHOALI_PATH_BYTES], name[NAME_BYTES];
    SHOALI_TRY(shoali_path_join(path, out, "checkpoints/latest"));
    name_of(which, name);
    return shoali_write_line(path, name);
}

void shoali_checkpoint_name_again(const char *out, shoali_checkpoint older)
{
    char path[SHOALI_PATH_BYTES];
    if (older.step > 0 && shoali_checkpoint_name_latest(out, older) == SHOAL_OK)
        return;
    if (shoali_path_join(path, out, "checkpoints/latest") == SHOAL_OK)
        (void)unlink(path); /* it would name nothing */
}

shoali_checkpoint shoali_checkpoint_latest(const char *out)
{
    char path[SHOALI_PATH_BYTES], name[NAME_BYTES] = "";
    shoali_checkpoint which = {0};
    FILE *file;
    if (shoali_path_join(path, out, "checkpoints/latest") != SHOAL_OK ||
        shoali_open_file(path, &file) != SHOAL_OK)
        return which;
    bool ok = fgets(name, sizeof name, file) != NULL;
    fclose(file);
    name[strcspn(name, "\n")] = '\0';
    ok = ok && is_name(name, &which) && shoali_checkpoint_path(out, which, path) == SHOAL_OK &&
         access(path, F_OK) == 0;
    return ok ? which : (shoali_checkpoint){0};
}

/* Call visit for all. */
static void each(const char *out, void (*visit)(void *ctx, shoali_checkpoint which), void *ctx)
{
    char above[SHOALI_PATH_BYTES];
    shoali_checkpoint which;
    DIR *dir = shoali_path_join(above, out, "checkpoints") == SHOAL_OK ? opendir(above) : NULL;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (is_name(entry->d_name, &which))
            visit(ctx, which);
    if (dir != NULL)
        closedir(dir);
}

typedef struct search {
    const shoali_checkpoint *bound;
    shoali_checkpoint best;
} search;

static void look(void *ctx, shoali_checkpoint which)
{
    search *s = ctx;
    if ((s->bound == NULL || shoali_checkpoint_order(which, *s->bound) < 0) &&
        shoali_checkpoint_order(which, s->best) > 0)
        s->best = which;
}

shoali_checkpoint shoali_checkpoint_before(const char *out, const shoali_checkpoint *bound)
{
    search s = {.bound = bound};
    each(out, look, &s);
    return s.best;
}

bool shoali_checkpoint_is_unfinished(const char *out, shoali_checkpoint which)
{
    char path[SHOALI_PATH_BYTES];
    const shoali_checkpoint latest = shoali_checkpoint_latest(out);
    if (latest.step > 0)
        return shoali_checkpoint_order(which, latest) > 0;
    return shoali_checkpoint_before(out, &which).step == 0 &&
           shoali_path_join(path, out, "checkpoints/latest") == SHOAL_OK && access(path, F_OK) != 0;
}

/* ------------------------------------------------------------------ removing */

/* Of which rank a file is, by its name; UINT64_MAX: of all. */
static uint64_t rank_of(const char *name)
{
    char part[NAME_BYTES];
    uint64_t rank = 0;
    snprintf(part, sizeof part, "%.*s", (int)strcspn(name, "."), name);
    return shoali_number_after(part, "rank-", 10, &rank) ? rank : UINT64_MAX;
}

typedef enum { ALL, TEMPORARY, ONE_RANKS } extent;

/* TEMPORARY: of ranks below `rank` and of what all share; ONE_RANKS: of this rank. */
static void clear(const char *folder, extent what, uint32_t rank)
{
    char file[SHOALI_PATH_BYTES];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        const char *name = entry->d_name, *dot = strrchr(name, '.');
        const uint64_t of = rank_of(name);
        bool temporary = strstr(name, ".safetensors.tmp") != NULL;
        bool ours = temporary || (dot != NULL && strcmp(dot, ".safetensors") == 0);
        if (what == TEMPORARY)
            ours = temporary && (of == UINT64_MAX || of < rank);
        else if (what == ONE_RANKS)
            ours = ours && of == rank;
        if (ours && (size_t)snprintf(file, sizeof file, "%s/%s", folder, name) < sizeof file)
            unlink(file);
    }
    if (dir != NULL)
        closedir(dir);
}

void shoali_checkpoint_tidy(const char *folder, uint32_t ranks)
{
    clear(folder, TEMPORARY, ranks);
}

/* What was removed does not come back with the power: a file of steps that were undone would pass
 * for one of those that are made anew. What cannot be removed stays. */
static void settle(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

static void remove_one(const char *out, shoali_checkpoint which)
{
    char folder[SHOALI_PATH_BYTES];
    if (shoali_checkpoint_path(out, which, folder) != SHOAL_OK)
        return;
    clear(folder, ALL, 0);
    if (rmdir(folder) != 0) /* it holds something that is not ours, or another rank's */
        settle(folder);
    *strrchr(folder, '/') = '\0';
    settle(folder);
}

typedef struct removal {
    const char *out;
    shoali_checkpoint newest, other;
    uint32_t rank;
} removal;

static void remove_older(void *ctx, shoali_checkpoint which)
{
    const removal *r = ctx;
    if (shoali_checkpoint_order(which, r->newest) < 0 &&
        shoali_checkpoint_order(which, r->other) != 0)
        remove_one(r->out, which);
}

void shoali_checkpoint_keep(const char *out, shoali_checkpoint newest, shoali_checkpoint other)
{
    removal r = {.out = out, .newest = newest, .other = other};
    each(out, remove_older, &r);
}

shoal_status shoali_checkpoint_conclude(const char *out, shoali_checkpoint newest)
{
    if (shoali_checkpoint_order(shoali_checkpoint_latest(out), newest) != 0)
        SHOALI_TRY(shoali_checkpoint_name_latest(out, newest));
    shoali_checkpoint_keep(out, newest, shoali_checkpoint_before(out, &newest));
    return SHOAL_OK;
}

void shoali_checkpoint_drop(const char *out, shoali_checkpoint which, uint32_t rank, bool all)
{
    char folder[SHOALI_PATH_BYTES];
    if (all) {
        remove_one(out, which);
    } else if (shoali_checkpoint_path(out, which, folder) == SHOAL_OK) {
        clear(folder, ONE_RANKS, rank);
        if (rmdir(folder) != 0)
            settle(folder);
    }
}

static void remove_newer(void *ctx, shoali_checkpoint which)
{
    const removal *r = ctx;
    if (shoali_checkpoint_order(which, r->newest) > 0)
        shoali_checkpoint_drop(r->out, which, r->rank, r->rank == 0);
}

void shoali_checkpoint_undo(const char *out, shoali_checkpoint newest, uint32_t rank)
{
    removal r = {.out = out, .newest = newest, .rank = rank};
    each(out, remove_newer, &r);
}
