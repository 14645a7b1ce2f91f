/* SPDX-License-Identifier: Apache-2.0 */
/* A forked child has copies of all descriptors: unless they are closed, a killed parent's
 * connections stay open and no peer sees its death. Before a fork every loop stops
 * between two rounds, so that the child's copy of what they carry is whole; in the child the
 * descriptors are closed and the handles answer EFORKED. */
#include <pthread.h>
#include <unistd.h>

#include "base/error.h"
#include "loop/loop.h"

static pthread_mutex_t alive_lock = PTHREAD_MUTEX_INITIALIZER;
static shoali_loop *alive;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int registered;

static void before_fork(void)
{
    pthread_mutex_lock(&alive_lock);
    for (shoali_loop *loop = alive; loop != NULL; loop = loop->next) {
        atomic_store(&loop->fork_waits, true);
        loop->host.hold(loop->host.ctx, true);
        pthread_mutex_lock(&loop->run_lock);
        pthread_mutex_lock(&loop->lock);
    }
}

static void release(void)
{
    for (shoali_loop *loop = alive; loop != NULL; loop = loop->next) {
        atomic_store(&loop->fork_waits, false);
        pthread_cond_broadcast(&loop->changed);
        pthread_mutex_unlock(&loop->lock);
        pthread_mutex_unlock(&loop->run_lock);
        loop->host.hold(loop->host.ctx, false);
    }
}

static void in_parent(void)
{
    release();
    pthread_mutex_unlock(&alive_lock);
}

static void in_child(void)
{
    for (shoali_loop *loop = alive; loop != NULL; loop = loop->next) {
        atomic_store(&loop->forked, true);
        loop->host.forked(loop->host.ctx);
        close(loop->epoll_fd);
        close(loop->event_fd);
    }
    alive = NULL; /* its threads live in the parent, so the locks stay as they are */
    pthread_mutex_unlock(&alive_lock);
}

static void register_handlers(void)
{
    registered = pthread_atfork(before_fork, in_parent, in_child);
}

shoal_status shoali_fork_add(shoali_loop *loop)
{
    pthread_once(&once, register_handlers);
    if (registered != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, registered, "cannot watch for fork");
    pthread_mutex_lock(&alive_lock);
    loop->next = alive;
    alive = loop;
    pthread_mutex_unlock(&alive_lock);
    return SHOAL_OK;
}

void shoali_fork_remove(shoali_loop *loop)
{
    pthread_mutex_lock(&alive_lock);
    shoali_loop **link = &alive;
    while (*link != NULL && *link != loop)
        link = &(*link)->next;
    if (*link != NULL)
        *link = loop->next;
    pthread_mutex_unlock(&alive_lock);
}
