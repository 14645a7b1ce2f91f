/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/proof.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void shoali_proof_self(shoali_address *address)
{
    struct stat space;
    if (stat("/proc/self/ns/pid", &space) != 0)
        return;
    address->pid = (uint64_t)getpid();
    address->pid_space = space.st_ino;
}

void shoali_proof_name(const char *name, shoali_address *address)
{
    size_t length = name != NULL ? strlen(name) : 0;
    bool good = length > 0 && length < sizeof address->launch;
    for (size_t i = 0; good && i < length; i++)
        good = name[i] > ' ' && name[i] <= '~' && name[i] != '=';
    if (good)
        memcpy(address->launch, name, length + 1);
}

/* Of a number that another process has by now it says "alive", which proves nothing, and harms
 * nothing. Without pidfds (Linux 5.3) a process counts until its parent has asked for its code. */
static bool has_ended(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno == ESRCH || (kill(pid, 0) != 0 && errno == ESRCH);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    bool ended = poll(&end, 1, 0) == 1;
    close(fd);
    return ended;
}

bool shoali_proof_by_kernel(const shoali_address *mine, const shoali_address *theirs)
{
    return mine->pid != 0 && theirs->pid != 0 && theirs->pid <= INT32_MAX &&
           mine->pid_space == theirs->pid_space && mine->boot[0] != '\0' &&
           strcmp(mine->boot, theirs->boot) == 0 && has_ended((pid_t)theirs->pid);
}

/* NAME, or NAME and microseconds. */
static bool names(char *line, const char *launch, uint64_t *at_us_out)
{
    char *end = strchr(line, '\n'), *moment = strchr(line, ' '), *behind;
    if (end == NULL)
        return false;
    *end = '\0';
    *at_us_out = 0;
    if (moment != NULL) {
        *moment++ = '\0';
        *at_us_out = strtoull(moment, &behind, 10);
        if (*behind != '\0' || behind == moment)
            *at_us_out = 0;
    }
    return strcmp(line, launch) == 0;
}

/* A line each, as the launcher adds them. */
bool shoali_proof_by_launcher(const shoali_address *theirs, const char *ledger, uint64_t *at_us_out)
{
    char line[2 * SHOALI_LAUNCH_BYTES];
    FILE *file = ledger[0] != '\0' && theirs->launch[0] != '\0' ? fopen(ledger, "re") : NULL;
    uint64_t at_us = 0;
    bool found = false;
    *at_us_out = 0;
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = names(line, theirs->launch, &at_us);
    fclose(file);
    *at_us_out = found ? at_us : 0; /* not that of whoever stands in the last line */
    return found;
}
