/* SPDX-License-Identifier: Apache-2.0 */
#include "own_status.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Where docs/status.md says that they are. */
static int folder_of(char *out, size_t bytes)
{
    const char *own = getenv("SHOAL_STATUS_DIR"), *run = getenv("XDG_RUNTIME_DIR");
    if (own != NULL && own[0] != '\0')
        return snprintf(out, bytes, "%s", own);
    if (run != NULL && run[0] != '\0')
        return snprintf(out, bytes, "%s/shoal", run);
    return snprintf(out, bytes, "/tmp/shoal-%u", (unsigned)geteuid());
}

static bool is_ours(const struct sockaddr_un *at)
{
    struct ucred who = {.pid = -1};
    socklen_t bytes = sizeof who;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool ours = fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 &&
                      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
                      who.pid == getpid();
    if (fd >= 0)
        close(fd);
    return ours;
}

bool own_status_path(char *out, size_t bytes)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char folder[sizeof at.sun_path];
    const int length = folder_of(folder, sizeof folder);
    DIR *dir = length > 0 && (size_t)length < sizeof folder ? opendir(folder) : NULL;
    bool found = false;
    if (dir == NULL)
        return false;
    for (struct dirent *e = readdir(dir); e != NULL && !found; e = readdir(dir)) {
        const int used = snprintf(at.sun_path, sizeof at.sun_path, "%s/%s", folder, e->d_name);
        found = e->d_type == DT_SOCK && e->d_name[0] != '.' && used > 0 &&
                (size_t)used < sizeof at.sun_path && is_ours(&at) &&
                (size_t)snprintf(out, bytes, "%s", at.sun_path) < bytes;
    }
    closedir(dir);
    return found;
}
