/* SPDX-License-Identifier: Apache-2.0 */
/* What operations are answered when they ask their communicator. */
#include "calls/host.h"

#include "support/check.h"
#include "support/fake_comm.h"
#include "wire/messages.h"

static fake_wire wire;

static shoal_comm *make(uint32_t me, uint32_t size)
{
    shoal_comm *comm = fake_comm_make(me, size, &wire);
    void *peers = comm->ops.peers; /* the fake's */
    comm->op_timeout_us = 7000;
    comm->chunk_elems = 4096;
    comm->seed = 99;
    assert_ok(shoali_host_init(comm));
    shoali_free(peers);
    pthread_mutex_init(&comm->loop.lock, NULL);
    return comm;
}

static void unmake(shoal_comm *comm)
{
    pthread_mutex_destroy(&comm->loop.lock);
    shoali_ops_free(&comm->ops, SHOAL_ECANCELLED);
    comm->ops.peers = NULL;
    fake_comm_free(comm);
}

static void operations_know_the_communicator_s_numbers(void **state)
{
    (void)state;
    shoal_comm *comm = make(1, 3);
    assert_true(comm->ops.me == 1 && comm->ops.size == 3 && comm->ops.ranks == 3);
    assert_true(comm->ops.timeout_us == 7000 && comm->ops.chunk_elems == 4096);
    assert_true(comm->ops.seed == 99 && comm->ops.serving == NULL);
    assert_ptr_equal(comm->ops.now_us, &comm->loop.now_us);
    assert_ptr_equal(comm->ops.busy, &comm->loop.busy);
    assert_string_equal(comm->ops.peers[2].host, "h2");
    unmake(comm);
}

static void who_is_there_who_changes_and_who_is_not(void **state)
{
    (void)state;
    const char *why = NULL;
    shoal_comm *comm = make(0, 4);
    const shoali_ops_host *host = &comm->ops.host;
    assert_int_equal(host->there(comm, 1, &why), SHOALI_THERE);
    comm->peers[1].leaving = true;
    assert_int_equal(host->there(comm, 1, &why), SHOALI_THERE_CHANGES);
    assert_int_equal(host->there(comm, 2, &why), SHOALI_THERE);
    snprintf(comm->peers[2].lost_text, sizeof comm->peers[2].lost_text, "it fell");
    atomic_store(&comm->peers[2].state, SHOALI_PEER_LOST);
    assert_int_equal(host->there(comm, 2, &why), SHOALI_THERE_NOT);
    assert_string_equal(why, "it fell");
    atomic_store(&comm->peers[3].state, SHOALI_PEER_LEFT);
    assert_int_equal(host->there(comm, 3, &why), SHOALI_THERE_LEFT);
    atomic_store(&comm->peers[3].state, SHOALI_PEER_HERE);
    comm->reform.leaving = true; /* this rank itself */
    assert_int_equal(host->there(comm, 3, &why), SHOALI_THERE_CHANGES);
    assert_int_equal(host->there(comm, 2, &why), SHOALI_THERE_NOT);
    unmake(comm);
}

static void numbers_are_counted_per_group(void **state)
{
    (void)state;
    uint64_t a, b, other;
    shoal_comm *comm = make(0, 2);
    assert_ok(comm->ops.host.number(comm, 5, &a));
    assert_ok(comm->ops.host.number(comm, 6, &other));
    assert_ok(comm->ops.host.number(comm, 5, &b));
    assert_int_equal(b, a + 1);
    assert_int_equal(other, a);
    unmake(comm);
}

static void what_is_said_goes_to_that_endpoint(void **state)
{
    (void)state;
    shoal_comm *comm = make(0, 3);
    comm->ops.host.control(comm, 2, SHOALI_MESSAGE_protocol, "abc", 3);
    assert_true(wire.count == 1 && wire.sent[0].to == 2 && wire.sent[0].len_bytes == 3);
    assert_memory_equal(wire.sent[0].bytes, "abc", 3);
    comm->ops.host.gone(comm, 1, "it talks nonsense");
    assert_true(comm->peers[1].gone && !comm->peers[2].gone);
    assert_string_equal(comm->peers[1].gone_text, "it talks nonsense");
    unmake(comm);
}

static void plans_and_other_threads_exclude_each_other(void **state)
{
    (void)state;
    shoal_comm *comm = make(0, 2);
    comm->ops.host.plans(comm, true);
    assert_int_not_equal(pthread_mutex_trylock(&comm->loop.lock), 0);
    comm->ops.host.plans(comm, false);
    assert_int_equal(pthread_mutex_trylock(&comm->loop.lock), 0);
    pthread_mutex_unlock(&comm->loop.lock);
    unmake(comm);
}

/* An operation that nobody called for counts among the open ones, unless all ends. */
static void nothing_begins_where_all_ends(void **state)
{
    (void)state;
    shoal_comm *comm = make(0, 2);
    comm->loop.stopping = true;
    assert_false(comm->ops.host.begins(comm));
    assert_int_equal(comm->handles.open_ops, 0);
    unmake(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(operations_know_the_communicator_s_numbers),
        CHECK_TEST(who_is_there_who_changes_and_who_is_not),
        CHECK_TEST(numbers_are_counted_per_group),
        CHECK_TEST(what_is_said_goes_to_that_endpoint),
        CHECK_TEST(plans_and_other_threads_exclude_each_other),
        CHECK_TEST(nothing_begins_where_all_ends),
    };
    return CHECK_RUN(tests);
}
