/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/visitors.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

enum {
    ACCEPTS_PER_TURN = 16, /* then those who are here are heard, before they must make room */
    TURNED_AWAY_LOGGED = 8
};

shoal_status shoali_visitors_open(const shoali_meeting *meeting, size_t each_bytes, uint32_t limit,
                                  shoali_visitors *out)
{
    *out = (shoali_visitors){.meeting = meeting, .each_bytes = each_bytes, .limit = limit};
    out->all = shoali_alloc_array(shoali_visitors_room(out), sizeof *out->all);
    return out->all != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

void shoali_visitors_close(shoali_visitors *v)
{
    while (v->count > 0)
        shoali_visitors_drop(v, 0);
    shoali_free(v->all);
    v->all = NULL;
}

void shoali_visitors_drop(shoali_visitors *v, uint32_t index)
{
    shoali_meet_stream_close(&v->all[index]->stream);
    if (v->forget != NULL)
        v->forget(v->all[index]);
    shoali_free(v->all[index]);
    v->all[index] = v->all[--v->count];
}

uint32_t shoali_visitors_known(const shoali_visitors *v)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->count; i++)
        count += v->all[i]->known;
    return count;
}

/* ------------------------------------------------------------------ polling */

void shoali_visitors_want(const shoali_visitors *v, struct pollfd *polls)
{
    for (uint32_t i = 0; i < v->count; i++) {
        const shoali_meet_stream *stream = &v->all[i]->stream;
        const short out = shoali_meet_stream_wants_out(stream) ? POLLOUT : 0;
        polls[i] = (struct pollfd){.fd = stream->fd, .events = (short)(POLLIN | out)};
    }
}

struct pollfd shoali_visitors_listen(shoali_visitors *v, int listener)
{
    const struct pollfd poll = {.fd = v->exhausted ? -1 : listener, .events = POLLIN};
    v->exhausted = false;
    return poll;
}

/* ------------------------------------------------------------------ strangers */

/* a goes before b: it has sent nothing, or as much as b and is older. */
static bool goes_before(const shoali_visitor *a, const shoali_visitor *b)
{
    if (a->stream.heard != b->stream.heard)
        return !a->stream.heard;
    return a->since_us < b->since_us;
}

/* One stranger goes, where there are more than `most`. */
static void make_room(shoali_visitors *v, uint32_t most)
{
    uint32_t strangers = 0, first = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->all[i]->known)
            continue;
        if (strangers++ == 0 || goes_before(v->all[i], v->all[first]))
            first = i;
    }
    if (strangers <= most)
        return;
    if (v->turned_away++ < TURNED_AWAY_LOGGED)
        shoali_log(WARN, "a caller from %s makes room: %u have not proved themselves",
                   v->all[first]->from, strangers);
    shoali_visitors_drop(v, first);
}

static void take_in(shoali_visitors *v, int fd, const struct sockaddr *address, socklen_t length)
{
    shoali_visitor *one = shoali_alloc(v->each_bytes);
    if (one == NULL || shoali_meet_stream_start(&one->stream, fd, false, v->meeting) != SHOAL_OK) {
        close(fd);
        shoali_free(one);
        return;
    }
    shoali_meet_from(address, length, one->from);
    one->since_us = shoali_now_us();
    v->all[v->count++] = one;
    make_room(v, SHOALI_STRANGERS + v->limit);
}

void shoali_visitors_accept(shoali_visitors *v, int listener, bool (*wanted)(void *ctx, int fd),
                            void *ctx)
{
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int fd = accept4(listener, (struct sockaddr *)&address, &length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            make_room(v, 0);
            v->exhausted = true; /* or poll would return at once, again and again */
        }
        if (fd < 0)
            return; /* none is left, or it is gone again */
        if (wanted == NULL || wanted(ctx, fd))
            take_in(v, fd, (const struct sockaddr *)&address, length);
        else
            close(fd);
    }
}

shoal_status shoali_visitor_in_time(const shoali_visitor *one, uint64_t now_us)
{
    if (one->stream.open || now_us - one->since_us <= SHOALI_STRANGER_US)
        return SHOAL_OK;
    return shoali_fail(SHOAL_ETIMEDOUT, "it has not proved the token within %d s",
                       SHOALI_STRANGER_US / 1000000);
}
