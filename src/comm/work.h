/* SPDX-License-Identifier: Apache-2.0 */
/* The work thread of a communicator. */
#ifndef SHOALI_COMM_WORK_H
#define SHOALI_COMM_WORK_H

#include <pthread.h>

#include "ops/job.h"
#include "shoal/shoal.h"

/** Under comm->lock. */
typedef struct shoali_worker {
    pthread_cond_t here; /* a job, or the end */
    shoali_job *first, **last;
    bool stopping, running; /* running: it was made, with the first job */
    pthread_t thread;
} shoali_worker;

/** clock: of the communicator's conditions. */
void shoali_work_init(shoali_worker *work, const pthread_condattr_t *clock);
void shoali_work_free(shoali_worker *work);
void shoali_job_post(shoal_comm *comm, shoali_job *job);
/** Jobs that are posted already are done first. */
void shoali_work_stop(shoal_comm *comm);

#endif
