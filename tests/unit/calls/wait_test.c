/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: each operation is handed out once, to whom it belongs. */
#include "calls/wait.h"

#include <pthread.h>

#include "base/clock.h"
#include "calls/calls.h"
#include "support/alone.h"
#include "support/check.h"
#include "support/fake_comm.h"

enum { LONG_US = 60 * 1000 * 1000 };
static float x[4];
static fake_wire wire;

static shoal_op_desc sum(void)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = SHOAL_ALL_REDUCE;
    desc.buf = x;
    desc.count = 4;
    return desc;
}

static shoal_op *start(shoal_comm *comm)
{
    const shoal_op_desc desc = sum();
    shoal_op *op = NULL;
    assert_ok(shoal_op_start(comm, &desc, &op));
    assert_non_null(op);
    return op;
}

static void what_was_waited_for_is_gone(void **state)
{
    (void)state;
    shoal_comm *comm = alone_make();
    shoal_op *op = start(comm), *other;
    assert_ok(shoal_op_wait(&op, LONG_US, NULL));
    assert_null(op);
    assert_status(shoal_op_wait(&op, 0, NULL), SHOAL_EINVAL);
    assert_status(shoal_op_wait(NULL, 0, NULL), SHOAL_EINVAL);
    assert_status(shoal_comm_next_done(comm, 0, &other), SHOAL_PENDING); /* nor handed out */
    assert_null(comm->handles.all);
    assert_int_equal(comm->handles.open_ops, 0);
    shoal_comm_destroy(comm);
}

/* Each once, and still to be waited for, by which it is freed. */
static void whatever_is_done_is_handed_out_once(void **state)
{
    (void)state;
    shoal_comm *comm = alone_make();
    shoal_op *started[3], *got[3], *more;
    for (int i = 0; i < 3; i++)
        started[i] = start(comm);
    for (int i = 0; i < 3; i++)
        assert_ok(shoal_comm_next_done(comm, LONG_US, &got[i]));
    assert_status(shoal_comm_next_done(comm, 0, &more), SHOAL_PENDING);
    for (int i = 0; i < 3; i++) {
        assert_true(got[i] == started[0] || got[i] == started[1] || got[i] == started[2]);
        assert_true(got[i] != got[(i + 1) % 3]);
    }
    for (int i = 0; i < 3; i++)
        assert_ok(shoal_op_wait(&got[i], 0, NULL));
    shoal_comm_destroy(comm);
}

static void count_end(void *ctx, shoal_status status, const shoal_error *error,
                      const shoal_op_stats *stats)
{
    (void)error;
    (void)stats;
    assert_int_equal(status, SHOAL_OK);
    atomic_fetch_add((atomic_uint *)ctx, 1);
}

static void who_is_called_at_the_end_has_no_handle(void **state)
{
    (void)state;
    atomic_uint ends = 0;
    const shoal_op_desc desc = sum();
    const shoali_op_extras extras = {.on_done = count_end, .done_ctx = &ends};
    const shoali_op_extras nobody = {.on_done = NULL};
    shoal_op *other;
    shoal_comm *comm = alone_make();
    assert_ok(shoali_op_start(comm, &desc, &extras, NULL));
    shoal_op *op = start(comm); /* begins and ends after it */
    assert_ok(shoal_op_wait(&op, LONG_US, NULL));
    assert_int_equal(atomic_load(&ends), 1);
    assert_status(shoal_comm_next_done(comm, 0, &other), SHOAL_PENDING);
    assert_status(shoali_op_start(comm, &desc, &nobody, NULL), SHOAL_EINVAL);
    assert_error_has("nobody would hear");
    assert_status(shoal_op_start(comm, &desc, NULL), SHOAL_EINVAL);
    shoal_comm_destroy(comm);
    assert_int_equal(atomic_load(&ends), 1);
}

/* A wait with an end returns at its end; the operation stays the caller's. */
static void a_wait_ends_and_the_operation_does_not(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 2, &wire);
    struct shoal_op op = {.comm = comm};
    shoal_op *handle = &op;
    pthread_mutex_init(&comm->loop.lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&comm->loop.changed, &monotonic);
    const uint64_t from_us = shoali_now_us();
    assert_status(shoal_op_wait(&handle, 20000, NULL), SHOAL_PENDING);
    assert_true(shoali_now_us() >= from_us + 20000);
    assert_ptr_equal(handle, &op);
    assert_int_equal(comm->handles.waiters, 0);
    op.handle.done = op.handle.cancel_queued = true; /* the cancellation still refers to it */
    assert_status(shoal_op_wait(&handle, 0, NULL), SHOAL_PENDING);
    pthread_cond_destroy(&comm->loop.changed);
    pthread_mutex_destroy(&comm->loop.lock);
    pthread_condattr_destroy(&monotonic);
    fake_comm_free(comm);
}

static void a_cancelled_operation_says_so_or_was_faster(void **state)
{
    (void)state;
    shoal_comm *comm = alone_make();
    for (int i = 0; i < 50; i++) {
        shoal_op *op = start(comm);
        shoal_op_cancel(op);
        shoal_op_cancel(op);
        const shoal_status status = shoal_op_wait(&op, LONG_US, NULL);
        assert_true(status == SHOAL_OK || status == SHOAL_ECANCELLED);
        assert_null(op);
    }
    shoal_op_cancel(NULL);
    assert_int_equal(comm->handles.open_ops, 0);
    shoal_comm_destroy(comm);
}

static void nobody_starts_where_all_ends(void **state)
{
    (void)state;
    const shoal_op_desc desc = sum();
    shoal_op *op = NULL;
    shoal_comm *comm = alone_make();
    pthread_mutex_lock(&comm->loop.lock);
    comm->loop.stopping = true;
    pthread_mutex_unlock(&comm->loop.lock);
    assert_status(shoal_op_start(comm, &desc, &op), SHOAL_ECANCELLED);
    assert_null(op);
    assert_status(shoal_comm_next_done(comm, -1, &op), SHOAL_ECANCELLED); /* at once */
    assert_int_equal(comm->handles.open_ops, 0);
    shoal_comm_destroy(comm);
}

static void a_child_process_may_use_nothing(void **state)
{
    (void)state;
    shoal_comm *comm = fake_comm_make(0, 2, &wire);
    const shoal_op_desc desc = sum();
    shoal_op *op = NULL;
    atomic_store(&comm->loop.forked, true);
    assert_status(shoali_op_usable(comm), SHOAL_EFORKED);
    assert_status(shoal_op_start(comm, &desc, &op), SHOAL_EFORKED);
    assert_status(shoal_comm_next_done(comm, -1, &op), SHOAL_EFORKED);
    assert_status(shoali_op_usable(NULL), SHOAL_EINVAL);
    atomic_store(&comm->loop.forked, false);
    assert_ok(shoali_op_usable(comm));
    fake_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_was_waited_for_is_gone),
        CHECK_TEST(whatever_is_done_is_handed_out_once),
        CHECK_TEST(who_is_called_at_the_end_has_no_handle),
        CHECK_TEST(a_wait_ends_and_the_operation_does_not),
        CHECK_TEST(a_cancelled_operation_says_so_or_was_faster),
        CHECK_TEST(nobody_starts_where_all_ends),
        CHECK_TEST(a_child_process_may_use_nothing),
    };
    return CHECK_RUN(tests);
}
