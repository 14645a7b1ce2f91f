/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregator daemons and the jobs that they serve, each in a process of its own: sums, several
 * jobs, strangers, limits, and who dies. */
#include "support/ports.h"
#include "support/ranks.h"
#include "support/strangers.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "shoal/aggregator.h"

enum { COUNT = 50000, SECOND = 1000 * 1000, LIMIT_US = 60 * SECOND, DAEMONS_MAX = 4 };

static const char token[] = "the token of these tests";

/* Processes 0..ranks-1 are the job's, those behind them daemons. */
typedef struct plan {
    uint32_t ranks, daemons, jobs; /* jobs: of `ranks` ranks each, one after the other in number */
    uint64_t memory_bytes;
    uint32_t jobs_max;
    const char *token;      /* of the daemons */
    bool strangers;         /* are refused as well */
    const char *collective; /* of endless operations; NULL: omnireduce */
    void (*fn)(const rank_env *env, const struct plan *plan);
} plan;

/* ------------------------------------------------------------------ processes */

/* The board's took_us of a daemon's process is its port. */
static void addresses_of(const rank_env *env, const plan *p, char *text, size_t text_bytes)
{
    const uint32_t first = p->ranks * p->jobs;
    size_t used = 0;
    rank_wait_ready(env, p->daemons);
    for (uint32_t d = 0; d < p->daemons; d++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s127.0.0.1:%u", d > 0 ? "," : "",
                                 (unsigned)env->board->rank[first + d].took_us);
}

static void be_daemon(const rank_env *env, const plan *p)
{
    shoal_aggregator_desc desc = SHOAL_AGGREGATOR_DESC_INIT;
    shoal_aggregator *daemon = NULL;
    shoal_aggregator_stats stats;
    desc.listen = "127.0.0.1:0";
    desc.token = p->token != NULL ? p->token : token;
    desc.memory_limit_bytes = p->memory_bytes;
    desc.jobs_max = p->jobs_max;
    rank_ok(shoal_aggregator_create(&desc, &daemon));
    env->board->rank[env->rank].took_us = shoal_aggregator_port(daemon);
    atomic_fetch_add(&env->board->ready, 1);
    const uint64_t until_us = shoali_now_us() + LIMIT_US;
    do { /* until all jobs have ended, or been refused */
        rank_check(shoali_now_us() < until_us);
        if (shoal_aggregator_wait(daemon, p->jobs, 20 * 1000) == SHOAL_OK)
            rank_check(p->jobs > 0);
        (void)shoal_aggregator_report(daemon, &stats, NULL, 0);
    } while (stats.jobs_ended + (p->strangers ? 0 : stats.jobs_refused) < p->jobs);
    rank_check(stats.jobs_open == 0);
    atomic_store(&env->board->rank[env->rank].steps, (uint32_t)stats.operations);
    shoal_aggregator_destroy(daemon);
}

static void be_process(const rank_env *env)
{
    const plan *p = env->arg;
    static char list[256], place[300], job[32];
    rank_env own = *env;
    const uint32_t number = env->rank / p->ranks;
    if (number >= p->jobs) {
        be_daemon(env, p);
        return;
    }
    addresses_of(env, p, list, sizeof list);
    own.desc.aggregators = list;
    own.desc.token = token;
    own.desc.rank = (int32_t)(env->rank % p->ranks);
    own.desc.world_size = (int32_t)p->ranks;
    if (number > 0) {
        snprintf(place, sizeof place, "%s-%u", own.desc.rendezvous, number);
        own.desc.rendezvous = place;
    }
    snprintf(job, sizeof job, "job %u", number);
    own.desc.job = job;
    p->fn(&own, p);
}

static uint32_t processes(const plan *p)
{
    return p->ranks * p->jobs + p->daemons;
}

static void run(const plan *p)
{
    ranks_run(processes(p), "file", NULL, be_process, p, LIMIT_US);
}

/* ------------------------------------------------------------------ sums */

/* Half of the blocks of 256 are zero. */
static float value_of(uint64_t job, uint32_t rank, size_t i)
{
    shoali_rng rng = {job + 1, rank + 1, i / 256};
    if ((shoali_rng_next(&rng) & 1) != 0)
        return 0;
    rng = (shoali_rng){job + 1, rank + 100, i};
    return (float)(shoali_rng_next(&rng) % 2000) * 0.001f - 1;
}

static uint64_t job_of(const rank_env *env)
{
    return (uint64_t)strtoul(env->desc.job + 4, NULL, 10);
}

static void check_sums(shoal_comm *comm, const rank_env *env, const plan *p, const char *collective)
{
    static float x[COUNT];
    const uint32_t me = (uint32_t)env->desc.rank;
    for (size_t i = 0; i < COUNT; i++)
        x[i] = value_of(job_of(env), me, i);
    rank_ok(shoal_allreduce(comm, x, COUNT, collective, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        float sum = value_of(job_of(env), 0, i);
        for (uint32_t r = 1; r < p->ranks; r++)
            sum += value_of(job_of(env), r, i);
        if (x[i] != sum && fabsf(x[i] - sum) > 1e-6f)
            rank_fail("a wrong sum", __FILE__, __LINE__);
        if (strncmp(collective, "omni", 4) == 0 && x[i] != sum) /* in order of ranks: the bits */
            rank_fail("sums in another order than that of ranks", __FILE__, __LINE__);
    }
}

/* Key-value pairs, by daemons that know of no tensor. */
static void check_rows(shoal_comm *comm, const rank_env *env, const plan *p)
{
    enum { ROW = 8, MINE = 300 };
    static float x[COUNT];
    static uint32_t rows[MINE];
    const uint32_t me = (uint32_t)env->desc.rank;
    const shoal_tensor table = {
        .key = 9, .count = COUNT, .rows = COUNT / ROW, .cols = ROW, .lr_scale = 1};
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoal_op_stats stats = {.size = sizeof stats};
    shoal_op *op;
    memset(x, 0, sizeof x);
    for (uint32_t i = 0; i < MINE; i++) {
        rows[i] = i * 10 + (i % 2 == 0 ? me : 9);
        for (uint32_t k = 0; k < ROW; k++)
            x[rows[i] * ROW + k] = 0.1f * (float)(me + k + 1);
    }
    desc.buf = x;
    desc.count = COUNT;
    desc.tensors = &table;
    desc.tensor_count = 1;
    desc.collective = "omnireduce:dedicated,input=coo";
    desc.rows = rows;
    desc.row_count = MINE;
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_ok(shoal_op_wait(&op, -1, &stats));
    for (uint32_t i = 0; i < MINE; i++)
        for (uint32_t k = 0; k < ROW; k++) {
            float sum = 0;
            for (uint32_t r = 0; r < p->ranks; r++)
                sum += i % 2 == 0 && r != me ? 0 : 0.1f * (float)(r + k + 1);
            rank_check(x[rows[i] * ROW + k] == sum);
        }
    rank_check(stats.sent_payload_bytes < 2 * MINE * (ROW + 1) * sizeof(float));
}

static void sums(const rank_env *env, const plan *p)
{
    shoal_comm *comm = rank_join(env);
    shoal_view view;
    rank_ok(shoal_comm_view(comm, &view));
    rank_check(view.rank_count == p->ranks && view.workers == p->ranks);
    rank_check(view.aggregators == p->daemons);
    for (int i = 0; i < 3; i++) {
        check_sums(comm, env, p, "omnireduce:dedicated,slots=2");
        check_sums(comm, env, p, i == 1 ? "switchml:dedicated,sparse" : "switchml:dedicated");
        check_sums(comm, env, p, "ring"); /* which needs nobody else */
        check_rows(comm, env, p);
    }
    rank_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

static void daemons_sum_for_a_job(void **state)
{
    (void)state;
    ranks r;
    const plan p = {.ranks = 3, .daemons = 2, .jobs = 1, .fn = sums};
    ranks_start(&r, processes(&p), "file", NULL, be_process, &p);
    ranks_finish(&r, RANKS_MAX, LIMIT_US);
    for (uint32_t d = 0; d < p.daemons; d++)
        assert_int_equal(atomic_load(&r.board->rank[p.ranks + d].steps), 9);
    munmap(r.board, sizeof *r.board);
}

static void a_daemon_serves_jobs_at_once(void **state)
{
    (void)state;
    const plan p = {.ranks = 2, .daemons = 1, .jobs = 3, .fn = sums};
    run(&p);
}

/* ------------------------------------------------------------------ limits and strangers */

static void refused(const rank_env *env, const plan *p, shoal_status wanted, const char *text)
{
    shoal_comm *comm = NULL;
    (void)p;
    rank_status(shoal_comm_create(&env->desc, &comm), wanted);
    rank_error_has("aggregator 0 at 127.0.0.1:");
    rank_error_has(text);
}

static void strange(const rank_env *env, const plan *p)
{
    refused(env, p, SHOAL_EAUTH, "does not hold the token");
}

static void strangers_are_refused(void **state)
{
    (void)state;
    const plan p = {
        .ranks = 2, .daemons = 1, .jobs = 1, .fn = strange, .token = "the token of another site"};
    run(&p);
}

static void patient(const rank_env *env, const plan *p)
{
    rank_env own = *env;
    own.desc.join_timeout_us = (int64_t)1 << 62;
    refused(&own, p, SHOAL_EINVAL, "a join timeout of 4.61e+12 s; it waits 600 s at most");
}

static void hangs_on(const rank_env *env, const plan *p)
{
    rank_env own = *env;
    own.desc.peer_timeout_us = (int64_t)601 * SECOND;
    refused(&own, p, SHOAL_EINVAL, "a peer timeout of 601 s");
}

static void nobody_holds_a_place_for_ever(void **state)
{
    (void)state;
    plan p = {.ranks = 2, .daemons = 1, .jobs = 1, .fn = patient};
    run(&p);
    p.fn = hangs_on;
    run(&p);
}

/* Strangers who say nothing stand at the daemon's port before the job comes. */
static void besieged(const rank_env *env, const plan *p)
{
    strangers *s = NULL;
    if (env->rank == 0) {
        const uint16_t port = (uint16_t)strtoul(strrchr(env->desc.aggregators, ':') + 1, NULL, 10);
        s = strangers_start(port, 500);
    }
    const uint64_t began_us = shoali_now_us();
    shoal_comm *comm = rank_join(env);
    const uint64_t took_us = shoali_now_us() - began_us;
    if (s != NULL) {
        strangers_stop(s);
        rank_check(took_us < 20 * SECOND); /* of the 60 that a join may take */
    }
    check_sums(comm, env, p, "omnireduce:dedicated,slots=2");
    shoal_comm_destroy(comm);
}

static void silent_strangers_delay_no_job(void **state)
{
    (void)state;
    const plan p = {.ranks = 2, .daemons = 1, .jobs = 1, .fn = besieged, .strangers = true};
    run(&p);
}

static void unreachable(const rank_env *env, const plan *p)
{
    rank_env own = *env;
    own.desc.aggregators = "127.0.0.1:1"; /* nobody listens there */
    own.desc.join_timeout_us = SECOND;
    refused(&own, p, SHOAL_EPEER, "refused");
}

static void a_daemon_that_is_not_there_is_named(void **state)
{
    (void)state;
    const plan p = {.ranks = 2, .daemons = 0, .jobs = 1, .fn = unreachable};
    run(&p);
}

/* Process 1 is the host of a daemon that is still starting: it hangs up twice before it is gone.
 * Rank 0 gives up after half of the time, so that the ranks which wait for it hear why. */
static void calls_again(const rank_env *env, const plan *p)
{
    rank_env own = *env;
    char place[64];
    if (own.desc.rank == 1) {
        int fd;
        env->board->rank[1].took_us = port_reserve(&fd);
        rank_check(listen(fd, 8) == 0);
        atomic_fetch_add(&env->board->ready, 1);
        for (int call = 0; call < 2; call++) {
            struct pollfd wait = {.fd = fd, .events = POLLIN};
            rank_check(poll(&wait, 1, 10 * 1000) == 1);
            rank_check(close(accept(fd, NULL, NULL)) == 0);
        }
        close(fd);
        return;
    }
    rank_wait_ready(env, 1);
    snprintf(place, sizeof place, "127.0.0.1:%u", (unsigned)env->board->rank[1].took_us);
    own.desc.aggregators = place;
    own.desc.world_size = 1;
    own.desc.join_timeout_us = 4 * SECOND;
    const uint64_t began_us = shoali_now_us();
    refused(&own, p, SHOAL_EPEER, "refused");
    rank_check(shoali_now_us() - began_us < 39 * SECOND / 10);
}

static void a_daemon_that_starts_late_is_called_again(void **state)
{
    (void)state;
    const plan p = {.ranks = 2, .daemons = 0, .jobs = 1, .fn = calls_again};
    run(&p);
}

static void beyond_memory(const rank_env *env, const plan *p)
{
    shoal_comm *comm = rank_join(env);
    static float x[COUNT];
    rank_status(shoal_allreduce(comm, x, COUNT, "omnireduce:dedicated,slots=64,fusion=64", NULL),
                SHOAL_ENOMEM);
    rank_error_has("aggregator 0");
    rank_error_has("the job's limit is 100000");
    check_sums(comm, env, p, "ring"); /* the communicator is sound */
    check_sums(comm, env, p, "omnireduce:dedicated,slots=2");
    shoal_comm_destroy(comm);
}

static void an_operation_stays_within_the_memory(void **state)
{
    (void)state;
    const plan p = {
        .ranks = 2, .daemons = 1, .jobs = 1, .fn = beyond_memory, .memory_bytes = 100000};
    run(&p);
}

/* ------------------------------------------------------------------ deaths */

static void endless(const rank_env *env, const plan *p, const char *culprit, int32_t rank)
{
    static float x[COUNT];
    shoal_comm *comm = rank_join(env);
    const char *collective = p->collective != NULL ? p->collective : "omnireduce:dedicated";
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; status == SHOAL_OK; i++) {
        if (i == 3)
            atomic_fetch_add(&env->board->ready, 1);
        for (size_t k = 0; k < COUNT; k++)
            x[k] = 1;
        status = shoal_allreduce(comm, x, COUNT, collective, NULL);
    }
    rank_status(status, SHOAL_EPEER);
    rank_check(shoal_last_error()->rank == rank);
    rank_error_has(culprit);
    rank_error_has("is lost");
    shoal_comm_destroy(comm);
}

static void until_daemon_dies(const rank_env *env, const plan *p)
{
    endless(env, p, ", aggregator 0)", (int32_t)p->ranks);
}

static void until_rank_dies(const rank_env *env, const plan *p)
{
    endless(env, p, "rank 1 (host ", 1);
}

static void lose(const plan *p, uint32_t process, int signal)
{
    ranks r;
    ranks_start(&r, processes(p), "file", NULL, be_process, p);
    ranks_wait_ready(&r, p->ranks + p->daemons, LIMIT_US);
    ranks_kill(&r, process, signal);
    ranks_finish(&r, process, LIMIT_US);
    munmap(r.board, sizeof *r.board);
}

static void a_dead_daemon_is_named_by_every_rank(void **state)
{
    (void)state;
    plan p = {.ranks = 3, .daemons = 2, .jobs = 1, .fn = until_daemon_dies};
    lose(&p, 3, SIGKILL);
    p.collective = "switchml:dedicated";
    lose(&p, 3, SIGKILL);
}

static void a_stopped_daemon_is_named_by_every_rank(void **state)
{
    (void)state;
    const plan p = {.ranks = 2, .daemons = 1, .jobs = 1, .fn = until_daemon_dies};
    lose(&p, 2, SIGSTOP);
}

static void a_dead_rank_is_named_and_the_daemon_ends_its_job(void **state)
{
    (void)state;
    plan p = {.ranks = 3, .daemons = 1, .jobs = 1, .fn = until_rank_dies};
    lose(&p, 1, SIGKILL);
    p.collective = "switchml:dedicated";
    lose(&p, 1, SIGKILL);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(daemons_sum_for_a_job),
        CHECK_TEST(a_daemon_serves_jobs_at_once),
        CHECK_TEST(strangers_are_refused),
        CHECK_TEST(nobody_holds_a_place_for_ever),
        CHECK_TEST(silent_strangers_delay_no_job),
        CHECK_TEST(a_daemon_that_is_not_there_is_named),
        CHECK_TEST(a_daemon_that_starts_late_is_called_again),
        CHECK_TEST(an_operation_stays_within_the_memory),
        CHECK_TEST(a_dead_daemon_is_named_by_every_rank),
        CHECK_TEST(a_stopped_daemon_is_named_by_every_rank),
        CHECK_TEST(a_dead_rank_is_named_and_the_daemon_ends_its_job),
    };
    return CHECK_RUN(tests);
}
