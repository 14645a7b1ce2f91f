/* SPDX-License-Identifier: Apache-2.0 */
/* The work thread runs long jobs one at a time, in order, and is made when the first one comes. A
 * job never waits for another rank: what it would wait for is an operation of its own, started on
 * the progress thread when it is done. */
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/inner.h"

void shoali_work_init(shoali_worker *work, const pthread_condattr_t *clock)
{
    work->last = &work->first;
    pthread_cond_init(&work->here, clock);
}

void shoali_work_free(shoali_worker *work)
{
    pthread_cond_destroy(&work->here);
}

static void back(void *arg)
{
    shoali_job *job = arg;
    job->done(job->arg, job->status);
}

/* Its text, or one of ours where the job left none. */
static void keep_error(shoali_job *job)
{
    if (shoal_last_error()->status != job->status)
        (void)shoali_fail(job->status, "a job ended with '%s'", shoal_status_text(job->status));
    shoali_error_get(&job->error);
}

static void *work_main(void *arg)
{
    shoal_comm *comm = arg;
    shoali_log_set_rank((int32_t)comm->me, (int32_t)comm->size);
    pthread_mutex_lock(&comm->lock);
    for (;;) {
        while (comm->work.first == NULL && !comm->work.stopping)
            pthread_cond_wait(&comm->work.here, &comm->lock);
        shoali_job *job = comm->work.first;
        if (job == NULL)
            break;
        comm->work.first = job->next;
        if (job->next == NULL)
            comm->work.last = &comm->work.first;
        pthread_mutex_unlock(&comm->lock);
        job->status = job->work(job->arg);
        if (job->status != SHOAL_OK)
            keep_error(job);
        shoali_task_post(comm, &job->back);
        pthread_mutex_lock(&comm->lock);
    }
    pthread_mutex_unlock(&comm->lock);
    return NULL;
}

/* Called with the lock. */
static shoal_status need_thread(shoal_comm *comm)
{
    if (comm->work.running)
        return SHOAL_OK;
    SHOALI_TRY(shoali_thread_start(&comm->work.thread, work_main, comm));
    comm->work.running = true;
    return SHOAL_OK;
}

void shoali_job_post(shoal_comm *comm, shoali_job *job)
{
    job->next = NULL;
    job->back = (shoali_task){.run = back, .arg = job};
    pthread_mutex_lock(&comm->lock);
    shoal_status status = need_thread(comm);
    if (status == SHOAL_OK) {
        *comm->work.last = job;
        comm->work.last = &job->next;
        pthread_cond_signal(&comm->work.here);
    }
    pthread_mutex_unlock(&comm->lock);
    if (status != SHOAL_OK) { /* it comes back as failed, like any other */
        job->status = status;
        shoali_error_get(&job->error);
        shoali_task_post(comm, &job->back);
    }
}

void shoali_work_stop(shoal_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    bool running = comm->work.running;
    comm->work.stopping = true;
    pthread_cond_signal(&comm->work.here);
    pthread_mutex_unlock(&comm->lock);
    if (running)
        pthread_join(comm->work.thread, NULL);
    comm->work.running = false;
}

typedef struct outside_job {
    shoali_job job;
    shoal_status (*work)(void *arg);
    void (*done)(void *arg, shoal_status status);
    void *arg;
} outside_job;

static shoal_status outside_work(void *arg)
{
    outside_job *outside = arg;
    return outside->work(outside->arg);
}

static void outside_done(void *arg, shoal_status status)
{
    outside_job job = *(outside_job *)arg;
    shoali_free(arg);
    if (status != SHOAL_OK)
        (void)shoali_error_set(&job.job.error);
    job.done(job.arg, status);
}

shoal_status shoali_comm_work(shoal_comm *comm, shoal_status (*work)(void *arg),
                              void (*done)(void *arg, shoal_status status), void *arg)
{
    outside_job *outside = shoali_alloc(sizeof *outside);
    if (outside == NULL)
        return SHOAL_ENOMEM;
    *outside = (outside_job){.work = work, .done = done, .arg = arg};
    outside->job = (shoali_job){.work = outside_work, .done = outside_done, .arg = outside};
    shoali_job_post(comm, &outside->job);
    return SHOAL_OK;
}
