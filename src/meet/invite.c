/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 invites the job's aggregators before it opens the rendezvous:
 *
 *   rank 0                                    daemon
 *   handshake (token)                  <->
 *   invite: sizes, job, meeting point   ->
 *                                      <-     invite, empty: it will come
 *                                      <-     or abort: why not
 *
 * They may start together, so a refused connection is tried again, but only for half of the join's
 * time: the ranks that wait for rank 0 shall hear the reason. */
#include "meet/invite.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "meet/net.h"
#include "meet/stream.h"
#include "transport/address.h"
#include "wire/messages.h"

enum { RETRY_MS = 50 };

typedef struct caller {
    shoali_meeting meeting; /* with the daemon */
    const shoali_invite *invite;
    shoali_meet_stream *stream;
    bool said, final; /* final: the daemon itself said no */
} caller;

/* The list's item behind *list, which moves on; false: there is none. */
static bool next_item(const char **list, char *item_out, size_t item_bytes)
{
    const size_t length = strcspn(*list, ",");
    if (length == 0)
        return false;
    snprintf(item_out, item_bytes, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == ',');
    return true;
}

shoal_status shoali_invite_count(const char *list, uint32_t *count_out)
{
    char item[SHOALI_PLACE_BYTES], place[SHOALI_PLACE_BYTES + 8], host[256], port[8];
    uint32_t count = 0;
    const char *at = list;
    while (next_item(&at, item, sizeof item)) {
        snprintf(place, sizeof place, "tcp://%s", item);
        if (!shoali_meet_parse(place, host, sizeof host, port, sizeof port))
            return shoali_fail(SHOAL_EINVAL, "the aggregator '%.80s' is no host:port", item);
        count++;
    }
    if (*at != '\0' || count > SHOALI_MAX_ENDPOINTS)
        return shoali_fail(SHOAL_EINVAL, "'%.80s' is no list of aggregators: host:port,host:port",
                           list);
    *count_out = count;
    return SHOAL_OK;
}

static shoal_status told_no(caller *c, const uint8_t *body, size_t length)
{
    shoali_abort no;
    c->final = true;
    if (!shoali_abort_decode(body, length, &no))
        return shoali_fail(SHOAL_ECORRUPT, "it sent an unreadable refusal");
    return shoali_fail((shoal_status)no.status, "%s", no.text);
}

/* PENDING: go on. */
static shoal_status hear(caller *c)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoal_status status = shoali_meet_stream_read(c->stream, &kind, &body, &length);
    c->final = c->final || status == SHOAL_EAUTH || status == SHOAL_EVERSION;
    SHOALI_TRY(status);
    if (kind == SHOALI_MESSAGE_abort)
        return told_no(c, body, length);
    if (kind != SHOALI_MESSAGE_invite || length != 0)
        return shoali_fail(SHOAL_ECORRUPT, "it sent an unexpected frame of kind %u", kind);
    return SHOAL_OK;
}

static shoal_status one_call(caller *c)
{
    while (shoali_now_us() < c->meeting.deadline_us) {
        SHOALI_TRY(shoali_meet_stream_write(c->stream));
        shoal_status status = hear(c);
        if (status != SHOAL_PENDING)
            return status;
        if (!c->said && shoali_meet_stream_idle(c->stream)) {
            uint8_t body[SHOALI_INVITE_BYTES];
            c->said = shoali_meet_stream_put(c->stream, SHOALI_MESSAGE_invite, body,
                                             shoali_invite_encode(c->invite, body));
            continue;
        }
        bool out = shoali_meet_stream_wants_out(c->stream);
        struct pollfd wait = {.fd = c->stream->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0))};
        (void)poll(&wait, 1, RETRY_MS);
    }
    return shoali_fail(SHOAL_ETIMEDOUT, "it did not answer");
}

static shoal_status connect_to(caller *c, const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "no socket");
    if (!shoali_ip_connect(fd, address->ai_addr, address->ai_addrlen)) {
        shoal_status status = shoali_fail_os(SHOAL_EPEER, errno, "cannot connect");
        close(fd);
        return status;
    }
    c->said = false;
    return shoali_meet_stream_start(c->stream, fd, true, &c->meeting);
}

/* A call that the deadline cut short says less than the one before it. */
static shoal_status call_until_deadline(caller *c, const struct addrinfo *list)
{
    const struct addrinfo *address = list;
    shoal_error before = {.status = SHOAL_OK};
    for (;;) {
        shoal_status status = connect_to(c, address);
        if (status == SHOAL_OK)
            status = one_call(c);
        shoali_meet_stream_close(c->stream);
        if (status == SHOAL_ETIMEDOUT && before.status != SHOAL_OK)
            return shoali_error_set(&before);
        if (status == SHOAL_OK || c->final || status == SHOAL_ETIMEDOUT ||
            shoali_now_us() + RETRY_MS * 1000 >= c->meeting.deadline_us)
            return status;
        shoali_error_get(&before);
        address = address->ai_next != NULL ? address->ai_next : list;
        (void)poll(NULL, 0, RETRY_MS);
    }
}

/* As of the daemon: what went wrong, and where. */
static shoal_status name_daemon(const char *item, uint32_t index)
{
    shoal_error why;
    shoali_error_get(&why);
    shoal_status status = shoali_fail(why.status, "aggregator %u at %.80s: %.300s", index, item,
                                      why.text);
    if (why.status == SHOAL_EAUTH)
        shoali_error_advice("Start it with the job's token: SHOAL_TOKEN_FILE on both sides.");
    else
        shoali_error_advice("Is `shoal aggregator --listen` running there, and no firewall "
                            "before it?");
    return status;
}

static shoal_status invite_one(const char *item, const shoali_meeting *meeting,
                               const shoali_invite *invite)
{
    char place[SHOALI_PLACE_BYTES + 8];
    caller c = {.meeting = *meeting, .invite = invite};
    snprintf(place, sizeof place, "tcp://%s", item);
    c.meeting.place = place;
    c.meeting.job = SHOALI_INVITE_JOB;
    c.meeting.deadline_us -= (meeting->deadline_us - meeting->started_us) / 2;
    struct addrinfo *list;
    SHOALI_TRY(shoali_meet_resolve(&c.meeting, &list));
    c.stream = shoali_alloc(sizeof *c.stream);
    shoal_status status = SHOAL_ENOMEM;
    if (c.stream != NULL) {
        c.stream->fd = -1;
        status = call_until_deadline(&c, list);
    }
    shoali_free(c.stream);
    freeaddrinfo(list);
    return status;
}

shoal_status shoali_invite_all(const char *list, const shoali_meeting *meeting,
                               shoali_invite *invite)
{
    char item[SHOALI_PLACE_BYTES];
    snprintf(invite->job, sizeof invite->job, "%s", meeting->job);
    snprintf(invite->place, sizeof invite->place, "%s", meeting->place);
    for (invite->index = 0; next_item(&list, item, sizeof item); invite->index++)
        if (invite_one(item, meeting, invite) != SHOAL_OK)
            return name_daemon(item, invite->index);
    return SHOAL_OK;
}
