/* SPDX-License-Identifier: Apache-2.0 */
/* Joining and leaving: who may join, two communicators in one process, forked children,
 * counters. */
#include "support/net.h"
#include "support/ranks.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "support/ports.h"

enum { COUNT = 1000, SECOND = 1000 * 1000, LIMIT_US = 20 * SECOND };

static const char token[] = "a secret of this test", other_token[] = "another secret, too";

static uint32_t open_descriptors(void)
{
    uint32_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    rank_check(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

/* ------------------------------------------------------------------ who may join */

static void tokens_differ(const rank_env *env)
{
    rank_env own = *env;
    shoal_comm *comm = NULL;
    own.desc.token = env->rank == 1 ? other_token : token;
    own.desc.join_timeout_us = env->rank == 0 ? 2 * SECOND : 20 * SECOND;
    rank_meet(env, 3);
    shoal_status status = shoal_comm_create(&own.desc, &comm);
    rank_check(comm == NULL);
    rank_check(status == (env->rank == 1 ? SHOAL_EAUTH : SHOAL_ETIMEDOUT));
    if (env->rank != 1)
        rank_error_has("rank 1 of 3 did not join");
}

static void a_wrong_token_does_not_join(void **state)
{
    (void)state;
    ranks_run(3, "tcp", NULL, tokens_differ, NULL, LIMIT_US);
}

static void settings_differ(const rank_env *env)
{
    rank_env own = *env;
    shoal_comm *comm = NULL;
    own.desc.chunk_elems = env->rank == 2 ? 4096 : 8192;
    rank_status(shoal_comm_create(&own.desc, &comm), SHOAL_EMISMATCH);
    rank_error_has("rank 2 (host ");
    rank_error_has("has chunk_elems 4096, rank 0 (host ");
    rank_check(open_descriptors() < 20);
}

static void different_settings_are_named(void **state)
{
    (void)state;
    ranks_run(3, "tcp", NULL, settings_differ, NULL, LIMIT_US);
    ranks_run(3, "file", NULL, settings_differ, NULL, LIMIT_US);
}

static void stays_away(const rank_env *env)
{
    rank_env own = *env;
    shoal_comm *comm = NULL;
    if (env->rank == 2)
        return;
    own.desc.join_timeout_us = env->rank == 0 ? 1600 * 1000 : 20 * SECOND;
    rank_meet(env, 2);
    rank_status(shoal_comm_create(&own.desc, &comm), SHOAL_ETIMEDOUT);
    rank_error_has("rank 2 of 3 did not join within 1.6 s");
    rank_check(strcmp(shoal_last_error()->operation, "join") == 0);
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    ranks_run(3, "tcp", NULL, stays_away, NULL, LIMIT_US);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    shoal_comm *comm = NULL;
    shoal_view view;
    size_t offset, count;
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    desc.size = 3;
    assert_status(shoal_comm_create(&desc, &comm), SHOAL_EINVAL);
    assert_status(shoal_comm_create(NULL, &comm), SHOAL_EINVAL);
    desc = (shoal_comm_desc)SHOAL_COMM_DESC_INIT;
    desc.rank = 0;
    desc.world_size = 2;
    desc.rendezvous = "tcp://192.0.2.1:29400";                    /* not loopback, and no token */
    bool alone = shoal_comm_create(&desc, &comm) == SHOAL_EINVAL; /* with loopback and no other */
    assert_error_has(alone ? "no network interface is up" : "SHOAL_TOKEN_FILE");
    assert_true(shoal_last_error()->status == (alone ? SHOAL_EINVAL : SHOAL_EAUTH));
    desc.rendezvous = "tcp://127.0.0.1:1";
    desc.transport = "pigeon";
    assert_status(shoal_comm_create(&desc, &comm), SHOAL_EINVAL);
    desc.transport = NULL;
    desc.world_size = 1;
    desc.chunk_elems = UINT32_MAX;
    assert_status(shoal_comm_create(&desc, &comm), SHOAL_EINVAL);
    desc.chunk_elems = 0;
    assert_ok(shoal_comm_create(&desc, &comm));
    assert_ok(shoal_comm_view(comm, &view));
    assert_true(view.rank == 0 && view.rank_count == 1 && view.workers == 1 && view.epoch == 0);
    assert_status(shoal_comm_shard(comm, 1, 10, &offset, &count), SHOAL_EINVAL);
    shoal_comm_destroy(comm);
    shoal_comm_destroy(NULL);
}

static void bad_operations_are_refused(void **state)
{
    (void)state;
    shoal_comm *comm = NULL;
    shoal_op *op = NULL;
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    desc.rank = 0;
    desc.world_size = 1;
    assert_ok(shoal_comm_create(&desc, &comm));
    float buf[4] = {0};
    const shoal_tensor gap[] = {{.key = 1, .offset = 1, .count = 3}};
    const shoal_tensor bits[] = {{.key = 1, .count = 4, .flags = SHOAL_TENSOR_BITS}};
    const uint32_t twice[] = {0, 0}, far[] = {1};
    shoal_op_desc good = SHOAL_OP_DESC_INIT, bad;
    good.buf = buf;
    good.count = 4;
#define REFUSED(change)                                               \
    do {                                                              \
        bad = good;                                                   \
        change;                                                       \
        assert_status(shoal_op_start(comm, &bad, &op), SHOAL_EINVAL); \
        assert_null(op);                                              \
    } while (0)
    REFUSED(bad.size = 0);
    REFUSED(bad.buf = NULL);
    REFUSED(bad.kind = (shoal_op_kind)9);
    REFUSED(bad.push_codec = "no such codec");
    REFUSED(bad.collective = "no such collective");
    REFUSED(bad.collective = "broadcast");
    REFUSED(bad.kind = SHOAL_BROADCAST; bad.collective = "ring");
    REFUSED(bad.kind = SHOAL_REDUCE_SCATTER; bad.collective = "gather");
    REFUSED(bad.tensors = gap; bad.tensor_count = 1);
    REFUSED(bad.tensors = bits; bad.tensor_count = 1);
    REFUSED(bad.kind = SHOAL_ALL_GATHER; bad.tensors = bits; bad.tensor_count = 1;
            bad.push_codec = "fp16");
    REFUSED(bad.members = twice; bad.member_count = 2);
    REFUSED(bad.members = far; bad.member_count = 1);
    REFUSED(bad.root = 1);
    REFUSED(bad.contributors = 2);
    assert_status(shoal_op_start(comm, &good, NULL), SHOAL_EINVAL);
    assert_status(shoal_op_wait(&op, 0, NULL), SHOAL_EINVAL);
    assert_ok(shoal_allreduce(comm, buf, 4, NULL, NULL));
    shoal_comm_destroy(comm);
}

/* ------------------------------------------------------------------ two of them */

static void two_at_once(const rank_env *env)
{
    rank_env other = *env;
    char place[300];
    snprintf(place, sizeof place, "%s.second", env->desc.rendezvous);
    other.desc.rendezvous = place;
    other.desc.rank = (int32_t)(env->size - 1 - env->rank); /* the ranks the other way round */
    other.desc.job = "second";
    uint32_t before = open_descriptors();
    shoal_comm *a = rank_join(env), *b = rank_join(&other);
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < 5; i++) {
        shoal_op *ops[2] = {NULL, NULL};
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        for (size_t k = 0; k < COUNT; k++) {
            x[k] = 1;
            y[k] = (float)env->rank;
        }
        desc.count = COUNT;
        desc.buf = x;
        rank_ok(shoal_op_start(a, &desc, &ops[0]));
        desc.buf = y;
        rank_ok(shoal_op_start(b, &desc, &ops[1]));
        for (int k = 2; k-- > 0;)
            rank_ok(shoal_op_wait(&ops[k], -1, NULL));
        rank_check(x[7] == (float)env->size && y[7] == (float)(env->size * (env->size - 1) / 2));
    }
    shoal_comm_destroy(a);
    rank_ok(shoal_allreduce(b, y, COUNT, NULL, NULL));
    shoal_comm_destroy(b);
    rank_check(open_descriptors() == before);
}

static void two_communicators_live_side_by_side(void **state)
{
    (void)state;
    ranks_run(3, "file", NULL, two_at_once, NULL, LIMIT_US);
}

/* ------------------------------------------------------------------ fork */

/* In the child the handle is dead; in the parent nothing has changed; and the child holds no
 * connection open. */
static void forks(const rank_env *env)
{
    rank_env own = *env;
    own.desc.peer_timeout_us = 300 * SECOND; /* only an end of file is faster than the limit */
    uint32_t before = open_descriptors();
    shoal_comm *comm = rank_join(&own);
    static float buf[COUNT];
    rank_ok(shoal_barrier(comm));
    shoal_op *open = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf;
    desc.count = COUNT;
    int ends[2];
    rank_check(pipe(ends) == 0);
    for (int i = 0; i < 20; i++) { /* in the middle of operations */
        rank_ok(shoal_op_start(comm, &desc, &open));
        pid_t child = fork();
        if (child == 0) {
            shoal_op *op = NULL;
            rank_status(shoal_op_start(comm, &desc, &op), SHOAL_EFORKED);
            rank_status(shoal_op_wait(&open, -1, NULL), SHOAL_EFORKED);
            rank_status(shoal_barrier(comm), SHOAL_EFORKED);
            rank_check(open_descriptors() <= before + 2);
            shoal_comm_destroy(comm);
            close(ends[1]);
            char byte;
            if (i == 19) /* the last one outlives its parent */
                (void)!read(ends[0], &byte, 1);
            _exit(0);
        }
        rank_check(child > 0);
        rank_ok(shoal_op_wait(&open, -1, NULL));
        int status = 0;
        if (i < 19)
            rank_check(waitpid(child, &status, 0) == child && status == 0);
    }
    rank_ok(shoal_barrier(comm));
    atomic_fetch_add(&env->board->ready, 1);
    if (env->rank == 1)
        for (;;)
            pause(); /* killed here, its child alive */
    rank_status(shoal_barrier(comm), SHOAL_EPEER);
    env->board->rank[env->rank].took_us = shoali_now_us() - atomic_load(&env->board->at_us);
    rank_check(shoal_last_error()->rank == 1);
    shoal_comm_destroy(comm);
    close(ends[1]); /* ends the child */
}

static void a_forked_child_holds_nothing(void **state)
{
    (void)state;
    ranks r;
    ranks_start(&r, 3, "file", NULL, forks, NULL);
    ranks_wait_ready(&r, 3, LIMIT_US);
    atomic_store(&r.board->at_us, shoali_now_us());
    ranks_kill(&r, 1, SIGKILL);
    ranks_finish(&r, 1, LIMIT_US);
    munmap(r.board, sizeof *r.board);
}

/* ------------------------------------------------------------------ counters */

static void counted(const rank_env *env)
{
    rank_env own = *env;
    own.desc.token = token;
    shoal_comm *comm = rank_join(&own);
    static float buf[COUNT];
    shoal_peer_stats stats;
    const uint32_t right = (env->rank + 1) % env->size;
    for (int i = 0; i < 3; i++)
        rank_ok(shoal_allreduce(comm, buf, COUNT, "ring", NULL));
    rank_ok(shoal_comm_peer_stats(comm, right, &stats));
    /* 2 (P - 1) / P of the buffer, three times, to the right neighbour alone (two ranks: to each
     * other) */
    rank_check(stats.sent_payload_bytes ==
               3 * 2 * (env->size - 1) * (COUNT / env->size) * sizeof(float));
    rank_check(stats.sent_wire_bytes > stats.sent_payload_bytes && stats.control_bytes > 0);
    rank_check(stats.sent_frames == 3 * 2 * (env->size - 1) && stats.dropped_frames == 0);
    rank_check(strcmp(stats.transport, env->arg) == 0 && stats.host[0] != '\0');
    rank_check(shoal_comm_peer_stats(comm, env->size, &stats) == SHOAL_EINVAL);
    rank_ok(shoal_comm_peer_stats(comm, env->rank, &stats));
    rank_check(stats.sent_frames == 0);
    rank_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

static void traffic_is_counted(void **state)
{
    (void)state;
    ranks_run(2, "tcp", "tcp:shm=off", counted, "tcp", LIMIT_US);
    ranks_run(4, "tcp", "tcp:shm=off", counted, "tcp", LIMIT_US);
    ranks_run(4, "file", NULL, counted, "shm", LIMIT_US);
    if (net_is_here("libfabric"))
        ranks_run(4, "file", "libfabric", counted, "libfabric", LIMIT_US);
}

/* ------------------------------------------------------------------ who gets what is done */

static void *take_all(void *arg)
{
    shoal_comm *comm = arg;
    static int taken;
    shoal_op *op = NULL;
    taken = 0;
    while (shoal_comm_next_done(comm, LIMIT_US, &op) == SHOAL_OK) {
        rank_ok(shoal_op_wait(&op, -1, NULL));
        taken++;
    }
    return &taken;
}

/* A thread that waits for all operations gets those of shoal_op_start, and no wrapper's. */
static void two_kinds_of_waiting(const rank_env *env)
{
    enum { ROUNDS = 40 };
    static float buf[COUNT], started[ROUNDS];
    shoal_comm *comm = rank_join(env);
    pthread_t thread;
    void *taken;
    rank_check(pthread_create(&thread, NULL, take_all, comm) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        shoal_op *op = NULL;
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        desc.buf = &started[i];
        desc.count = 1;
        rank_ok(shoal_op_start(comm, &desc, &op));
        rank_ok(shoal_allreduce(comm, buf, COUNT, NULL, NULL));
        rank_ok(shoal_barrier(comm));
    }
    shoal_comm_destroy(comm);
    rank_check(pthread_join(thread, &taken) == 0 && *(int *)taken <= ROUNDS);
}

static void a_wrapper_waits_for_its_own(void **state)
{
    (void)state;
    ranks_run(3, "file", NULL, two_kinds_of_waiting, NULL, LIMIT_US);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_wrong_token_does_not_join),  CHECK_TEST(different_settings_are_named),
        CHECK_TEST(who_does_not_come_is_named),   CHECK_TEST(bad_arguments_are_refused),
        CHECK_TEST(bad_operations_are_refused),   CHECK_TEST(two_communicators_live_side_by_side),
        CHECK_TEST(a_forked_child_holds_nothing), CHECK_TEST(traffic_is_counted),
        CHECK_TEST(a_wrapper_waits_for_its_own),
    };
    return CHECK_RUN(tests);
}
