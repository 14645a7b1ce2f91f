/* SPDX-License-Identifier: Apache-2.0 */
/* The store of rank 0. One thread, one poll loop, a bounded number of callers:
 *
 *   COLLECT  callers prove the token and bring records; all hear who is missing, the more of them
 *            the less often
 *   HAND OUT everyone is there: each caller gets the table, record by record
 *            (a caller lost here: back to COLLECT)
 *   over     all tables are gone, or the deadline, or two ranks disagree: all callers hear the same
 *            text */
#include <errno.h>
#include <fcntl.h>
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
#include "meet/visitors.h"

enum {
    PROMPT_MOST = 32, /* ranks: of more, on one machine, each may wait a second for its turn */
    RECORD_US = 10 * 1000 * 1000,  /* how long one that has proved itself may take to join */
    FAREWELL_US = 2 * 1000 * 1000, /* how long a last text may take to leave */
    POLL_MS = 100,
    NEWS_US = 2 * 1000 /* per rank of the job, between two texts to one caller */
};

typedef struct visitor {
    shoali_visitor base; /* known: it has joined */
    bool farewell;
    uint32_t rank;    /* once joined */
    uint32_t handed;  /* records queued so far */
    uint32_t told;    /* generation of the waiting text that it has heard */
    uint64_t told_us; /* when */
} visitor;

typedef struct store {
    const shoali_meeting *meeting;
    int listener;
    uint32_t size, present, generation;
    shoali_visitors visitors;
    struct pollfd *polls;   /* the listener's, then the visitors' */
    uint32_t served;        /* ranks that have the whole table, rank 0 among them */
    bool *in;               /* by rank */
    shoali_record *records; /* by rank */
    char last_lost[256];    /* "rank 3 from 10.0.0.7:4123 (the connection broke)" */
    uint64_t last_lost_us;
} store;

static void note_lost(store *s, const visitor *v, const char *why)
{
    s->last_lost_us = shoali_now_us();
    if (v->base.known)
        snprintf(s->last_lost, sizeof s->last_lost, "rank %u left %s: %.120s", v->rank,
                 v->base.from, why);
    else
        snprintf(s->last_lost, sizeof s->last_lost, "a caller from %s: %.160s", v->base.from, why);
}

static visitor *visitor_at(const store *s, uint32_t index)
{
    return (visitor *)s->visitors.all[index];
}

static void drop(store *s, uint32_t index, const char *why)
{
    const visitor *v = visitor_at(s, index);
    if (why != NULL)
        note_lost(s, v, why);
    if (v->base.known && v->handed < s->size) {
        s->in[v->rank] = false;
        s->present--;
        s->generation++;
    }
    shoali_visitors_drop(&s->visitors, index);
}

/* A record: of a rank that is free, and in agreement with rank 0's. A disagreement ends the job for
 * all. */
static shoal_status join(store *s, visitor *v, const shoali_record *record, bool *fatal_out)
{
    *fatal_out = true;
    SHOALI_TRY(shoali_meet_agree(s->meeting->mine, record));
    *fatal_out = false;
    if (record->rank != v->base.stream.shake.peer.endpoint ||
        record->incarnation != v->base.stream.shake.peer.incarnation)
        return shoali_fail(SHOAL_ECORRUPT, "a record of rank %u from rank %u", record->rank,
                           v->base.stream.shake.peer.endpoint);
    if (s->in[record->rank]) {
        shoal_status status = shoali_fail(
            SHOAL_EINVAL, "rank %u came twice: from host %s and from host %s", record->rank,
            s->records[record->rank].host, record->host);
        shoali_error_about((int32_t)record->rank, record->host, "join", -1);
        shoali_error_advice("Give every process a rank of its own.");
        return status;
    }
    s->records[record->rank] = *record;
    s->in[record->rank] = true;
    s->present++;
    s->generation++;
    v->base.known = true;
    v->rank = record->rank;
    v->told = s->generation - 1;
    return SHOAL_OK;
}

/* Queue the end; false: something else is still leaving. */
static bool tell(visitor *v, const shoal_error *why)
{
    shoali_abort farewell = {.status = (uint32_t)why->status,
                             .culprit = why->rank >= 0 ? (uint32_t)why->rank : SHOALI_NOBODY};
    uint8_t body[SHOALI_ABORT_BYTES];
    snprintf(farewell.text, sizeof farewell.text, "%.380s", why->text);
    return shoali_meet_stream_put(&v->base.stream, SHOALI_MESSAGE_abort, body,
                                  shoali_abort_encode(&farewell, body));
}

/* Everything that one caller has sent. PENDING: all is well; else it is to be dropped; *fatal_out:
 * and the job ends. */
static shoal_status hear(store *s, visitor *v, bool *fatal_out)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoali_record record;
    *fatal_out = false;
    for (;;) {
        SHOALI_TRY(shoali_meet_stream_read(&v->base.stream, &kind, &body, &length));
        if (kind != SHOALI_MESSAGE_record || v->base.known ||
            !shoali_record_decode(body, length, &record))
            return shoali_fail(SHOAL_ECORRUPT, "an unexpected frame of kind %u in a rendezvous",
                               kind);
        shoal_status status = join(s, v, &record, fatal_out);
        if (status != SHOAL_OK) {
            shoal_error why;
            shoali_error_get(&why);
            if (!*fatal_out && tell(v, &why)) /* else everyone will be told */
                shoali_meet_stream_try(&v->base.stream);
            return shoali_error_set(&why);
        }
    }
}

/* Queue what this caller should hear next. */
static void talk(store *s, visitor *v, uint64_t now_us)
{
    if (!v->base.known || !shoali_meet_stream_idle(&v->base.stream))
        return;
    if (s->present == s->size) {
        uint8_t body[SHOALI_RECORD_BYTES];
        if (v->handed < s->size &&
            shoali_meet_stream_put(&v->base.stream, SHOALI_MESSAGE_record, body,
                                   shoali_record_encode(&s->records[v->handed], body)))
            v->handed++;
    } else if (v->told != s->generation && now_us >= v->told_us + (uint64_t)NEWS_US * s->size) {
        char text[SHOALI_ABORT_TEXT_BYTES] = "";
        shoali_meet_missing(s->in, s->size, text, sizeof text);
        if (shoali_meet_stream_put(&v->base.stream, SHOALI_MESSAGE_waiting, text, strlen(text)))
            v->told = s->generation, v->told_us = now_us;
    }
}

/* PENDING: go on; OK: it has the table; else it is to be dropped. */
static shoal_status serve_visitor(store *s, visitor *v, short events, uint64_t now_us,
                                  bool *fatal_out)
{
    *fatal_out = false;
    if (events & (POLLIN | POLLERR | POLLHUP)) {
        shoal_status status = hear(s, v, fatal_out);
        if (status != SHOAL_PENDING)
            return status;
    }
    do {
        talk(s, v, now_us);
        SHOALI_TRY(shoali_meet_stream_write(&v->base.stream));
    } while (s->present == s->size && v->base.known && v->handed < s->size &&
             shoali_meet_stream_idle(&v->base.stream));
    if (v->base.known && v->handed == s->size && shoali_meet_stream_idle(&v->base.stream))
        return SHOAL_OK;
    if (s->size <= PROMPT_MOST)
        SHOALI_TRY(shoali_visitor_in_time(&v->base, now_us));
    if (!v->base.known && now_us - v->base.since_us > RECORD_US)
        return shoali_fail(SHOAL_ETIMEDOUT, "it said nothing of use for %d s", RECORD_US / 1000000);
    return SHOAL_PENDING;
}

static void wait_for_events(store *s)
{
    s->polls[0] = shoali_visitors_listen(&s->visitors, s->listener);
    shoali_visitors_want(&s->visitors, s->polls + 1);
    (void)poll(s->polls, 1 + s->visitors.count, POLL_MS);
}

static shoal_status missing(const store *s)
{
    const shoali_meeting *m = s->meeting;
    char who[160], seen[300] = "";
    uint64_t now_us = shoali_now_us();
    shoali_meet_missing(s->in, s->size, who, sizeof who);
    if (s->last_lost[0] != '\0')
        snprintf(seen, sizeof seen, "; last seen %.1f s ago: %s",
                 (double)(now_us - s->last_lost_us) * 1e-6, s->last_lost);
    shoal_status status = shoali_fail(SHOAL_ETIMEDOUT, "%s of %u did not join within %.3g s%s", who,
                                      s->size, (double)(m->deadline_us - m->started_us) * 1e-6,
                                      seen[0] ? seen : "; never seen");
    shoali_error_about(-1, NULL, "join", (int64_t)(now_us - m->started_us));
    shoali_error_advice(
        "Look at the output of these ranks: they have to start, and to reach %.100s.", m->place);
    return status;
}

/* One round of the loop. PENDING: go on. */
static shoal_status serve_once(store *s)
{
    wait_for_events(s);
    uint64_t now_us = shoali_now_us();
    for (uint32_t i = s->visitors.count; i-- > 0;) { /* backwards: drop moves the last one here */
        bool fatal;
        shoal_status status = serve_visitor(s, visitor_at(s, i), s->polls[1 + i].revents, now_us,
                                            &fatal);
        if (status == SHOAL_PENDING)
            continue;
        if (fatal)
            return status;
        if (status == SHOAL_OK) {
            s->served++;
            drop(s, i, NULL);
            continue;
        }
        /* As rank 0 only a spare calls here: it looks for the running job. */
        const bool looks = visitor_at(s, i)->base.stream.shake.peer.endpoint ==
                           s->meeting->mine->rank;
        const shoali_log_level level = looks ? SHOALI_LOG_INFO : SHOALI_LOG_WARN;
        if (shoali_log_on(level))
            shoali_log_write(level, "rendezvous: a caller from %s is refused: %s",
                             s->visitors.all[i]->from, shoal_last_error()->text);
        drop(s, i, shoal_last_error()->text);
    }
    if (s->polls[0].revents != 0)
        shoali_visitors_accept(&s->visitors, s->listener, NULL, NULL);
    if (s->served == s->size)
        return SHOAL_OK;
    return now_us >= s->meeting->deadline_us ? missing(s) : SHOAL_PENDING;
}

/* One caller at the end: take in what it has sent, tell it, send. True: it is gone or has been
 * told. */
static bool tell_visitor(visitor *v, const shoal_error *why, uint32_t *told)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoal_status status;
    do
        status = shoali_meet_stream_read(&v->base.stream, &kind, &body, &length);
    while (status == SHOAL_OK);
    if (status == SHOAL_PENDING && !v->farewell && shoali_meet_stream_idle(&v->base.stream))
        v->farewell = tell(v, why);
    if (status != SHOAL_PENDING || shoali_meet_stream_write(&v->base.stream) != SHOAL_OK)
        return true;
    bool over = v->farewell && shoali_meet_stream_idle(&v->base.stream);
    *told += over;
    return over;
}

/* Tell everyone why it is over: those who are here and, unless the deadline is what ended it, those
 * who come within FAREWELL_US. */
static void say_farewell(store *s)
{
    shoal_error why;
    shoali_error_get(&why);
    uint64_t until_us = shoali_now_us() + FAREWELL_US;
    uint32_t told = 0, awaited = why.status == SHOAL_ETIMEDOUT ? 0 : s->size - 1;
    if (s->meeting->refusal != NULL)
        awaited = s->meeting->ranks - 1;
    while (s->listener >= 0 && shoali_now_us() < until_us &&
           (s->visitors.count > 0 || told < awaited)) {
        shoali_visitors_accept(&s->visitors, s->listener, NULL, NULL);
        for (uint32_t i = s->visitors.count; i-- > 0;)
            if (tell_visitor(visitor_at(s, i), &why, &told))
                drop(s, i, NULL);
        if (s->visitors.count > 0 || told < awaited)
            wait_for_events(s);
    }
}

static shoal_status open_store(store *s, shoali_record *records_out)
{
    s->size = s->meeting->mine->world_size;
    s->records = records_out;
    SHOALI_TRY(shoali_visitors_open(s->meeting, sizeof(visitor), s->size, &s->visitors));
    s->polls = shoali_alloc_array(1 + shoali_visitors_room(&s->visitors), sizeof *s->polls);
    s->in = shoali_alloc_array(s->size, sizeof *s->in);
    if (s->polls == NULL || s->in == NULL)
        return SHOAL_ENOMEM;
    s->records[0] = *s->meeting->mine;
    s->in[0] = true;
    s->present = s->served = 1;
    if (s->meeting->listener == NULL)
        return shoali_meet_listen(s->meeting, &s->listener);
    s->listener = fcntl(*s->meeting->listener, F_DUPFD_CLOEXEC, 0);
    return s->listener >= 0 ? SHOAL_OK : shoali_fail_os(SHOAL_ESYSTEM, errno, "no descriptor");
}

/* Who calls this process's relay on another cable is led here. */
static void tell_relay(const store *s)
{
    shoali_way here = {.relayed = false};
    socklen_t bytes = sizeof here.ip;
    if (getsockname(s->listener, &here.ip.any, &bytes) != 0)
        return;
    if (here.ip.any.sa_family == AF_INET && here.ip.v4.sin_addr.s_addr == htonl(INADDR_ANY))
        here.ip.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (here.ip.any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&here.ip.v6.sin6_addr))
        here.ip.v6.sin6_addr = in6addr_loopback;
    shoali_relay_found(s->meeting->relay, &here);
}

shoal_status shoali_meet_serve(const shoali_meeting *meeting, shoali_record *records_out)
{
    store s = {.meeting = meeting, .listener = -1};
    shoal_status status = open_store(&s, records_out);
    if (status == SHOAL_OK)
        tell_relay(&s);
    if (status == SHOAL_OK && meeting->refusal != NULL)
        status = shoali_error_set(meeting->refusal);
    if (status == SHOAL_OK)
        do
            status = serve_once(&s);
        while (status == SHOAL_PENDING);
    shoal_error why;
    shoali_error_get(&why);
    if (status != SHOAL_OK)
        say_farewell(&s);
    while (s.visitors.count > 0)
        drop(&s, 0, NULL);
    if (s.listener >= 0)
        close(s.listener);
    shoali_visitors_close(&s.visitors);
    shoali_free(s.polls);
    shoali_free(s.in);
    return status == SHOAL_OK ? SHOAL_OK : shoali_error_set(&why);
}
