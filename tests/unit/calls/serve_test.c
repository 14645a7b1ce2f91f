/* SPDX-License-Identifier: Apache-2.0 */
/* What sums in an aggregator's place is asked, believed and counted. */
#include "calls/serve.h"

#include "base/arena.h"
#include "carry/datagrams.h"
#include "support/check.h"
#include "support/fake_comm.h"
#include "wire/control.h"

enum { WORKERS = 2 };
static fake_wire wire;

static struct {
    shoal_status answer;
    shoali_ip workers[WORKERS];
    uint32_t begun;
    uint64_t ended_key;
} kernel;

static shoal_status begin(void *ctx, const shoali_slot_share *share, const shoali_ip *workers,
                          shoali_kernel_sum *sum_out)
{
    assert_ptr_equal(ctx, &kernel);
    kernel.begun++;
    memcpy(kernel.workers, workers, share->workers * sizeof *workers);
    *sum_out = (shoali_kernel_sum){.key = share->key, .slots = 3};
    return kernel.answer;
}

static void end(void *ctx, const shoali_kernel_sum *sum)
{
    assert_ptr_equal(ctx, &kernel);
    kernel.ended_key = sum->key;
}

static void counted(void *ctx, const shoali_kernel_sum *sum, uint64_t *received_bytes_out,
                    uint64_t *sent_bytes_out)
{
    (void)ctx;
    *received_bytes_out = sum->key;
    *sent_bytes_out = 2 * sum->key;
}

static bool missing(void *ctx, const shoali_kernel_sum *sum, uint32_t *slot_out,
                    uint32_t *round_out, uint32_t *worker_out)
{
    (void)ctx;
    *slot_out = sum->slots;
    *round_out = 4;
    *worker_out = 1;
    return true;
}

static const shoali_summer summer = {&kernel, 256, begin, end, counted, missing};
static uint32_t members[] = {1, 0, 2}; /* workers are endpoints 1 and 0, the aggregator is 2 */

typedef struct bench {
    shoal_comm *comm;
    shoali_service service;
    shoal_op_plan plan;
    struct shoal_op op;
} bench;

static void tell_place(shoal_comm *comm, uint32_t endpoint, uint16_t port)
{
    const shoali_datagram_place place = {.port = port, .len_bytes = 1400, .ip = "127.0.0.1"};
    uint8_t body[SHOALI_DATAGRAM_BYTES];
    assert_true(
        shoali_datagrams_on_place(comm, endpoint, body, shoali_datagram_encode(&place, body)));
}

static void set_up(bench *b)
{
    memset(b, 0, sizeof *b);
    memset(&kernel, 0, sizeof kernel);
    b->comm = fake_comm_make(2, 3, &wire);
    b->comm->service = &b->service;
    b->service.summer = &summer;
    b->plan.members = members;
    b->plan.member_count = 3;
    b->op = (struct shoal_op){.comm = b->comm, .plan = &b->plan};
    b->op.arena = shoali_arena_create(0);
    assert_non_null(b->op.arena);
    tell_place(b->comm, 0, 1000);
    tell_place(b->comm, 1, 1001);
}

static void tear_down(bench *b)
{
    shoali_arena_destroy(b->op.arena);
    shoali_datagrams_close(b->comm);
    fake_comm_free(b->comm);
}

static void a_rank_has_nobody_that_sums_for_it(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    b.service.summer = NULL;
    assert_null(shoali_serve_offload(&b.op));
    b.comm->service = NULL;
    assert_null(shoali_serve_offload(&b.op));
    tear_down(&b);
}

/* Worker w is member w, wherever its packets come from. */
static void the_kernel_is_told_where_each_worker_is(void **state)
{
    (void)state;
    const shoali_slot_share share = {.workers = WORKERS, .key = 77};
    bench b;
    set_up(&b);
    const shoali_offload *offload = shoali_serve_offload(&b.op);
    assert_non_null(offload);
    assert_int_equal(offload->block_most, 256);
    assert_true(offload->begin(offload->ctx, &share));
    assert_int_equal(shoali_ip_port(&kernel.workers[0]), 1001);
    assert_int_equal(shoali_ip_port(&kernel.workers[1]), 1000);
    assert_int_equal(atomic_load(&b.service.kernel_operations), 1);
    uint64_t received, sent;
    offload->counted(offload->ctx, &received, &sent);
    assert_true(received == 77 && sent == 154);
    uint32_t slot, round, worker;
    assert_true(offload->missing(offload->ctx, &slot, &round, &worker));
    assert_true(slot == 3 && round == 4 && worker == 1);
    offload->end(offload->ctx);
    assert_int_equal(kernel.ended_key, 77);
    tear_down(&b);
}

static void what_the_kernel_refuses_is_not_counted(void **state)
{
    (void)state;
    const shoali_slot_share share = {.workers = WORKERS, .key = 77};
    bench b;
    set_up(&b);
    kernel.answer = SHOAL_ENOTSUP;
    const shoali_offload *offload = shoali_serve_offload(&b.op);
    assert_false(offload->begin(offload->ctx, &share));
    assert_int_equal(kernel.begun, 1);
    assert_int_equal(atomic_load(&b.service.kernel_operations), 0);
    tear_down(&b);
}

/* Two operations of one daemon at once have each its own sum. */
static void each_operation_has_its_own(void **state)
{
    (void)state;
    const shoali_slot_share one = {.workers = WORKERS, .key = 7}, two = {.workers = 1, .key = 8};
    bench b;
    set_up(&b);
    struct shoal_op other = b.op;
    const shoali_offload *first = shoali_serve_offload(&b.op);
    const shoali_offload *second = shoali_serve_offload(&other);
    assert_true(first->begin(first->ctx, &one) && second->begin(second->ctx, &two));
    first->end(first->ctx);
    assert_int_equal(kernel.ended_key, 7);
    second->end(second->ctx);
    assert_int_equal(kernel.ended_key, 8);
    assert_int_equal(atomic_load(&b.service.kernel_operations), 2);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_rank_has_nobody_that_sums_for_it),
        CHECK_TEST(the_kernel_is_told_where_each_worker_is),
        CHECK_TEST(what_the_kernel_refuses_is_not_counted),
        CHECK_TEST(each_operation_has_its_own),
    };
    return CHECK_RUN(tests);
}
