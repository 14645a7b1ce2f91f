/* SPDX-License-Identifier: Apache-2.0 */
/* The only event loop. One round:
 *
 *   sleep in epoll (transports' descriptors, the wake-up descriptor) until the next timer, unless
 *   there is work
 *   tasks of other threads -> transports -> datagrams -> frames that came back -> peers that went
 *   -> operations that ended -> timers
 *
 * Nothing here blocks but epoll, and nothing that is called runs longer than a few milliseconds. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/inner.h"

enum {
    MAX_SLEEP_US = 1000 * 1000,
    LOOK_US = 10 * 1000,
    GATHER_MS = 25, /* below SHOALI_LATE_US */
    FEW = 16        /* members, whose beats are not worth it */
};

shoal_status shoali_loop_init(shoali_loop *loop)
{
    loop->tasks.last = &loop->tasks.first;
    pthread_mutex_init(&loop->run_lock, NULL);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = loop->event_fd};
    if (loop->epoll_fd < 0 || loop->event_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->event_fd, &event) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno,
                              "cannot create the descriptors of a communicator");
    return SHOAL_OK;
}

void shoali_loop_free(shoali_loop *loop)
{
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    if (loop->event_fd >= 0)
        close(loop->event_fd);
    pthread_mutex_destroy(&loop->run_lock);
}

static void wake(shoal_comm *comm)
{
    uint64_t one = 1;
    if (atomic_load(&comm->loop.asleep) && write(comm->loop.event_fd, &one, sizeof one) < 0)
        return; /* the counter is full: it is awake */
}

static void append(shoali_queue *queue, shoali_task *task)
{
    task->next = NULL;
    *queue->last = task;
    queue->last = &task->next;
}

void shoali_task_post(shoal_comm *comm, shoali_task *task)
{
    pthread_mutex_lock(&comm->lock);
    append(&comm->loop.tasks, task);
    pthread_mutex_unlock(&comm->lock);
    wake(comm);
}

shoali_task *shoali_comm_task(void (*fn)(void *arg), void *arg)
{
    shoali_task *task = shoali_alloc(sizeof *task);
    if (task != NULL)
        *task = (shoali_task){.run = fn, .arg = arg};
    return task;
}

shoal_status shoali_comm_post_task(shoal_comm *comm, shoali_task *task)
{
    pthread_mutex_lock(&comm->lock);
    bool stopping = comm->stopping;
    if (!stopping)
        append(&comm->loop.tasks, task);
    pthread_mutex_unlock(&comm->lock);
    if (stopping)
        return shoali_fail(SHOAL_ECANCELLED, "the communicator is being destroyed");
    wake(comm);
    return SHOAL_OK;
}

shoal_status shoali_comm_post(shoal_comm *comm, void (*fn)(void *arg), void *arg)
{
    shoali_task *task = shoali_comm_task(fn, arg);
    if (task == NULL)
        return SHOAL_ENOMEM;
    task->owned = true;
    shoal_status status = shoali_comm_post_task(comm, task);
    if (status != SHOAL_OK)
        shoali_free(task);
    return status;
}

typedef struct call {
    shoal_comm *comm;
    void (*fn)(void *arg);
    void *arg;
    bool over;
} call;

static void run_call(void *arg)
{
    call *c = arg;
    c->fn(c->arg);
    pthread_mutex_lock(&c->comm->lock);
    c->over = true;
    pthread_cond_broadcast(&c->comm->changed);
    pthread_mutex_unlock(&c->comm->lock);
}

void shoali_call(shoal_comm *comm, void (*fn)(void *arg), void *arg)
{
    if (!comm->loop.running || pthread_equal(pthread_self(), comm->loop.thread)) {
        fn(arg);
        return;
    }
    call c = {comm, fn, arg, false};
    shoali_task task = {.run = run_call, .arg = &c};
    shoali_task_post(comm, &task);
    pthread_mutex_lock(&comm->lock);
    while (!c.over)
        pthread_cond_wait(&comm->changed, &comm->lock);
    pthread_mutex_unlock(&comm->lock);
}

static void run_tasks(shoal_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    shoali_task *task = comm->loop.tasks.first;
    comm->loop.tasks.first = NULL;
    comm->loop.tasks.last = &comm->loop.tasks.first;
    pthread_mutex_unlock(&comm->lock);
    while (task != NULL) {
        shoali_task *next = task->next; /* running may free the task */
        bool owned = task->owned;
        task->run(task->arg);
        if (owned)
            shoali_free(task);
        task = next;
        comm->loop.busy = true;
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_timer_us(const shoal_comm *comm)
{
    uint64_t at = earlier(shoali_run_next_us(&comm->ops), shoali_view_next_us(comm));
    const shoali_link *links[] = {&comm->links.control, &comm->links.near};
    for (int i = 0; i < 2; i++)
        if (links[i]->open)
            at = earlier(at, links[i]->row->next_wake_us(links[i]->state));
    if (comm->ears.listening && comm->ears.listener.next_wake_us != NULL)
        at = earlier(at, comm->ears.listener.next_wake_us(comm->ears.listener.ctx));
    return at;
}

static bool has_tasks(shoal_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    bool some = comm->loop.tasks.first != NULL;
    pthread_mutex_unlock(&comm->lock);
    return some;
}

static bool is_of_link(const shoali_link *link, int fd)
{
    return link->open && link->row->fd(link->state) == fd;
}

/* Who spoke: the wake-up descriptor, a transport, or somebody who watches. */
static void take_event(shoal_comm *comm, int fd)
{
    uint64_t count;
    if (fd == comm->loop.event_fd)
        (void)!read(fd, &count, sizeof count); /* or it is taken already */
    else if (!is_of_link(&comm->links.control, fd) && !is_of_link(&comm->links.near, fd))
        comm->loop.watched = true;
}

/* A rank without operations has nothing to hear that is urgent: what others say of an operation
 * counts once it is entered here, and entering wakes this thread. Among many ranks the beats of all
 * would wake it for each. */
static bool may_gather(const shoal_comm *comm)
{
    return comm->size > FEW && comm->view.joined && comm->ops.open == NULL &&
           !comm->ears.listening && comm->door == NULL && comm->service == NULL;
}

/* Something has come: wait a little for more, unless a task comes. */
static void gather(const shoal_comm *comm, uint64_t until_us)
{
    struct pollfd task = {.fd = comm->loop.event_fd, .events = POLLIN};
    const uint64_t now_us = shoali_now_us();
    const uint64_t left_ms = until_us > now_us ? (until_us - now_us) / 1000 : 0;
    (void)poll(&task, 1, left_ms < GATHER_MS ? (int)left_ms : GATHER_MS);
}

/* Sleep until a descriptor speaks, a task comes or until_us; returns how long it meant to sleep.
 * Whoever posts a task after asleep is set writes to the wake-up descriptor; whoever posted before
 * is seen by has_tasks. */
static uint64_t sleep_until(shoal_comm *comm, uint64_t until_us)
{
    struct epoll_event events[4];
    const bool gathers = may_gather(comm);
    uint64_t now_us = shoali_now_us();
    if (until_us <= now_us)
        return 0;
    uint64_t wait_ms = (until_us - now_us + 999) / 1000;
    atomic_store(&comm->loop.asleep, true);
    if (!has_tasks(comm)) {
        pthread_mutex_unlock(&comm->loop.run_lock);
        int got = epoll_wait(comm->loop.epoll_fd, events, 4, (int)wait_ms);
        if (got > 0 && gathers)
            gather(comm, until_us);
        pthread_mutex_lock(&comm->loop.run_lock);
        for (int i = 0; i < got; i++)
            take_event(comm, events[i].data.fd);
    }
    atomic_store(&comm->loop.asleep, false);
    return wait_ms * 1000;
}

/* fork wants the locks: let it have them, and go on when it is over. */
static void let_fork(shoal_comm *comm)
{
    while (atomic_load(&comm->loop.fork_waits)) {
        pthread_mutex_unlock(&comm->loop.run_lock);
        pthread_mutex_lock(&comm->lock);
        while (atomic_load(&comm->loop.fork_waits))
            pthread_cond_wait(&comm->changed, &comm->lock);
        pthread_mutex_unlock(&comm->lock);
        pthread_mutex_lock(&comm->loop.run_lock);
    }
}

/* Asking the kernel who watches costs more than a round: not in each of those between which nobody
 * sleeps, and so hears of it. */
static void serve_watchers(shoal_comm *comm)
{
    if (!comm->loop.watched && comm->loop.now_us < comm->loop.look_us)
        return;
    comm->loop.watched = false;
    comm->loop.look_us = comm->loop.now_us + LOOK_US;
    shoali_watch_serve(comm->watch);
}

/* Whatever came in or fell due. */
static void run_round(shoal_comm *comm)
{
    run_tasks(comm);
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

void shoali_progress_once(shoal_comm *comm, uint64_t until_us)
{
    uint64_t wait_us = 0, before_us = comm->loop.now_us;
    pthread_mutex_lock(&comm->loop.run_lock);
    let_fork(comm);
    if (!comm->loop.busy && comm->loop.now_us >= comm->loop.busy_us + comm->loop.spin_us)
        wait_us = sleep_until(comm, earlier(until_us, next_timer_us(comm)));
    comm->loop.busy = comm->flights.returned_first != SHOALI_NONE;
    comm->loop.now_us = shoali_now_us();
    if (comm->loop.now_us > before_us + wait_us + SHOALI_LATE_US)
        shoali_view_late(comm, comm->loop.now_us - before_us - wait_us);
    run_round(comm);
    if (comm->loop.busy)
        comm->loop.busy_us = comm->loop.now_us;
    pthread_mutex_unlock(&comm->loop.run_lock);
}

static void *progress_main(void *arg)
{
    shoal_comm *comm = arg;
    shoali_log_set_rank((int32_t)comm->me, (int32_t)comm->size);
    while (!comm->loop.quit)
        shoali_progress_once(comm, comm->loop.now_us + MAX_SLEEP_US);
    return NULL;
}

shoal_status shoali_progress_start(shoal_comm *comm)
{
    SHOALI_TRY(shoali_thread_start(&comm->loop.thread, progress_main, comm));
    comm->loop.running = true;
    return SHOAL_OK;
}

static void quit(void *arg)
{
    ((shoal_comm *)arg)->loop.quit = true;
}

void shoali_progress_stop(shoal_comm *comm)
{
    if (!comm->loop.running)
        return;
    shoali_call(comm, quit, comm);
    pthread_join(comm->loop.thread, NULL);
    comm->loop.running = false;
}
