/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a status socket. All ranks of a job that are here are asked at once, as some may
 * be stopped: their kernel takes the question, but nobody answers. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/watch.h"

enum { MAX_ASKED = 64, JOB_BYTES = 64, JOBS_NAMED = 8, FIRST_BYTES = 4096 };

static const size_t MOST_BYTES = SHOALI_STATUS_HEAD_BYTES +
                                 (size_t)SHOALI_STATUS_MAX_RANKS * SHOALI_STATUS_ROW_BYTES +
                                 SHOALI_WATCH_NOTES_BYTES;

typedef struct asked {
    int fd;
    uint8_t *bytes;
    size_t got, capacity;
} asked;

typedef struct asking {
    asked one[MAX_ASKED];
    uint32_t count;
    char job[JOBS_NAMED][JOB_BYTES]; /* of the sockets found */
    uint32_t jobs;
} asking;

/* ---------------------------------------------------------------- what was answered */

static void read_notes(const uint8_t *bytes, size_t len_bytes, char *out)
{
    for (size_t i = 0; i < len_bytes; i++)
        out[i] = bytes[i] == '\n' || (bytes[i] >= ' ' && bytes[i] <= '~') ? (char)bytes[i] : '?';
    out[len_bytes] = '\0';
}

/* A head and the rows that it promises, then perhaps notes. */
static bool is_whole(const uint8_t *bytes, size_t len_bytes, shoali_status_head *head_out,
                     size_t *rows_end_out)
{
    if (len_bytes < SHOALI_STATUS_HEAD_BYTES ||
        !shoali_status_head_decode(bytes, SHOALI_STATUS_HEAD_BYTES, head_out))
        return false;
    *rows_end_out = SHOALI_STATUS_HEAD_BYTES + (size_t)head_out->ranks * SHOALI_STATUS_ROW_BYTES;
    return len_bytes >= *rows_end_out && len_bytes - *rows_end_out < SHOALI_WATCH_NOTES_BYTES;
}

shoal_status shoali_watch_read(const uint8_t *bytes, size_t len_bytes, shoal_watch **watch_out)
{
    shoali_status_head head;
    size_t rows_end;
    if (!is_whole(bytes, len_bytes, &head, &rows_end))
        return shoali_fail(SHOAL_ECORRUPT, "a status socket answered %zu bytes that are no status",
                           len_bytes);
    shoal_watch *watch = shoali_alloc(sizeof *watch);
    if (watch == NULL)
        return SHOAL_ENOMEM;
    watch->head = head;
    watch->rows = shoali_alloc_array(head.ranks, sizeof *watch->rows);
    for (uint32_t i = 0; watch->rows != NULL && i < head.ranks; i++) {
        const uint8_t *at = bytes + SHOALI_STATUS_HEAD_BYTES + (size_t)i * SHOALI_STATUS_ROW_BYTES;
        if (shoali_status_row_decode(at, SHOALI_STATUS_ROW_BYTES, &watch->rows[i]))
            continue;
        shoal_watch_close(watch);
        return shoali_fail(SHOAL_ECORRUPT, "a status socket answered nonsense about rank %u", i);
    }
    if (watch->rows == NULL) {
        shoal_watch_close(watch);
        return SHOAL_ENOMEM;
    }
    read_notes(bytes + rows_end, len_bytes - rows_end, watch->notes);
    *watch_out = watch;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- asking */

static void ask_one(asking *a, const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint8_t question[SHOALI_STATUS_ASK_BYTES];
    if (a->count == MAX_ASKED || strlen(path) >= sizeof at.sun_path)
        return;
    memcpy(at.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    shoali_status_ask_encode(question);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0 &&
        send(fd, question, sizeof question, MSG_NOSIGNAL) == (ssize_t)sizeof question) {
        a->one[a->count++] = (asked){.fd = fd};
        return;
    }
    if (fd >= 0 && errno == ECONNREFUSED)
        (void)unlink(path); /* its process was killed */
    if (fd >= 0)
        close(fd);
}

static void note_job(asking *a, const char *name, size_t length)
{
    for (uint32_t i = 0; i < a->jobs; i++)
        if (strlen(a->job[i]) == length && strncmp(a->job[i], name, length) == 0)
            return;
    if (a->jobs < JOBS_NAMED)
        snprintf(a->job[a->jobs++], JOB_BYTES, "%.*s", (int)length, name);
}

/* JOB.RANK.NUMBER */
static void ask_folder(asking *a, const char *folder, const char *job)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char path[2 * SHOALI_WATCH_PATH_BYTES];
        const char *dot = strchr(e->d_name, '.');
        uint32_t before = a->count;
        if (e->d_type != DT_SOCK || dot == NULL || dot == e->d_name || /* being made */
            (job != NULL && (strlen(job) != (size_t)(dot - e->d_name) ||
                             strncmp(job, e->d_name, strlen(job)) != 0)))
            continue;
        snprintf(path, sizeof path, "%.100s/%.100s", folder, e->d_name);
        ask_one(a, path);
        if (a->count > before)
            note_job(a, e->d_name, (size_t)(dot - e->d_name));
    }
    closedir(dir);
}

static shoal_status find(asking *a, const char *place)
{
    char folder[SHOALI_WATCH_PATH_BYTES], names[JOBS_NAMED * JOB_BYTES] = "";
    bool any = place == NULL || place[0] == '\0';
    if (!any && strchr(place, '/') != NULL) {
        ask_one(a, place);
        return a->count > 0 ? SHOAL_OK
                            : shoali_fail(SHOAL_EINVAL, "nobody answers at %.100s", place);
    }
    if (!shoali_watch_folder(folder, sizeof folder))
        return shoali_fail(SHOAL_EIO, "%s is not a folder of this user alone", folder);
    ask_folder(a, folder, any ? NULL : place);
    for (uint32_t i = 0; i < a->jobs; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? ", " : "",
                 a->job[i]);
    if (a->jobs > 1)
        return shoali_fail(SHOAL_EINVAL, "several jobs run here: %s; name one", names);
    if (a->count > 0)
        return SHOAL_OK;
    (void)shoali_fail(SHOAL_EINVAL,
                      any ? "no job runs on this host, as far as %s shows"
                          : "no job of that name runs on this host, as far as %s "
                            "shows",
                      folder);
    shoali_error_advice("Ask on a host, and as the user, of one of its ranks.");
    return SHOAL_EINVAL;
}

/* PENDING: there is more to come. */
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
            return shoali_watch_read(one->bytes, one->got, watch_out);
        one->got += (size_t)got;
    }
}

/* The first whole answer; an end without one only counts when no other can come. */
static shoal_status first_answer(asking *a, uint64_t deadline_us, shoal_watch **watch_out)
{
    struct pollfd polled[MAX_ASKED];
    uint32_t open = a->count;
    shoal_status status = SHOAL_ETIMEDOUT;
    while (open > 0) {
        uint64_t now_us = shoali_now_us();
        if (now_us >= deadline_us)
            return shoali_fail(SHOAL_ETIMEDOUT,
                               "%u rank%s of the job asked, and none answers: are they stopped?",
                               a->count, a->count == 1 ? "" : "s");
        for (uint32_t i = 0; i < a->count; i++)
            polled[i] = (struct pollfd){.fd = a->one[i].fd, .events = POLLIN};
        (void)poll(polled, a->count, (int)((deadline_us - now_us + 999) / 1000));
        for (uint32_t i = 0; i < a->count; i++) {
            if (a->one[i].fd < 0 || polled[i].revents == 0)
                continue;
            status = read_some(&a->one[i], watch_out);
            if (status == SHOAL_OK)
                return SHOAL_OK;
            if (status == SHOAL_PENDING)
                continue;
            close(a->one[i].fd);
            a->one[i].fd = -1;
            open--;
        }
    }
    return status;
}

shoal_status shoal_watch_ask(const char *place, int64_t timeout_us, shoal_watch **watch_out)
{
    if (watch_out == NULL || timeout_us <= 0)
        return shoali_fail(SHOAL_EINVAL, "no time to ask, or no place for the answer");
    asking *a = shoali_alloc(sizeof *a);
    if (a == NULL)
        return SHOAL_ENOMEM;
    uint64_t deadline_us = shoali_now_us() + (uint64_t)timeout_us;
    shoal_status status = find(a, place);
    if (status == SHOAL_OK)
        status = first_answer(a, deadline_us, watch_out);
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->one[i].fd >= 0)
            close(a->one[i].fd);
        shoali_free(a->one[i].bytes);
    }
    shoali_free(a);
    return status;
}

/* ---------------------------------------------------------------- looking at it */

void shoal_watch_job(const shoal_watch *watch, const char **job_out, uint32_t *answered_by_out,
                     double *age_s_out)
{
    *job_out = watch->head.job;
    *answered_by_out = watch->head.rank;
    *age_s_out = (double)watch->head.age_us * 1e-6;
}

uint32_t shoal_watch_ranks(const shoal_watch *watch)
{
    return watch->head.ranks;
}

shoal_status shoal_watch_rank(const shoal_watch *watch, uint32_t rank,
                              shoal_watch_rank_state *rank_out)
{
    static const char *const states[] = {"running", "missing", "unresponsive", "dead", "left"};
    if (watch == NULL || rank_out == NULL || rank_out->size != sizeof *rank_out ||
        rank >= watch->head.ranks)
        return shoali_fail(SHOAL_EINVAL, "no rank %u in this status", rank);
    const shoali_status_row *row = &watch->rows[rank];
    *rank_out = (shoal_watch_rank_state){.size = sizeof *rank_out,
                                         .slow_s = (double)row->slow_for_us * 1e-6,
                                         .caused_ms = (double)row->caused_us * 1e-3,
                                         .last_share = row->last_permille * 1e-3,
                                         .busy = row->busy != 0,
                                         .doing_s = (double)row->for_us * 1e-6,
                                         .ended = row->ended,
                                         .last_seen_s = (double)row->last_seen_us * 1e-6,
                                         .compute_ms = (double)row->compute_us * 1e-3,
                                         .sends_bytes_s = (double)row->sends_bytes_s,
                                         .receives_bytes_s = (double)row->receives_bytes_s};
    snprintf(rank_out->host, sizeof rank_out->host, "%s", row->host);
    snprintf(rank_out->state, sizeof rank_out->state, "%s", states[row->state]);
    snprintf(rank_out->cause, sizeof rank_out->cause, "%s", shoali_slow_name(row->cause));
    snprintf(rank_out->operation, sizeof rank_out->operation, "%s", row->text);
    return SHOAL_OK;
}

const char *shoal_watch_notes(const shoal_watch *watch)
{
    return watch->notes;
}

void shoal_watch_close(shoal_watch *watch)
{
    if (watch == NULL)
        return;
    shoali_free(watch->rows);
    shoali_free(watch);
}
