/* SPDX-License-Identifier: Apache-2.0 */
/* Real ranks on loopback: every operation kind and collective against sums made here. */
#include "support/net.h"
#include "support/ranks.h"

#include <math.h>

#include "collective/schedule.h"

enum { COUNT = 3001 };

typedef struct plan {
    const char *transport;
    uint32_t rounds;
} plan;

/* Small whole numbers: their sums are exact in any order. */
static float value(uint32_t rank, size_t i)
{
    return (float)((rank * 7 + i * 3) % 101) - 50;
}

static float sum_of(uint32_t size, size_t i)
{
    float sum = 0;
    for (uint32_t rank = 0; rank < size; rank++)
        sum += value(rank, i);
    return sum;
}

static void fill(float *buf, uint32_t rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf[i] = value(rank, i);
}

static void check_all_reduce(const rank_env *env, shoal_comm *comm, const char *collective,
                             bool rounded, size_t count)
{
    static float buf[COUNT];
    fill(buf, env->rank, count);
    rank_ok(shoal_allreduce(comm, buf, count, collective, NULL));
    for (size_t i = 0; i < count; i++)
        rank_check(buf[i] == sum_of(env->size, i) ||
                   (rounded && fabsf(buf[i] - sum_of(env->size, i)) < 1e-5f));
}

static void check_shards(const rank_env *env, shoal_comm *comm, const char *collective)
{
    static float buf[COUNT];
    size_t offset, count;
    fill(buf, env->rank, COUNT);
    rank_ok(shoal_reduce_scatter(comm, buf, COUNT, collective, NULL));
    rank_ok(shoal_comm_shard(comm, env->rank, COUNT, &offset, &count));
    for (size_t i = 0; i < COUNT; i++) {
        if (i >= offset && i < offset + count)
            rank_check(buf[i] == sum_of(env->size, i));
        else
            buf[i] = NAN; /* undefined by contract: must not matter */
    }
    rank_ok(shoal_allgather(comm, buf, COUNT, collective, NULL));
    for (size_t i = 0; i < COUNT; i++)
        rank_check(buf[i] == sum_of(env->size, i));
}

static void check_max(const rank_env *env, shoal_comm *comm)
{
    float buf[5];
    shoal_op *op = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoal_op_stats stats = {.size = sizeof stats};
    fill(buf, env->rank, 5);
    desc.reduce = SHOAL_MAX;
    desc.buf = buf;
    desc.count = 5;
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_ok(shoal_op_wait(&op, -1, &stats));
    rank_check(op == NULL && (stats.sent_elems > 0) == (env->size > 1));
    rank_check(stats.rounds == 2 * (env->size - 1)); /* of a ring */
    for (size_t i = 0; i < 5; i++) {
        float most = value(0, i);
        for (uint32_t rank = 1; rank < env->size; rank++)
            most = value(rank, i) > most ? value(rank, i) : most;
        rank_check(buf[i] == most);
    }
}

static void check_broadcast(const rank_env *env, shoal_comm *comm)
{
    static float buf[COUNT];
    for (uint32_t root = 0; root < env->size; root++) {
        fill(buf, env->rank, COUNT);
        rank_ok(shoal_broadcast(comm, buf, COUNT, root));
        for (size_t i = 0; i < COUNT; i++)
            rank_check(buf[i] == value(root, i));
    }
}

static uint32_t pattern(uint32_t rank, size_t i)
{
    static const uint32_t odd[] = {0x7f800001, 0xffc00000, 0x7f800000, 0x00000001, 0x80000000};
    return i % 7 < 5 ? odd[i % 7] : (uint32_t)(2654435761u * (i + 1) + rank);
}

/* What is no number, NaN of every kind among it, goes to all as it is. */
static void check_bits(const rank_env *env, shoal_comm *comm, shoal_op_kind kind)
{
    static float buf[COUNT];
    uint32_t found;
    size_t first = 0, own = COUNT;
    shoal_op *op = NULL;
    const shoal_tensor tensor = {
        .key = 1, .count = COUNT, .flags = SHOAL_TENSOR_BITS, .lr_scale = 1};
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    if (kind == SHOAL_ALL_GATHER)
        rank_ok(shoal_comm_shard(comm, env->rank, COUNT, &first, &own));
    memset(buf, 0, sizeof buf);
    for (size_t i = first; i < first + own; i++) {
        found = pattern(kind == SHOAL_ALL_GATHER ? 0 : env->rank, i);
        memcpy(&buf[i], &found, sizeof found);
    }
    desc.kind = kind;
    desc.buf = buf;
    desc.count = COUNT;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_ok(shoal_op_wait(&op, -1, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(&found, &buf[i], sizeof found);
        rank_check(found == pattern(0, i));
    }
}

/* Pairs of neighbours, each its own group, while all of them run. */
static void check_members(const rank_env *env, shoal_comm *comm)
{
    float pair[64];
    uint32_t members[2] = {env->rank & ~1u, env->rank | 1u};
    if (members[1] >= env->size)
        return;
    for (int i = 0; i < 3; i++) {
        shoal_op *op = NULL;
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        fill(pair, env->rank, 64);
        desc.buf = pair;
        desc.count = 64;
        desc.members = members;
        desc.member_count = 2;
        rank_ok(shoal_op_start(comm, &desc, &op));
        rank_ok(shoal_op_wait(&op, -1, NULL));
        for (size_t k = 0; k < 64; k++)
            rank_check(pair[k] == value(members[0], k) + value(members[1], k));
    }
}

static void all_kinds(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    for (size_t row = 0; row < shoali_collective_count(); row++) {
        const shoali_collective_row *c = shoali_collective_row_at(row);
        if (c->traits & SHOALI_COLL_ROOTED)
            continue;
        const size_t counts[] = {COUNT, 1, 0, env->size - 1};
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            check_all_reduce(env, comm, c->name, (c->traits & SHOALI_COLL_ROUNDED) != 0, counts[k]);
        if (c->traits & SHOALI_COLL_SHARDED)
            check_shards(env, comm, c->name);
    }
    check_broadcast(env, comm);
    check_bits(env, comm, SHOAL_ALL_GATHER);
    check_bits(env, comm, SHOAL_BROADCAST);
    check_max(env, comm);
    check_members(env, comm);
    rank_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

static void every_kind_over_tcp(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 5; size++)
        ranks_run(size, size % 2 ? "file" : "tcp", "tcp:shm=off", all_kinds, NULL,
                  30 * 1000 * 1000);
}

static void every_kind_over_libfabric(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 4 && net_is_here("libfabric"); size++)
        ranks_run(size, "file", size % 2 ? "libfabric:window=2,fragment_bytes=4k" : "libfabric",
                  all_kinds, NULL, 30 * 1000 * 1000);
    if (net_is_here("libfabric"))
        ranks_run(3, "tcp", "libfabric:provider=shm", all_kinds, NULL, 30 * 1000 * 1000);
}

static void every_kind_beside_shm(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 5; size++)
        ranks_run(size, "file", NULL, all_kinds, NULL, 30 * 1000 * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(every_kind_over_tcp),
                                       CHECK_TEST(every_kind_over_libfabric),
                                       CHECK_TEST(every_kind_beside_shm)};
    return CHECK_RUN(tests);
}
