/* SPDX-License-Identifier: Apache-2.0 */
/* One round:
 *
 *   sleep in epoll (the owner's descriptors, the wake-up descriptor) until something falls due,
 *   unless there is work
 *   tasks of other threads -> the owner's round
 *
 * Nothing here blocks but epoll, and nothing that is called runs longer than a few milliseconds. */
#include "loop/loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

enum { MAX_SLEEP_US = 1000 * 1000 };

static void init_locks(shoali_loop *loop)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&loop->lock, NULL);
    pthread_mutex_init(&loop->run_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* the clock of shoali_now_us */
    pthread_cond_init(&loop->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

shoal_status shoali_loop_init(shoali_loop *loop, const shoali_loop_host *host)
{
    loop->host = *host;
    loop->last = &loop->first;
    init_locks(loop);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = loop->event_fd};
    if (loop->epoll_fd < 0 || loop->event_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->event_fd, &event) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno,
                              "cannot create the descriptors of a communicator");
    return shoali_fork_add(loop);
}

void shoali_loop_free(shoali_loop *loop)
{
    shoali_fork_remove(loop);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    if (loop->event_fd >= 0)
        close(loop->event_fd);
    pthread_mutex_destroy(&loop->run_lock);
    pthread_cond_destroy(&loop->changed);
    pthread_mutex_destroy(&loop->lock);
}

/* ------------------------------------------------------------------ tasks */

static void wake(shoali_loop *loop)
{
    uint64_t one = 1;
    if (atomic_load(&loop->asleep) && write(loop->event_fd, &one, sizeof one) < 0)
        return; /* the counter is full: it is awake */
}

static void append(shoali_loop *loop, shoali_task *task)
{
    task->next = NULL;
    *loop->last = task;
    loop->last = &task->next;
}

void shoali_loop_post(shoali_loop *loop, shoali_task *task)
{
    pthread_mutex_lock(&loop->lock);
    append(loop, task);
    pthread_mutex_unlock(&loop->lock);
    wake(loop);
}

shoali_task *shoali_loop_task(void (*fn)(void *arg), void *arg)
{
    shoali_task *task = shoali_alloc(sizeof *task);
    if (task != NULL)
        *task = (shoali_task){.run = fn, .arg = arg};
    return task;
}

shoal_status shoali_loop_offer(shoali_loop *loop, shoali_task *task)
{
    pthread_mutex_lock(&loop->lock);
    bool stopping = loop->stopping;
    if (!stopping)
        append(loop, task);
    pthread_mutex_unlock(&loop->lock);
    if (stopping)
        return shoali_fail(SHOAL_ECANCELLED, "the communicator is being destroyed");
    wake(loop);
    return SHOAL_OK;
}

shoal_status shoali_loop_soon(shoali_loop *loop, void (*fn)(void *arg), void *arg)
{
    shoali_task *task = shoali_loop_task(fn, arg);
    if (task == NULL)
        return SHOAL_ENOMEM;
    task->owned = true;
    shoal_status status = shoali_loop_offer(loop, task);
    if (status != SHOAL_OK)
        shoali_free(task);
    return status;
}

typedef struct call {
    shoali_loop *loop;
    void (*fn)(void *arg);
    void *arg;
    bool over;
} call;

static void run_call(void *arg)
{
    call *c = arg;
    c->fn(c->arg);
    pthread_mutex_lock(&c->loop->lock);
    c->over = true;
    pthread_cond_broadcast(&c->loop->changed);
    pthread_mutex_unlock(&c->loop->lock);
}

void shoali_loop_call(shoali_loop *loop, void (*fn)(void *arg), void *arg)
{
    if (!loop->running || pthread_equal(pthread_self(), loop->thread)) {
        fn(arg);
        return;
    }
    call c = {loop, fn, arg, false};
    shoali_task task = {.run = run_call, .arg = &c};
    shoali_loop_post(loop, &task);
    pthread_mutex_lock(&loop->lock);
    while (!c.over)
        pthread_cond_wait(&loop->changed, &loop->lock);
    pthread_mutex_unlock(&loop->lock);
}

static void run_tasks(shoali_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    shoali_task *task = loop->first;
    loop->first = NULL;
    loop->last = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    while (task != NULL) {
        shoali_task *next = task->next; /* running may free the task */
        bool owned = task->owned;
        task->run(task->arg);
        if (owned)
            shoali_free(task);
        task = next;
        loop->busy = true;
    }
}

static bool has_tasks(shoali_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool some = loop->first != NULL;
    pthread_mutex_unlock(&loop->lock);
    return some;
}

/* ------------------------------------------------------------------ rounds */

static void take_event(shoali_loop *loop, int fd)
{
    uint64_t count;
    if (fd == loop->event_fd)
        (void)!read(fd, &count, sizeof count); /* or it is taken already */
    else
        loop->host.heard(loop->host.ctx, fd);
}

static bool can_wait(const shoali_loop *loop, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++)
        if (!loop->host.can_wait(loop->host.ctx, events[i].data.fd))
            return false;
    return count > 0;
}

/* Something has come that is not urgent: wait for more, unless a task comes. */
static void gather(const shoali_loop *loop, uint64_t until_us)
{
    struct pollfd task = {.fd = loop->event_fd, .events = POLLIN};
    const uint64_t now_us = shoali_now_us();
    if (until_us > now_us)
        (void)poll(&task, 1, (int)((until_us - now_us + 999) / 1000));
}

/* Sleep until a descriptor speaks, a task comes or until_us; returns how long it meant to sleep.
 * Whoever posts a task after asleep is set writes to the wake-up descriptor; whoever posted before
 * is seen by has_tasks. */
static uint64_t sleep_until(shoali_loop *loop, uint64_t until_us)
{
    struct epoll_event events[4];
    uint64_t now_us = shoali_now_us();
    if (until_us <= now_us)
        return 0;
    uint64_t wait_ms = (until_us - now_us + 999) / 1000;
    atomic_store(&loop->asleep, true);
    if (!has_tasks(loop)) {
        pthread_mutex_unlock(&loop->run_lock);
        int got = epoll_wait(loop->epoll_fd, events, 4, (int)wait_ms);
        if (can_wait(loop, events, got))
            gather(loop, until_us);
        pthread_mutex_lock(&loop->run_lock);
        for (int i = 0; i < got; i++)
            take_event(loop, events[i].data.fd);
    }
    atomic_store(&loop->asleep, false);
    return wait_ms * 1000;
}

/* fork wants the locks: let it have them, and go on when it is over. */
static void let_fork(shoali_loop *loop)
{
    while (atomic_load(&loop->fork_waits)) {
        pthread_mutex_unlock(&loop->run_lock);
        pthread_mutex_lock(&loop->lock);
        while (atomic_load(&loop->fork_waits))
            pthread_cond_wait(&loop->changed, &loop->lock);
        pthread_mutex_unlock(&loop->lock);
        pthread_mutex_lock(&loop->run_lock);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void shoali_loop_once(shoali_loop *loop, uint64_t until_us)
{
    uint64_t wait_us = 0, before_us = loop->now_us;
    pthread_mutex_lock(&loop->run_lock);
    let_fork(loop);
    if (!loop->busy && loop->now_us >= loop->busy_us + loop->spin_us)
        wait_us = sleep_until(loop, earlier(until_us, loop->host.next_us(loop->host.ctx)));
    loop->busy = false;
    loop->now_us = shoali_now_us();
    if (loop->now_us > before_us + wait_us + SHOALI_LATE_US)
        loop->host.late(loop->host.ctx, loop->now_us - before_us - wait_us);
    run_tasks(loop);
    loop->host.round(loop->host.ctx);
    if (loop->busy)
        loop->busy_us = loop->now_us;
    pthread_mutex_unlock(&loop->run_lock);
}

/* ------------------------------------------------------------------ the thread */

static void *loop_main(void *arg)
{
    shoali_loop *loop = arg;
    loop->host.begins(loop->host.ctx);
    while (!loop->quit)
        shoali_loop_once(loop, loop->now_us + MAX_SLEEP_US);
    return NULL;
}

shoal_status shoali_loop_start(shoali_loop *loop)
{
    SHOALI_TRY(shoali_thread_start(&loop->thread, loop_main, loop));
    loop->running = true;
    return SHOAL_OK;
}

static void quit(void *arg)
{
    ((shoali_loop *)arg)->quit = true;
}

void shoali_loop_stop(shoali_loop *loop)
{
    if (!loop->running)
        return;
    shoali_loop_call(loop, quit, loop);
    pthread_join(loop->thread, NULL);
    loop->running = false;
}
