/* SPDX-License-Identifier: Apache-2.0 */
/* Sums inside each host first, on real ranks that are told who shares a host: sums in the order
 * that is promised, bytes between hosts, rows, and failures that every rank hears of. */
#include <math.h>

#include "base/rng.h"
#include "endpoint/endpoint.h"
#include "support/ranks.h"

enum { RANKS = 4, ROW = 16, ROWS = 2000, COUNT = ROWS * ROW, DEADLINE_US = 30000000 };

static const uint32_t places[][RANKS] = {
    {0, 0, 2, 2}, {0, 1, 0, 1}, {0, 0, 0, 3}, {0, 0, 0, 0}, {0, 1, 2, 3}};
enum { PLACES = sizeof places / sizeof places[0] };

static void settle(shoal_comm *comm, const uint32_t place[RANKS])
{
    rank_ok(shoal_barrier(comm)); /* no operation looks while this changes */
    for (uint32_t r = 0; r < RANKS; r++)
        comm->ops.peers[r].place = place[r];
}

/* A fifth of the rows. */
static bool has(uint32_t rank, uint32_t row)
{
    return shoali_rng_below(5, rank, row, 5) == 0;
}

static float value(uint32_t rank, size_t i)
{
    return has(rank, (uint32_t)(i / ROW)) ? (float)shoali_rng_double(6, rank, i) - 0.4f : 0;
}

/* Ranks of a host in order, then hosts in order of their first rank. */
static float sum_at(const uint32_t place[RANKS], size_t i)
{
    float all = 0;
    for (uint32_t host = 0; host < RANKS; host++) {
        float one = 0;
        for (uint32_t r = 0; r < RANKS; r++)
            one += place[r] == host ? value(r, i) : 0;
        all += one;
    }
    return all;
}

static uint64_t sent_to_other_hosts(shoal_comm *comm, const uint32_t place[RANKS])
{
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        shoal_peer_stats stats = {.size = sizeof stats};
        if (place[r] == place[comm->me])
            continue;
        rank_ok(shoal_comm_peer_stats(comm, r, &stats));
        bytes += stats.sent_payload_bytes;
    }
    return bytes;
}

/* One operation, with the rows of a rank (-1: without); bytes that this rank has sent to other
 * hosts. */
static uint64_t reduce(shoal_comm *comm, const uint32_t place[RANKS], const char *collective,
                       int32_t rows_of, float *x)
{
    static uint32_t rows[ROWS];
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoal_op *op;
    for (uint32_t row = 0; row < ROWS && rows_of >= 0; row++)
        if (has((uint32_t)rows_of, row))
            rows[desc.row_count++] = row;
    desc.rows = rows_of >= 0 ? rows : NULL;
    desc.buf = x;
    desc.count = COUNT;
    desc.collective = collective;
    const uint64_t before = sent_to_other_hosts(comm, place);
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_ok(shoal_op_wait(&op, -1, NULL));
    return sent_to_other_hosts(comm, place) - before;
}

static void fill(uint32_t rank, float *x)
{
    for (size_t i = 0; i < COUNT; i++)
        x[i] = value(rank, i);
}

static void sum(const rank_env *env)
{
    static const char *const specs[] = {"omnireduce:hosts,block=16",
                                        "omnireduce:hosts,input=coo,row=16"};
    static float x[COUNT];
    shoal_comm *comm = rank_join(env);
    for (uint32_t p = 0; p < PLACES; p++)
        for (uint32_t s = 0; s < 2; s++) {
            settle(comm, places[p]);
            fill(env->rank, x);
            (void)reduce(comm, places[p], specs[s], s == 1 ? (int32_t)env->rank : -1, x);
            for (size_t i = 0; i < COUNT; i++)
                rank_check(x[i] == sum_at(places[p], i));
        }
    shoal_comm_destroy(comm);
}

static void sums_are_made_host_by_host(void **state)
{
    (void)state;
    ranks_run(RANKS, "tcp", NULL, sum, NULL, DEADLINE_US);
}

/* Two hosts of two ranks, the same rows on all: what a host sends halves, of blocks and of rows. */
static void count(const rank_env *env)
{
    static const char *const specs[][2] = {
        {"omnireduce:block=16,slots=2", "omnireduce:hosts,block=16,slots=2"},
        {"omnireduce:input=coo,row=16,slots=2", "omnireduce:hosts,input=coo,row=16,slots=2"}};
    static float x[COUNT];
    shoal_comm *comm = rank_join(env);
    settle(comm, places[0]);
    for (uint32_t s = 0; s < 2; s++) {
        float sent[2]; /* exact: below 2^24 */
        for (uint32_t i = 0; i < 2; i++) {
            for (size_t k = 0; k < COUNT; k++)
                x[k] = has(0, (uint32_t)(k / ROW)) ? 1 : 0;
            sent[i] = (float)reduce(comm, places[0], specs[s][i], s == 1 ? 0 : -1, x);
        }
        rank_ok(shoal_allreduce(comm, sent, 2, NULL, NULL));
        rank_check(sent[1] > 0.4f * sent[0] && sent[1] < 0.55f * sent[0]);
    }
    shoal_comm_destroy(comm);
}

static void a_host_sends_half(void **state)
{
    (void)state;
    ranks_run(RANKS, "tcp", NULL, count, NULL, DEADLINE_US);
}

/* A NaN on one host, a rank that cancels, a reduction that cannot be: all ranks hear of it. */
static void fail_everywhere(const rank_env *env)
{
    static float x[COUNT];
    shoal_comm *comm = rank_join(env);
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoal_op *op;
    settle(comm, places[0]);
    desc.buf = x;
    desc.count = COUNT;
    desc.collective = "omnireduce:hosts";
    for (uint32_t bad = 0; bad < RANKS; bad++) {
        fill(env->rank, x);
        if (env->rank == bad)
            x[77] = NAN;
        rank_ok(shoal_op_start(comm, &desc, &op));
        rank_status(shoal_op_wait(&op, -1, NULL), SHOAL_ENOTFINITE);
        char text[32];
        snprintf(text, sizeof text, "rank %u ", bad);
        rank_error_has(text);
    }
    if (env->rank == 3) /* without it nothing can end well */
        rank_wait_ready(env, 1);
    rank_ok(shoal_op_start(comm, &desc, &op));
    if (env->rank == 0)
        shoal_op_cancel(op);
    rank_status(shoal_op_wait(&op, -1, NULL), SHOAL_ECANCELLED);
    if (env->rank == 0)
        atomic_fetch_add(&env->board->ready, 1);
    desc.reduce = SHOAL_MAX;
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_status(shoal_op_wait(&op, -1, NULL), SHOAL_EINVAL);
    rank_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

static void failures_are_everybodys(void **state)
{
    (void)state;
    ranks_run(RANKS, "tcp", NULL, fail_everywhere, NULL, DEADLINE_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_made_host_by_host),
        cmocka_unit_test(a_host_sends_half),
        cmocka_unit_test(failures_are_everybodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
