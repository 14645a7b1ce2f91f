/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that follow measured links, between real ranks: whoever asks first starts the
 * measuring, whoever comes meanwhile waits, and all divide the work alike. */
#include "support/ranks.h"

#include <signal.h>
#include <unistd.h>

enum { COUNT = 1003, AT_ONCE = 4, LIMIT_US = 30 * 1000 * 1000 };
static const char *const specs[] = {"direct:weights=auto", "ring:order=auto",
                                    "ring:both,order=auto"};

static float value(uint32_t rank, size_t i)
{
    return (float)((rank * 31 + i) % 64);
}

static shoal_op *start(const rank_env *env, shoal_comm *comm, const char *collective,
                       const char *codec, float *buf)
{
    shoal_op *op = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    for (size_t i = 0; i < COUNT; i++)
        buf[i] = value(env->rank, i);
    desc.buf = buf;
    desc.count = COUNT;
    desc.collective = collective;
    desc.push_codec = codec;
    rank_ok(shoal_op_start(comm, &desc, &op));
    return op;
}

static void check_sums(const rank_env *env, const float *buf)
{
    for (size_t i = 0; i < COUNT; i++) {
        float sum = 0;
        for (uint32_t rank = 0; rank < env->size; rank++)
            sum += value(rank, i);
        rank_check(buf[i] == sum);
    }
}

static void several_at_once(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static float buf[AT_ONCE][COUNT];
    for (int again = 0; again < 2; again++)
        for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
            shoal_op *ops[AT_ONCE];
            for (int k = 0; k < AT_ONCE; k++)
                ops[k] = start(env, comm, specs[s], NULL, buf[k]);
            for (int k = 0; k < AT_ONCE; k++) {
                rank_ok(shoal_op_wait(&ops[k], -1, NULL));
                check_sums(env, buf[k]);
            }
        }
    /* what measures the gradients, and what goes in rounds, too */
    static const char *const codecs[] = {"terngrad", "powersgd:rank=1", "fp16"};
    for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++) {
        shoal_op *op = start(env, comm, "direct:weights=auto", codecs[c], buf[0]);
        rank_ok(shoal_op_wait(&op, -1, NULL));
    }
    check_sums(env, buf[0]);
    shoal_comm_destroy(comm);
}

static void operations_wait_for_one_measuring(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 5; size++)
        ranks_run(size, "file", "tcp:shm=off", several_at_once, NULL, LIMIT_US);
    ranks_run(4, "file", NULL, several_at_once, NULL, LIMIT_US);
}

static void some_of_all(const rank_env *env)
{
    static float buf[COUNT];
    const uint32_t members[] = {0, 1, env->rank == 3 ? 3 : 2};
    shoal_comm *comm = rank_join(env);
    shoal_op *op;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf;
    desc.count = COUNT;
    desc.members = members;
    desc.member_count = 3;
    desc.collective = "direct:weights=auto";
    rank_status(shoal_op_start(comm, &desc, &op), SHOAL_EINVAL);
    rank_error_has("measures the links of all 4 ranks");
    rank_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

static void not_among_some(void **state)
{
    (void)state;
    ranks_run(4, "file", NULL, some_of_all, NULL, LIMIT_US);
}

/* Rank 3 dies while the others wait for it to measure. */
static void one_dies(const rank_env *env)
{
    static float buf[2][COUNT];
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_barrier(comm));
    if (env->rank == 3) {
        atomic_fetch_add(&env->board->ready, 1);
        for (;;)
            pause();
    }
    shoal_op *ops[] = {start(env, comm, specs[0], NULL, buf[0]),
                       start(env, comm, specs[1], NULL, buf[1])};
    atomic_fetch_add(&env->board->ready, 1);
    for (size_t k = 0; k < 2; k++) {
        rank_status(shoal_op_wait(&ops[k], -1, NULL), SHOAL_EPEER);
        rank_error_has("rank 3 (host ");
    }
    shoal_comm_destroy(comm);
}

static void a_death_while_measuring_is_named(void **state)
{
    (void)state;
    ranks r;
    ranks_start(&r, 4, "file", "tcp:shm=off", one_dies, NULL);
    ranks_wait_ready(&r, 4, LIMIT_US);
    ranks_kill(&r, 3, SIGKILL);
    ranks_finish(&r, 3, LIMIT_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(operations_wait_for_one_measuring),
        CHECK_TEST(not_among_some),
        CHECK_TEST(a_death_while_measuring_is_named),
    };
    return CHECK_RUN(tests);
}
