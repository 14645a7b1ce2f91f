/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side of operations: start, wait, cancel, and which one has completed. */
#include "calls/wait.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "calls/calls.h"
#include "calls/host.h"

shoal_status shoali_op_usable(const shoal_comm *comm)
{
    if (comm == NULL)
        return shoali_fail(SHOAL_EINVAL, "no communicator");
    if (atomic_load(&comm->loop.forked))
        return shoali_fail(SHOAL_EFORKED,
                           "this communicator belongs to the parent process: make one after fork");
    return SHOAL_OK;
}

static void link_all(shoali_handles *handles, shoal_op *op)
{
    op->handle.next_all = handles->all;
    if (handles->all != NULL)
        handles->all->handle.prev_all = op;
    handles->all = op;
}

static void unlink_all(shoali_handles *handles, shoal_op *op)
{
    if (op->handle.next_all != NULL)
        op->handle.next_all->handle.prev_all = op->handle.prev_all;
    if (op->handle.prev_all != NULL)
        op->handle.prev_all->handle.next_all = op->handle.next_all;
    else
        handles->all = op->handle.next_all;
}

void shoali_handles_free(shoali_handles *handles)
{
    while (handles->all != NULL) {
        shoal_op *op = handles->all;
        handles->all = op->handle.next_all;
        shoali_op_free(op);
    }
}

static void link_done(shoali_handles *handles, shoal_op *op)
{
    op->handle.in_done = true;
    op->handle.next_done = NULL;
    op->handle.prev_done = handles->done_last;
    *(handles->done_last != NULL ? &handles->done_last->handle.next_done
                                 : &handles->done_first) = op;
    handles->done_last = op;
}

static void unlink_done(shoali_handles *handles, shoal_op *op)
{
    *(op->handle.prev_done != NULL ? &op->handle.prev_done->handle.next_done
                                   : &handles->done_first) = op->handle.next_done;
    *(op->handle.next_done != NULL ? &op->handle.next_done->handle.prev_done
                                   : &handles->done_last) = op->handle.prev_done;
    op->handle.in_done = false;
}

/* Counted, and on its way to the progress thread. */
static shoal_status launch(shoal_comm *comm, shoal_op *op)
{
    pthread_mutex_lock(&comm->loop.lock);
    bool stopping = comm->loop.stopping;
    comm->handles.open_ops += !stopping;
    op->handle.keeps = !stopping && shoali_op_keeps(op);
    comm->handles.keeping_ops += op->handle.keeps;
    if (!stopping && op->extras.on_done == NULL)
        link_all(&comm->handles, op);
    pthread_mutex_unlock(&comm->loop.lock);
    if (stopping) {
        shoali_op_free(op);
        return shoali_fail(SHOAL_ECANCELLED, "the communicator is being destroyed");
    }
    return SHOAL_OK;
}

/* op_out, which the operation's end may look at, is set before it begins. */
static void post(shoal_comm *comm, shoal_op *op, shoal_op **op_out)
{
    if (op_out != NULL)
        *op_out = op;
    op->handle.start_task = (shoali_task){.run = shoali_host_start, .arg = op};
    shoali_loop_post(&comm->loop, &op->handle.start_task);
}

shoal_status shoali_op_start(shoal_comm *comm, const shoal_op_desc *desc,
                             const shoali_op_extras *extras, shoal_op **op_out)
{
    shoal_op *op;
    SHOALI_TRY(shoali_op_usable(comm));
    if (op_out == NULL && extras->on_done == NULL)
        return shoali_fail(SHOAL_EINVAL, "nobody would hear of this operation's end");
    SHOALI_TRY(shoali_op_make(&comm->ops, desc, extras, SHOALI_MAIN_ROUND, &op));
    SHOALI_TRY(launch(comm, op));
    post(comm, op, op_out);
    return SHOAL_OK;
}

shoal_status shoali_op_run(shoal_comm *comm, shoal_op_plan *plan, const shoal_op_desc *desc,
                           const shoali_op_extras *extras, shoal_op **op_out)
{
    shoal_op *op;
    SHOALI_TRY(shoali_op_usable(comm));
    SHOALI_TRY(shoali_op_of(plan, desc, extras, SHOALI_MAIN_ROUND, &op));
    SHOALI_TRY(launch(comm, op));
    post(comm, op, op_out);
    return SHOAL_OK;
}

shoal_status shoal_op_start(shoal_comm *comm, const shoal_op_desc *desc, shoal_op **op_out)
{
    const shoali_op_extras extras = {.check_finite = true, .error_feedback = true};
    if (op_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "no place for the operation");
    return shoali_op_start(comm, desc, &extras, op_out);
}

/* The progress thread hands a finished operation back. With on_done it is gone afterwards, once a
 * cancellation that is still in the queue has been there. */
void shoali_op_complete(shoal_op *op)
{
    shoal_comm *comm = op->comm;
    bool counted = op->rounds.parent == NULL;
    void (*on_done)(void *, shoal_status, const shoal_error *,
                    const shoal_op_stats *) = op->extras.on_done;
    if (on_done != NULL)
        on_done(op->extras.done_ctx, op->status, &op->error, &op->stats);
    pthread_mutex_lock(&comm->loop.lock);
    comm->handles.open_ops -= counted;
    comm->handles.keeping_ops -= op->handle.keeps;
    op->handle.done = true;
    bool referred_to = op->handle.cancel_queued;
    if (on_done == NULL && !op->extras.own_wait)
        link_done(&comm->handles, op);
    pthread_mutex_unlock(&comm->loop.lock);
    pthread_cond_broadcast(&comm->loop.changed); /* whom it wakes finds the lock free */
    if (on_done != NULL && !referred_to)
        shoali_op_free(op);
}

/* With the lock: sleep until something changes or until_us (UINT64_MAX: no end). False: the time is
 * over. */
static bool sleep_for_change(shoal_comm *comm, uint64_t until_us)
{
    if (until_us == UINT64_MAX) {
        pthread_cond_wait(&comm->loop.changed, &comm->loop.lock);
        return true;
    }
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                             .tv_nsec = (long)(until_us % 1000000) * 1000};
    return pthread_cond_timedwait(&comm->loop.changed, &comm->loop.lock, &until) != ETIMEDOUT;
}

static uint64_t end_of(int64_t timeout_us)
{
    return timeout_us < 0 ? UINT64_MAX : shoali_now_us() + (uint64_t)timeout_us;
}

static void copy_stats(const shoal_op *op, shoal_op_stats *out)
{
    size_t size = out->size > 0 && out->size < sizeof *out ? out->size : sizeof *out;
    memcpy((uint8_t *)out + sizeof out->size, (const uint8_t *)&op->stats + sizeof out->size,
           size - sizeof out->size);
}

shoal_status shoal_op_wait(shoal_op **op, int64_t timeout_us, shoal_op_stats *stats_out)
{
    if (op == NULL || *op == NULL)
        return shoali_fail(SHOAL_EINVAL, "no operation to wait for");
    shoal_op *o = *op;
    shoal_comm *comm = o->comm;
    SHOALI_TRY(shoali_op_usable(comm));
    uint64_t until_us = end_of(timeout_us);
    bool over = false;
    pthread_mutex_lock(&comm->loop.lock);
    comm->handles.waiters++;
    while ((!o->handle.done || o->handle.cancel_queued) && !over)
        over = !sleep_for_change(comm, until_us);
    bool done = o->handle.done && !o->handle.cancel_queued;
    if (done) {
        if (o->handle.in_done)
            unlink_done(&comm->handles, o);
        unlink_all(&comm->handles, o);
    }
    if (--comm->handles.waiters == 0 && comm->loop.stopping)
        pthread_cond_broadcast(&comm->loop.changed);
    pthread_mutex_unlock(&comm->loop.lock);
    if (!done)
        return shoali_fail(SHOAL_PENDING, "the operation is not over yet");
    shoal_status status = o->status;
    if (stats_out != NULL && status == SHOAL_OK)
        copy_stats(o, stats_out);
    if (status != SHOAL_OK)
        (void)shoali_error_set(&o->error);
    shoali_op_free(o);
    *op = NULL;
    return status;
}

shoal_status shoal_comm_next_done(shoal_comm *comm, int64_t timeout_us, shoal_op **op_out)
{
    SHOALI_TRY(shoali_op_usable(comm));
    uint64_t until_us = end_of(timeout_us);
    bool over = false;
    pthread_mutex_lock(&comm->loop.lock);
    comm->handles.waiters++;
    while (comm->handles.done_first == NULL && !over && !comm->loop.stopping)
        over = !sleep_for_change(comm, until_us);
    shoal_op *op = comm->handles.done_first;
    if (op != NULL)
        unlink_done(&comm->handles, op);
    bool stopping = comm->loop.stopping;
    if (--comm->handles.waiters == 0 && stopping)
        pthread_cond_broadcast(&comm->loop.changed);
    pthread_mutex_unlock(&comm->loop.lock);
    if (op == NULL && stopping)
        return shoali_fail(SHOAL_ECANCELLED, "the communicator is being destroyed");
    if (op == NULL)
        return shoali_fail(SHOAL_PENDING, "no operation has completed");
    *op_out = op;
    return SHOAL_OK;
}

static void run_cancel(void *arg)
{
    shoal_op *op = arg;
    shoal_comm *comm = op->comm;
    if (op->state != SHOALI_OP_ENDED) {
        (void)shoali_fail(SHOAL_ECANCELLED, "%s was cancelled by rank %u (host %.40s)", op->name,
                          comm->me, comm->peers[comm->me].host);
        shoali_error_about((int32_t)comm->me, comm->peers[comm->me].host, NULL, -1);
        shoali_run_fail(op, true);
    }
    pthread_mutex_lock(&comm->loop.lock);
    op->handle.cancel_queued = false;
    bool orphan = op->handle.done && op->extras.on_done != NULL;
    pthread_cond_broadcast(&comm->loop.changed);
    pthread_mutex_unlock(&comm->loop.lock);
    if (orphan)
        shoali_op_free(op);
}

void shoali_op_hurry(shoal_op *op)
{
    if (!op->handle.done)
        shoali_run_hurry(op);
}

void shoal_op_cancel(shoal_op *op)
{
    if (op == NULL || atomic_load(&op->comm->loop.forked))
        return;
    pthread_mutex_lock(&op->comm->loop.lock);
    bool post = !op->handle.done && !op->handle.cancel_queued && !op->comm->loop.stopping;
    op->handle.cancel_queued |= post;
    pthread_mutex_unlock(&op->comm->loop.lock);
    if (post) {
        op->handle.cancel_task = (shoali_task){.run = run_cancel, .arg = op};
        shoali_loop_post(&op->comm->loop, &op->handle.cancel_task);
    }
}
