/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon behind shoal/aggregator.h. One thread accepts; each caller gets a thread of its own:
 *
 *   GREETING  proves the token and brings an invitation, within GREETING_US
 *   JOINING   the answer is given; the communicator is made
 *   SERVING   serve.c does it, on the communicator's thread, until the last rank has gone
 *   OVER      to be joined by the accepting thread
 *
 * A caller that is no job costs a thread for GREETING_US at most, and there are at most CALLERS_MAX
 * of them. */
#include "shoal/aggregator.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm/inner.h"
#include "comm/meet_net.h"
#include "comm/meet_stream.h"
#include "comm/serve.h"
#include "wire/messages.h"

enum {
    CALLERS_MAX = 64,
    GREETING_US = 5 * 1000 * 1000,
    POLL_MS = 50,
    DEFAULT_JOBS_MAX = 64,
    DEFAULT_PORT = 29600
};
static const uint64_t default_memory_bytes = (uint64_t)1 << 30;

typedef enum { GREETING, JOINING, SERVING, OVER } phase;

typedef struct hosted {
    struct hosted *next;
    shoal_aggregator *aggregator;
    pthread_t thread;
    char from[SHOALI_MEET_FROM_BYTES];
    shoali_service service;
    shoali_meet_stream stream;
    uint64_t since_us, epoch;
    /* lock */
    phase phase;
    bool *gone; /* [ranks] */
    uint32_t gone_count;
} hosted;

struct shoal_aggregator {
    /* constant */
    shoali_token token;
    shoali_record self; /* what the handshake needs of it */
    char place[SHOALI_PLACE_BYTES], interface[256];
    uint64_t memory_limit_bytes;
    uint32_t jobs_max;
    shoali_in_kernel *kernel; /* NULL: user space sums */
    uint16_t port;
    int listener, wake;
    pthread_t thread;
    atomic_bool stopping;
    /* lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hosted *all;
    uint64_t epochs;
    shoal_aggregator_stats ended; /* sums of what is over */
};

/* ------------------------------------------------------------------ one job */

static void set_phase(hosted *h, phase next)
{
    pthread_mutex_lock(&h->aggregator->lock);
    h->phase = next;
    pthread_cond_broadcast(&h->aggregator->changed);
    pthread_mutex_unlock(&h->aggregator->lock);
}

static void rank_went(void *ctx, uint32_t endpoint, shoal_status why, const char *text)
{
    hosted *h = ctx;
    (void)why, (void)text;
    pthread_mutex_lock(&h->aggregator->lock);
    h->gone_count += !h->gone[endpoint];
    h->gone[endpoint] = true;
    pthread_cond_broadcast(&h->aggregator->changed);
    pthread_mutex_unlock(&h->aggregator->lock);
}

static shoal_status serve(hosted *h)
{
    shoal_aggregator *a = h->aggregator;
    const shoali_comm_listener listener = {.ctx = h, .on_peer_down = rank_went};
    shoal_comm *comm = NULL;
    SHOALI_TRY(shoali_comm_create_serving(&h->service, &comm));
    shoal_status status = shoali_comm_attach(comm, &listener);
    set_phase(h, SERVING);
    pthread_mutex_lock(&a->lock);
    while (status == SHOAL_OK && h->gone_count < h->service.invite.ranks &&
           !atomic_load(&a->stopping))
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    shoali_comm_detach(comm);
    shoal_comm_destroy(comm);
    return status;
}

/* Wait for the socket, until the greeting's deadline or the daemon's end. */
static shoal_status wait_for_caller(const hosted *h)
{
    const bool out = shoali_meet_stream_wants_out(&h->stream);
    struct pollfd wait = {.fd = h->stream.fd, .events = (short)(POLLIN | (out ? POLLOUT : 0))};
    SHOALI_TRY(shoali_meet_cancelled(&h->aggregator->stopping));
    if (shoali_now_us() > h->since_us + GREETING_US)
        return shoali_fail(SHOAL_ETIMEDOUT, "it said nothing of use for %d s",
                           GREETING_US / 1000000);
    (void)poll(&wait, 1, POLL_MS);
    return SHOAL_OK;
}

static shoal_status hear_invitation(hosted *h)
{
    shoal_status status;
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    while ((status = shoali_meet_stream_read(&h->stream, &kind, &body, &length)) == SHOAL_PENDING) {
        SHOALI_TRY(shoali_meet_stream_write(&h->stream));
        SHOALI_TRY(wait_for_caller(h));
    }
    SHOALI_TRY(status);
    if (kind != SHOALI_MESSAGE_invite || !shoali_invite_decode(body, length, &h->service.invite))
        return shoali_fail(SHOAL_ECORRUPT, "it sent no invitation but a frame of kind %u", kind);
    return SHOAL_OK;
}

static shoal_status say(hosted *h, uint16_t kind, const void *body, size_t len_bytes)
{
    if (!shoali_meet_stream_put(&h->stream, kind, body, len_bytes))
        return shoali_fail(SHOAL_EINTERNAL, "an answer before the handshake is over");
    do {
        SHOALI_TRY(shoali_meet_stream_write(&h->stream));
        if (!shoali_meet_stream_idle(&h->stream))
            SHOALI_TRY(wait_for_caller(h));
    } while (!shoali_meet_stream_idle(&h->stream));
    return SHOAL_OK;
}

/* A place among the jobs, or why there is none. */
static shoal_status take_place(hosted *h)
{
    shoal_aggregator *a = h->aggregator;
    uint32_t jobs = 0;
    h->gone = shoali_alloc_array(h->service.invite.ranks, sizeof *h->gone);
    if (h->gone == NULL)
        return SHOAL_ENOMEM;
    pthread_mutex_lock(&a->lock);
    for (const hosted *other = a->all; other != NULL; other = other->next)
        jobs += other->phase == JOINING || other->phase == SERVING;
    if (jobs < a->jobs_max) {
        h->epoch = ++a->epochs;
        h->phase = JOINING;
    }
    pthread_mutex_unlock(&a->lock);
    if (jobs < a->jobs_max)
        return SHOAL_OK;
    return shoali_fail(SHOAL_ENOTSUP, "it serves %u jobs already, as many as it may", jobs);
}

static shoal_status greet(hosted *h)
{
    SHOALI_TRY(hear_invitation(h));
    if (take_place(h) == SHOAL_OK)
        return say(h, SHOALI_MESSAGE_invite, "", 0);
    shoal_error why;
    shoali_error_get(&why);
    shoali_abort no = {.status = (uint32_t)why.status, .culprit = SHOALI_NOBODY};
    uint8_t body[SHOALI_ABORT_BYTES];
    snprintf(no.text, sizeof no.text, "%.380s", why.text);
    if (say(h, SHOALI_MESSAGE_abort, body, shoali_abort_encode(&no, body)) != SHOAL_OK)
        shoali_log(DEBUG, "the caller from %s did not hear why", h->from);
    return shoali_error_set(&why);
}

static void end(hosted *h, bool was_job)
{
    shoal_aggregator *a = h->aggregator;
    pthread_mutex_lock(&a->lock);
    h->phase = OVER;
    a->ended.jobs_ended += was_job;
    a->ended.jobs_refused += !was_job;
    a->ended.operations += atomic_load(&h->service.operations);
    a->ended.failures += atomic_load(&h->service.failures);
    a->ended.received_bytes += atomic_load(&h->service.received_bytes);
    a->ended.sent_bytes += atomic_load(&h->service.sent_bytes);
    a->ended.kernel_operations += atomic_load(&h->service.kernel_operations);
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    const uint64_t one = 1;
    if (write(a->wake, &one, sizeof one) < 0)
        shoali_log(DEBUG, "the accepting thread is awake already");
}

static void *host_job(void *arg)
{
    hosted *h = arg;
    const shoali_invite *invite = &h->service.invite;
    shoal_status status = greet(h);
    shoali_meet_stream_close(&h->stream);
    if (status != SHOAL_OK) {
        if (!atomic_load(&h->aggregator->stopping))
            shoali_log(WARN, "a caller from %s is refused: %s", h->from, shoal_last_error()->text);
        end(h, false);
        return NULL;
    }
    shoali_log(INFO, "job '%s', epoch %llu: %u ranks, aggregator %u of %u, called from %s",
               invite->job, (unsigned long long)h->epoch, invite->ranks, invite->index,
               invite->aggregators, h->from);
    if (serve(h) != SHOAL_OK)
        shoali_log(WARN, "job '%s', epoch %llu: %s", invite->job, (unsigned long long)h->epoch,
                   shoal_last_error()->text);
    else
        shoali_log(INFO,
                   "job '%s', epoch %llu is over: %llu operations, %llu failed, %llu given to the "
                   "kernel",
                   invite->job, (unsigned long long)h->epoch,
                   (unsigned long long)atomic_load(&h->service.operations),
                   (unsigned long long)atomic_load(&h->service.failures),
                   (unsigned long long)atomic_load(&h->service.kernel_operations));
    end(h, true);
    return NULL;
}

/* ------------------------------------------------------------------ callers */

static void free_hosted(hosted *h)
{
    shoali_free(h->gone);
    shoali_free(h);
}

static shoal_status start_hosting(shoal_aggregator *a, int fd, const char *from)
{
    hosted *h = shoali_alloc(sizeof *h);
    if (h == NULL)
        return SHOAL_ENOMEM;
    const shoali_meeting meeting = {
        .place = a->place, .job = SHOALI_INVITE_JOB, .token = &a->token, .mine = &a->self};
    h->aggregator = a;
    h->since_us = shoali_now_us();
    h->service.token = &a->token;
    h->service.interface = a->interface[0] != '\0' ? a->interface : NULL;
    h->service.memory_limit_bytes = a->memory_limit_bytes;
    h->service.cancel = &a->stopping;
    h->service.kernel = a->kernel;
    snprintf(h->from, sizeof h->from, "%s", from);
    shoal_status status = shoali_meet_stream_start(&h->stream, fd, false, &meeting);
    if (status == SHOAL_OK) {
        pthread_mutex_lock(&a->lock);
        h->next = a->all;
        a->all = h;
        status = shoali_thread_start(&h->thread, host_job, h);
        if (status != SHOAL_OK)
            a->all = h->next;
        pthread_mutex_unlock(&a->lock);
    }
    if (status != SHOAL_OK)
        free_hosted(h);
    return status;
}

static void accept_one(shoal_aggregator *a)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char from[SHOALI_MEET_FROM_BYTES];
    uint32_t callers = 0;
    int fd = accept4(a->listener, (struct sockaddr *)&address, &length,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return; /* it is gone again */
    shoali_meet_from((const struct sockaddr *)&address, length, from);
    pthread_mutex_lock(&a->lock);
    for (const hosted *h = a->all; h != NULL; h = h->next)
        callers += h->phase == GREETING;
    pthread_mutex_unlock(&a->lock);
    if (callers < CALLERS_MAX && start_hosting(a, fd, from) == SHOAL_OK)
        return;
    shoali_log(WARN, "no time for a caller from %s: %u others are at the door", from, callers);
    close(fd);
}

/* Join the threads of what is over; with `every`, of everything. */
static void reap(shoal_aggregator *a, bool every)
{
    pthread_mutex_lock(&a->lock);
    for (hosted **link = &a->all; *link != NULL;) {
        hosted *h = *link;
        if (h->phase != OVER && !every) {
            link = &h->next;
            continue;
        }
        *link = h->next;
        pthread_mutex_unlock(&a->lock);
        pthread_join(h->thread, NULL);
        free_hosted(h);
        pthread_mutex_lock(&a->lock);
        link = &a->all; /* it may have changed meanwhile */
    }
    pthread_mutex_unlock(&a->lock);
}

static void *accept_main(void *arg)
{
    shoal_aggregator *a = arg;
    struct pollfd polls[2] = {{.fd = a->listener, .events = POLLIN},
                              {.fd = a->wake, .events = POLLIN}};
    while (!atomic_load(&a->stopping)) {
        uint64_t count;
        if (poll(polls, 2, -1) < 0 && errno != EINTR)
            break;
        if (polls[1].revents != 0 && read(a->wake, &count, sizeof count) < 0)
            continue;
        reap(a, false);
        if (polls[0].revents != 0)
            accept_one(a);
    }
    reap(a, true);
    return NULL;
}

/* ------------------------------------------------------------------ create and destroy */

static shoal_status take_desc(shoal_aggregator *a, const shoal_aggregator_desc *desc)
{
    shoal_comm_desc token_desc = SHOAL_COMM_DESC_INIT;
    if (desc->listen != NULL)
        snprintf(a->place, sizeof a->place, "tcp://%.400s", desc->listen);
    else
        snprintf(a->place, sizeof a->place, "tcp://127.0.0.1:%d", DEFAULT_PORT);
    snprintf(a->interface, sizeof a->interface, "%s",
             desc->interface != NULL ? desc->interface : "");
    a->memory_limit_bytes = desc->memory_limit_bytes > 0 ? desc->memory_limit_bytes
                                                         : default_memory_bytes;
    a->jobs_max = desc->jobs_max > 0 ? desc->jobs_max : DEFAULT_JOBS_MAX;
    token_desc.token = desc->token;
    SHOALI_TRY(shoali_token_find(&token_desc, shoali_getenv, NULL, &a->token));
    a->self = (shoali_record){.world_size = 1, .workers = 1};
    return shoali_meet_random(&a->self.incarnation, sizeof a->self.incarnation);
}

static shoal_status open_kernel(shoal_aggregator *a, const shoal_aggregator_desc *desc)
{
    const char *mode = desc->kernel != NULL ? desc->kernel : "auto";
    const bool on = strcmp(mode, "on") == 0, ports = desc->ports != NULL && *desc->ports != '\0';
    if (!on && strcmp(mode, "auto") != 0 && strcmp(mode, "off") != 0)
        return shoali_fail(SHOAL_EINVAL, "kernel '%.40s': wanted auto, on or off", mode);
    if (on && !ports)
        return shoali_fail(SHOAL_EINVAL, "to sum in the kernel takes the ports at which to");
    if (strcmp(mode, "off") == 0 || !ports)
        return SHOAL_OK;
    const shoal_status status = shoali_in_kernel_open(NULL, desc->ports, &a->kernel);
    if (status == SHOAL_OK)
        shoali_log(INFO, "sums of switchml are the kernel's, at ports %s", desc->ports);
    if (status != SHOAL_ENOTSUP || on)
        return status;
    shoali_log(WARN, "sums are user space's, not the kernel's: %s", shoal_last_error()->text);
    return SHOAL_OK;
}

static shoal_status open_door(shoal_aggregator *a)
{
    const shoali_meeting meeting = {
        .place = a->place, .job = SHOALI_INVITE_JOB, .token = &a->token, .mine = &a->self};
    char host[256], port[8];
    if (!shoali_meet_parse(a->place, host, sizeof host, port, sizeof port))
        return shoali_fail(SHOAL_EINVAL, "cannot listen at '%.100s': that is no host:port",
                           a->place + strlen("tcp://"));
    SHOALI_TRY(shoali_meet_listen(&meeting, &a->listener));
    union {
        struct sockaddr plain;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {0}};
    socklen_t length = sizeof address;
    if (getsockname(a->listener, &address.plain, &length) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "the listening socket has no address");
    a->port = ntohs(address.plain.sa_family == AF_INET6 ? address.v6.sin6_port
                                                        : address.v4.sin_port);
    a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->wake < 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot make a descriptor to be woken by");
    return shoali_thread_start(&a->thread, accept_main, a);
}

static void free_aggregator(shoal_aggregator *a)
{
    if (a->listener >= 0)
        close(a->listener);
    if (a->wake >= 0)
        close(a->wake);
    shoali_in_kernel_close(a->kernel);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    explicit_bzero(&a->token, sizeof a->token);
    shoali_free(a);
}

shoal_status shoal_aggregator_create(const shoal_aggregator_desc *desc,
                                     shoal_aggregator **aggregator_out)
{
    if (desc == NULL || aggregator_out == NULL || desc->size != sizeof *desc)
        return shoali_fail(SHOAL_EINVAL, "the descriptor of an aggregator has the wrong size: "
                                         "start from SHOAL_AGGREGATOR_DESC_INIT");
    shoal_aggregator *a = shoali_alloc(sizeof *a);
    if (a == NULL)
        return SHOAL_ENOMEM;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    a->listener = a->wake = -1;
    shoal_status status = take_desc(a, desc);
    if (status == SHOAL_OK)
        status = open_kernel(a, desc);
    if (status == SHOAL_OK)
        status = open_door(a);
    if (status != SHOAL_OK) {
        free_aggregator(a);
        return status;
    }
    *aggregator_out = a;
    return SHOAL_OK;
}

void shoal_aggregator_destroy(shoal_aggregator *a)
{
    if (a == NULL)
        return;
    const uint64_t one = 1;
    pthread_mutex_lock(&a->lock);
    atomic_store(&a->stopping, true);
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (write(a->wake, &one, sizeof one) < 0)
        shoali_log(DEBUG, "the accepting thread is awake already");
    pthread_join(a->thread, NULL);
    free_aggregator(a);
}

/* ------------------------------------------------------------------ questions */

uint16_t shoal_aggregator_port(const shoal_aggregator *aggregator)
{
    return aggregator->port;
}

shoal_status shoal_aggregator_wait(shoal_aggregator *a, uint64_t jobs, int64_t timeout_us)
{
    const uint64_t until_us = shoali_now_us() + (uint64_t)timeout_us;
    const struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                                   .tv_nsec = (long)(until_us % 1000000) * 1000};
    pthread_mutex_lock(&a->lock);
    int error = 0;
    while (a->ended.jobs_ended < jobs && error == 0)
        error = timeout_us < 0 ? pthread_cond_wait(&a->changed, &a->lock)
                               : pthread_cond_timedwait(&a->changed, &a->lock, &until);
    const bool over = a->ended.jobs_ended >= jobs;
    pthread_mutex_unlock(&a->lock);
    return over ? SHOAL_OK : SHOAL_PENDING;
}

static shoal_aggregator_job report_job(const hosted *h)
{
    const shoali_service *s = &h->service;
    shoal_aggregator_job job = {.size = sizeof job,
                                .epoch = h->epoch,
                                .ranks = s->invite.ranks,
                                .ranks_gone = h->gone_count,
                                .open_operations = atomic_load(&s->open),
                                .operations = atomic_load(&s->operations),
                                .failures = atomic_load(&s->failures),
                                .received_bytes = atomic_load(&s->received_bytes),
                                .sent_bytes = atomic_load(&s->sent_bytes),
                                .memory_bytes = atomic_load(&s->memory_bytes),
                                .memory_peak_bytes = atomic_load(&s->memory_peak_bytes),
                                .memory_limit_bytes = s->memory_limit_bytes,
                                .kernel_operations = atomic_load(&s->kernel_operations),
                                .age_us = shoali_now_us() - h->since_us};
    memcpy(job.name, s->invite.job, sizeof job.name);
    return job;
}

uint32_t shoal_aggregator_report(shoal_aggregator *a, shoal_aggregator_stats *stats_out,
                                 shoal_aggregator_job *jobs_out, uint32_t capacity)
{
    uint32_t count = 0;
    pthread_mutex_lock(&a->lock);
    shoal_aggregator_stats stats = a->ended;
    for (const hosted *h = a->all; h != NULL; h = h->next) {
        if (h->phase != JOINING && h->phase != SERVING)
            continue;
        const shoal_aggregator_job job = report_job(h);
        stats.operations += job.operations;
        stats.failures += job.failures;
        stats.received_bytes += job.received_bytes;
        stats.sent_bytes += job.sent_bytes;
        stats.kernel_operations += job.kernel_operations;
        if (count < capacity)
            jobs_out[count] = job;
        count++;
    }
    pthread_mutex_unlock(&a->lock);
    stats.size = sizeof stats;
    stats.jobs_open = count;
    stats.in_kernel = a->kernel != NULL;
    *stats_out = stats;
    return count;
}
