/* SPDX-License-Identifier: Apache-2.0 */
/* Creating, asking and destroying a communicator. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "alive/listen.h"
#include "alive/tell.h"
#include "alive/view.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "calls/serve.h"
#include "calls/wait.h"
#include "carry/datagrams.h"
#include "carry/flight.h"
#include "carry/link.h"
#include "comm/comm.h"
#include "comm/enter.h"
#include "comm/inner.h"

enum { FAREWELL_ROUNDS = 8 };

/* ------------------------------------------------------------------ create */

static shoal_status init(shoal_comm *comm)
{
    shoali_listen_init(&comm->ears);
    shoali_links_init(&comm->links, comm);
    shoali_flights_init(&comm->flights);
    pthread_mutex_init(&comm->stepped.lock, NULL);
    comm->stepped.progress.loss = comm->stepped.progress.accuracy = NAN;
    shoali_work_init(&comm->work, &comm->loop);
    return shoali_round_init(comm);
}

static void free_comm(shoal_comm *comm)
{
    shoali_fork_remove(&comm->loop);
    shoali_watch_close(comm->watch);
    comm->watch = NULL;
    shoali_datagrams_close(comm);
    shoali_links_close(&comm->links);
    shoali_relay_close(comm->relay);
    shoali_handles_free(&comm->handles);
    shoali_listen_free(&comm->ears);
    shoali_flights_free(&comm->flights);
    shoali_ops_free(&comm->ops, comm->reform.leaving ? SHOAL_EEPOCH : SHOAL_ECANCELLED);
    shoali_free(comm->peers);
    shoali_free(comm->addresses);
    explicit_bzero(&comm->token, sizeof comm->token);
    shoali_work_free(&comm->work);
    shoali_loop_free(&comm->loop);
    pthread_mutex_destroy(&comm->stepped.lock);
    shoali_free(comm);
}

/* Members that may change: the others hear where this one's door is, and newcomers find it. */
static shoal_status open_up(shoal_comm *comm)
{
    if (comm->door == NULL)
        return SHOAL_OK;
    shoali_loop_call(&comm->loop, shoali_reform_introduce, comm);
    return shoali_reform_open_door(comm);
}

static void forget_door(void *arg)
{
    ((shoal_comm *)arg)->door = NULL;
}

shoali_door *shoali_comm_take_door(shoal_comm *comm)
{
    shoali_door *door = comm->door;
    shoali_loop_call(&comm->loop, forget_door, comm);
    return door;
}

static void drop_all(void *arg)
{
    shoal_comm *comm = arg;
    for (uint32_t i = 0; i < comm->size; i++)
        if (i != comm->me) {
            shoali_links_drop(comm, i, false);
            shoali_flight_recall(comm, NULL, i);
        }
}

/* in_out: how to enter; on EEPOCH how to enter the job that runs already. */
static shoal_status create(const shoal_comm_desc *desc, shoali_service *service,
                           shoali_admission *in_out, shoal_comm **comm_out)
{
    bool first = in_out->keeper == NULL;
    shoal_comm *comm = shoali_alloc(sizeof *comm);
    if (comm == NULL)
        return SHOAL_ENOMEM;
    comm->service = service;
    shoal_status status = init(comm);
    if (status == SHOAL_OK)
        status = shoali_join(comm, desc, first ? NULL : in_out);
    if (status == SHOAL_OK) {
        shoali_view_begin(comm);
        shoali_serve_begin(&comm->ops);
        status = shoali_loop_start(&comm->loop);
    }
    if (status == SHOAL_OK && !first)
        status = shoali_reform_begin(comm);
    if (status == SHOAL_OK)
        status = open_up(comm);
    if (status == SHOAL_OK) {
        *comm_out = comm;
        return SHOAL_OK;
    }
    shoal_error why;
    shoali_error_get(&why);
    bool runs = status == SHOAL_EEPOCH && first && comm->reform.in.keeper != NULL;
    if (runs)
        *in_out = comm->reform.in;
    shoali_door *door = shoali_comm_take_door(comm);
    if (first && !runs)
        shoali_door_close(door);
    shoali_loop_stop(&comm->loop);
    if (!first && comm->peers != NULL)
        drop_all(comm); /* without goodbye: whoever is in is not to think that this one left */
    free_comm(comm);
    return shoali_error_set(&why);
}

shoal_status shoali_comm_enter(const shoali_admission *in, shoal_comm **comm_out)
{
    shoali_admission way = *in;
    return create(&in->keeper->desc, NULL, &way, comm_out);
}

/* Into a job that runs already. Its epoch may change once more before this process is in. */
static shoal_status enter_running(shoali_admission *in, uint64_t deadline_us, shoal_comm **comm_out)
{
    shoal_status status = shoali_comm_enter(in, comm_out);
    while (status != SHOAL_OK && status != SHOAL_ENOMEM && shoali_now_us() < deadline_us) {
        shoali_log(DEBUG, "not in yet: %s", shoal_last_error()->text);
        status = shoali_seek(in->keeper, true, deadline_us, &in->admit);
        if (status == SHOAL_OK)
            status = shoali_comm_enter(in, comm_out);
        else if (status != SHOAL_PENDING)
            break;
    }
    return status;
}

void shoali_comm_goes_on(void)
{
    shoali_launch_survives(shoali_getenv, NULL);
}

void shoali_comm_keeps(void)
{
    shoali_launch_keeps(shoali_getenv, NULL);
}

void shoali_comm_lacks(void)
{
    shoali_launch_lacks(shoali_getenv, NULL);
}

shoal_status shoal_comm_create(const shoal_comm_desc *desc, shoal_comm **comm_out)
{
    shoali_admission in = {.keeper = NULL};
    if (desc == NULL || comm_out == NULL || desc->size != sizeof *desc)
        return shoali_fail(
            SHOAL_EINVAL,
            "the descriptor of a communicator has the wrong size: start from SHOAL_COMM_DESC_INIT");
    uint64_t began_us = shoali_now_us();
    if (desc->reform)
        shoali_comm_goes_on();
    shoal_status status = create(desc, NULL, &in, comm_out);
    if (status != SHOAL_EEPOCH || in.keeper == NULL)
        return status;
    int64_t join_us = desc->join_timeout_us > 0 ? desc->join_timeout_us : SHOALI_DEFAULT_JOIN_US;
    status = enter_running(&in, began_us + (uint64_t)join_us, comm_out);
    if (status == SHOAL_OK)
        shoali_launch_has_place(shoali_getenv, NULL);
    if (status == SHOAL_OK)
        return SHOAL_OK;
    shoal_error why;
    shoali_error_get(&why);
    shoali_door_close(in.keeper);
    return shoali_error_set(&why);
}

shoal_status shoali_comm_create_serving(shoali_service *service, shoal_comm **comm_out)
{
    const shoali_invite *invite = &service->invite;
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    desc.rendezvous = invite->place;
    desc.rank = 0; /* join.c puts it behind the ranks */
    desc.world_size = (int32_t)invite->ranks;
    desc.servers = (int32_t)(invite->ranks - invite->workers);
    desc.job = invite->job;
    desc.interface = service->interface;
    desc.transport = invite->transport[0] != '\0' ? invite->transport : NULL;
    desc.join_timeout_us = (int64_t)invite->join_timeout_us;
    desc.peer_timeout_us = (int64_t)invite->peer_timeout_us;
    desc.seed = invite->seed;
    desc.chunk_elems = invite->chunk_elems;
    shoali_admission in = {.keeper = NULL};
    return create(&desc, service, &in, comm_out);
}

/* ------------------------------------------------------------------ destroy */

static void cancel_all(void *arg)
{
    shoali_run_cancel_all(&((shoal_comm *)arg)->ops);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void part(void *arg)
{
    if (((shoal_comm *)arg)->view.expelled)
        drop_all(arg);
}

/* With the lock: until all operations have ended, or until_us. */
static bool operations_end(shoal_comm *comm, uint64_t until_us)
{
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                             .tv_nsec = (long)(until_us % 1000000) * 1000};
    while (comm->handles.open_ops > 0)
        if (pthread_cond_timedwait(&comm->loop.changed, &comm->loop.lock, &until) == ETIMEDOUT)
            return comm->handles.open_ops == 0;
    return true;
}

/* A peer that reads nothing more may hold up an operation's end, but not for longer than a peer may
 * be silent. */
void shoali_comm_quiet(shoal_comm *comm)
{
    pthread_mutex_lock(&comm->loop.lock);
    bool over = operations_end(comm, shoali_now_us() + (uint64_t)comm->peer_timeout_us);
    pthread_mutex_unlock(&comm->loop.lock);
    if (over)
        return;
    shoali_loop_call(&comm->loop, drop_all, comm);
    pthread_mutex_lock(&comm->loop.lock);
    while (comm->handles.open_ops > 0)
        pthread_cond_wait(&comm->loop.changed, &comm->loop.lock);
    pthread_mutex_unlock(&comm->loop.lock);
}

static void end_operations(shoal_comm *comm)
{
    shoali_loop_call(&comm->loop, cancel_all, comm);
    shoali_comm_quiet(comm);
    pthread_mutex_lock(&comm->loop.lock);
    while (comm->handles.waiters > 0)
        pthread_cond_wait(&comm->loop.changed, &comm->loop.lock);
    pthread_mutex_unlock(&comm->loop.lock);
}

void shoal_comm_destroy(shoal_comm *comm)
{
    if (comm == NULL || atomic_load(&comm->loop.forked))
        return; /* in a forked child its threads and locks are not there: it stays as it is */
    pthread_mutex_lock(&comm->loop.lock);
    comm->loop.stopping = true;
    pthread_cond_broadcast(&comm->loop.changed);
    pthread_mutex_unlock(&comm->loop.lock);
    end_operations(comm);
    shoali_door_close(shoali_comm_take_door(comm));
    for (int i = 0; i < FAREWELL_ROUNDS; i++)
        shoali_loop_call(&comm->loop, nothing,
                         NULL); /* what was said last gets its chance to leave */
    shoali_loop_call(&comm->loop, part, comm);
    shoali_work_stop(&comm->work);
    shoali_loop_stop(&comm->loop);
    free_comm(comm);
}

/* ------------------------------------------------------------------ questions */

uint64_t shoali_comm_seed(const shoal_comm *comm)
{
    return comm->seed;
}

uint32_t shoali_comm_neighbour(const shoal_comm *comm, uint32_t rank)
{
    return comm->ops.peers[rank].place;
}

int64_t shoali_comm_op_timeout_us(const shoal_comm *comm)
{
    return comm->op_timeout_us;
}

uint64_t *shoali_comm_protocols(shoal_comm *comm)
{
    return &comm->protocols;
}

shoal_status shoal_comm_view(shoal_comm *comm, shoal_view *view_out)
{
    if (comm == NULL || view_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "no communicator, or no place for its view");
    *view_out = (shoal_view){.size = sizeof *view_out,
                             .epoch = comm->epoch,
                             .rank = comm->me,
                             .rank_count = comm->ranks,
                             .aggregators = comm->aggregators,
                             .endpoint = comm->me,
                             .workers = comm->workers,
                             .done_min = comm->reform.in.admit.done_min,
                             .done_max = comm->reform.in.admit.done_max,
                             .done_rank = comm->reform.in.admit.done_rank};
    return SHOAL_OK;
}

typedef struct question {
    shoal_comm *comm;
    uint32_t rank;
    shoal_peer_stats *stats;
} question;

static void ask_stats(void *arg)
{
    question *q = arg;
    shoal_comm *comm = q->comm;
    const shoali_peer *peer = &comm->peers[q->rank];
    if (comm->links.control.open && q->rank != comm->me)
        comm->links.control.row->peer_stats(comm->links.control.state, q->rank, q->stats);
    if (comm->links.near.open && peer->near)
        comm->links.near.row->peer_stats(comm->links.near.state, q->rank, q->stats);
    shoali_datagrams_add_stats(comm, q->rank, q->stats);
    snprintf(q->stats->host, sizeof q->stats->host, "%s", peer->host);
    snprintf(q->stats->transport, sizeof q->stats->transport, "%s",
             q->rank == comm->me ? "" : peer->data->kind->name);
    q->stats->last_seen_us = q->rank == comm->me ? 0 : shoali_now_us() - peer->heard_us;
}

shoal_status shoal_comm_peer_stats(shoal_comm *comm, uint32_t rank, shoal_peer_stats *stats_out)
{
    if (comm == NULL || stats_out == NULL || rank >= comm->size)
        return shoali_fail(SHOAL_EINVAL, "no rank %u in this communicator", rank);
    if (atomic_load(&comm->loop.forked))
        return shoali_fail(SHOAL_EFORKED, "this communicator belongs to the parent process");
    shoal_peer_stats stats = {.size = sizeof stats};
    question q = {comm, rank, &stats};
    shoali_loop_call(&comm->loop, ask_stats, &q);
    *stats_out = stats;
    return SHOAL_OK;
}
