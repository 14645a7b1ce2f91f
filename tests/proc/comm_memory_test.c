/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation of one rank fails, for every k: it hears ENOMEM or nothing at all, the others
 * hear the same or its loss, nobody hangs, and nothing leaks (under asan). */
#include "support/ranks.h"

#include "base/arena.h"
#include "base/log.h"

enum { COUNT = 3000, SECOND = 1000 * 1000, LIMIT_US = 50 * SECOND, OPERATIONS = 3 };

static void alone(void **state)
{
    (void)state;
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    desc.rank = 0;
    desc.world_size = 1;
    for (size_t k = 1, failed = 1; failed; k++) {
        static float buf[COUNT];
        shoal_comm *comm = NULL;
        shoali_alloc_fail_at(k);
        shoal_status status = shoal_comm_create(&desc, &comm);
        if (status == SHOAL_OK)
            status = shoal_allreduce(comm, buf, COUNT, NULL, "inceptionn");
        shoal_comm_destroy(comm);
        failed = status != SHOAL_OK;
        assert_true(status == SHOAL_OK || status == SHOAL_ENOMEM);
        assert_true(failed || k > 10); /* or nothing was made to fail */
    }
    shoali_alloc_fail_at(0);
}

/* Operations of every preparation: plain, coded with feedback, measured first. */
static shoal_status operate(shoal_comm *comm, int which)
{
    static float buf[COUNT];
    static const char *const codecs[OPERATIONS] = {NULL, "inceptionn:bound=2^-8",
                                                   "inceptionn:prescale=auto"};
    for (int i = 0; i < COUNT; i++)
        buf[i] = 0.25f;
    return shoal_allreduce(comm, buf, COUNT, which == 0 ? "direct" : "ring", codecs[which]);
}

/* One communicator per k; a rank that fails leaves, as a program would. The board says whether any
 * rank has noticed k; both stop at the first k that nobody did. */
static bool survives(const rank_env *env, uint32_t k)
{
    rank_env own = *env;
    char place[300];
    snprintf(place, sizeof place, "%s.%u", env->desc.rendezvous, k);
    own.desc.rendezvous = place;
    own.desc.chunk_elems = 500;
    own.desc.op_timeout_us = 2 * SECOND;
    own.desc.peer_timeout_us = 200 * 1000;
    shoal_comm *comm = rank_join(&own);
    shoal_status status = shoal_barrier(comm);
    if (env->rank == 1)
        shoali_alloc_fail_at(k);
    for (int i = 0; i < OPERATIONS && status == SHOAL_OK; i++)
        status = operate(comm, i);
    shoali_alloc_fail_at(0);
    if (status == SHOAL_OK)
        status = shoal_barrier(comm);
    rank_check(status == SHOAL_OK || status == SHOAL_ENOMEM || status == SHOAL_EPEER ||
               status == SHOAL_EEPOCH); /* it stood still itself: the machine is busy */
    shoal_comm_destroy(comm);
    return status == SHOAL_OK;
}

/* All ranks meet here, twice per k: before the board is read and after. */
static void meet(const rank_env *env, uint32_t *meetings)
{
    atomic_fetch_add(&env->board->ready, 1);
    rank_wait_ready(env, ++*meetings * env->size);
}

static void lacks_memory(const rank_env *env)
{
    enum { STEP = 3 };
    uint32_t meetings = 0, k = *(const uint32_t *)env->arg;
    for (bool noticed = true; noticed; k += STEP) {
        rank_check(k < 1000);
        if (!survives(env, k))
            atomic_store(&env->board->go, k);
        meet(env, &meetings);
        noticed = atomic_load(&env->board->go) == k;
        meet(env, &meetings);
    }
    rank_check(k > 20);
}

static void one_of_two(void **state)
{
    (void)state;
    static const uint32_t first[] = {1, 2};
    ranks_run(2, "file", "tcp:shm=off", lacks_memory, &first[0], LIMIT_US);
    ranks_run(2, "file", NULL, lacks_memory, &first[1], LIMIT_US);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {CHECK_TEST(alone), CHECK_TEST(one_of_two)};
    return CHECK_RUN(tests);
}
