/* SPDX-License-Identifier: Apache-2.0 */
/* A stream is at work (the daemon asks it for bytes), or asleep (suspended) as it has told all:
 *
 *     at work --- nothing new, suspend ---> asleep --- published, resume ---> at work
 *
 * Both under the lock, so none sleeps through what was published. */
#include "watch_stream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_door.h"
#include "terminal.h"

enum {
    SLOW_MS = 10000, /* to read one text */
    BLOCK_BYTES = 16 * 1024
};

typedef struct text {
    unsigned refs;
    size_t bytes, json_at, json_bytes;
    char data[];
} text;

typedef struct stream {
    watch_streams *all;
    struct MHD_Connection *connection; /* NULL: a free place */
    text *sends;                       /* NULL: nothing */
    size_t sent;
    int64_t since_ms; /* sends it */
    uint64_t told;    /* number of the newest text that it began to send */
    bool asleep;
} stream;

struct watch_streams {
    pthread_mutex_t lock;
    stream one[WATCH_STREAMS];
    text *newest;
    uint64_t number; /* of the newest; 0: none yet */
};

watch_streams *watch_streams_new(void)
{
    watch_streams *streams = calloc(1, sizeof *streams);
    if (streams != NULL && pthread_mutex_init(&streams->lock, NULL) != 0) {
        free(streams);
        return NULL;
    }
    return streams;
}

/* ------------------------------------------------------------------ texts; under the lock */

static void let_go(text *t)
{
    if (t != NULL && --t->refs == 0)
        free(t);
}

static text *make(const char *json, uint64_t number)
{
    static const char format[] = "retry: 2000\nid: %llu\ndata: ";
    char head[64];
    const size_t before = (size_t)snprintf(head, sizeof head, format, (unsigned long long)number);
    const size_t length = strcspn(json, "\r\n"); /* a line, or it would not be one event */
    text *t = malloc(sizeof *t + before + length + 2);
    if (t == NULL)
        return NULL;
    *t = (text){.refs = 1, .bytes = before + length + 2, .json_at = before, .json_bytes = length};
    memcpy(t->data, head, before);
    memcpy(t->data + before, json, length);
    memcpy(t->data + before + length, "\n\n", 2);
    return t;
}

/* ------------------------------------------------------------------ the daemon's thread */

static void begin(stream *s)
{
    if (s->all->number == s->told)
        return;
    s->sends = s->all->newest;
    s->sends->refs++;
    s->told = s->all->number;
    s->sent = 0;
    s->since_ms = terminal_now_ms();
}

static ssize_t read_some(void *ctx, uint64_t at, char *out, size_t most)
{
    stream *s = ctx;
    size_t bytes = 0;
    (void)at;
    (void)pthread_mutex_lock(&s->all->lock);
    if (s->sends == NULL)
        begin(s);
    if (s->sends == NULL) {
        s->asleep = true;
        MHD_suspend_connection(s->connection);
    } else {
        const size_t left = s->sends->bytes - s->sent;
        bytes = left < most ? left : most;
        memcpy(out, s->sends->data + s->sent, bytes);
        s->sent += bytes;
        if (bytes == left) {
            let_go(s->sends);
            s->sends = NULL;
        }
    }
    (void)pthread_mutex_unlock(&s->all->lock);
    return (ssize_t)bytes;
}

static void leave(void *ctx)
{
    stream *s = ctx;
    (void)pthread_mutex_lock(&s->all->lock);
    let_go(s->sends);
    s->sends = NULL;
    s->asleep = false;
    s->connection = NULL;
    (void)pthread_mutex_unlock(&s->all->lock);
}

struct MHD_Response *watch_streams_open(watch_streams *streams, struct MHD_Connection *connection)
{
    struct MHD_Response *response = NULL;
    size_t i = 0;
    (void)pthread_mutex_lock(&streams->lock);
    while (i < WATCH_STREAMS && streams->one[i].connection != NULL)
        i++;
    if (i < WATCH_STREAMS)
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_some,
                                                     &streams->one[i], leave);
    if (response != NULL)
        streams->one[i] = (stream){.all = streams, .connection = connection};
    (void)pthread_mutex_unlock(&streams->lock);
    return response;
}

struct MHD_Response *watch_streams_last(watch_streams *streams)
{
    static char nothing[] = "{}";
    (void)pthread_mutex_lock(&streams->lock);
    const text *t = streams->newest;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        t != NULL ? t->json_bytes : 2,
        t != NULL ? (char *)(uintptr_t)t->data + t->json_at : nothing, MHD_RESPMEM_MUST_COPY);
    (void)pthread_mutex_unlock(&streams->lock);
    return response;
}

/* ------------------------------------------------------------------ any thread */

/* Under the lock. */
static void wake(stream *s)
{
    if (s->connection == NULL || !s->asleep)
        return;
    s->asleep = false;
    MHD_resume_connection(s->connection);
}

bool watch_streams_publish(watch_streams *streams, const char *json, int64_t now_ms)
{
    (void)pthread_mutex_lock(&streams->lock);
    text *t = make(json, streams->number + 1);
    if (t != NULL) {
        let_go(streams->newest);
        streams->newest = t;
        streams->number++;
    }
    for (size_t i = 0; i < WATCH_STREAMS; i++) {
        stream *s = &streams->one[i];
        if (s->connection != NULL && s->sends != NULL && now_ms - s->since_ms > SLOW_MS)
            http_hang_up(s->connection);
        wake(s);
    }
    (void)pthread_mutex_unlock(&streams->lock);
    return t != NULL;
}

void watch_streams_free(watch_streams *streams)
{
    let_go(streams->newest);
    (void)pthread_mutex_destroy(&streams->lock);
    free(streams);
}
