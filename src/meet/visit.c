/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that visits rank 0's store. Rank 0 may start later than we do, so a refused connection is
 * tried again until the deadline; what rank 0 says in words (an abort, a refused proof) is
 * final. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "meet/net.h"
#include "meet/stream.h"
#include "transport/address.h"

enum {
    RETRY_MS = 50,
    CONNECT_US = 2 * 1000 * 1000, /* one address; then the next one, or a relay */
    FIND_US = 100 * 1000,
    CALL_US = 3 * 1000 * 1000
};

typedef struct visit {
    const shoali_meeting *meeting;
    shoali_record *records;
    shoali_meet_stream *stream;
    uint32_t received;
    bool said;         /* our record is queued */
    shoali_way way;    /* by which this visit came */
    uint64_t since_us; /* when it began */
    bool final;        /* the last failure came from rank 0 itself: do not try again */
    uint64_t heard_us; /* when rank 0 said who is missing */
    char missing[SHOALI_ABORT_TEXT_BYTES];
    char last[200]; /* what went wrong last */
} visit;

static shoal_status start_stream(visit *v, int fd)
{
    v->said = false;
    v->received = 0;
    v->since_us = shoali_now_us();
    return shoali_meet_stream_start(v->stream, fd, true, v->meeting);
}

static bool is_connected(int fd)
{
    shoali_ip there;
    socklen_t bytes = sizeof there;
    return getpeername(fd, &there.any, &bytes) == 0;
}

static shoal_status start_connecting(visit *v, const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "no socket for the rendezvous");
    if (!shoali_ip_connect(fd, address->ai_addr, address->ai_addrlen)) {
        shoal_status status = shoali_fail_os(SHOAL_EPEER, errno, "cannot connect");
        close(fd);
        return status;
    }
    v->way = (shoali_way){.relayed = false};
    memcpy(&v->way.ip, address->ai_addr, address->ai_addrlen);
    return start_stream(v, fd);
}

/* Rank 0's address leads nowhere from here: perhaps a neighbour can reach it. */
static shoal_status start_through_relay(visit *v)
{
    const shoali_relay *relay = v->meeting->relay;
    if (relay == NULL || !shoali_relay_find(relay, shoali_now_us() + FIND_US, &v->way))
        return SHOAL_PENDING;
    int fd = shoali_relay_call(relay, &v->way, shoali_now_us() + CALL_US);
    if (fd < 0)
        return shoali_fail(SHOAL_EPEER, "by way of rank %u: %.150s", v->way.rank,
                           shoal_last_error()->text);
    shoali_log(INFO, "rank 0 is met by way of rank %u", v->way.rank);
    return start_stream(v, fd);
}

static shoal_status told_the_end(visit *v, const uint8_t *body, size_t length)
{
    shoali_abort end;
    if (!shoali_abort_decode(body, length, &end))
        return shoali_fail(SHOAL_ECORRUPT, "rank 0 sent an unreadable end of the rendezvous");
    v->final = true;
    shoal_status status = shoali_fail((shoal_status)end.status, "%s", end.text);
    shoali_error_about(end.culprit == SHOALI_NOBODY ? -1 : (int32_t)end.culprit, NULL, "join",
                       (int64_t)(shoali_now_us() - v->meeting->started_us));
    return status;
}

static shoal_status keep_record(visit *v, const uint8_t *body, size_t length)
{
    shoali_record *record = &v->records[v->received];
    if (v->received >= v->meeting->mine->world_size ||
        !shoali_record_decode(body, length, record) || record->rank != v->received)
        return shoali_fail(SHOAL_ECORRUPT, "rank 0 sent an unreadable record");
    v->final = true;
    SHOALI_TRY(shoali_meet_agree(record, v->meeting->mine));
    if (record->rank == v->meeting->mine->rank &&
        record->incarnation != v->meeting->mine->incarnation)
        return shoali_fail(SHOAL_EINVAL, "another process is rank %u of this job", record->rank);
    v->final = false;
    v->received++;
    return SHOAL_OK;
}

/* PENDING: go on. */
static shoal_status hear(visit *v)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    for (;;) {
        shoal_status status = shoali_meet_stream_read(v->stream, &kind, &body, &length);
        if (status == SHOAL_EAUTH || status == SHOAL_EVERSION || status == SHOAL_EEPOCH)
            v->final = true;
        SHOALI_TRY(status);
        switch (kind) {
        case SHOALI_MESSAGE_waiting:
            snprintf(v->missing, sizeof v->missing, "%.*s", (int)length, (const char *)body);
            v->heard_us = shoali_now_us();
            break;
        case SHOALI_MESSAGE_record:
            SHOALI_TRY(keep_record(v, body, length));
            if (v->received == v->meeting->mine->world_size)
                return SHOAL_OK;
            break;
        case SHOALI_MESSAGE_abort:
            return told_the_end(v, body, length);
        case SHOALI_MESSAGE_held:
        case SHOALI_MESSAGE_admit:
            v->final = true;
            return shoali_fail(SHOAL_EEPOCH, "the job at %s runs already", v->meeting->place);
        default:
            return shoali_fail(SHOAL_ECORRUPT, "an unexpected frame of kind %u in a rendezvous",
                               kind);
        }
    }
}

static shoal_status deadline_passed(const visit *v)
{
    const shoali_meeting *m = v->meeting;
    double waited = (double)(m->deadline_us - m->started_us) * 1e-6;
    shoal_status status;
    if (v->heard_us != 0)
        status = shoali_fail(SHOAL_ETIMEDOUT,
                             "%s of %u did not join within %.3g s, says rank 0 (%.1f s ago)",
                             v->missing, m->mine->world_size, waited,
                             (double)(shoali_now_us() - v->heard_us) * 1e-6);
    else
        status = shoali_fail(SHOAL_ETIMEDOUT, "rank 0 was not met at %s within %.3g s: %s",
                             m->place, waited, v->last);
    shoali_error_about(v->heard_us != 0 ? -1 : 0, NULL, "join",
                       (int64_t)(shoali_now_us() - m->started_us));
    shoali_error_advice(
        "Look at the output of the missing ranks, and whether a firewall stands before %.100s.",
        m->place);
    return status;
}

/* Rank 0 knows best who is missing, and says so at its own deadline, which may be a little after
 * ours. */
static uint64_t deadline_of(const visit *v)
{
    return v->meeting->deadline_us + (v->heard_us != 0 ? SHOALI_MEET_VERDICT_US : 0);
}

/* From connecting to the whole table, or to the first failure. */
static shoal_status one_visit(visit *v)
{
    while (shoali_now_us() < deadline_of(v)) {
        SHOALI_TRY(shoali_meet_stream_write(v->stream));
        shoal_status status = hear(v);
        if (status != SHOAL_PENDING)
            return status;
        if (!is_connected(v->stream->fd) && shoali_now_us() - v->since_us > CONNECT_US)
            return shoali_fail(SHOAL_EPEER, "no answer");
        if (!v->said && shoali_meet_stream_idle(v->stream)) {
            shoali_relay_found(v->meeting->relay, &v->way);
            uint8_t body[SHOALI_RECORD_BYTES];
            v->said = shoali_meet_stream_put(v->stream, SHOALI_MESSAGE_record, body,
                                             shoali_record_encode(v->meeting->mine, body));
        }
        SHOALI_TRY(shoali_meet_cancelled(v->meeting->cancel));
        bool out = shoali_meet_stream_wants_out(v->stream);
        struct pollfd wait = {.fd = v->stream->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0))};
        (void)poll(&wait, 1, RETRY_MS);
    }
    return SHOAL_PENDING;
}

static void note(visit *v, shoal_status status)
{
    if (status != SHOAL_PENDING)
        snprintf(v->last, sizeof v->last, "%.190s", shoal_last_error()->text);
}

/* Rank 0's host has not answered; a refusal is an answer: its process is still to come. */
static bool leads_nowhere(void)
{
    return shoal_last_error()->os_error != ECONNREFUSED;
}

static shoal_status visit_until_deadline(visit *v, const struct addrinfo *list)
{
    const struct addrinfo *address = list;
    while (shoali_now_us() < deadline_of(v)) {
        shoal_status status = start_connecting(v, address);
        if (status == SHOAL_OK)
            status = one_visit(v);
        shoali_meet_stream_close(v->stream);
        if (status != SHOAL_OK && !v->final && leads_nowhere()) {
            note(v, status);
            status = start_through_relay(v);
            if (status == SHOAL_OK)
                status = one_visit(v);
            shoali_meet_stream_close(v->stream);
        }
        if (status == SHOAL_OK || v->final)
            return status;
        SHOALI_TRY(shoali_meet_cancelled(v->meeting->cancel));
        note(v, status);
        address = address->ai_next != NULL ? address->ai_next : list;
        (void)poll(NULL, 0, RETRY_MS);
    }
    return deadline_passed(v);
}

shoal_status shoali_meet_visit(const shoali_meeting *meeting, shoali_record *records_out)
{
    struct addrinfo *list;
    visit v = {.meeting = meeting, .records = records_out, .last = "no answer"};
    SHOALI_TRY(shoali_meet_resolve(meeting, &list));
    v.stream = shoali_alloc(sizeof *v.stream);
    shoal_status status = SHOAL_ENOMEM;
    if (v.stream != NULL) {
        v.stream->fd = -1;
        status = visit_until_deadline(&v, list);
    }
    shoali_free(v.stream);
    freeaddrinfo(list);
    return status;
}
