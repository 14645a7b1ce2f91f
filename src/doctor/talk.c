/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 as a star, with the rendezvous' handshake, so that strangers get nowhere. In an exchange
 *
 *     ranks 1..N-1           rank 0
 *     word            ->     waits for all that are still there
 *                     <-     N frames: rank, then that rank's word (empty: it is gone)
 *
 * Segments are kept small: what is to be found out may be that large packets do not arrive. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "doctor/doctor.h"
#include "meet/net.h"
#include "wire/bytes.h"
#include "wire/messages.h"

enum { POLL_MS = 20, SEGMENT_BYTES = 500, HEAD_BYTES = 4, MAX_FDS = SHOALI_DOCTOR_MAX_RANKS + 1 };

typedef struct heard {
    size_t len_bytes;
    uint8_t bytes[SHOALI_DOCTOR_BODY_BYTES];
} heard;

/* One connection: rank 0's to each rank, another rank's to rank 0 (place 0). */
typedef struct line {
    shoali_meet_stream stream;
    uint32_t rank; /* UINT32_MAX: has not proved itself */
    uint32_t told; /* rank 0: words of this exchange handed out */
    bool said;
} line;

struct shoali_talk {
    const shoali_meeting *meeting;
    uint32_t me, ranks;
    int listener; /* rank 0, until everyone is in */
    line *lines;  /* [ranks] rank 0: as they come; else one */
    uint32_t line_count;
    heard *words;
    bool *gone;
};

static void small_segments(int fd)
{
    int bytes = SEGMENT_BYTES, on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, sizeof bytes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static bool alive(const line *l)
{
    return l->stream.fd >= 0;
}

static void end_line(shoali_talk *talk, line *l)
{
    shoali_meet_stream_close(&l->stream);
    if (l->rank < talk->ranks)
        talk->gone[l->rank] = true;
}

/* ---------------------------------------------------------------- rank 0 */

static void accept_one(shoali_talk *talk)
{
    int fd = accept4(talk->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    line *free_line = NULL;
    for (uint32_t i = 0; i < talk->ranks && free_line == NULL; i++)
        if (!alive(&talk->lines[i]) && talk->lines[i].rank == UINT32_MAX)
            free_line = &talk->lines[i];
    if (free_line == NULL ||
        shoali_meet_stream_start(&free_line->stream, fd, false, talk->meeting) != SHOAL_OK)
        close(fd);
}

/* A word of a rank; the first one says whose line this is. */
static bool take_word(shoali_talk *talk, line *l, const uint8_t *body, size_t length)
{
    uint32_t rank = length >= HEAD_BYTES ? shoali_get_u32(body) : UINT32_MAX;
    if (rank == 0 || rank >= talk->ranks || length - HEAD_BYTES > SHOALI_DOCTOR_BODY_BYTES ||
        rank != l->stream.shake.peer.endpoint || (l->rank != rank && l->rank != UINT32_MAX) ||
        talk->words[rank].len_bytes != 0)
        return false;
    l->rank = rank;
    l->said = true;
    talk->gone[rank] = false;
    talk->words[rank].len_bytes = length - HEAD_BYTES;
    memcpy(talk->words[rank].bytes, body + HEAD_BYTES, length - HEAD_BYTES);
    return true;
}

static void hear(shoali_talk *talk, line *l)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoal_status status = shoali_meet_stream_read(&l->stream, &kind, &body, &length);
    if (status == SHOAL_OK && !take_word(talk, l, body, length))
        status = SHOAL_ECORRUPT;
    if (status != SHOAL_OK && status != SHOAL_PENDING)
        end_line(talk, l);
}

/* One pass over all lines; sleeps a moment at most. */
static void serve(shoali_talk *talk)
{
    struct pollfd fds[MAX_FDS];
    nfds_t count = 0;
    for (uint32_t i = 0; i < talk->ranks; i++) {
        line *l = &talk->lines[i];
        if (!alive(l))
            continue;
        if (shoali_meet_stream_write(&l->stream) != SHOAL_OK)
            end_line(talk, l);
        else
            fds[count++] = (struct pollfd){
                .fd = l->stream.fd,
                .events = (short)(POLLIN |
                                  (shoali_meet_stream_wants_out(&l->stream) ? POLLOUT : 0))};
    }
    if (talk->listener >= 0)
        fds[count++] = (struct pollfd){.fd = talk->listener, .events = POLLIN};
    (void)poll(fds, count, POLL_MS);
    if (talk->listener >= 0)
        accept_one(talk);
    for (uint32_t i = 0; i < talk->ranks; i++)
        if (alive(&talk->lines[i]) && !talk->lines[i].said)
            hear(talk, &talk->lines[i]);
}

static bool all_said(const shoali_talk *talk)
{
    for (uint32_t rank = 1; rank < talk->ranks; rank++)
        if (talk->words[rank].len_bytes == 0 && !(talk->gone[rank] && talk->listener < 0))
            return false;
    return true;
}

static bool hand_out(shoali_talk *talk, line *l)
{
    while (alive(l) && l->told < talk->ranks && shoali_meet_stream_idle(&l->stream)) {
        const heard *w = &talk->words[l->told];
        uint8_t body[HEAD_BYTES + SHOALI_DOCTOR_BODY_BYTES];
        shoali_put_u32(body, l->told);
        memcpy(body + HEAD_BYTES, w->bytes, w->len_bytes);
        if (!shoali_meet_stream_put(&l->stream, SHOALI_MESSAGE_record, body,
                                    HEAD_BYTES + w->len_bytes))
            break;
        l->told++;
        if (shoali_meet_stream_write(&l->stream) != SHOAL_OK)
            end_line(talk, l);
    }
    return !alive(l) || (l->told == talk->ranks && shoali_meet_stream_idle(&l->stream));
}

static bool all_told(shoali_talk *talk)
{
    bool told = true;
    for (uint32_t i = 0; i < talk->ranks; i++)
        if (alive(&talk->lines[i]) && talk->lines[i].said)
            told = hand_out(talk, &talk->lines[i]) && told;
    return told;
}

static void exchange_at_0(shoali_talk *talk, uint64_t deadline_us)
{
    while (!all_said(talk) && shoali_now_us() < deadline_us)
        serve(talk);
    if (talk->listener >= 0)
        close(talk->listener);
    talk->listener = -1;
    for (uint32_t i = 0; i < talk->ranks; i++)
        if (alive(&talk->lines[i]) && !talk->lines[i].said)
            end_line(talk, &talk->lines[i]);
    deadline_us = shoali_now_us() + 2000000;
    while (!all_told(talk) && shoali_now_us() < deadline_us)
        serve(talk);
    for (uint32_t rank = 1; rank < talk->ranks; rank++)
        talk->gone[rank] = talk->gone[rank] || talk->words[rank].len_bytes == 0;
}

/* ---------------------------------------------------------------- the others */

static shoal_status connect_to_0(shoali_talk *talk, const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "no socket");
    small_segments(fd);
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
        shoal_status status = shoali_fail_os(SHOAL_EPEER, errno, "cannot connect");
        close(fd);
        return status;
    }
    return shoali_meet_stream_start(&talk->lines[0].stream, fd, true, talk->meeting);
}

/* Until the handshake is done. */
static shoal_status greet(shoali_talk *talk, uint64_t deadline_us)
{
    shoali_meet_stream *s = &talk->lines[0].stream;
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    while (shoali_now_us() < deadline_us) {
        SHOALI_TRY(shoali_meet_stream_write(s));
        shoal_status status = shoali_meet_stream_read(s, &kind, &body, &length);
        if (status != SHOAL_PENDING)
            return status == SHOAL_OK ? shoali_fail(SHOAL_ECORRUPT, "an early word") : status;
        if (s->open && !shoali_meet_stream_wants_out(s))
            return SHOAL_OK;
        bool out = shoali_meet_stream_wants_out(s);
        struct pollfd wait = {.fd = s->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0))};
        (void)poll(&wait, 1, POLL_MS);
    }
    return shoali_fail(SHOAL_ETIMEDOUT, "no answer");
}

static shoal_status reach_0(shoali_talk *talk)
{
    struct addrinfo *list;
    SHOALI_TRY(shoali_meet_resolve(talk->meeting, &list));
    const struct addrinfo *address = list;
    shoal_status status;
    for (;;) {
        status = connect_to_0(talk, address);
        if (status == SHOAL_OK)
            status = greet(talk, talk->meeting->deadline_us);
        if (status == SHOAL_OK || status == SHOAL_EAUTH || status == SHOAL_EVERSION ||
            shoali_now_us() >= talk->meeting->deadline_us)
            break;
        shoali_meet_stream_close(&talk->lines[0].stream);
        address = address->ai_next != NULL ? address->ai_next : list;
        (void)poll(NULL, 0, POLL_MS);
    }
    freeaddrinfo(list);
    return status;
}

static shoal_status take_told(shoali_talk *talk, const uint8_t *body, size_t length, uint32_t want)
{
    if (length < HEAD_BYTES || shoali_get_u32(body) != want ||
        length - HEAD_BYTES > SHOALI_DOCTOR_BODY_BYTES)
        return shoali_fail(SHOAL_ECORRUPT, "rank 0 sent an unreadable word");
    talk->words[want].len_bytes = length - HEAD_BYTES;
    memcpy(talk->words[want].bytes, body + HEAD_BYTES, length - HEAD_BYTES);
    talk->gone[want] = length == HEAD_BYTES;
    return SHOAL_OK;
}

static shoal_status exchange_with_0(shoali_talk *talk, uint64_t deadline_us)
{
    shoali_meet_stream *s = &talk->lines[0].stream;
    uint8_t mine[HEAD_BYTES + SHOALI_DOCTOR_BODY_BYTES];
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoali_put_u32(mine, talk->me);
    memcpy(mine + HEAD_BYTES, talk->words[talk->me].bytes, talk->words[talk->me].len_bytes);
    if (!shoali_meet_stream_put(s, SHOALI_MESSAGE_record, mine,
                                HEAD_BYTES + talk->words[talk->me].len_bytes))
        return shoali_fail(SHOAL_EINTERNAL, "a word before the last one had gone");
    for (uint32_t got = 0; got < talk->ranks;) {
        SHOALI_TRY(shoali_meet_stream_write(s));
        shoal_status status = shoali_meet_stream_read(s, &kind, &body, &length);
        if (status == SHOAL_OK) {
            SHOALI_TRY(take_told(talk, body, length, got++));
            continue;
        }
        if (status != SHOAL_PENDING)
            return status;
        if (shoali_now_us() >= deadline_us)
            return shoali_fail(SHOAL_ETIMEDOUT, "rank 0 did not answer");
        bool out = shoali_meet_stream_wants_out(s);
        struct pollfd wait = {.fd = s->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0))};
        (void)poll(&wait, 1, POLL_MS);
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- both */

shoal_status shoali_talk_exchange(shoali_talk *talk, const void *word, size_t len_bytes,
                                  uint64_t timeout_us)
{
    if (len_bytes == 0 || len_bytes > SHOALI_DOCTOR_BODY_BYTES)
        return shoali_fail(SHOAL_EINTERNAL, "a word of %zu bytes", len_bytes);
    for (uint32_t rank = 0; rank < talk->ranks; rank++)
        talk->words[rank].len_bytes = 0;
    for (uint32_t i = 0; i < talk->line_count; i++) {
        talk->lines[i].said = false;
        talk->lines[i].told = 0;
    }
    talk->words[talk->me].len_bytes = len_bytes;
    memcpy(talk->words[talk->me].bytes, word, len_bytes);
    uint64_t deadline_us = shoali_now_us() + timeout_us;
    if (talk->me != 0)
        return exchange_with_0(talk, deadline_us + 3000000); /* rank 0 knows best who is late */
    exchange_at_0(talk, deadline_us);
    return SHOAL_OK;
}

const uint8_t *shoali_talk_word(const shoali_talk *talk, uint32_t rank, size_t *len_bytes_out)
{
    *len_bytes_out = talk->words[rank].len_bytes;
    return talk->words[rank].bytes;
}

shoal_status shoali_talk_open(const shoali_meeting *meeting, uint32_t ranks, shoali_talk **talk_out)
{
    shoali_talk *talk = shoali_alloc(sizeof *talk);
    if (talk == NULL)
        return SHOAL_ENOMEM;
    *talk = (shoali_talk){
        .meeting = meeting, .me = meeting->mine->rank, .ranks = ranks, .listener = -1};
    talk->line_count = talk->me == 0 ? ranks : 1;
    talk->lines = shoali_alloc_array(talk->line_count, sizeof *talk->lines);
    talk->words = shoali_alloc_array(ranks, sizeof *talk->words);
    talk->gone = shoali_alloc_array(ranks, sizeof *talk->gone);
    shoal_status status = SHOAL_OK;
    if (talk->lines == NULL || talk->words == NULL || talk->gone == NULL)
        status = SHOAL_ENOMEM;
    for (uint32_t i = 0; status == SHOAL_OK && i < talk->line_count; i++) {
        talk->lines[i].stream.fd = -1;
        talk->lines[i].rank = UINT32_MAX;
    }
    if (status == SHOAL_OK && ranks > 1 && talk->me == 0)
        status = shoali_meet_listen(meeting, &talk->listener);
    if (status == SHOAL_OK && talk->listener >= 0)
        small_segments(talk->listener);
    if (status == SHOAL_OK && talk->me != 0)
        status = reach_0(talk);
    if (status == SHOAL_OK)
        *talk_out = talk;
    else
        shoali_talk_close(talk);
    return status;
}

void shoali_talk_close(shoali_talk *talk)
{
    if (talk == NULL)
        return;
    for (uint32_t i = 0; talk->lines != NULL && i < talk->line_count; i++)
        shoali_meet_stream_close(&talk->lines[i].stream);
    if (talk->listener >= 0)
        close(talk->listener);
    shoali_free(talk->lines);
    shoali_free(talk->words);
    shoali_free(talk->gone);
    shoali_free(talk);
}
