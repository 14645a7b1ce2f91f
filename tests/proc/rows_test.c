/* SPDX-License-Identifier: Apache-2.0 */
/* Key-value input on real ranks: a table between two dense matrices trained by a protocol, whose
 * rows travel as an operation of their own; operations, members that disagree. Gradients are small
 * integers, so their sums are exact in any order. */
#include "shoal/sync.h"
#include "support/ranks.h"

enum { RANKS = 3, ROW = 16, ROWS = 4096, TABLE = ROWS * ROW, DENSE = 512, STEPS = 4, TOUCHED = 40 };
enum { COUNT = DENSE + TABLE + DENSE, DEADLINE_US = 20000000 };

static const shoal_tensor tensors[3] = {
    {.key = 1, .offset = 0, .count = DENSE, .lr_scale = 1},
    {.key = 2,
     .offset = DENSE,
     .count = TABLE,
     .rows = ROWS,
     .cols = ROW,
     .flags = SHOAL_TENSOR_ROWS,
     .lr_scale = 1},
    {.key = 3, .offset = DENSE + TABLE, .count = DENSE, .lr_scale = 1},
};

/* Rank 2 has none in step 1. */
static uint32_t list_rows(uint32_t rank, uint32_t step, uint32_t rows[TOUCHED])
{
    const uint32_t count = rank == 2 && step == 1 ? 0 : TOUCHED;
    for (uint32_t i = 0; i < count; i++)
        rows[i] = 100 * i + (i % 3 == 0 ? step : rank);
    return count;
}

static void add_gradient(uint32_t rank, uint32_t step, float *to)
{
    uint32_t rows[TOUCHED];
    const uint32_t count = list_rows(rank, step, rows);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < ROW; k++)
            to[DENSE + rows[i] * ROW + k] += (float)(rank + k + 1);
    for (uint32_t i = 0; i < DENSE; i++) {
        to[i] += (float)(rank + 1) * (float)(i % 5 + 1);
        to[DENSE + TABLE + i] += (float)(rank + step);
    }
}

static void one_step(const rank_env *env, shoal_sync *sync, uint32_t step, float *grads)
{
    static float wanted[COUNT];
    uint32_t rows[TOUCHED];
    const uint32_t count = list_rows(env->rank, step, rows);
    shoal_verdict verdict;
    memset(grads, 0, COUNT * sizeof *grads);
    memset(wanted, 0, sizeof wanted);
    add_gradient(env->rank, step, grads);
    for (uint32_t r = 0; r < RANKS; r++)
        add_gradient(r, step, wanted);
    rank_ok(shoal_sync_ready(sync, DENSE + TABLE, DENSE));
    rank_ok(shoal_sync_ready_rows(sync, DENSE, TABLE, rows, count));
    rank_ok(shoal_sync_before_update(sync, &verdict));
    rank_check(memcmp(grads, wanted, sizeof wanted) == 0);
    rank_ok(shoal_sync_after_update(sync, &verdict));
}

/* Buckets would hold everything; the collective makes three of it. */
static void train(const rank_env *env)
{
    static float params[COUNT], grads[COUNT];
    const char *collective = env->arg;
    const bool rows = strstr(collective, "coo") != NULL;
    shoal_sync_desc desc = SHOAL_SYNC_DESC_INIT;
    shoal_sync *sync;
    shoal_comm *comm = rank_join(env);
    desc.collective = collective;
    desc.params = params;
    desc.grads = grads;
    desc.count = COUNT;
    desc.tensors = tensors;
    desc.tensor_count = 3;
    desc.bucket_bytes = SIZE_MAX;
    rank_ok(shoal_sync_create(comm, &desc, &sync));
    for (uint32_t step = 0; step < STEPS; step++) {
        shoal_sync_stats stats = {.size = sizeof stats};
        one_step(env, sync, step, grads);
        rank_ok(shoal_sync_last_stats(sync, &stats));
        rank_check(stats.operations == (rows ? 3 : 1));
        /* own rows to two others' shards, everyone's rows of the own shard to two others; three
         * times as much leaves room for the dense parts and their heads */
        const double table = (TOUCHED * 2.0 / 3 + 3 * TOUCHED * 2.0 / 3) * 4 * (ROW + 1);
        if (rows)
            rank_check((double)stats.sent_payload_bytes < 3 * table);
    }
    rank_status(shoal_sync_ready_rows(sync, 0, COUNT, (const uint32_t[]){0}, 1), SHOAL_EINVAL);
    rank_error_has("several tensors");
    shoal_sync_destroy(sync);
    shoal_comm_destroy(comm);
}

static void a_table_travels_by_its_rows(void **state)
{
    (void)state;
    ranks_run(RANKS, "tcp", NULL, train, "omnireduce:block=64,input=coo", DEADLINE_US);
}

static void other_collectives_take_no_notice(void **state)
{
    (void)state;
    ranks_run(RANKS, "tcp", NULL, train, "ring", DEADLINE_US);
}

/* Operations: a length of rows by the collective; one rank that names none, or none that are. */
static void operate(const rank_env *env)
{
    static float x[TABLE];
    uint32_t rows[TOUCHED];
    shoal_comm *comm = rank_join(env);
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoal_op_stats stats = {.size = sizeof stats};
    shoal_op *op;
    desc.buf = x;
    desc.count = TABLE;
    desc.collective = "omnireduce:input=coo,row=16";
    desc.rows = rows;
    desc.row_count = list_rows(env->rank, 0, rows);
    for (uint32_t i = 0; i < desc.row_count; i++)
        x[rows[i] * ROW + 3] = 1;
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_ok(shoal_op_wait(&op, -1, &stats));
    for (uint32_t i = 0; i < desc.row_count; i++)
        rank_check(x[rows[i] * ROW + 3] == (i % 3 == 0 ? RANKS : 1) && x[rows[i] * ROW] == 0);
    desc.rows = env->rank == 1 ? NULL : rows;
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_status(shoal_op_wait(&op, -1, &stats), SHOAL_EMISMATCH);
    rank_ok(shoal_barrier(comm));
    desc.rows = rows;
    if (env->rank == 2)
        rows[1] = rows[0];
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_status(shoal_op_wait(&op, -1, &stats), SHOAL_EINVAL);
    rank_error_has("of the list");
    shoal_comm_destroy(comm);
}

static void operations_name_their_rows(void **state)
{
    (void)state;
    ranks_run(RANKS, "tcp", NULL, operate, NULL, DEADLINE_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_travels_by_its_rows),
        cmocka_unit_test(other_collectives_take_no_notice),
        cmocka_unit_test(operations_name_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
