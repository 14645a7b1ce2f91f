/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop of a communicator. */
#ifndef SHOALI_COMM_PROGRESS_H
#define SHOALI_COMM_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>

#include "ops/job.h"
#include "shoal/shoal.h"

typedef struct shoali_queue {
    shoali_task *first, **last;
} shoali_queue;

typedef struct shoali_loop {
    /* constant */
    int epoll_fd, event_fd;
    uint32_t spin_us;
    bool running; /* from start to stop, as thread; who starts and stops sets them */
    pthread_t thread;

    shoali_queue tasks; /* under comm->lock */
    atomic_bool asleep;
    pthread_mutex_t run_lock; /* held by whoever runs the progress functions; fork takes it */
    atomic_bool fork_waits;
    /* progress */
    uint64_t now_us;  /* when this round began */
    bool quit;        /* the progress thread is to end */
    bool busy;        /* something happened in this round, or is left to do: do not sleep */
    uint64_t busy_us; /* when something happened last */
    bool watched;     /* somebody speaks to the status socket */
    uint64_t look_us; /* when it is looked at although nobody is known to */
} shoali_loop;

/** Descriptors and locks; shoali_loop_free frees what has been made, whatever this returns. */
SHOAL_MUST_USE shoal_status shoali_loop_init(shoali_loop *loop);
void shoali_loop_free(shoali_loop *loop);

/** One round; sleeps until until_us at most. */
void shoali_progress_once(shoal_comm *comm, uint64_t until_us);
SHOAL_MUST_USE shoal_status shoali_progress_start(shoal_comm *comm);
void shoali_progress_stop(shoal_comm *comm);
void shoali_task_post(shoal_comm *comm, shoali_task *task); /* takes the lock */
/** Run fn(arg) on the progress thread and wait for its end. */
void shoali_call(shoal_comm *comm, void (*fn)(void *arg), void *arg);

#endif
