/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator does in each round of its loop (loop/loop.h), after the tasks:
 *
 *   transports -> datagrams -> frames that came back -> operations' timers -> peers that went
 *   -> who watches -> operations that ended -> the protocol machine's timer */
#include "alive/view.h"
#include "base/log.h"
#include "carry/datagrams.h"
#include "carry/flight.h"
#include "carry/link.h"
#include "comm/comm.h"
#include "comm/inner.h"

enum { LOOK_US = 10 * 1000, FEW = 16 /* members, whose beats are not worth it */ };

static void begins(void *ctx)
{
    const shoal_comm *comm = ctx;
    shoali_log_set_rank((int32_t)comm->me, (int32_t)comm->size);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_us(const void *ctx)
{
    const shoal_comm *comm = ctx;
    uint64_t at = earlier(shoali_run_next_us(&comm->ops), shoali_view_next_us(comm));
    const shoali_link *links[] = {&comm->links.control, &comm->links.near};
    for (int i = 0; i < 2; i++)
        if (links[i]->open)
            at = earlier(at, links[i]->row->next_wake_us(links[i]->state));
    if (comm->ears.listening && comm->ears.listener.next_wake_us != NULL)
        at = earlier(at, comm->ears.listener.next_wake_us(comm->ears.listener.ctx));
    return at;
}

static bool is_of_link(const shoali_link *link, int fd)
{
    return link->open && link->row->fd(link->state) == fd;
}

/* A transport, which is asked in every round, or somebody who watches. */
static void heard(void *ctx, int fd)
{
    shoal_comm *comm = ctx;
    if (!is_of_link(&comm->links.control, fd) && !is_of_link(&comm->links.near, fd))
        comm->watched = true;
}

/* A rank without operations has nothing to hear that is urgent: what others say of an operation
 * counts once it is entered here, and entering wakes this thread. Among many ranks the beats of all
 * would wake it for each. */
static bool can_wait(const void *ctx, int fd)
{
    const shoal_comm *comm = ctx;
    return is_of_link(&comm->links.control, fd) && comm->size > FEW && comm->view.joined &&
           comm->ops.open == NULL && !comm->ears.listening && comm->door == NULL &&
           comm->service == NULL;
}

static void late(void *ctx, uint64_t late_us)
{
    shoali_view_late(ctx, late_us);
}

/* Asking the kernel who watches costs more than a round: not in each of those between which nobody
 * sleeps, and so hears of it. */
static void serve_watchers(shoal_comm *comm)
{
    if (!comm->watched && comm->loop.now_us < comm->look_us)
        return;
    comm->watched = false;
    comm->look_us = comm->loop.now_us + LOOK_US;
    shoali_watch_serve(comm->watch);
}

/* Whatever came in or fell due. */
static void round_of(void *ctx)
{
    shoal_comm *comm = ctx;
    comm->loop.busy = comm->loop.busy || comm->flights.returned_first != SHOALI_NONE;
    if (comm->links.control.open)
        comm->links.control.row->progress(comm->links.control.state, comm->loop.now_us);
    if (comm->links.near.open)
        comm->links.near.row->progress(comm->links.near.state, comm->loop.now_us);
    shoali_datagrams_receive(comm);
    while (shoali_flight_deliver(comm))
        ;
    shoali_run_timers(&comm->ops, shoali_datagrams_unread(comm));
    shoali_datagrams_flush(comm);
    shoali_view_timers(comm);
    serve_watchers(comm);
    shoali_run_reap(&comm->ops);
    if (comm->ears.listening && comm->ears.listener.next_wake_us != NULL &&
        comm->ears.listener.next_wake_us(comm->ears.listener.ctx) <= comm->loop.now_us)
        comm->ears.listener.on_timer(comm->ears.listener.ctx, comm->loop.now_us);
}

static void hold(void *ctx, bool hold)
{
    shoal_comm *comm = ctx;
    if (hold && comm->door != NULL)
        pthread_mutex_lock(&comm->door->lock);
    if (hold)
        shoali_relay_lock(comm->relay);
    else
        shoali_relay_unlock(comm->relay);
    if (!hold && comm->door != NULL)
        pthread_mutex_unlock(&comm->door->lock);
}

static void forked(void *ctx)
{
    shoal_comm *comm = ctx;
    shoali_links_forked(&comm->links);
    shoali_relay_forked(comm->relay);
    shoali_datagrams_forked(comm);
    shoali_watch_forked(comm->watch);
    if (comm->door != NULL)
        shoali_door_forked(comm->door);
}

shoal_status shoali_round_init(shoal_comm *comm)
{
    const shoali_loop_host host = {.ctx = comm,
                                   .begins = begins,
                                   .round = round_of,
                                   .next_us = next_us,
                                   .heard = heard,
                                   .can_wait = can_wait,
                                   .late = late,
                                   .hold = hold,
                                   .forked = forked};
    return shoali_loop_init(&comm->loop, &host);
}

/* ------------------------------------------------------------------ for drivers */

shoali_task *shoali_comm_task(void (*fn)(void *arg), void *arg)
{
    return shoali_loop_task(fn, arg);
}

shoal_status shoali_comm_post_task(shoal_comm *comm, shoali_task *task)
{
    return shoali_loop_offer(&comm->loop, task);
}

shoal_status shoali_comm_post(shoal_comm *comm, void (*fn)(void *arg), void *arg)
{
    return shoali_loop_soon(&comm->loop, fn, arg);
}

shoal_status shoali_comm_work(shoal_comm *comm, shoal_status (*work)(void *arg),
                              void (*done)(void *arg, shoal_status status), void *arg)
{
    return shoali_work_soon(&comm->work, work, done, arg);
}
