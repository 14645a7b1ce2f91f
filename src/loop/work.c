/* SPDX-License-Identifier: Apache-2.0 */
/* The work thread runs long jobs one at a time, in order, and is made when the first one comes. A
 * job never waits for another rank: what it would wait for is an operation of its own, started on
 * the progress thread when it is done. */
#include "loop/work.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/thread.h"

void shoali_work_init(shoali_worker *work, shoali_loop *loop)
{
    work->loop = loop;
    work->last = &work->first;
    pthread_cond_init(&work->here, NULL);
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
    shoali_worker *work = arg;
    work->loop->host.begins(work->loop->host.ctx);
    pthread_mutex_lock(&work->loop->lock);
    for (;;) {
        while (work->first == NULL && !work->stopping)
            pthread_cond_wait(&work->here, &work->loop->lock);
        shoali_job *job = work->first;
        if (job == NULL)
            break;
        work->first = job->next;
        if (job->next == NULL)
            work->last = &work->first;
        pthread_mutex_unlock(&work->loop->lock);
        job->status = job->work(job->arg);
        if (job->status != SHOAL_OK)
            keep_error(job);
        shoali_loop_post(work->loop, &job->back);
        pthread_mutex_lock(&work->loop->lock);
    }
    pthread_mutex_unlock(&work->loop->lock);
    return NULL;
}

/* Called with the lock. */
static shoal_status need_thread(shoali_worker *work)
{
    if (work->running)
        return SHOAL_OK;
    SHOALI_TRY(shoali_thread_start(&work->thread, work_main, work));
    work->running = true;
    return SHOAL_OK;
}

void shoali_work_post(shoali_worker *work, shoali_job *job)
{
    job->next = NULL;
    job->back = (shoali_task){.run = back, .arg = job};
    pthread_mutex_lock(&work->loop->lock);
    shoal_status status = need_thread(work);
    if (status == SHOAL_OK) {
        *work->last = job;
        work->last = &job->next;
        pthread_cond_signal(&work->here);
    }
    pthread_mutex_unlock(&work->loop->lock);
    if (status != SHOAL_OK) { /* it comes back as failed, like any other */
        job->status = status;
        shoali_error_get(&job->error);
        shoali_loop_post(work->loop, &job->back);
    }
}

void shoali_work_stop(shoali_worker *work)
{
    pthread_mutex_lock(&work->loop->lock);
    bool running = work->running;
    work->stopping = true;
    pthread_cond_signal(&work->here);
    pthread_mutex_unlock(&work->loop->lock);
    if (running)
        pthread_join(work->thread, NULL);
    work->running = false;
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

shoal_status shoali_work_soon(shoali_worker *work, shoal_status (*run)(void *arg),
                              void (*done)(void *arg, shoal_status status), void *arg)
{
    outside_job *outside = shoali_alloc(sizeof *outside);
    if (outside == NULL)
        return SHOAL_ENOMEM;
    *outside = (outside_job){.work = run, .done = done, .arg = arg};
    outside->job = (shoali_job){.work = outside_work, .done = outside_done, .arg = outside};
    shoali_work_post(work, &outside->job);
    return SHOAL_OK;
}
