/* SPDX-License-Identifier: Apache-2.0 */
/* `--collective auto` on real ranks: a table of which few rows change and a dense matrix, each a
 * bucket. Gradients are small integers, so their sums are exact in any order and every way has to
 * give the same numbers; the bytes say which way it was. */
#include "shoal/sync.h"
#include "support/ranks.h"

enum { RANKS = 3, TABLE = 64 * 1024, DENSE = 4096, COUNT = TABLE + DENSE, ROW = 64, STEPS = 14 };
enum { DEADLINE_US = 20000000 };

typedef struct plan {
    uint32_t rows;      /* of the table, that a rank's step touches */
    double least, most; /* payload bytes of a rank's steps, behind the first two, in a ring's */
    const char *spec;
    bool uneven; /* rank 0 has rows, the others have none */
} plan;

static const shoal_tensor tensors[2] = {
    {.key = 1, .offset = 0, .count = TABLE, .lr_scale = 1},
    {.key = 2, .offset = TABLE, .count = DENSE, .lr_scale = 1},
};

static uint32_t row_of(uint32_t rank, uint32_t step, uint32_t i)
{
    return (rank * 7 + step * 13 + i) % (TABLE / ROW);
}

static void add_gradient(const plan *p, uint32_t rank, uint32_t step, float *to)
{
    for (uint32_t i = 0; i < (p->uneven && rank > 0 ? 0 : p->rows); i++)
        for (uint32_t j = 0; j < ROW; j++)
            to[row_of(rank, step, i) * ROW + j] += (float)(rank + j + 1);
    for (uint32_t j = 0; j < DENSE; j++)
        to[TABLE + j] += (float)(rank + 1) * (float)(j % 5 + 1);
}

static void one_step(const rank_env *env, shoal_sync *sync, uint32_t step, float *grads)
{
    static float wanted[COUNT];
    const plan *p = env->arg;
    shoal_verdict verdict;
    memset(grads, 0, COUNT * sizeof *grads);
    memset(wanted, 0, sizeof wanted);
    add_gradient(p, env->rank, step, grads);
    for (uint32_t r = 0; r < RANKS; r++)
        add_gradient(p, r, step, wanted);
    rank_ok(shoal_sync_ready(sync, TABLE, DENSE));
    rank_ok(shoal_sync_ready(sync, 0, TABLE));
    rank_ok(shoal_sync_before_update(sync, &verdict));
    rank_check(memcmp(grads, wanted, sizeof wanted) == 0);
    rank_ok(shoal_sync_after_update(sync, &verdict));
}

static void train(const rank_env *env)
{
    static float params[COUNT], grads[COUNT];
    const double ring = 4.0 * COUNT * 2 * (RANKS - 1) / RANKS;
    const plan *p = env->arg;
    shoal_sync_desc desc = SHOAL_SYNC_DESC_INIT;
    shoal_sync *sync;
    shoal_comm *comm = rank_join(env);
    desc.collective = p->spec;
    desc.params = params;
    desc.grads = grads;
    desc.count = COUNT;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.bucket_bytes = DENSE * sizeof(float);
    rank_ok(shoal_sync_create(comm, &desc, &sync));
    for (uint32_t step = 0; step < STEPS; step++) {
        shoal_sync_stats stats = {.size = sizeof stats};
        one_step(env, sync, step, grads);
        rank_ok(shoal_sync_last_stats(sync, &stats));
        const double share = (double)stats.sent_payload_bytes / ring;
        rank_check(step < 2 ? share > 0.99 : share >= p->least && share <= p->most);
    }
    shoal_sync_destroy(sync);
    shoal_comm_destroy(comm);
}

/* The dense bucket is 6 % of the ring's bytes; the first row of 3 x 16 columns and the rows
 * themselves another 6 %. */
static void few_rows_leave_the_ring(void **state)
{
    (void)state;
    const plan p = {8, 0.06, 0.2, "auto:block=64", false};
    ranks_run(RANKS, "tcp", NULL, train, &p, DEADLINE_US);
}

static void full_tables_stay(void **state)
{
    (void)state;
    const plan p = {TABLE / ROW, 0.99, 1.05, "auto", false};
    ranks_run(RANKS, "tcp", NULL, train, &p, DEADLINE_US);
}

/* By its own figures rank 0 would keep the ring, as nothing of its is zero, and the others would
 * leave it. An operation of two collectives is refused, so that it ends says that they have
 * agreed. */
static void ranks_that_see_different_densities_agree(void **state)
{
    (void)state;
    const plan p = {TABLE / ROW, 0.4, 1.1, "auto", true};
    ranks_run(RANKS, "tcp", NULL, train, &p, DEADLINE_US);
}

static void refuse(const rank_env *env)
{
    static float params[8], grads[8];
    const shoal_tensor one = {.key = 1, .count = 8, .lr_scale = 1};
    shoal_sync_desc desc = SHOAL_SYNC_DESC_INIT;
    shoal_sync *sync;
    shoal_comm *comm = rank_join(env);
    desc.params = params;
    desc.grads = grads;
    desc.count = 8;
    desc.tensors = &one;
    desc.tensor_count = 1;
    desc.collective = "auto";
    desc.codec = "terngrad";
    rank_status(shoal_sync_create(comm, &desc, &sync), SHOAL_EINVAL);
    rank_error_has("name a collective");
    desc.codec = NULL;
    desc.collective = "auto:blocks=3";
    rank_status(shoal_sync_create(comm, &desc, &sync), SHOAL_EINVAL);
    rank_ok(shoal_barrier(comm)); /* nobody leaves before all are in */
    shoal_comm_destroy(comm);
}

static void what_it_cannot_do_is_refused(void **state)
{
    (void)state;
    ranks_run(2, "tcp", NULL, refuse, NULL, DEADLINE_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_rows_leave_the_ring),
        cmocka_unit_test(full_tables_stay),
        cmocka_unit_test(ranks_that_see_different_densities_agree),
        cmocka_unit_test(what_it_cannot_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
