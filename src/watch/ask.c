/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of status sockets. All ranks of a job that are here are asked at once, as some may
 * be stopped: their kernel takes the question, but nobody answers. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "watch/told.h"
#include "watch/watch.h"

enum { MAX_JOBS = 64, MAX_OF_A_JOB = 64, MAX_ASKED = 512, FIRST_BYTES = 4096 };

static const size_t MOST_BYTES = SHOALI_STATUS_HEAD_BYTES +
                                 (size_t)SHOALI_STATUS_MAX_RANKS * SHOALI_STATUS_ROW_BYTES +
                                 SHOALI_WATCH_NOTES_BYTES;

typedef struct asked {
    int fd;
    uint32_t job;
    uint8_t *bytes;
    size_t got, capacity;
    bool whole; /* of those of which every one is to answer */
} asked;

/* The sockets of one job: names may be the same, numbers are not. */
typedef struct found_job {
    char name[SHOALI_WATCH_JOB_CHARS + 1];
    uint32_t number, asked, open; /* of the sockets, those from which something may come */
    struct timespec since;        /* when the oldest of its sockets was made */
    shoal_status status;          /* of the last that did not answer */
    shoal_watch *watch;
} found_job;

typedef struct asking {
    asked one[MAX_ASKED];
    struct pollfd polled[MAX_ASKED];
    uint32_t count;
    found_job job[MAX_JOBS];
    uint32_t jobs;
    uint8_t question[SHOALI_STATUS_ASK_BYTES];
    bool every;      /* each rank is to answer, not the first of a job */
    uint32_t number; /* every: of the job's sockets */
} asking;

/* ---------------------------------------------------------------- asking */

static found_job *job_of(asking *a, const shoali_watch_name *name)
{
    for (uint32_t i = 0; i < a->jobs; i++)
        if (a->job[i].number == name->number && strcmp(a->job[i].name, name->job) == 0)
            return &a->job[i];
    if (a->jobs == MAX_JOBS)
        return NULL;
    found_job *made = &a->job[a->jobs];
    *made = (found_job){.number = name->number, .status = SHOAL_ETIMEDOUT};
    memcpy(made->name, name->job, sizeof made->name);
    return made;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static void count_socket(found_job *job, const char *path)
{
    struct stat made = {0};
    if (stat(path, &made) == 0 && (job->asked == 0 || is_before(&made.st_mtim, &job->since)))
        job->since = made.st_mtim;
    job->asked++;
    job->open++;
}

/* A job counts from its first socket on at which somebody listens. */
static void ask_one(asking *a, const char *path, const shoali_watch_name *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    found_job *job = job_of(a, name);
    if ((a->every && name->number != a->number) || job == NULL || job->asked == MAX_OF_A_JOB ||
        a->count == MAX_ASKED || strlen(path) >= sizeof at.sun_path)
        return;
    memcpy(at.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0 &&
        send(fd, a->question, sizeof a->question, MSG_NOSIGNAL) == (ssize_t)sizeof a->question) {
        const uint32_t index = (uint32_t)(job - a->job);
        a->jobs += index == a->jobs;
        count_socket(job, path);
        a->one[a->count++] = (asked){.fd = fd, .job = index};
        return;
    }
    if (fd >= 0 && errno == ECONNREFUSED)
        (void)unlink(path); /* its process was killed */
    if (fd >= 0)
        close(fd);
}

/* name NULL: all jobs. */
static void ask_folder(asking *a, const char *folder, const char *name)
{
    char plain[SHOALI_WATCH_JOB_CHARS + 1];
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    shoali_watch_plain(name != NULL ? name : "", plain);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char path[SHOALI_WATCH_PATH_BYTES + sizeof e->d_name];
        shoali_watch_name file;
        if (e->d_type != DT_SOCK || !shoali_watch_name_parse(e->d_name, &file) ||
            (name != NULL && strcmp(file.job, plain) != 0))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ask_one(a, path, &file);
    }
    closedir(dir);
}

/* ---------------------------------------------------------------- answers */

/* PENDING: there is more to come. watch_out NULL: it is no status. */
static shoal_status read_some(asked *one, shoal_watch **watch_out)
{
    for (;;) {
        if (one->got == one->capacity) {
            size_t more = one->capacity == 0 ? FIRST_BYTES : 2 * one->capacity;
            uint8_t *bytes = more <= 2 * MOST_BYTES
                                 ? shoali_realloc(one->bytes, one->capacity, more)
                                 : NULL;
            if (bytes == NULL)
                return SHOAL_ENOMEM;
            one->bytes = bytes;
            one->capacity = more;
        }
        ssize_t got = recv(one->fd, one->bytes + one->got, one->capacity - one->got, MSG_DONTWAIT);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR
                       ? SHOAL_PENDING
                       : shoali_fail_os(SHOAL_EIO, errno, "a status socket failed");
        if (got == 0)
            return watch_out == NULL ? SHOAL_OK
                                     : shoali_watch_read(one->bytes, one->got, watch_out);
        one->got += (size_t)got;
    }
}

static void stop_asking(asking *a, asked *one)
{
    if (one->fd < 0)
        return;
    close(one->fd);
    one->fd = -1;
    a->job[one->job].open--;
}

/* The first whole answer of a job counts; an end without one only when no other can come. */
static void hear(asking *a, asked *one)
{
    found_job *job = &a->job[one->job];
    if (job->watch != NULL) {
        stop_asking(a, one);
        return;
    }
    const shoal_status status = read_some(one, a->every ? NULL : &job->watch);
    if (status == SHOAL_PENDING)
        return;
    one->whole = status == SHOAL_OK;
    job->status = status;
    stop_asking(a, one);
}

static bool all_heard(const asking *a)
{
    for (uint32_t i = 0; i < a->jobs; i++)
        if (a->job[i].watch == NULL && a->job[i].open > 0)
            return false;
    return true;
}

static void hear_all(asking *a, uint64_t deadline_us)
{
    while (!all_heard(a)) {
        const uint64_t now_us = shoali_now_us();
        if (now_us >= deadline_us)
            return;
        for (uint32_t i = 0; i < a->count; i++)
            a->polled[i] = (struct pollfd){.fd = a->one[i].fd, .events = POLLIN};
        (void)poll(a->polled, a->count, (int)((deadline_us - now_us + 999) / 1000));
        for (uint32_t i = 0; i < a->count; i++)
            if (a->one[i].fd >= 0 && a->polled[i].revents != 0)
                hear(a, &a->one[i]);
    }
}

static void forget(asking *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->one[i].fd >= 0)
            close(a->one[i].fd);
        shoali_free(a->one[i].bytes);
    }
    for (uint32_t i = 0; i < a->jobs; i++)
        shoal_watch_close(a->job[i].watch);
    shoali_free(a);
}

/* ---------------------------------------------------------------- one of them */

static shoal_status nobody_here(const char *folder, const char *job)
{
    if (job == NULL)
        (void)shoali_fail(SHOAL_EINVAL, "no job runs on this host, as far as %s shows", folder);
    else
        (void)shoali_fail(SHOAL_EINVAL,
                          "no job of the name or number '%s' runs on this host, as far as %s shows",
                          job, folder);
    shoali_error_advice("Ask on a host, and as the user, of one of its ranks.");
    return SHOAL_EINVAL;
}

/* Longest running first; those that do not answer last. By their sockets' times, as the ages that
 * ranks tell depend on which of a job's ranks is the first to answer, and when. */
static int by_age(const void *one, const void *other)
{
    const found_job *a = one, *b = other;
    if ((a->watch == NULL) != (b->watch == NULL))
        return a->watch == NULL ? 1 : -1;
    if (is_before(&a->since, &b->since) || is_before(&b->since, &a->since))
        return is_before(&a->since, &b->since) ? -1 : 1;
    return a->number != b->number ? (a->number < b->number ? -1 : 1) : strcmp(a->name, b->name);
}

static shoal_status take(found_job *job, shoal_watch **watch_out)
{
    if (job->watch == NULL && job->status != SHOAL_ETIMEDOUT)
        return job->status;
    if (job->watch == NULL)
        return shoali_fail(SHOAL_ETIMEDOUT,
                           "%u rank%s of the job asked, and none answers: are they stopped?",
                           job->asked, job->asked == 1 ? "" : "s");
    *watch_out = job->watch;
    memcpy(job->watch->name, job->name, sizeof job->name);
    job->watch->number = job->number;
    job->watch = NULL;
    return SHOAL_OK;
}

/* Who was stopped or cut off while the others went on to another epoch bears the same name. */
static shoal_status take_only(asking *a, shoal_watch **watch_out)
{
    char names[512] = "";
    uint32_t heard = 0;
    for (uint32_t i = 0; i < a->jobs; i++)
        heard += a->job[i].watch != NULL;
    if (a->jobs == 1 || heard == 1)
        return take(&a->job[0], watch_out);
    for (uint32_t i = 0; i < a->jobs; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%u (%s)", i > 0 ? ", " : "", i + 1,
                 a->job[i].name);
    }
    return shoali_fail(SHOAL_EINVAL, "several jobs run here: %.400s; say which by its number",
                       names);
}

/* Of all jobs here, a number in their order. */
static bool is_number(const char *place, uint32_t *number_out)
{
    const size_t digits = strspn(place, "0123456789");
    if (digits == 0 || digits > 3 || place[digits] != '\0')
        return false;
    *number_out = (uint32_t)strtoul(place, NULL, 10);
    return true;
}

static shoal_status not_ours(const char *folder)
{
    const shoal_status status = shoali_fail(SHOAL_EIO, "%s is not a folder of this user alone",
                                            folder);
    shoali_error_advice("Set SHOAL_STATUS_DIR to one that is, here and for the jobs.");
    return status;
}

static shoal_status ask_named(asking *a, const char *place, uint64_t deadline_us,
                              shoal_watch **watch_out)
{
    char folder[SHOALI_WATCH_PATH_BYTES];
    const bool any = place == NULL || place[0] == '\0';
    uint32_t number = 0;
    if (!shoali_watch_folder(folder, sizeof folder))
        return not_ours(folder);
    ask_folder(a, folder, any ? NULL : place);
    const bool by_number = a->jobs == 0 && !any && is_number(place, &number);
    if (by_number)
        ask_folder(a, folder, NULL);
    hear_all(a, deadline_us);
    qsort(a->job, a->jobs, sizeof a->job[0], by_age);
    if (a->jobs == 0 || (by_number && (number == 0 || number > a->jobs)))
        return nobody_here(folder, any ? NULL : place);
    return by_number ? take(&a->job[number - 1], watch_out) : take_only(a, watch_out);
}

shoal_status shoal_watch_ask(const char *place, int64_t timeout_us, shoal_watch **watch_out)
{
    if (watch_out == NULL || timeout_us <= 0)
        return shoali_fail(SHOAL_EINVAL, "no time to ask, or no place for the answer");
    asking *a = shoali_alloc(sizeof *a);
    if (a == NULL)
        return SHOAL_ENOMEM;
    shoali_status_ask_encode(a->question);
    const uint64_t deadline_us = shoali_now_us() + (uint64_t)timeout_us;
    shoal_status status;
    if (place != NULL && strchr(place, '/') != NULL) {
        ask_one(a, place, &(shoali_watch_name){.job = "socket"});
        hear_all(a, deadline_us);
        status = a->jobs > 0 ? take(&a->job[0], watch_out)
                             : shoali_fail(SHOAL_EINVAL, "nobody answers at %.100s", place);
    } else {
        status = ask_named(a, place, deadline_us, watch_out);
    }
    forget(a);
    return status;
}

/* ---------------------------------------------------------------- all of them */

/* One that does not answer is a name and no ranks. */
static shoal_watch *silent(const found_job *job)
{
    shoal_watch *watch = shoali_alloc(sizeof *watch);
    if (watch != NULL)
        snprintf(watch->head.job, sizeof watch->head.job, "%s", job->name);
    return watch;
}

shoal_status shoal_watch_all(int64_t timeout_us, shoal_watch **watch_out)
{
    char folder[SHOALI_WATCH_PATH_BYTES];
    if (watch_out == NULL || timeout_us <= 0)
        return shoali_fail(SHOAL_EINVAL, "no time to ask, or no place for the answer");
    if (!shoali_watch_folder(folder, sizeof folder))
        return not_ours(folder);
    asking *a = shoali_alloc(sizeof *a);
    if (a == NULL)
        return SHOAL_ENOMEM;
    shoali_status_ask_encode(a->question);
    ask_folder(a, folder, NULL);
    hear_all(a, shoali_now_us() + (uint64_t)timeout_us);
    qsort(a->job, a->jobs, sizeof a->job[0], by_age);
    shoal_status status = a->jobs > 0 ? SHOAL_OK : nobody_here(folder, NULL);
    shoal_watch *first = NULL, **link = &first;
    for (uint32_t i = 0; i < a->jobs && status == SHOAL_OK; i++) {
        *link = a->job[i].watch != NULL ? a->job[i].watch : silent(&a->job[i]);
        a->job[i].watch = NULL;
        if (*link == NULL)
            status = SHOAL_ENOMEM;
        else
            link = &(*link)->next;
    }
    forget(a);
    if (status == SHOAL_OK)
        *watch_out = first;
    else
        shoal_watch_close(first);
    return status;
}

/* ---------------------------------------------------------------- all ranks of one */

static int by_rank(const void *one, const void *other)
{
    const shoali_told *a = one, *b = other;
    return (a->head.rank > b->head.rank) - (a->head.rank < b->head.rank);
}

/* Who hung up without an answer does not know the question: an older version. */
static shoal_status take_told(const asking *a, shoali_told **told_out, uint32_t *count_out)
{
    uint32_t count = 0;
    shoal_status status = SHOAL_OK;
    shoali_told *told = shoali_alloc_array((size_t)a->count + 1, sizeof *told);
    if (told == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < a->count && status == SHOAL_OK; i++)
        if (a->one[i].whole && a->one[i].got > 0) {
            status = shoali_told_read(a->one[i].bytes, a->one[i].got, &told[count]);
            count += status == SHOAL_OK;
        }
    if (status == SHOAL_OK && count == 0)
        status = shoali_fail(SHOAL_ETIMEDOUT, "no rank of the job tells its events: they are "
                                              "stopped, or of an older version");
    if (status != SHOAL_OK) {
        shoali_told_free(told, count);
        return status;
    }
    qsort(told, count, sizeof *told, by_rank);
    *told_out = told;
    *count_out = count;
    return SHOAL_OK;
}

shoal_status shoali_told_ask(const char *place, uint32_t last_ms, int64_t timeout_us,
                             shoali_told **told_out, uint32_t *count_out)
{
    char folder[SHOALI_WATCH_PATH_BYTES];
    shoal_watch *job = NULL;
    shoal_status status = shoal_watch_ask(place, timeout_us, &job);
    if (status != SHOAL_OK || job == NULL)
        return status;
    asking *a = shoali_alloc(sizeof *a);
    const bool one = place != NULL && strchr(place, '/') != NULL;
    status = a != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    if (a != NULL) {
        shoali_told_question(last_ms, a->question);
        a->every = true;
        a->number = job->number;
        if (one)
            ask_one(a, place, &(shoali_watch_name){.job = "socket", .number = job->number});
        else if (shoali_watch_folder(folder, sizeof folder))
            ask_folder(a, folder, job->name);
        hear_all(a, shoali_now_us() + (uint64_t)timeout_us);
        status = take_told(a, told_out, count_out);
        forget(a);
    }
    shoal_watch_close(job);
    return status;
}
