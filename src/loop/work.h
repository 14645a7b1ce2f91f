/* SPDX-License-Identifier: Apache-2.0 */
/* The work thread beside a loop: long jobs, one at a time. */
#ifndef SHOALI_LOOP_WORK_H
#define SHOALI_LOOP_WORK_H

#include <pthread.h>

#include "loop/loop.h"

typedef struct shoali_worker {
    shoali_loop *loop;   /* constant: where finished jobs come back; the rest is under its lock */
    pthread_cond_t here; /* a job, or the end */
    shoali_job *first, **last;
    bool stopping, running; /* running: it was made, with the first job */
    pthread_t thread;
} shoali_worker;

void shoali_work_init(shoali_worker *work, shoali_loop *loop);
void shoali_work_free(shoali_worker *work);
/** From any thread; a job that cannot run comes back as failed. */
void shoali_work_post(shoali_worker *work, shoali_job *job);
/** Run work(arg) on the work thread, then done(arg, status of work) on the loop's. ENOMEM */
SHOAL_MUST_USE shoal_status shoali_work_soon(shoali_worker *work, shoal_status (*run)(void *arg),
                                             void (*done)(void *arg, shoal_status status),
                                             void *arg);
/** Jobs that are posted already are done first. */
void shoali_work_stop(shoali_worker *work);

#endif
