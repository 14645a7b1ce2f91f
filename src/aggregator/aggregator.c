/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon behind shoal/aggregator.h. One thread listens: callers prove the token, bring an
 * invitation and are answered (visitors.h). Then each job gets a thread of its own:
 *
 *   JOINING   the communicator is made
 *   SERVING   serve.c does it, on the communicator's thread, until the last rank has gone
 *   OVER      to be joined by the listening thread */
#include "shoal/aggregator.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aggregator/in_kernel.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "meet/invite.h"
#include "meet/net.h"
#include "meet/visitors.h"
#include "transport/iface.h"
#include "wire/messages.h"

enum {
    CALLERS_MAX = 64,              /* that have proved themselves, and are not answered yet */
    GREETING_US = 5 * 1000 * 1000, /* one may take so long for both */
    POLL_MS = 250,
    PATIENCE_MAX_S = 600, /* a job's that has not joined, or has lost a rank, holds a place */
    DEFAULT_JOBS_MAX = 64,
    DEFAULT_PORT = 29600
};
static const uint64_t default_memory_bytes = (uint64_t)1 << 30;

typedef enum { JOINING, SERVING, OVER } phase;

typedef struct hosted {
    struct hosted *next;
    shoal_aggregator *aggregator;
    pthread_t thread;
    char from[SHOALI_MEET_FROM_BYTES];
    shoali_service service;
    uint64_t since_us, epoch;
    /* lock */
    phase phase;
    bool *gone; /* [ranks] */
    uint32_t gone_count;
} hosted;

typedef struct caller {
    shoali_visitor base; /* known: the answer is on its way */
    hosted *job;         /* begins once it has left; NULL: it is a refusal */
} caller;

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
    /* the listening thread's */
    shoali_meeting meeting;
    shoali_visitors visitors; /* caller each */
    struct pollfd *polls;
    uint32_t promised; /* jobs that callers have */
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

static void end(hosted *h)
{
    shoal_aggregator *a = h->aggregator;
    pthread_mutex_lock(&a->lock);
    h->phase = OVER;
    a->ended.jobs_ended++;
    a->ended.operations += atomic_load(&h->service.serving.operations);
    a->ended.failures += atomic_load(&h->service.serving.failures);
    a->ended.received_bytes += atomic_load(&h->service.serving.received_bytes);
    a->ended.sent_bytes += atomic_load(&h->service.serving.sent_bytes);
    a->ended.kernel_operations += atomic_load(&h->service.kernel_operations);
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    const uint64_t one = 1;
    if (write(a->wake, &one, sizeof one) < 0)
        shoali_log(DEBUG, "the listening thread is awake already");
}

static void *host_job(void *arg)
{
    hosted *h = arg;
    const shoali_invite *invite = &h->service.invite;
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
                   (unsigned long long)atomic_load(&h->service.serving.operations),
                   (unsigned long long)atomic_load(&h->service.serving.failures),
                   (unsigned long long)atomic_load(&h->service.kernel_operations));
    end(h);
    return NULL;
}

/* ------------------------------------------------------------------ callers */

static void free_hosted(hosted *h)
{
    shoali_free(h->gone);
    shoali_free(h);
}

/* Who never comes holds a place for as long as its job says, and there are few. */
static shoal_status check_patience(const shoali_invite *invite)
{
    const struct {
        const char *name;
        uint64_t us;
    } waits[] = {{"join", invite->join_timeout_us}, {"peer", invite->peer_timeout_us}};
    for (int i = 0; i < 2; i++)
        if (waits[i].us > (uint64_t)PATIENCE_MAX_S * 1000 * 1000)
            return shoali_fail(SHOAL_EINVAL, "a %s timeout of %.3g s; it waits %d s at most",
                               waits[i].name, (double)waits[i].us * 1e-6, PATIENCE_MAX_S);
    return SHOAL_OK;
}

/* Is there a place among the jobs? */
static shoal_status check_place(shoal_aggregator *a)
{
    uint32_t jobs = a->promised;
    pthread_mutex_lock(&a->lock);
    for (const hosted *h = a->all; h != NULL; h = h->next)
        jobs += h->phase != OVER;
    pthread_mutex_unlock(&a->lock);
    if (jobs < a->jobs_max)
        return SHOAL_OK;
    return shoali_fail(SHOAL_ENOTSUP, "it serves %u jobs already, as many as it may", jobs);
}

static shoal_status make_job(shoal_aggregator *a, const caller *c, const shoali_invite *invite,
                             hosted **job_out)
{
    SHOALI_TRY(check_patience(invite));
    SHOALI_TRY(check_place(a));
    hosted *h = shoali_alloc(sizeof *h);
    bool *gone = shoali_alloc_array(invite->ranks, sizeof *gone);
    if (h == NULL || gone == NULL) {
        shoali_free(h);
        shoali_free(gone);
        return SHOAL_ENOMEM;
    }
    h->aggregator = a;
    h->gone = gone;
    h->since_us = c->base.since_us;
    h->service.invite = *invite;
    h->service.token = &a->token;
    h->service.interface = a->interface[0] != '\0' ? a->interface : NULL;
    h->service.serving.job = h->service.invite.job;
    h->service.serving.memory_limit_bytes = a->memory_limit_bytes;
    h->service.cancel = &a->stopping;
    h->service.summer = a->kernel != NULL ? shoali_in_kernel_summer(a->kernel) : NULL;
    memcpy(h->from, c->base.from, sizeof h->from);
    *job_out = h;
    return SHOAL_OK;
}

/* Its answer has left. */
static shoal_status begin_job(shoal_aggregator *a, caller *c)
{
    hosted *h = c->job;
    c->job = NULL;
    a->promised--;
    pthread_mutex_lock(&a->lock);
    h->epoch = ++a->epochs;
    h->next = a->all;
    a->all = h;
    shoal_status status = shoali_thread_start(&h->thread, host_job, h);
    if (status != SHOAL_OK)
        a->all = h->next;
    pthread_mutex_unlock(&a->lock);
    if (status != SHOAL_OK)
        free_hosted(h);
    return status;
}

static void count_refused(shoal_aggregator *a, uint64_t count)
{
    pthread_mutex_lock(&a->lock);
    a->ended.jobs_refused += count;
    pthread_mutex_unlock(&a->lock);
}

static void log_refused(const caller *c)
{
    shoali_log(WARN, "a caller from %s is refused: %s", c->base.from, shoal_last_error()->text);
}

/* Yes, or why not. */
static void answer(shoal_aggregator *a, caller *c, const shoali_invite *invite)
{
    uint8_t body[SHOALI_ABORT_BYTES];
    c->base.known = true;
    if (make_job(a, c, invite, &c->job) == SHOAL_OK) {
        a->promised++;
        (void)shoali_meet_stream_put(&c->base.stream, SHOALI_MESSAGE_invite, "", 0);
        return;
    }
    const shoal_error *why = shoal_last_error();
    shoali_abort no = {.status = (uint32_t)why->status, .culprit = SHOALI_NOBODY};
    snprintf(no.text, sizeof no.text, "%.380s", why->text);
    log_refused(c);
    count_refused(a, 1);
    (void)shoali_meet_stream_put(&c->base.stream, SHOALI_MESSAGE_abort, body,
                                 shoali_abort_encode(&no, body));
}

static shoal_status hear_invitation(shoal_aggregator *a, caller *c)
{
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    shoali_invite invite;
    SHOALI_TRY(shoali_meet_stream_read(&c->base.stream, &kind, &body, &length));
    if (kind != SHOALI_MESSAGE_invite || !shoali_invite_decode(body, length, &invite))
        return shoali_fail(SHOAL_ECORRUPT, "it sent no invitation but a frame of kind %u", kind);
    if (shoali_visitors_known(&a->visitors) >= a->visitors.limit)
        return shoali_fail(SHOAL_EAUTH, "%u callers wait for answers", a->visitors.limit);
    answer(a, c, &invite);
    return SHOAL_OK;
}

/* PENDING: go on; OK: answered; else it is to be dropped. */
static shoal_status serve_caller(shoal_aggregator *a, caller *c)
{
    const uint64_t now_us = shoali_now_us();
    shoal_status status = c->base.known ? SHOAL_OK : hear_invitation(a, c);
    if (status != SHOAL_OK && status != SHOAL_PENDING)
        return status;
    SHOALI_TRY(shoali_meet_stream_write(&c->base.stream));
    if (c->base.known && shoali_meet_stream_idle(&c->base.stream))
        return SHOAL_OK;
    SHOALI_TRY(shoali_visitor_in_time(&c->base, now_us));
    if (now_us - c->base.since_us > GREETING_US)
        return shoali_fail(SHOAL_ETIMEDOUT, "it said nothing of use for %d s",
                           GREETING_US / 1000000);
    return SHOAL_PENDING;
}

static void drop_caller(shoal_aggregator *a, uint32_t index)
{
    caller *c = (caller *)a->visitors.all[index];
    if (c->job != NULL) {
        free_hosted(c->job);
        a->promised--;
    }
    shoali_visitors_drop(&a->visitors, index);
}

static void serve_callers(shoal_aggregator *a)
{
    for (uint32_t i = a->visitors.count; i-- > 0;) { /* backwards: drop moves the last one here */
        caller *c = (caller *)a->visitors.all[i];
        shoal_status status = serve_caller(a, c);
        if (status == SHOAL_PENDING)
            continue;
        if (status == SHOAL_OK && c->job != NULL)
            status = begin_job(a, c);
        if (status != SHOAL_OK) {
            log_refused(c);
            count_refused(a, !c->base.known);
        }
        drop_caller(a, i);
    }
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

static void *listen_main(void *arg)
{
    shoal_aggregator *a = arg;
    struct pollfd *polls = a->polls;
    while (!atomic_load(&a->stopping)) {
        uint64_t count;
        polls[0] = shoali_visitors_listen(&a->visitors, a->listener);
        polls[1] = (struct pollfd){.fd = a->wake, .events = POLLIN};
        shoali_visitors_want(&a->visitors, polls + 2);
        bool idle = a->visitors.count == 0 && polls[0].fd >= 0;
        if (poll(polls, 2 + a->visitors.count, idle ? -1 : POLL_MS) < 0 && errno != EINTR)
            break;
        if (polls[1].revents != 0 && read(a->wake, &count, sizeof count) < 0)
            shoali_log(TRACE, "an aggregator was woken for nothing");
        reap(a, false);
        serve_callers(a);
        count = a->visitors.turned_away;
        if (polls[0].revents != 0)
            shoali_visitors_accept(&a->visitors, a->listener, NULL, NULL);
        count_refused(a, a->visitors.turned_away - count);
    }
    while (a->visitors.count > 0)
        drop_caller(a, 0);
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
    shoali_iface_choice choice;
    if (desc->interface != NULL)
        SHOALI_TRY(shoali_iface_choose(desc->interface, NULL, true, &choice));
    a->self = (shoali_record){.world_size = 1, .workers = 1};
    return shoali_random(&a->self.incarnation, sizeof a->self.incarnation);
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
    char host[256], port[8];
    a->meeting = (shoali_meeting){.place = a->place,
                                  .another = "with --listen",
                                  .job = SHOALI_INVITE_JOB,
                                  .token = &a->token,
                                  .mine = &a->self};
    if (!shoali_meet_parse(a->place, host, sizeof host, port, sizeof port))
        return shoali_fail(SHOAL_EINVAL, "cannot listen at '%.100s': that is no host:port",
                           a->place + strlen("tcp://"));
    SHOALI_TRY(shoali_meet_listen(&a->meeting, &a->listener));
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
    SHOALI_TRY(shoali_visitors_open(&a->meeting, sizeof(caller), CALLERS_MAX, &a->visitors));
    a->polls = shoali_alloc_array(2 + shoali_visitors_room(&a->visitors), sizeof *a->polls);
    if (a->polls == NULL)
        return SHOAL_ENOMEM;
    a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->wake < 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot make a descriptor to be woken by");
    return shoali_thread_start(&a->thread, listen_main, a);
}

static void free_aggregator(shoal_aggregator *a)
{
    if (a->listener >= 0)
        close(a->listener);
    if (a->wake >= 0)
        close(a->wake);
    shoali_visitors_close(&a->visitors);
    shoali_free(a->polls);
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
        shoali_log(DEBUG, "the listening thread is awake already");
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
                                .open_operations = atomic_load(&s->serving.open),
                                .operations = atomic_load(&s->serving.operations),
                                .failures = atomic_load(&s->serving.failures),
                                .received_bytes = atomic_load(&s->serving.received_bytes),
                                .sent_bytes = atomic_load(&s->serving.sent_bytes),
                                .memory_bytes = atomic_load(&s->serving.memory_bytes),
                                .memory_peak_bytes = atomic_load(&s->serving.memory_peak_bytes),
                                .memory_limit_bytes = s->serving.memory_limit_bytes,
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
        if (h->phase == OVER)
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
