/* SPDX-License-Identifier: Apache-2.0 */
#include "support/ranks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "support/ports.h"

/* A limit of ranks ends a hang and says nothing of speed: a busy machine has a minute. */
enum { PATIENCE_US = 60 * 1000 * 1000 };

static uint32_t this_rank;

static uint64_t hang_after(int64_t timeout_us)
{
    return shoali_now_us() + (uint64_t)(timeout_us > PATIENCE_US ? timeout_us : PATIENCE_US);
}

void rank_fail(const char *what, const char *file, int line)
{
    fprintf(stderr, "rank %u: %s:%d: %s\n  last error: %s\n", this_rank, file, line, what,
            shoal_last_error()->text);
    _exit(1);
}

void rank_got(shoal_status got, shoal_status wanted, const char *call, const char *file, int line)
{
    if (got == wanted)
        return;
    fprintf(stderr, "rank %u: returned %s, wanted %s\n", this_rank, shoal_status_name(got),
            shoal_status_name(wanted));
    rank_fail(call, file, line);
}

void rank_error_has(const char *part)
{
    if (strstr(shoal_last_error()->text, part) == NULL) {
        fprintf(stderr, "rank %u: wanted in the error: %s\n", this_rank, part);
        rank_fail("another error", __FILE__, __LINE__);
    }
}

shoal_comm *rank_join(const rank_env *env)
{
    shoal_comm *comm = NULL;
    rank_ok(shoal_comm_create(&env->desc, &comm));
    return comm;
}

void rank_wait_ready(const rank_env *env, uint32_t count)
{
    uint64_t until_us = hang_after(0);
    while (atomic_load(&env->board->ready) < count) {
        (void)poll(NULL, 0, 1);
        if (shoali_now_us() > until_us)
            rank_fail("the other ranks are not ready", __FILE__, __LINE__);
    }
}

void rank_meet(const rank_env *env, uint32_t count)
{
    atomic_fetch_add(&env->board->ready, 1);
    rank_wait_ready(env, count);
}

void rank_note_error(const rank_env *env)
{
    shoali_error_get(&env->board->rank[env->rank].error);
}

static void rank_main(const ranks *r, uint32_t rank, const char *transport,
                      void (*fn)(const rank_env *env), const void *arg)
{
    rank_env env = {
        .rank = rank, .size = r->size, .desc = SHOAL_COMM_DESC_INIT, .board = r->board, .arg = arg};
    this_rank = rank;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    env.desc.rank = (int32_t)rank;
    env.desc.world_size = (int32_t)r->size;
    env.desc.rendezvous = r->place;
    env.desc.transport = transport;
    env.desc.join_timeout_us = PATIENCE_US;
    fn(&env);
    exit(0); /* not _exit: the leak check runs here */
}

void ranks_start(ranks *r, uint32_t size, const char *scheme, const char *transport,
                 void (*fn)(const rank_env *env), const void *arg)
{
    memset(r, 0, sizeof *r);
    assert_true(size <= RANKS_MAX);
    r->size = size;
    place_reserve(scheme, r->place, sizeof r->place, &r->place_fd);
    r->board = mmap(NULL, sizeof *r->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                    0);
    assert_true(r->board != MAP_FAILED);
    fflush(NULL);
    for (uint32_t i = 0; i < size; i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork();
        if (pid == 0) {
            for (uint32_t k = 0; k < i; k++)
                close(r->ends[k]);
            close(ends[0]);
            rank_main(r, i, transport, fn, arg);
        }
        assert_true(pid > 0);
        close(ends[1]);
        r->pids[i] = pid;
        r->ends[i] = ends[0];
    }
}

void ranks_kill(ranks *r, uint32_t rank, int signal)
{
    assert_false(r->over[rank]);
    assert_int_equal(kill(r->pids[rank], signal), 0);
}

static void reap(ranks *r, uint32_t rank)
{
    int status = 0;
    while (waitpid(r->pids[rank], &status, 0) < 0 && errno == EINTR)
        continue;
    r->codes[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    r->over[rank] = true;
    close(r->ends[rank]);
}

static void kill_all(ranks *r)
{
    for (uint32_t i = 0; i < r->size; i++)
        if (!r->over[i]) {
            kill(r->pids[i], SIGKILL);
            reap(r, i);
        }
    place_release(r->place, r->place_fd);
}

/* The pipe of a rank closes when its process ends. False: the time is over. */
static bool wait_for_end(ranks *r, uint32_t rank, uint64_t until_us)
{
    for (;;) {
        uint64_t now_us = shoali_now_us();
        if (now_us >= until_us)
            return false;
        struct pollfd end = {.fd = r->ends[rank], .events = POLLIN};
        if (poll(&end, 1, (int)((until_us - now_us) / 1000) + 1) > 0) {
            reap(r, rank);
            return true;
        }
    }
}

void ranks_wait_ready(ranks *r, uint32_t count, int64_t timeout_us)
{
    uint64_t until_us = hang_after(timeout_us);
    while (atomic_load(&r->board->ready) < count) {
        struct pollfd end = {.fd = r->ends[0], .events = 0};
        (void)poll(&end, 1, 1);
        if (shoali_now_us() > until_us || end.revents != 0) {
            kill_all(r);
            fail_msg("only %u of %u ranks got ready", atomic_load(&r->board->ready), count);
        }
    }
}

void ranks_finish(ranks *r, uint32_t except, int64_t timeout_us)
{
    uint64_t until_us = hang_after(timeout_us);
    bool in_time = true, good = true;
    for (uint32_t i = 0; i < r->size; i++) {
        if (i == except)
            continue;
        if (!wait_for_end(r, i, until_us)) {
            print_error("rank %u did not end in time\n", i);
            in_time = false;
        } else if (r->codes[i] != 0) {
            print_error("rank %u ended with %d\n", i, r->codes[i]);
            good = false;
        }
    }
    kill_all(r);
    assert_true(in_time);
    assert_true(good);
}

void ranks_finish_one(ranks *r, uint32_t rank, int64_t timeout_us)
{
    bool in_time = wait_for_end(r, rank, hang_after(timeout_us));
    bool good = in_time && r->codes[rank] == 0;
    kill_all(r);
    assert_true(good);
}

void ranks_run(uint32_t size, const char *scheme, const char *transport,
               void (*fn)(const rank_env *env), const void *arg, int64_t timeout_us)
{
    ranks r;
    ranks_start(&r, size, scheme, transport, fn, arg);
    ranks_finish(&r, RANKS_MAX, timeout_us);
    munmap(r.board, sizeof *r.board);
}
