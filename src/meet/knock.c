/* SPDX-License-Identifier: Apache-2.0 */
/* A visitor's side of a door (door.h). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "meet/door.h"
#include "transport/address.h"
#include "wire/messages.h"

enum { ANSWER_US = 400 * 1000, /* a door opens at once, or is none */ POLL_MS = 10, PAUSE_MS = 50 };
enum { LOADED_US = 1500 * 1000 }; /* to a newcomer, where somebody listens */
enum { KNOWN_DOORS = 64 };
enum { ASK_AGAIN_US = 2 * 1000 * 1000 }; /* who has a name may change */

typedef struct visit {
    const shoali_door *door; /* mine */
    shoali_meet_stream *stream;
    uint64_t began_us, deadline_us;
    uint32_t doubts; /* said so far */
    bool said, answered;
    shoali_visit_words *words;
} visit;

static shoal_status dial(visit *v, const char *address)
{
    char place[SHOALI_DOOR_BYTES + 8], host[256], port[8];
    shoali_ip ip;
    snprintf(place, sizeof place, "tcp://%s", address);
    if (!shoali_meet_parse(place, host, sizeof host, port, sizeof port) ||
        !shoali_ip_parse(host, &ip))
        return SHOAL_PENDING; /* a name: learn_named asks for it */
    shoali_ip_set_port(&ip, (uint16_t)strtoul(port, NULL, 10));
    if (v->door->token.len_bytes == 0 && !shoali_ip_is_loopback(&ip))
        return SHOAL_PENDING;
    int fd = socket(ip.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "no socket to visit %s", address);
    if (!shoali_ip_connect(fd, &ip.any, shoali_ip_bytes(&ip)) ||
        shoali_meet_stream_start(v->stream, fd, true, &v->door->meeting) != SHOAL_OK) {
        close(fd);
        return SHOAL_PENDING;
    }
    return SHOAL_OK;
}

/* A frame at a time. */
static void introduce(visit *v)
{
    uint8_t body[SHOALI_RECORD_BYTES];
    const shoali_guest *call = v->words->call;
    _Static_assert((int)SHOALI_RECORD_BYTES >= (int)SHOALI_PROPOSAL_BYTES, "a frame");
    if (v->said || !shoali_meet_stream_idle(v->stream))
        return;
    if (call != NULL && v->doubts < call->come.doubts) {
        size_t length = shoali_proposal_encode(&call->doubts[v->doubts], body);
        v->doubts += shoali_meet_stream_put(v->stream, SHOALI_MESSAGE_proposal, body, length);
        return;
    }
    size_t length = call != NULL ? shoali_come_encode(&call->come, body)
                                 : shoali_record_encode(&v->door->mine, body);
    uint16_t kind = call != NULL ? SHOALI_MESSAGE_come : SHOALI_MESSAGE_record;
    v->said = shoali_meet_stream_put(v->stream, kind, body, length);
}

/* PENDING with answered: go on. */
static shoal_status hear(visit *v)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoali_abort end;
    shoali_visit_words *w = v->words;
    for (;;) {
        SHOALI_TRY(shoali_meet_stream_read(v->stream, &kind, &body, &length));
        v->answered = true;
        if (kind == SHOALI_MESSAGE_admit && length > SHOALI_ADMIT_BYTES &&
            shoali_admit_decode(body, SHOALI_ADMIT_BYTES, &w->admit) &&
            shoali_proposal_decode(body + SHOALI_ADMIT_BYTES, length - SHOALI_ADMIT_BYTES,
                                   &w->proposal) &&
            w->proposal.epoch == w->admit.epoch)
            return SHOAL_OK;
        if (kind == SHOALI_MESSAGE_abort && shoali_abort_decode(body, length, &end))
            return shoali_fail((shoal_status)end.status, "%s", end.text);
        if (kind != SHOALI_MESSAGE_held || !shoali_held_decode(body, length, &w->held))
            return shoali_fail(SHOAL_ECORRUPT, "an unexpected frame of kind %u from a door", kind);
        if (!w->held.stay)
            return shoali_fail(SHOAL_EPEER, "sent to another door");
    }
}

static bool is_connected(const visit *v)
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    return getpeername(v->stream->fd, (struct sockaddr *)&peer, &length) == 0;
}

/* A member is answered only when all have come; the handshake shows that there is a door. */
static bool is_silent(const visit *v, uint64_t now_us)
{
    const bool member = v->words->call != NULL;
    bool heard = member ? v->said : v->answered;
    if (heard || now_us <= v->began_us + ANSWER_US)
        return false;
    return member || now_us > v->began_us + LOADED_US || !is_connected(v);
}

static shoal_status stay(visit *v, bool (*goes_on)(void *ctx), void *ctx)
{
    for (;;) {
        uint64_t now_us = shoali_now_us();
        SHOALI_TRY(shoali_meet_stream_write(v->stream));
        shoal_status status = hear(v);
        if (status != SHOAL_PENDING)
            return status;
        introduce(v);
        if (now_us > v->deadline_us || is_silent(v, now_us) || (goes_on != NULL && !goes_on(ctx)))
            return SHOAL_PENDING;
        bool out = shoali_meet_stream_wants_out(v->stream);
        struct pollfd wait = {.fd = v->stream->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0))};
        (void)poll(&wait, 1, POLL_MS);
    }
}

shoal_status shoali_knock(const shoali_door *door, const char *address, int fd,
                          uint64_t deadline_us, bool (*goes_on)(void *ctx), void *ctx,
                          shoali_visit_words *words)
{
    visit v = {
        .door = door, .words = words, .began_us = shoali_now_us(), .deadline_us = deadline_us};
    words->held.count = words->held.stay = 0;
    v.stream = shoali_alloc(sizeof *v.stream);
    if (v.stream == NULL) {
        if (fd >= 0)
            close(fd);
        return SHOAL_ENOMEM;
    }
    v.stream->fd = fd;
    shoal_status status = fd >= 0 ? shoali_meet_stream_start(v.stream, fd, true, &door->meeting)
                                  : dial(&v, address);
    if (status == SHOAL_OK)
        status = stay(&v, goes_on, ctx);
    shoali_meet_stream_close(v.stream);
    shoali_free(v.stream);
    if (status == SHOAL_OK && fd < 0 && words->call != NULL)
        snprintf(words->admit.door, sizeof words->admit.door, "%s", address);
    if (status == SHOAL_EVERSION || status == SHOAL_EMISMATCH || status == SHOAL_ECANCELLED ||
        status == SHOAL_ENOMEM || status == SHOAL_OK)
        return status;
    if (status != SHOAL_PENDING)
        shoali_log(DEBUG, "door %s: %s", address, shoal_last_error()->text);
    if (status == SHOAL_EEPOCH && words->call == NULL) /* the next epoch meets there: come again */
        words->held.stay = 1;
    return SHOAL_PENDING;
}

/* ------------------------------------------------------------------ looking for the job */

typedef struct search {
    char doors[KNOWN_DOORS][SHOALI_DOOR_BYTES];
    uint32_t count;
    uint64_t asked_us; /* when the rendezvous' name was asked for */
    bool met;          /* somebody has answered: there is a job */
} search;

static void learn(search *s, const char *address)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (strcmp(s->doors[i], address) == 0)
            return;
    if (s->count < KNOWN_DOORS && address[0] != '\0')
        snprintf(s->doors[s->count++], SHOALI_DOOR_BYTES, "%s", address);
}

/* At first what the door knows; whoever goes on looking asks again. */
static void learn_named(search *s, const shoali_door *door)
{
    shoali_ip fresh[SHOALI_DOOR_PLACES];
    const shoali_ip *ips = door->places;
    uint32_t count = door->place_count;
    const uint64_t now_us = shoali_now_us();
    if (s->asked_us != 0 && now_us < s->asked_us + ASK_AGAIN_US)
        return;
    if (s->asked_us != 0 || count == 0) {
        ips = fresh;
        count = shoali_door_resolve(door, fresh);
    }
    s->asked_us = now_us;
    for (uint32_t i = 0; i < count; i++) {
        char text[SHOALI_IP_TEXT_BYTES], address[SHOALI_DOOR_BYTES];
        shoali_ip_format(&ips[i], text);
        snprintf(address, sizeof address,
                 ips[i].any.sa_family == AF_INET6 ? "[%.46s]:%u" : "%.46s:%u", text,
                 shoali_ip_port(&ips[i]));
        learn(s, address);
    }
}

/* All doors that it knows of, and those that it hears of meanwhile. */
static shoal_status once_round(search *s, const shoali_door *door, uint32_t first,
                               uint64_t deadline_us, shoali_visit_words *words)
{
    char address[SHOALI_DOOR_BYTES];
    for (uint32_t i = first; shoali_door_known(door, i, address); i++)
        learn(s, address);
    if (first == 0)
        learn_named(s, door);
    for (uint32_t i = 0; i < s->count; i++) {
        snprintf(address, sizeof address, "%s", s->doors[i]);
        if (strcmp(address, door->address) == 0)
            continue;
        shoal_status status = shoali_knock(door, address, -1, deadline_us, NULL, NULL, words);
        for (uint32_t d = 0; d < words->held.count; d++)
            learn(s, words->held.doors[d]);
        s->met = s->met || words->held.count > 0 || words->held.stay;
        if (status != SHOAL_PENDING)
            return status;
    }
    return SHOAL_PENDING;
}

shoal_status shoali_seek(const shoali_door *door, bool wait, uint64_t deadline_us,
                         shoali_admit *admit_out)
{
    search *s = shoali_alloc(sizeof *s);
    shoali_visit_words words = {.call = NULL};
    bool tcp = strncmp(door->rendezvous, "tcp://", 6) == 0; /* there others meet rank 0 anyway */
    uint32_t first = !wait && tcp && door->mine.rank > 0 ? 1 : 0;
    shoal_status status = s != NULL ? SHOAL_PENDING : SHOAL_ENOMEM;
    while (status == SHOAL_PENDING) {
        status = once_round(s, door, first, deadline_us, &words);
        bool again = wait || s->met;
        if (status != SHOAL_PENDING || !again || shoali_now_us() >= deadline_us)
            break;
        (void)poll(NULL, 0, PAUSE_MS);
    }
    shoali_free(s);
    *admit_out = words.admit;
    return status;
}
