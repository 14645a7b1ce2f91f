/* SPDX-License-Identifier: Apache-2.0 */
/* Creating, asking and ending a communicator. */
#include "comm/comm.h"

#include "base/error.h"
#include "endpoint/endpoint.h"
#include "support/alone.h"
#include "support/check.h"
#include "support/fake_comm.h"

static fake_wire wire;

static void a_descriptor_of_another_size_is_refused(void **state)
{
    (void)state;
    shoal_comm *comm = NULL;
    shoal_comm_desc desc = alone_desc();
    desc.size--;
    assert_status(shoal_comm_create(&desc, &comm), SHOAL_EINVAL);
    assert_error_has("SHOAL_COMM_DESC_INIT");
    desc.size++;
    assert_status(shoal_comm_create(&desc, NULL), SHOAL_EINVAL);
    assert_status(shoal_comm_create(NULL, &comm), SHOAL_EINVAL);
    assert_null(comm);
}

static void one_that_is_alone_knows_what_it_is(void **state)
{
    (void)state;
    shoal_view view = {.size = sizeof view};
    shoal_peer_stats stats = {.size = sizeof stats};
    shoal_comm_desc desc = alone_desc();
    shoal_comm *comm = NULL;
    desc.seed = 4711;
    desc.op_timeout_us = 123456;
    assert_ok(shoal_comm_create(&desc, &comm));
    assert_ok(shoal_comm_view(comm, &view));
    assert_true(view.rank == 0 && view.rank_count == 1 && view.workers == 1 && view.epoch == 0);
    assert_int_equal(shoali_comm_seed(comm), 4711);
    assert_int_equal(shoali_comm_op_timeout_us(comm), 123456);
    assert_ok(shoal_comm_peer_stats(comm, 0, &stats));
    assert_int_equal(stats.last_seen_us, 0);
    assert_string_equal(stats.transport, "");
    assert_status(shoal_comm_peer_stats(comm, 1, &stats), SHOAL_EINVAL);
    assert_status(shoal_comm_view(NULL, &view), SHOAL_EINVAL);
    assert_status(shoal_comm_view(comm, NULL), SHOAL_EINVAL);
    shoal_comm_destroy(comm);
    shoal_comm_destroy(NULL);
}

static void sum(pair *p, uint32_t rank)
{
    float x[1000] = {1};
    p->status[rank] = shoal_allreduce(p->comm[rank], x, 1000, "ring", "identity");
    p->status[rank] = x[0] == 2 ? p->status[rank] : SHOAL_ECORRUPT;
}

/* Both count the same bytes, each from its side. */
static void two_know_what_went_between_them(void **state)
{
    (void)state;
    pair p;
    pair_init(&p);
    p.desc[0].transport = p.desc[1].transport = "tcp:shm=off";
    pair_join(&p);
    for (uint32_t i = 0; i < 2; i++) {
        shoal_view view = {.size = sizeof view};
        assert_int_equal(p.status[i], SHOAL_OK);
        assert_ok(shoal_comm_view(p.comm[i], &view));
        assert_true(view.rank == i && view.rank_count == 2);
        assert_int_equal(shoali_comm_neighbour(p.comm[i], 1), 0); /* one host */
    }
    pair_both(&p, sum);
    shoal_peer_stats stats[2] = {{.size = sizeof *stats}, {.size = sizeof *stats}};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(p.status[i], SHOAL_OK);
        assert_ok(shoal_comm_peer_stats(p.comm[i], 1 - i, &stats[i]));
        assert_string_equal(stats[i].transport, "tcp");
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(stats[i].sent_payload_bytes >= 1000 * sizeof(float)); /* of a ring of two */
        assert_int_equal(stats[i].sent_payload_bytes, stats[1 - i].received_payload_bytes);
    }
    pair_free(&p);
}

/* Its threads and locks are the parent's: nothing is touched, nothing is freed. */
static void a_child_process_neither_asks_nor_destroys(void **state)
{
    (void)state;
    shoal_peer_stats stats = {.size = sizeof stats};
    shoal_comm *comm = fake_comm_make(0, 2, &wire);
    atomic_store(&comm->loop.forked, true);
    shoal_comm_destroy(comm);
    assert_status(shoal_comm_peer_stats(comm, 1, &stats), SHOAL_EFORKED);
    fake_comm_free(comm);
}

static void add_one(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static shoal_status fail_after_one(void *arg)
{
    add_one(arg);
    return shoali_fail(SHOAL_EIO, "the disk");
}

static void note_status(void *arg, shoal_status status)
{
    if (status == SHOAL_EIO)
        add_one(arg);
}

/* Whatever was posted has run before a communicator is gone. */
static void what_was_posted_is_done_before_the_end(void **state)
{
    (void)state;
    atomic_uint posted = 0, worked = 0;
    shoal_comm *comm = alone_make();
    for (int i = 0; i < 100; i++)
        assert_ok(shoali_comm_post(comm, add_one, &posted));
    assert_ok(shoali_comm_work(comm, fail_after_one, note_status, &worked));
    shoal_comm_destroy(comm);
    assert_int_equal(atomic_load(&posted), 100);
    assert_true(atomic_load(&worked) == 1 || atomic_load(&worked) == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_descriptor_of_another_size_is_refused),
        CHECK_TEST(one_that_is_alone_knows_what_it_is),
        CHECK_TEST(two_know_what_went_between_them),
        CHECK_TEST(a_child_process_neither_asks_nor_destroys),
        CHECK_TEST(what_was_posted_is_done_before_the_end),
    };
    return CHECK_RUN(tests);
}
