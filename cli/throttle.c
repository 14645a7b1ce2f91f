/* SPDX-License-Identifier: Apache-2.0 */
#include "throttle.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "lab.h"

enum { PERIOD_US = 20000, RANKS_MAX = LAB_MAX_HOSTS, TRIES = 200, PAUSE_MS = 20 };

static char base[PATH_MAX - 64]; /* folder of our groups' parent */
static int version, owner_pid;   /* of cgroups, 0: no groups; of the process that made them */
static bool grouped[RANKS_MAX];

/* Where the controller of processor time is mounted: v1 with the option cpu, else v2. */
static bool find_mount(char *path, size_t bytes)
{
    char line[1024], at[512], type[32], options[512];
    FILE *file = fopen("/proc/self/mounts", "re");
    version = 0;
    while (file != NULL && version != 1 && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%*s %511s %31s %511s", at, type, options) != 3)
            continue;
        char padded[520];
        snprintf(padded, sizeof padded, ",%s,", options);
        int found = strcmp(type, "cgroup") == 0 && strstr(padded, ",cpu,") != NULL ? 1
                    : strcmp(type, "cgroup2") == 0                                 ? 2
                                                                                   : 0;
        if (found == 0)
            continue;
        version = found;
        snprintf(path, bytes, "%s", at);
    }
    if (file != NULL)
        fclose(file);
    return version != 0;
}

/* This process' group: "1:cpu,cpuacct:/user" or "0::/user". */
static void find_own(char *path, size_t bytes)
{
    char line[1024];
    FILE *file = fopen("/proc/self/cgroup", "re");
    snprintf(path, bytes, "%s", "");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *names = strchr(line, ':'), *group = names != NULL ? strchr(names + 1, ':') : NULL;
        if (group == NULL)
            continue;
        char padded[1024];
        snprintf(padded, sizeof padded, ",%.*s,", (int)(group - names - 1), names + 1);
        group[strcspn(group, "\n")] = '\0';
        if (version == 1 ? strstr(padded, ",cpu,") != NULL : group == names + 1)
            snprintf(path, bytes, "%s", strcmp(group + 1, "/") == 0 ? "" : group + 1);
    }
    if (file != NULL)
        fclose(file);
}

static void name(char *path, size_t bytes, uint32_t rank, const char *file)
{
    snprintf(path, bytes, "%s/shoal-lab-%d-%u%s%s", base, owner_pid, rank, file[0] ? "/" : "",
             file);
}

static bool put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return ok;
}

static bool make_group(uint32_t rank, double share)
{
    char path[PATH_MAX], text[64];
    int quota_us = (int)(share * PERIOD_US);
    name(path, sizeof path, rank, "");
    if (mkdir(path, 0755) != 0)
        return false;
    grouped[rank] = true;
    if (version == 2) {
        name(path, sizeof path, rank, "cpu.max");
        snprintf(text, sizeof text, "%d %d", quota_us, PERIOD_US);
        return put(path, text);
    }
    name(path, sizeof path, rank, "cpu.cfs_period_us");
    snprintf(text, sizeof text, "%d", PERIOD_US);
    if (!put(path, text))
        return false;
    name(path, sizeof path, rank, "cpu.cfs_quota_us");
    snprintf(text, sizeof text, "%d", quota_us);
    return put(path, text);
}

/* True: none is left. */
static bool remove_groups(void)
{
    bool gone = true;
    char path[PATH_MAX];
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++) {
        if (!grouped[rank])
            continue;
        name(path, sizeof path, rank, "");
        grouped[rank] = rmdir(path) != 0 && errno != ENOENT;
        gone = gone && !grouped[rank];
    }
    return gone;
}

/* The other end of the pipe is in the launcher and in all that it forks and that is no rank: its
 * end says that the lab has none of them left, and so no rank either. */
static void sweep_later(int lab)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    char byte;
    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    while (read(lab, &byte, 1) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < TRIES && !remove_groups(); i++)
        nanosleep(&pause, NULL);
    _exit(0);
}

static bool start_sweeper(void)
{
    int lab[2];
    if (pipe2(lab, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        close(lab[1]);
        sweep_later(lab[0]);
    }
    close(lab[0]);
    return pid > 0;
}

static bool refuse(const char *verb, const char *what)
{
    fprintf(stderr,
            "shoal %s: --lab throttle needs a control group of the cpu controller, and %s (%s); "
            "slow=R:FACTORx needs none\n",
            verb, what, strerror(errno));
    (void)remove_groups();
    return false;
}

bool throttle_begin(const char *verb, const double *shares, uint32_t ranks)
{
    char mount[512], own[512], controllers[sizeof base + 32];
    bool any = false;
    for (uint32_t rank = 0; rank < ranks && rank < RANKS_MAX; rank++)
        any = any || shares[rank] > 0;
    if (!any)
        return true;
    errno = ENOENT;
    if (!find_mount(mount, sizeof mount))
        return refuse(verb, "none is mounted");
    find_own(own, sizeof own);
    snprintf(base, sizeof base, "%s%s", mount, own);
    owner_pid = getpid();
    snprintf(controllers, sizeof controllers, "%s/cgroup.subtree_control", base);
    if (version == 2 && !put(controllers, "+cpu"))
        return refuse(verb, "it cannot be handed on here");
    for (uint32_t rank = 0; rank < ranks && rank < RANKS_MAX; rank++)
        if (shares[rank] > 0 && !make_group(rank, shares[rank]))
            return refuse(verb, "none can be made");
    return start_sweeper() || refuse(verb, "nobody would remove it");
}

bool throttle_join(const char *verb, uint32_t rank)
{
    char path[PATH_MAX];
    if (rank >= RANKS_MAX || !grouped[rank])
        return true;
    name(path, sizeof path, rank, "cgroup.procs");
    if (put(path, "0"))
        return true;
    (void)cli_fail(verb, "%s: %s", path, strerror(errno));
    return false;
}
