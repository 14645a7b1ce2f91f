/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong between real ranks, and that everyone hears the same about it. */
#include "support/ranks.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "carry/link.h"
#include "endpoint/endpoint.h"
#include "transport/shm.h"

enum { BIG = 1 << 20, SECOND = 1000 * 1000, LIMIT_US = 20 * SECOND };

static shoal_op *start(shoal_comm *comm, float *buf, size_t count, int64_t timeout_us)
{
    shoal_op *op = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf;
    desc.count = count;
    desc.timeout_us = timeout_us;
    rank_ok(shoal_op_start(comm, &desc, &op));
    return op;
}

/* ------------------------------------------------------------------ shared memory */

/* As if something had written over the first page of the ring that leads to rank 1. */
static void in_a_broken_ring(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static float buf[BIG];
    rank_ok(shoal_barrier(comm));
    rank_meet(env, 2);
    rank_check(strcmp(comm->links.near.row->name, "shm") == 0);
    if (env->rank == 0) {
        const shoali_shm *shm = comm->links.near.state;
        atomic_store(&shm->peers[1].link->out.shared->head, 0x4141414141414141);
    }
    shoal_status status = shoal_allreduce(comm, buf, BIG, NULL, NULL);
    rank_status(status, SHOAL_EPEER);
    shoal_comm_destroy(comm);
}

static void a_broken_ring_is_noticed(void **state)
{
    (void)state;
    ranks_run(2, "file", NULL, in_a_broken_ring, NULL, 10 * SECOND);
}

/* ------------------------------------------------------------------ wrong calls */

static void different_calls(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static float buf[100];
    rank_ok(shoal_barrier(comm));
    shoal_status status = env->rank == 1 ? shoal_allreduce(comm, buf, 99, "ring", NULL)
                                         : shoal_allreduce(comm, buf, 100, "ring", "fp16");
    rank_check(status == SHOAL_EMISMATCH);
    rank_note_error(env);
    rank_error_has("started all-reduce 2, 99 elements, ring, identity");
    rank_error_has("started all-reduce 2, 100 elements, ring, fp16");
    rank_error_has("rank 1 (host ");
    rank_ok(shoal_barrier(comm)); /* the communicator lives on */
    shoal_comm_destroy(comm);
}

static void a_mismatch_names_both_calls(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 4; size++)
        ranks_run(size, "file", NULL, different_calls, NULL, LIMIT_US);
}

/* Rank 2 does something else for a while: the others name it. */
static void absent_rank(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static float buf[100];
    rank_ok(shoal_barrier(comm));
    if (env->rank == 2) {
        shoal_op *op;
        shoal_status status = shoal_comm_next_done(comm, 600 * 1000, &op);
        rank_check(status == SHOAL_PENDING);
        status = shoal_allreduce(comm, buf, 100, NULL, NULL); /* comes late, and hears it at once */
        rank_check(status == SHOAL_ETIMEDOUT);
    } else {
        shoal_op *op = start(comm, buf, 100, 400 * 1000);
        rank_status(shoal_op_wait(&op, 10, NULL), SHOAL_PENDING);
        rank_check(op != NULL);
        rank_status(shoal_op_wait(&op, -1, NULL), SHOAL_ETIMEDOUT);
        rank_check(op == NULL);
        rank_check(shoal_last_error()->rank == 2);
        rank_check(strcmp(shoal_last_error()->operation, "all-reduce 2") == 0);
        rank_check(shoal_last_error()->advice[0] != '\0');
        rank_check(shoal_last_error()->waited_us >= 300 * 1000);
    }
    rank_error_has("rank 2 (host ");
    rank_error_has("has not entered all-reduce 2, 0.");
    rank_error_has("s after the others");
    rank_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

static void a_missing_rank_is_named(void **state)
{
    (void)state;
    ranks_run(4, "file", NULL, absent_rank, NULL, LIMIT_US);
}

/* ------------------------------------------------------------------ lost ranks */

/* All-reduces without end, until one rank is killed, stopped or gone. */
static void endless(const rank_env *env)
{
    rank_env own = *env;
    const char *how = env->arg;
    own.desc.peer_timeout_us = strcmp(how, "stop") == 0 ? SECOND : 60 * SECOND;
    shoal_comm *comm = rank_join(&own);
    float *buf = calloc(BIG, sizeof *buf);
    shoal_status status = SHOAL_OK;
    for (int i = 0; status == SHOAL_OK; i++) {
        if (i == 3)
            atomic_fetch_add(&env->board->ready, 1);
        status = shoal_allreduce(comm, buf, BIG, NULL, NULL);
    }
    env->board->rank[env->rank].took_us = shoali_now_us() - atomic_load(&env->board->at_us);
    rank_note_error(env);
    rank_check(status == SHOAL_EPEER);
    rank_check(shoal_last_error()->rank == 1);
    rank_error_has("rank 1 (host ");
    rank_error_has("is lost");
    shoal_op *op = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf;
    desc.count = 1;
    status = shoal_op_start(comm, &desc, &op);
    if (status == SHOAL_OK) /* the loss was somebody else's news so far */
        status = shoal_op_wait(&op, -1, NULL);
    rank_check(status == SHOAL_EPEER);
    free(buf);
    shoal_comm_destroy(comm);
}

static void lose_rank_1(const char *transport, const char *how, uint64_t limit_us)
{
    ranks r;
    ranks_start(&r, 4, "file", transport, endless, how);
    ranks_wait_ready(&r, 4, 10 * SECOND);
    atomic_store(&r.board->at_us, shoali_now_us());
    ranks_kill(&r, 1, strcmp(how, "stop") == 0 ? SIGSTOP : SIGKILL);
    ranks_finish(&r, 1, LIMIT_US);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 1 && r.board->rank[i].took_us > limit_us)
            fail_msg("rank %u learnt of it after %.3f s: %s", i,
                     (double)r.board->rank[i].took_us * 1e-6, r.board->rank[i].error.text);
    munmap(r.board, sizeof *r.board);
}

/* The limit is not the claim (0.5 s, bench/claims/kill-one-rank), but far below every timeout in
 * the way: 60 s where a rank was killed, 300 s of the operation where it was stopped. */
static void a_killed_rank_is_named_by_all(void **state)
{
    (void)state;
    lose_rank_1("tcp:shm=off", "kill", 20 * SECOND);
    lose_rank_1(NULL, "kill", 20 * SECOND);
}

static void a_stopped_rank_is_named_by_all(void **state)
{
    (void)state;
    lose_rank_1("tcp:shm=off", "stop", 20 * SECOND);
    lose_rank_1(NULL, "stop", 20 * SECOND);
}

/* A rank that ends its communicator while the others still want something from it. */
static void one_leaves(const rank_env *env)
{
    rank_env own = *env;
    own.desc.peer_timeout_us = SECOND; /* who waits in vain takes as long to leave */
    shoal_comm *comm = rank_join(&own);
    static float buf[1000];
    rank_ok(shoal_barrier(comm));
    if (env->rank != 2) {
        rank_status(shoal_allreduce(comm, buf, 1000, NULL, NULL), SHOAL_EPEER);
        rank_check(shoal_last_error()->rank == 2);
        rank_error_has("goodbye");
        rank_meet(env, 2);
    }
    shoal_comm_destroy(comm);
}

static void a_goodbye_ends_what_cannot_end(void **state)
{
    (void)state;
    ranks_run(3, "file", NULL, one_leaves, NULL, LIMIT_US);
}

/* The last operation is whole for all, although each leaves as soon as it is whole for itself. */
static void leave_at_once(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    float *buf = calloc(BIG, sizeof *buf);
    for (size_t i = 0; i < BIG; i++)
        buf[i] = 1;
    rank_ok(shoal_allreduce(comm, buf, BIG, env->arg, NULL));
    shoal_comm_destroy(comm);
    for (size_t i = 0; i < BIG; i++)
        rank_check(buf[i] == (float)env->size);
    free(buf);
}

static void a_goodbye_overtakes_no_data(void **state)
{
    (void)state;
    static const char *const collectives[] = {"ring", "worker_aggregator", "direct"};
    for (int i = 0; i < 6; i++)
        ranks_run(4, "file", i % 2 ? NULL : "tcp:shm=off", leave_at_once, collectives[i % 3],
                  LIMIT_US);
}

/* Whoever is connected to all goes at once, while others still connect to each other. */
static void only_join(const rank_env *env)
{
    shoal_comm_destroy(rank_join(env));
}

static void a_goodbye_ends_no_join(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        ranks_run(8, "file", i % 2 ? NULL : "tcp:shm=off", only_join, NULL, LIMIT_US);
}

/* Rank 0 has given it to rank 1, which waits for rank 2. */
static void broadcast_down(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    float buf[1000];
    for (size_t i = 0; i < 1000; i++)
        buf[i] = env->rank == 0 ? (float)i : 0;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = SHOAL_BROADCAST;
    desc.buf = buf;
    desc.count = 1000;
    shoal_op *op = NULL;
    if (env->rank >= 2)
        rank_wait_ready(env, 1); /* rank 0 has left */
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_ok(shoal_op_wait(&op, -1, NULL));
    for (size_t i = 0; i < 1000; i++)
        rank_check(buf[i] == (float)i);
    shoal_comm_destroy(comm);
    if (env->rank == 0)
        rank_meet(env, 1);
}

static void a_broadcast_goes_on_below_who_has_left(void **state)
{
    (void)state;
    ranks_run(4, "file", NULL, broadcast_down, NULL, LIMIT_US);
    ranks_run(4, "file", "tcp:shm=off", broadcast_down, NULL, LIMIT_US);
}

/* ------------------------------------------------------------------ values and wishes */

static void one_nan(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static float buf[5000];
    const shoal_tensor tensors[] = {{.key = 70, .offset = 0, .count = 2000, .lr_scale = 1},
                                    {.key = 71, .offset = 2000, .count = 3000, .lr_scale = 1}};
    static const char *const codecs[] = {"identity", "fp16", "inceptionn"};
    for (size_t c = 0; c < 3; c++) {
        shoal_op *op = NULL;
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        memset(buf, 0, sizeof buf);
        if (env->rank == 1)
            buf[2000 + 1234] = c % 2 ? -__builtin_inff() : __builtin_nanf("");
        desc.buf = buf;
        desc.count = 5000;
        desc.tensors = tensors;
        desc.tensor_count = 2;
        desc.push_codec = codecs[c];
        rank_ok(shoal_op_start(comm, &desc, &op));
        rank_status(shoal_op_wait(&op, -1, NULL), SHOAL_ENOTFINITE);
        rank_error_has("rank 1 (host ");
        rank_error_has("tensor 71, element 1234");
        rank_check(shoal_last_error()->rank == 1);
    }
    rank_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

static void a_value_that_is_not_finite_is_named_by_all(void **state)
{
    (void)state;
    ranks_run(4, "file", NULL, one_nan, NULL, LIMIT_US);
}

static void cancelled(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static float buf[1000], other[1000];
    rank_ok(shoal_barrier(comm));
    if (env->rank != 0) { /* rank 0 never enters the first */
        shoal_op *op = start(comm, buf, 1000, 0);
        if (env->rank == 1)
            shoal_op_cancel(op);
        rank_status(shoal_op_wait(&op, -1, NULL), SHOAL_ECANCELLED);
        rank_error_has("cancelled by rank 1 (host ");
        atomic_fetch_add(&env->board->ready, 1);
    } else {
        rank_wait_ready(env, 2);
        rank_status(shoal_allreduce(comm, other, 1000, NULL, NULL), SHOAL_ECANCELLED);
    }
    rank_ok(shoal_barrier(comm));
    shoal_op *op = start(comm, buf, 1000, 0); /* a cancel of what is over changes nothing */
    shoal_op *done = NULL;
    rank_ok(shoal_comm_next_done(comm, 10 * SECOND, &done));
    rank_check(done == op);
    shoal_op_cancel(done);
    rank_ok(shoal_op_wait(&done, -1, NULL));
    shoal_comm_destroy(comm);
}

static void a_cancel_reaches_all(void **state)
{
    (void)state;
    ranks_run(3, "file", NULL, cancelled, NULL, LIMIT_US);
}

static void open_at_the_end(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static float buf[1000];
    rank_ok(shoal_barrier(comm));
    if (env->rank == 0) {
        shoal_op *op = start(comm, buf, 1000, 0);
        rank_check(op != NULL); /* freed by destroy, as nobody waits for it */
    } else {
        shoal_status status = shoal_allreduce(comm, buf, 1000, NULL, NULL);
        rank_check(status == SHOAL_ECANCELLED || status == SHOAL_EPEER || status == SHOAL_OK);
    }
    shoal_comm_destroy(comm);
}

static void destroy_cancels(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        ranks_run(2, "file", NULL, open_at_the_end, NULL, LIMIT_US);
}

/* ------------------------------------------------------------------ whom the others gave up */

static uint32_t state_of(shoal_comm *comm, uint32_t rank)
{
    return atomic_load(&comm->peers[rank].state);
}

static void until_gone(shoal_comm *comm, uint32_t rank)
{
    const uint64_t until_us = shoali_now_us() + LIMIT_US / 2;
    while (state_of(comm, rank) == SHOALI_PEER_HERE && shoali_now_us() < until_us)
        sched_yield();
    rank_check(state_of(comm, rank) != SHOALI_PEER_HERE);
}

static void drop_rank_2(void *arg)
{
    shoali_links_drop(arg, 2, false);
}

static void seem_woken_up(void *arg)
{
    shoal_comm *comm = arg;
    comm->view.outdated_us = comm->loop.now_us + LIMIT_US;
    comm->view.stood_us = LIMIT_US;
}

/* Rank 1 gives rank 2 up, which has stood still; rank 0 has not noticed anything yet. */
static void one_is_given_up(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_barrier(comm));
    if (env->rank == 2)
        shoali_loop_call(&comm->loop, seem_woken_up, comm);
    rank_meet(env, 3);
    if (env->rank == 1)
        shoali_loop_call(&comm->loop, drop_rank_2, comm);
    if (env->rank == 2) {
        until_gone(comm, 1);
        rank_check(comm->peers[1].lost_status == SHOAL_EEPOCH);
    }
    if (env->rank == 0) {
        until_gone(comm, 2);
        rank_check(state_of(comm, 2) == SHOALI_PEER_LOST);
    }
    if (env->rank != 2)
        rank_meet(env, 5);
    shoal_comm_destroy(comm);
}

static void whoever_was_given_up_does_not_leave(void **state)
{
    (void)state;
    ranks_run(3, "file", "tcp:shm=off", one_is_given_up, NULL, LIMIT_US);
}

static void stand_still(void *arg)
{
    rank_wait_ready(arg, 1);
}

/* Rank 1's round begins, stands still until rank 0 has given it up, and then reads the end of their
 * connection. */
static void one_stands_still(const rank_env *env)
{
    rank_env own = *env;
    own.desc.peer_timeout_us = SECOND / 2;
    shoal_comm *comm = rank_join(&own);
    rank_ok(shoal_barrier(comm));
    if (env->rank == 1)
        shoali_loop_call(&comm->loop, stand_still, &own);
    until_gone(comm, 1 - env->rank);
    if (env->rank == 0) {
        rank_meet(env, 2);
    } else {
        rank_check(comm->peers[0].lost_status == SHOAL_EEPOCH);
        rank_meet(env, 2);
    }
    shoal_comm_destroy(comm);
}

static void a_stop_in_the_middle_of_a_round_is_noticed(void **state)
{
    (void)state;
    ranks_run(2, "file", "tcp:shm=off", one_stands_still, NULL, LIMIT_US);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_broken_ring_is_noticed),
        CHECK_TEST(a_mismatch_names_both_calls),
        CHECK_TEST(a_missing_rank_is_named),
        CHECK_TEST(a_killed_rank_is_named_by_all),
        CHECK_TEST(a_stopped_rank_is_named_by_all),
        CHECK_TEST(a_goodbye_ends_what_cannot_end),
        CHECK_TEST(a_goodbye_overtakes_no_data),
        CHECK_TEST(a_goodbye_ends_no_join),
        CHECK_TEST(a_broadcast_goes_on_below_who_has_left),
        CHECK_TEST(a_value_that_is_not_finite_is_named_by_all),
        CHECK_TEST(a_cancel_reaches_all),
        CHECK_TEST(destroy_cancels),
        CHECK_TEST(whoever_was_given_up_does_not_leave),
        CHECK_TEST(a_stop_in_the_middle_of_a_round_is_noticed),
    };
    return CHECK_RUN(tests);
}
