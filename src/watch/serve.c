/* SPDX-License-Identifier: Apache-2.0 */
/* The status socket of one rank, served between two rounds of the progress thread; nothing here
 * waits. A client is
 *
 *   ASKING --8 bytes--> ANSWERED (what does not fit into the socket leaves later) --> closed
 *
 * and has a second from each part to the next. A stranger learns nothing: the folder is this user's
 * alone, and a caller of another user is hung up on. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/random.h"
#include "watch/told.h"
#include "watch/watch.h"

enum { CLIENT_US = 1000000, STALE_LOOKED_AT = 256, MADE_IN_S = 60 };

/* ---------------------------------------------------------------- where */

bool shoali_watch_folder(char *out, size_t bytes)
{
    struct stat about;
    const char *own = getenv("SHOAL_STATUS_DIR"), *run = getenv("XDG_RUNTIME_DIR");
    int length;
    if (own != NULL && own[0] != '\0')
        length = snprintf(out, bytes, "%s", own);
    else if (run != NULL && run[0] != '\0')
        length = snprintf(out, bytes, "%s/shoal", run);
    else
        length = snprintf(out, bytes, "/tmp/shoal-%u", (unsigned)geteuid());
    if (length < 0 || (size_t)length >= bytes)
        return false;
    (void)mkdir(out, 0700);
    return lstat(out, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
           (about.st_mode & 077) == 0;
}

static bool nobody_listens(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

/* Bound, but not yet listening: listen_at. */
static bool is_being_made(const char *name, const char *path)
{
    struct stat about;
    return name[0] == '.' && (stat(path, &about) != 0 || time(NULL) - about.st_mtime < MADE_IN_S);
}

/* The ranks of one job come at the same time: were each to call all others, the calls would grow
 * with the square of the ranks while they join. */
static bool is_of_this_job(const shoali_watch *w, const char *file)
{
    shoali_watch_name name;
    return shoali_watch_name_parse(file, &name) && name.number == w->desc.number;
}

/* Whoever was killed left its socket behind. */
static void sweep(const shoali_watch *w, const char *folder)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    int looked = 0;
    for (struct dirent *e = readdir(dir); e != NULL && looked < STALE_LOOKED_AT; e = readdir(dir)) {
        int length = snprintf(at.sun_path, sizeof at.sun_path, "%s/%s", folder, e->d_name);
        bool fits = length > 0 && (size_t)length < sizeof at.sun_path;
        looked++;
        if (fits && e->d_type == DT_SOCK && !is_of_this_job(w, e->d_name) &&
            !is_being_made(e->d_name, at.sun_path) && nobody_listens(&at))
            (void)unlink(at.sun_path);
    }
    closedir(dir);
}

static uint64_t callers_now(const shoali_watch *w)
{
    return *(w->desc.callers_us != NULL ? w->desc.callers_us : w->desc.now_us);
}

/* Of an owner that does not wait for anything, and comes by itself, true. */
static bool wake_by(const shoali_watch *w, int how, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return w->desc.epoll_fd < 0 || epoll_ctl(w->desc.epoll_fd, how, fd, &event) == 0;
}

/* A socket that is there and refuses looks like one that a killed process left: it gets its name
 * when it listens. */
static bool listen_at(shoali_watch *w, const char *folder)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    shoali_watch_name name = {.number = w->desc.number, .rank = w->desc.me};
    char path[sizeof w->path];
    const size_t in_folder = strlen(folder) + 1;
    shoali_watch_plain(w->label, name.job);
    if (shoali_random(&name.random, sizeof name.random) != SHOAL_OK)
        return false;
    (void)snprintf(path, sizeof path, "%s/", folder);
    if (in_folder >= sizeof path ||
        !shoali_watch_name_format(&name, path + in_folder, sizeof path - in_folder)) {
        errno = ENAMETOOLONG;
        return false;
    }
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s/.%u.%08x", folder, w->desc.me, name.random);
    w->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (w->listener < 0 || bind(w->listener, (const struct sockaddr *)&at, sizeof at) != 0)
        return false;
    memcpy(w->path, at.sun_path, sizeof at.sun_path); /* what is to be taken away in the end */
    if (listen(w->listener, SOMAXCONN) != 0 || rename(at.sun_path, path) != 0)
        return false;
    memcpy(w->path, path, sizeof w->path);
    return wake_by(w, EPOLL_CTL_ADD, w->listener, EPOLLIN);
}

void shoali_watch_serve_open(shoali_watch *w)
{
    char folder[SHOALI_WATCH_PATH_BYTES];
    if (!shoali_watch_folder(folder, sizeof folder)) {
        shoali_log(INFO, "no status socket: %s is not a folder of this user alone", folder);
        return;
    }
    sweep(w, folder);
    if (listen_at(w, folder)) {
        shoali_log(DEBUG, "status socket %s", w->path);
        return;
    }
    shoali_log(INFO, "no status socket in %s: %s", folder, strerror(errno));
    shoali_watch_serve_close(w);
}

/* ---------------------------------------------------------------- clients */

static void hang_up(shoali_watch_client *c)
{
    if (c->fd >= 0)
        close(c->fd); /* leaves epoll, too */
    shoali_free(c->answer);
    *c = (shoali_watch_client){.fd = -1};
}

/* The oldest makes room: it may be stopped, and whoever asks now is not. */
static shoali_watch_client *free_place(shoali_watch *w)
{
    shoali_watch_client *oldest = &w->clients[0];
    for (int i = 0; i < SHOALI_WATCH_CLIENTS; i++) {
        if (w->clients[i].fd < 0)
            return &w->clients[i];
        if (w->clients[i].until_us < oldest->until_us)
            oldest = &w->clients[i];
    }
    hang_up(oldest);
    return oldest;
}

static void welcome(shoali_watch *w, int fd)
{
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof who;
    shoali_watch_client *c = NULL;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
                 (who.uid == geteuid() || who.uid == 0);
    if (known)
        c = free_place(w);
    if (c == NULL || !wake_by(w, EPOLL_CTL_ADD, fd, EPOLLIN)) {
        close(fd);
        return;
    }
    *c = (shoali_watch_client){.fd = fd, .until_us = callers_now(w) + CLIENT_US};
}

/* The answer, as of now. */
static bool answer(const shoali_watch *w, shoali_watch_client *c)
{
    shoali_status_head head = {
        .rank = w->desc.me, .ranks = w->desc.ranks, .age_us = shoali_watch_since(w, w->started_us)};
    snprintf(head.job, sizeof head.job, "%s", w->label);
    uint32_t last_ms;
    if (shoali_told_is_question(c->ask, &last_ms)) {
        c->answer = shoali_told_answer(&head, w->ring, *w->desc.now_us, last_ms, &c->answer_bytes);
        return c->answer != NULL;
    }
    if (!shoali_status_ask_decode(c->ask, sizeof c->ask))
        return false;
    char notes[SHOALI_WATCH_NOTES_BYTES];
    size_t rows_end = SHOALI_STATUS_HEAD_BYTES + (size_t)w->desc.ranks * SHOALI_STATUS_ROW_BYTES;
    size_t notes_bytes = w->desc.host.notes(w->desc.host.ctx, notes);
    c->answer_bytes = rows_end + notes_bytes;
    c->answer = shoali_alloc(c->answer_bytes);
    if (c->answer == NULL)
        return false;
    shoali_status_head_encode(&head, c->answer);
    for (uint32_t i = 0; i < w->desc.ranks; i++) {
        shoali_status_row row;
        shoali_watch_row(w, i, &row);
        shoali_status_row_encode(&row, c->answer + SHOALI_STATUS_HEAD_BYTES +
                                           (size_t)i * SHOALI_STATUS_ROW_BYTES);
    }
    if (notes_bytes > 0)
        memcpy(c->answer + rows_end, notes, notes_bytes);
    return true;
}

/* False: done with it, one way or the other. */
static bool go_on(const shoali_watch *w, shoali_watch_client *c)
{
    while (c->asked < sizeof c->ask) {
        ssize_t got = recv(c->fd, c->ask + c->asked, sizeof c->ask - c->asked, MSG_DONTWAIT);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR) && callers_now(w) < c->until_us;
        c->asked += (size_t)got;
    }
    if (c->answer == NULL && (!answer(w, c) || !wake_by(w, EPOLL_CTL_MOD, c->fd, EPOLLOUT)))
        return false;
    while (c->sent < c->answer_bytes) {
        ssize_t sent = send(c->fd, c->answer + c->sent, c->answer_bytes - c->sent,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0)
            return (errno == EAGAIN || errno == EINTR) && callers_now(w) < c->until_us;
        c->sent += (size_t)sent;
        c->until_us = callers_now(w) + CLIENT_US; /* events are many, and it takes them */
    }
    return false;
}

void shoali_watch_serve(shoali_watch *w)
{
    if (w == NULL || w->listener < 0)
        return;
    for (int i = 0; i < SHOALI_WATCH_CLIENTS; i++) {
        int fd = accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            break;
        welcome(w, fd);
    }
    for (int i = 0; i < SHOALI_WATCH_CLIENTS; i++)
        if (w->clients[i].fd >= 0 && !go_on(w, &w->clients[i]))
            hang_up(&w->clients[i]);
}

void shoali_watch_forked(shoali_watch *w)
{
    if (w == NULL)
        return;
    for (int i = 0; i < SHOALI_WATCH_CLIENTS; i++)
        if (w->clients[i].fd >= 0)
            hang_up(&w->clients[i]);
    if (w->listener >= 0)
        close(w->listener);
    w->listener = -1;
}

void shoali_watch_serve_close(shoali_watch *w)
{
    shoali_watch_forked(w);
    if (w->path[0] != '\0')
        (void)unlink(w->path);
}
