/* SPDX-License-Identifier: Apache-2.0 */
#include "folder/events.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/plain_file.h"
#include "files/checkpoint_folder.h"

enum { BYTES_MOST = 1 << 26, LINE_MOST = 1 << 14 };

static bool is_line(const char *text, size_t length)
{
    json_t *object = length <= LINE_MOST ? json_loadb(text, length, 0, NULL) : NULL;
    const bool good = json_is_object(object);
    json_decref(object);
    return good;
}

/* Bytes of the lines that are whole, up to the first that is not. */
static size_t whole_lines(const char *text, size_t bytes)
{
    size_t kept = 0;
    const char *end;
    while ((end = memchr(text + kept, '\n', bytes - kept)) != NULL &&
           is_line(text + kept, (size_t)(end - text) - kept))
        kept = (size_t)(end - text) + 1;
    return kept;
}

/* A power cut may have left half a line, or zeros. */
static shoal_status cut_torn(int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || info.st_size == 0 || info.st_size > BYTES_MOST)
        return SHOAL_OK;
    char *text = shoali_alloc((size_t)info.st_size);
    if (text == NULL)
        return SHOAL_ENOMEM;
    const ssize_t got = pread(fd, text, (size_t)info.st_size, 0);
    const size_t kept = got > 0 ? whole_lines(text, (size_t)got) : 0;
    shoali_free(text);
    if (got == info.st_size && kept < (size_t)got && ftruncate(fd, (off_t)kept) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot cut %s back to its last whole line", path);
    return SHOAL_OK;
}

static shoal_status open_file(const char *path, int *fd_out)
{
    const int flags = O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat info;
    const int fd = open(path, flags, 0666);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return shoali_fail(SHOAL_EIO, "cannot write %s: it is no regular file", path);
    }
    *fd_out = fd;
    return SHOAL_OK;
}

shoal_status shoali_events_begin(const shoal_train *train)
{
    if (train->rank != 0 || train->members.epoch > 0 || train->server)
        return SHOAL_OK;
    return shoali_events_add(train, train->folder.saved.step > 0 ? "resume" : "begin",
                             json_pack("{s:I, s:I, s:i, s:b}", "step", (json_int_t)train->step,
                                       "steps", (json_int_t)train->steps, "workers",
                                       (int)train->workers, "together",
                                       train->sync != NULL && !train->loose));
}

shoal_status shoali_events_open(shoal_train *train)
{
    char path[SHOALI_PATH_BYTES];
    int fd = -1;
    if (train->desc.out == NULL)
        return SHOAL_OK;
    SHOALI_TRY(shoali_path_join(path, train->desc.out, "events.jsonl"));
    SHOALI_TRY(open_file(path, &fd));
    train->folder.events = fd + 1;
    if (train->rank == 0 && train->members.epoch == 0)
        SHOALI_TRY(cut_torn(fd, path));
    shoali_log_set_copy(fd);
    return SHOAL_OK;
}

shoal_status shoali_events_add(const shoal_train *train, const char *event, json_t *more)
{
    char when[SHOALI_UTC_BYTES];
    if (train->folder.events == 0) {
        json_decref(more);
        return SHOAL_OK;
    }
    shoali_utc(when);
    json_t *line = json_pack("{s:s, s:s, s:i, s:i}", "time", when, "event", event, "rank",
                             (int)train->rank, "members_epoch", (int)train->members.epoch);
    const bool whole = line != NULL && (more == NULL || json_object_update(line, more) == 0);
    json_decref(more);
    if (whole)
        return shoali_events_put(train->folder.events - 1, train->desc.out, line);
    json_decref(line);
    return SHOAL_ENOMEM;
}

shoal_status shoali_events_put(int fd, const char *folder, json_t *line)
{
    char text[LINE_MOST];
    const size_t length = line != NULL ? json_dumpb(line, text, sizeof text - 1, JSON_COMPACT) : 0;
    json_decref(line);
    if (length == 0 || length >= sizeof text)
        return SHOAL_ENOMEM;
    text[length] = '\n'; /* one write */
    if (shoali_append_whole(fd, text, length + 1))
        return SHOAL_OK;
    return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s/events.jsonl", folder);
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *shoali_events_verdict(uint32_t rank, const shoal_train_rank *r)
{
    return json_pack("{s:i, s:s, s:s, s:f, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                     "culprit", (int)rank, "host", r->host, "cause", r->cause, "caused_ms",
                     r->caused_ms, "last_share", r->last_share, "since_step",
                     (json_int_t)r->since_step, "compute_ms", r->compute_ms, "wait_ms", r->wait_ms,
                     "sends_bytes_s", r->sends_bytes_s, "receives_bytes_s", r->receives_bytes_s,
                     "data_ms", r->data_ms, "disk_ms", r->disk_ms, "paused_ms", r->paused_ms,
                     "samples", r->samples);
}

shoal_status shoali_events_end(const shoal_train *train)
{
    for (uint32_t i = 0; train->slow.judged && i < train->workers; i++) {
        const shoal_train_rank *r = &train->slow.ranks[i];
        if (r->cause[0] != '\0')
            SHOALI_TRY(shoali_events_add(train, "slow", shoali_events_verdict(i, r)));
    }
    return shoali_events_add(train, "end",
                             json_pack("{s:I, s:i, s:i, s:o, s:o}", "step", (json_int_t)train->step,
                                       "workers", (int)train->members.count, "lost",
                                       (int)train->lost.count, "train_loss",
                                       number(train->epoch.train_loss), "test_accuracy",
                                       number(train->epoch.test_accuracy)));
}

void shoali_events_close(shoal_train *train)
{
    if (train->folder.events == 0)
        return;
    shoali_log_set_copy(-1);
    close(train->folder.events - 1);
    train->folder.events = 0;
}
