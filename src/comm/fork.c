/* SPDX-License-Identifier: Apache-2.0 */
/* A forked child has copies of all descriptors: unless they are closed, a killed parent's
 * connections stay open and no peer sees its death. Before a fork every progress thread stops
 * between two rounds, so that the child's copy of a transport is whole; in the child the
 * descriptors are closed and the handles answer EFORKED. */
#include <pthread.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/inner.h"

static pthread_mutex_t alive_lock = PTHREAD_MUTEX_INITIALIZER;
static shoal_comm *alive;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int registered;

static void before_fork(void)
{
    pthread_mutex_lock(&alive_lock);
    for (shoal_comm *comm = alive; comm != NULL; comm = comm->next_alive) {
        atomic_store(&comm->loop.fork_waits, true);
        if (comm->door != NULL)
            pthread_mutex_lock(&comm->door->lock);
        shoali_relay_lock(comm->relay);
        pthread_mutex_lock(&comm->loop.run_lock);
        pthread_mutex_lock(&comm->lock);
    }
}

static void release(void)
{
    for (shoal_comm *comm = alive; comm != NULL; comm = comm->next_alive) {
        atomic_store(&comm->loop.fork_waits, false);
        pthread_cond_broadcast(&comm->changed);
        pthread_mutex_unlock(&comm->lock);
        pthread_mutex_unlock(&comm->loop.run_lock);
        shoali_relay_unlock(comm->relay);
        if (comm->door != NULL)
            pthread_mutex_unlock(&comm->door->lock);
    }
}

static void in_parent(void)
{
    release();
    pthread_mutex_unlock(&alive_lock);
}

static void in_child(void)
{
    for (shoal_comm *comm = alive; comm != NULL; comm = comm->next_alive) {
        atomic_store(&comm->forked, true);
        shoali_links_forked(&comm->links);
        shoali_relay_forked(comm->relay);
        shoali_datagrams_forked(comm);
        shoali_watch_forked(comm->watch);
        if (comm->door != NULL)
            shoali_door_forked(comm->door);
        close(comm->loop.epoll_fd);
        close(comm->loop.event_fd);
    }
    alive = NULL; /* its threads live in the parent, so the locks stay as they are */
    pthread_mutex_unlock(&alive_lock);
}

static void register_handlers(void)
{
    registered = pthread_atfork(before_fork, in_parent, in_child);
}

shoal_status shoali_alive_add(shoal_comm *comm)
{
    pthread_once(&once, register_handlers);
    if (registered != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, registered, "cannot watch for fork");
    pthread_mutex_lock(&alive_lock);
    comm->next_alive = alive;
    alive = comm;
    pthread_mutex_unlock(&alive_lock);
    return SHOAL_OK;
}

void shoali_alive_remove(shoal_comm *comm)
{
    pthread_mutex_lock(&alive_lock);
    shoal_comm **link = &alive;
    while (*link != NULL && *link != comm)
        link = &(*link)->next_alive;
    if (*link != NULL)
        *link = comm->next_alive;
    pthread_mutex_unlock(&alive_lock);
}
