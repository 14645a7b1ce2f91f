/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that sleeps until a descriptor speaks, a task comes or something falls due. Who owns
 * the loop says what a round does; the loop knows nothing of it. Who may touch what:
 *
 *   constant     set before the thread starts
 *   lock         under `lock`, which the owner uses for what it shares with other threads, too
 *   the loop     the loop's thread only (and, before it starts, the thread that creates the loop)
 */
#ifndef SHOALI_LOOP_LOOP_H
#define SHOALI_LOOP_LOOP_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/job.h"
#include "shoal/status.h"

enum { SHOALI_LATE_US = 50 * 1000 }; /* a round may take that long, no longer */

/** What a loop asks of its owner. All but hold and forked are called on the loop's thread. */
typedef struct shoali_loop_host {
    void *ctx;
    void (*begins)(void *ctx);            /* on a thread that is new, before all else */
    void (*round)(void *ctx);             /* whatever came in or fell due */
    uint64_t (*next_us)(const void *ctx); /* when something falls due; UINT64_MAX: never */
    void (*heard)(void *ctx, int fd);     /* a descriptor other than the loop's spoke */
    /** Whether what has come there may wait for more, until something falls due or a task comes;
     * asked of the loop's own descriptor, too: of that it never may. */
    bool (*can_wait)(const void *ctx, int fd);
    void (*late)(void *ctx, uint64_t late_us); /* this thread came so much later than it meant to */
    /** Around a fork, from the thread that forks: whatever a copy of this process must find whole
     * is held (true) and let go of. */
    void (*hold)(void *ctx, bool hold);
    void (*forked)(void *ctx); /* in the child: its copies of descriptors are to be closed */
} shoali_loop_host;

typedef struct shoali_loop {
    /* constant */
    shoali_loop_host host;
    int epoll_fd, event_fd; /* of all descriptors; the wake-up one */
    uint32_t spin_us;
    bool running; /* from start to stop, as thread; who starts and stops sets them */
    pthread_t thread;

    /* lock */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* whatever somebody waits for under `lock`; monotonic */
    bool stopping;          /* the owner is ending: its tasks alone are taken */
    shoali_task *first, **last;

    atomic_bool asleep, fork_waits;
    atomic_bool forked;       /* this is a child's copy: nothing of it may be used */
    pthread_mutex_t run_lock; /* held by whoever runs a round; fork takes it */

    /* the loop */
    uint64_t now_us;          /* when this round began */
    bool quit;                /* the thread is to end */
    bool busy;                /* something happened, or is left to do: do not sleep */
    uint64_t busy_us;         /* when something happened last */
    struct shoali_loop *next; /* of the process, for fork */
} shoali_loop;

/** Descriptors and locks, and a place among those that a fork stops; shoali_loop_free frees what
 * has been made, whatever this returns. */
SHOAL_MUST_USE shoal_status shoali_loop_init(shoali_loop *loop, const shoali_loop_host *host);
void shoali_loop_free(shoali_loop *loop);

/** One round, without a thread; sleeps until until_us at most. */
void shoali_loop_once(shoali_loop *loop, uint64_t until_us);
SHOAL_MUST_USE shoal_status shoali_loop_start(shoali_loop *loop);
void shoali_loop_stop(shoali_loop *loop);

/** Run a task on the loop's thread, soon, in order of posting. Any thread. */
void shoali_loop_post(shoali_loop *loop, shoali_task *task);
/** As above, unless the owner is ending: ECANCELLED. */
SHOAL_MUST_USE shoal_status shoali_loop_offer(shoali_loop *loop, shoali_task *task);
/** As above; the task is the loop's. ENOMEM | ECANCELLED */
SHOAL_MUST_USE shoal_status shoali_loop_soon(shoali_loop *loop, void (*fn)(void *arg), void *arg);
/** Run fn(arg) on the loop's thread, or here if that is this one or does not run, and wait for its
 * end. */
void shoali_loop_call(shoali_loop *loop, void (*fn)(void *arg), void *arg);
/** A task to post often; the caller's, to shoali_free. NULL: no memory. */
shoali_task *shoali_loop_task(void (*fn)(void *arg), void *arg);

/* fork.c */
SHOAL_MUST_USE shoal_status shoali_fork_add(shoali_loop *loop);
void shoali_fork_remove(shoali_loop *loop);

#endif
