/* SPDX-License-Identifier: Apache-2.0 */
#include "support/watched.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "support/check.h"

static bool here(void *ctx, uint32_t rank)
{
    const watched *w = ctx;
    return !w->away[rank];
}

static void carried(void *ctx, uint32_t rank, shoal_peer_stats *stats)
{
    const watched *w = ctx;
    assert_int_equal(stats->size, sizeof *stats);
    *stats = w->carried[rank];
}

static void row(void *ctx, uint32_t rank, shoali_status_row *out)
{
    const watched *w = ctx;
    out->state = w->state[rank];
    out->for_us = 10 * rank;
    out->last_seen_us = 100 * rank;
    snprintf(out->host, sizeof out->host, "h%u", rank);
    snprintf(out->text, sizeof out->text, "all-reduce %u", rank);
}

static size_t notes(void *ctx, char out[SHOALI_WATCH_NOTES_BYTES])
{
    const watched *w = ctx;
    memcpy(out, w->notes, strlen(w->notes));
    return strlen(w->notes);
}

void watched_begin(watched *w, const char *job, uint32_t number)
{
    const char *old = getenv("SHOAL_STATUS_DIR");
    *w = (watched){.now_us = 5000000, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    snprintf(w->old_folder, sizeof w->old_folder, "%s", old != NULL ? old : "");
    snprintf(w->folder, sizeof w->folder, "/tmp/shoal-watched-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    assert_int_equal(setenv("SHOAL_STATUS_DIR", w->folder, 1), 0);
    const shoali_watch_desc desc = {
        .me = 1,
        .ranks = WATCHED_RANKS,
        .size = WATCHED_RANKS,
        .number = number,
        .job = job,
        .rendezvous = "tcp://h0:29500",
        .epoll_fd = w->epoll_fd,
        .now_us = &w->now_us,
        .host = {.ctx = w, .here = here, .carried = carried, .row = row, .notes = notes}};
    assert_ok(shoali_watch_open(&desc, &w->watch));
}

void watched_end(watched *w)
{
    shoali_watch_close(w->watch);
    close(w->epoll_fd);
    rmdir(w->folder);
    if (w->old_folder[0] != '\0')
        assert_int_equal(setenv("SHOAL_STATUS_DIR", w->old_folder, 1), 0);
    else
        assert_int_equal(unsetenv("SHOAL_STATUS_DIR"), 0);
}

const char *watched_path(const watched *w)
{
    return w->watch->path;
}
