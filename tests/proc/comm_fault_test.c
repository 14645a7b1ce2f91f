/* SPDX-License-Identifier: Apache-2.0 */
/* Real ranks with the fault decorator in front of their transports. */
#include "support/net.h"
#include "support/ranks.h"

#include <signal.h>
#include <sys/mman.h>

#include "base/log.h"

enum { COUNT = 300 * 1000, SECOND = 1000 * 1000, LIMIT_US = 20 * SECOND };

typedef struct plan {
    const char *fault;
    shoal_status wanted; /* OK, or what some rank may hear instead of OK */
    const char *part;
    bool dies; /* rank 1 */
} plan;

/* What everyone brings, and the check of the sum. */
static void run_some(const rank_env *env, shoal_comm *comm, const plan *p)
{
    float *buf = calloc(COUNT, sizeof *buf);
    for (int round = 0; round < 6; round++) {
        shoal_op *op = NULL;
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        for (size_t i = 0; i < COUNT; i++)
            buf[i] = (float)((env->rank + i) % 64);
        desc.buf = buf;
        desc.count = COUNT;
        desc.collective = round % 2 ? "direct" : "ring";
        desc.timeout_us = p->wanted == SHOAL_ETIMEDOUT ? SECOND / 2
                          : p->wanted == SHOAL_OK      ? 60 * SECOND
                                                       : 4 * SECOND;
        shoal_status status = shoal_op_start(comm, &desc, &op);
        if (status == SHOAL_OK)
            status = shoal_op_wait(&op, -1, NULL);
        if (status != SHOAL_OK) {
            /* two that lost each other do not enter the next one: for the third it takes too long
             */
            rank_check(status == p->wanted ||
                       (p->wanted == SHOAL_EPEER && status == SHOAL_ETIMEDOUT));
            rank_error_has(p->part);
            break;
        }
        for (size_t i = 0; i < COUNT; i++) {
            float sum = 0;
            for (uint32_t k = 0; k < env->size; k++)
                sum += (float)((k + i) % 64);
            rank_check(buf[i] == sum);
        }
        rank_check(round < 5 || p->wanted == SHOAL_OK);
    }
    free(buf);
}

static void faulty(const rank_env *env)
{
    rank_env own = *env;
    const plan *p = env->arg;
    own.desc.fault = p->fault;
    own.desc.peer_timeout_us = strstr(p->fault, "cut") != NULL ? SECOND : 10 * SECOND;
    shoal_comm *comm = rank_join(&own);
    run_some(env, comm, p);
    rank_meet(env, p->dies ? env->size - 1 : env->size);
    shoal_comm_destroy(comm);
}

static void run_plan(const plan *p, uint32_t except)
{
    static const char *const transports[] = {"tcp:shm=off", "tcp", "libfabric",
                                             "tcp:lanes=2,shm=off"};
    for (int t = 0; t < (p->wanted == SHOAL_OK ? 4 : 3); t++) {
        ranks r;
        if (!net_is_here(transports[t]))
            continue;
        if (strstr(p->fault, "cut=") != NULL && strcmp(transports[t], "tcp") == 0)
            continue; /* on one host, control would go on while shm is silent */
        ranks_start(&r, 3, "file", transports[t], faulty, p);
        ranks_finish(&r, except, LIMIT_US);
        munmap(r.board, sizeof *r.board);
    }
}

static void late_doubled_and_disordered_frames_change_nothing(void **state)
{
    (void)state;
    static const plan plans[] = {{"fault:delay_us=3000", SHOAL_OK, "", false},
                                 {"fault:dup=0.3", SHOAL_OK, "", false},
                                 {"fault:reorder=0.3,dup=0.1,delay_us=1000", SHOAL_OK, "", false}};
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        run_plan(&plans[i], RANKS_MAX);
}

/* On a stream nothing gets lost but by a fault of software: the deadline says where it is missing,
 * be it data of this operation, or a rank that still waits for data of the one before. */
static void a_lost_frame_ends_in_a_deadline(void **state)
{
    (void)state;
    static const plan p = {"fault:drop=0.2,rank=1", SHOAL_ETIMEDOUT, "all-reduce ", false};
    run_plan(&p, RANKS_MAX);
}

static void a_silent_link_is_a_lost_peer(void **state)
{
    (void)state;
    static const plan p = {"fault:cut=5,rank=1", SHOAL_EPEER, "rank", false};
    run_plan(&p, RANKS_MAX);
}

static void a_rank_that_dies_in_the_middle_is_a_lost_peer(void **state)
{
    (void)state;
    static const plan p = {"fault:kill=5,rank=1", SHOAL_EPEER, "rank", true};
    run_plan(&p, 1);
}

static void a_corrupt_header_is_the_end_of_its_sender(void **state)
{
    (void)state;
    static const plan p = {"fault:corrupt=0.2,rank=1", SHOAL_EPEER, "rank", false};
    run_plan(&p, RANKS_MAX);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(late_doubled_and_disordered_frames_change_nothing),
        CHECK_TEST(a_lost_frame_ends_in_a_deadline),
        CHECK_TEST(a_silent_link_is_a_lost_peer),
        CHECK_TEST(a_rank_that_dies_in_the_middle_is_a_lost_peer),
        CHECK_TEST(a_corrupt_header_is_the_end_of_its_sender),
    };
    return CHECK_RUN(tests);
}
