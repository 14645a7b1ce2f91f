/* SPDX-License-Identifier: Apache-2.0 */
/* A run folder has one holder. Rank 0 locks OUT/lock for itself alone, sees that no rank of another
 * run is there, signs it, and shares it with its other ranks: as long as one of them lives, nobody
 * else gets in, whoever was lost. What another run has left is gone on from, or left alone. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/plain_file.h"
#include "files/checkpoint_folder.h"
#include "files/safetensors.h"
#include "folder/run_file.h"
#include "folder/written.h"

static bool is_same(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

static shoal_status in_use(const char *folder, int fd)
{
    char holder[160] = "";
    ssize_t length = pread(fd, holder, sizeof holder - 1, 0);
    holder[length > 0 ? strcspn(holder, "\n") : 0] = '\0';
    shoal_status status = shoali_fail(SHOAL_EINVAL, "%s is in use by another run (%s)", folder,
                                      holder[0] != '\0' ? holder : "which is just beginning");
    shoali_error_advice("Wait for its end and go on with --resume %s, or take another --out.",
                        folder);
    return status;
}

shoal_status shoali_make_folders(const char *path)
{
    char part[SHOALI_PATH_BYTES];
    size_t length = strlen(path);
    if (length >= sizeof part)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) == 0)
            SHOALI_TRY(shoali_sync_folder_of(part));
        else if (errno != EEXIST && errno != EISDIR)
            return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", part);
    }
    return shoali_plain_folder(path);
}

static bool is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* ------------------------------------------------------------------ lock */

/* Whether the process that signed it was on this host and is gone: its ranks are about to end. */
static bool is_orphaned(int fd)
{
    char text[128] = "", host[65] = "", here[65] = "";
    static const char start[] = "process ", middle[] = " on host ";
    char *rest = NULL;
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    gethostname(here, sizeof here - 1);
    if (length <= 0 || strncmp(text, start, sizeof start - 1) != 0)
        return false;
    long pid = strtol(text + sizeof start - 1, &rest, 10);
    if (pid <= 0 || pid > INT32_MAX || strncmp(rest, middle, sizeof middle - 1) != 0)
        return false;
    rest += sizeof middle - 1;
    snprintf(host, sizeof host, "%.*s", (int)strcspn(rest, ",\n"), rest);
    return strcmp(host, here) == 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* How: LOCK_EX or LOCK_SH. False: others have it, and keep it for longer than who ends does. */
static bool take_lock(int fd, int how)
{
    enum { PAUSE_US = 20 * 1000, ENDING_US = 500 * 1000, ORPHANED_US = 10 * 1000 * 1000 };
    const uint64_t began_us = shoali_now_us();
    while (flock(fd, how | LOCK_NB) != 0) {
        const uint64_t waited_us = shoali_now_us() - began_us;
        if (errno != EWOULDBLOCK ||
            waited_us > (is_orphaned(fd) ? (uint64_t)ORPHANED_US : (uint64_t)ENDING_US))
            return false;
        const struct timespec pause = {.tv_nsec = PAUSE_US * 1000};
        nanosleep(&pause, NULL);
    }
    return true;
}

static shoal_status sign(int fd, const char *folder, uint64_t membership)
{
    char holder[160], host[65] = "";
    gethostname(host, sizeof host - 1);
    int length = snprintf(holder, sizeof holder,
                          "process %d on host %s, members' epoch %" PRIu64 "\n", (int)getpid(),
                          host, membership);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, holder, (size_t)length, 0) != length)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s/lock", folder);
    return SHOAL_OK;
}

shoal_status shoali_folder_sign(const shoal_train *train)
{
    return train->folder.lock == 0
               ? SHOAL_OK
               : sign(train->folder.lock - 1, train->desc.out, train->members.epoch);
}

static shoal_status open_lock(const char *folder, int how, int *fd_out)
{
    char path[SHOALI_PATH_BYTES];
    SHOALI_TRY(shoali_path_join(path, folder, "lock"));
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot open %s", path);
    if (!take_lock(fd, how)) {
        shoal_status status = errno == EWOULDBLOCK
                                  ? in_use(folder, fd)
                                  : shoali_fail_os(SHOAL_EIO, errno, "cannot lock %s", path);
        close(fd);
        return status;
    }
    *fd_out = fd;
    return SHOAL_OK;
}

static shoal_status lock(shoal_train *train, const char *folder, int how)
{
    int fd;
    SHOALI_TRY(open_lock(folder, how, &fd));
    train->folder.lock = fd + 1;
    return SHOAL_OK;
}

bool shoali_folder_goes_on(const shoal_train *train)
{
    return train->desc.resume != NULL && is_same(train->desc.resume, train->desc.out);
}

/* What a run leaves that nobody may write over. */
static bool holds_run(const char *folder)
{
    char path[SHOALI_PATH_BYTES];
    struct stat metrics;
    return shoali_checkpoint_before(folder, NULL).step > 0 ||
           (shoali_path_join(path, folder, "metrics.jsonl") == SHOAL_OK &&
            stat(path, &metrics) == 0 && metrics.st_size > 0);
}

/* Alone for a moment: nobody of another run is there. Then with the other ranks. */
static shoal_status hold(shoal_train *train, const char *folder)
{
    SHOALI_TRY(lock(train, folder, LOCK_EX));
    if (!shoali_folder_goes_on(train) && holds_run(folder)) {
        shoal_status status = shoali_fail(SHOAL_EINVAL, "%s holds a run already", folder);
        shoali_error_advice("Go on with it: --resume %s; or take another --out.", folder);
        return status;
    }
    SHOALI_TRY(shoali_folder_sign(train));
    return take_lock(train->folder.lock - 1, LOCK_SH)
               ? SHOAL_OK
               : shoali_fail_os(SHOAL_EIO, errno, "cannot lock %s/lock", folder);
}

shoal_status shoali_folder_enter(shoal_train *train)
{
    const char *folder = train->desc.out, *resume = train->desc.resume;
    shoal_error refused = {0};
    float news[2] = {0}; /* refusals; who makes the folder */
    if (resume != NULL && access(resume, F_OK) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "no run to go on from in %s", resume);
    if (resume != NULL)
        SHOALI_TRY(shoali_run_file_check_real(resume));
    if (folder == NULL)
        return SHOAL_OK;
    news[1] = !is_there(folder);
    SHOALI_TRY(shoali_make_folders(folder));
    if (train->members.epoch > 0)
        return lock(train, folder, LOCK_SH);
    if (train->rank == 0 && hold(train, folder) != SHOAL_OK) {
        shoali_error_get(&refused);
        news[0] = 1; /* the others are not to take it for a loss */
    }
    train->folder.fresh = news[1] > 0;
    const shoal_status met = shoali_train_meet(train, news, 2, SHOAL_SUM, "run folder");
    train->folder.fresh = news[1] > 0;
    if (refused.status != SHOAL_OK)
        return shoali_error_set(&refused);
    SHOALI_TRY(met);
    if (news[0] > 0)
        return shoali_fail(SHOAL_EINVAL, "rank 0 may not have the run folder %s; it says why",
                           folder);
    if (train->rank > 0 && !is_there(folder))
        return shoali_fail(SHOAL_EIO, "rank 0 could not begin in %s; it says why", folder);
    return train->rank == 0 ? SHOAL_OK : lock(train, folder, LOCK_SH);
}

shoal_status shoali_folder_claim(const char *folder, int *fd_out)
{
    int fd;
    SHOALI_TRY(shoali_make_folders(folder));
    SHOALI_TRY(open_lock(folder, LOCK_EX, &fd));
    shoal_status status = SHOAL_OK;
    if (holds_run(folder)) {
        status = shoali_fail(SHOAL_EINVAL, "%s holds a run already", folder);
        shoali_error_advice("Take another --out, or remove it.");
    } else {
        status = sign(fd, folder, 0);
    }
    if (status == SHOAL_OK)
        *fd_out = fd;
    else
        close(fd);
    return status;
}

shoal_status shoali_folder_undo(shoal_train *train)
{
    float arrived = 1;
    if (train->desc.out == NULL || train->desc.resume == NULL || train->members.epoch > 0)
        return SHOAL_OK;
    if (shoali_folder_goes_on(train))
        shoali_checkpoint_undo(train->desc.out, train->folder.saved, train->rank);
    if (shoali_folder_goes_on(train) && train->rank == 0)
        SHOALI_TRY(shoali_metrics_cut_others(train->desc.out, train->workers, train->step));
    return shoali_train_meet(train, &arrived, 1, SHOAL_SUM, "run folder");
}

void shoali_folder_give_up(const shoal_train *train)
{
    static const char *const ours[] = {"run.json", "events.jsonl", "metrics.jsonl", "lock"};
    const char *folder = train->desc.out;
    char path[SHOALI_PATH_BYTES];
    if (!train->folder.fresh || train->folder.lock == 0 ||
        flock(train->folder.lock - 1, LOCK_EX | LOCK_NB) != 0 || holds_run(folder))
        return;
    for (uint32_t rank = 1; rank < train->workers; rank++)
        if (shoali_path_number(path, folder, "metrics.", rank, ".jsonl") == SHOAL_OK)
            (void)unlink(path);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (shoali_path_join(path, folder, ours[i]) == SHOAL_OK)
            (void)unlink(path);
    (void)rmdir(folder);
}

void shoali_folder_release(shoal_train *train)
{
    if (train->folder.lock > 0)
        close(train->folder.lock - 1);
    train->folder.lock = 0;
}
