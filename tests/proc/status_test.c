/* SPDX-License-Identifier: Apache-2.0 */
/* Real ranks tell on their status sockets who is slow, who is silent and who is gone, and do so
 * while that one says nothing itself. */
#include "support/ranks.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "shoal/watch.h"
#include "support/scratch_dir.h"
#include "wire/control.h"

enum { RANKS = 3, SLOW = 1, SECOND = 1000 * 1000, LIMIT_US = 60 * SECOND };

static const char *folder;

/* All-reduces; rank SLOW computes for a while between them. Ends when the test says so, or somebody
 * is lost; then this rank still answers until the test says so. */
static void working(const rank_env *env)
{
    static float buf[1000];
    shoal_op *none;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_barrier(comm));
    atomic_fetch_add(&env->board->ready, 1);
    float stop = 0;
    shoal_status status = SHOAL_OK;
    while (status == SHOAL_OK && !(stop > 0)) {
        if (env->rank == SLOW)
            rank_status(shoal_comm_next_done(comm, 20 * 1000, &none), SHOAL_PENDING);
        buf[0] = env->rank == 0 && atomic_load(&env->board->go) ? 1.0F : 0.0F;
        status = shoal_allreduce(comm, buf, 1000, NULL, NULL);
        stop = buf[0];
    }
    rank_check(status == SHOAL_OK || status == SHOAL_EPEER);
    while (!atomic_load(&env->board->go))
        rank_status(shoal_comm_next_done(comm, 10 * 1000, &none), SHOAL_PENDING);
    shoal_comm_destroy(comm);
}

static shoal_watch_rank_state look(uint32_t rank)
{
    shoal_watch *watch;
    shoal_watch_rank_state state = {.size = sizeof state};
    uint64_t start_us = shoali_now_us();
    assert_int_equal(shoal_watch_ask("status_test", 60 * SECOND, &watch), SHOAL_OK);
    assert_true(shoali_now_us() - start_us < 20 * SECOND);
    assert_int_equal(shoal_watch_ranks(watch), RANKS);
    assert_int_equal(shoal_watch_rank(watch, rank, &state), SHOAL_OK);
    shoal_watch_close(watch);
    return state;
}

static void expect_state(uint32_t rank, const char *wanted)
{
    uint64_t until_us = shoali_now_us() + LIMIT_US;
    shoal_watch_rank_state state = look(rank);
    while (strcmp(state.state, wanted) != 0 && shoali_now_us() < until_us)
        state = look(rank);
    assert_string_equal(state.state, wanted);
}

static void the_slow_rank_is_named_while_it_runs(void **state)
{
    (void)state;
    ranks r;
    ranks_start(&r, RANKS, "file", NULL, working, NULL);
    ranks_wait_ready(&r, RANKS, LIMIT_US);
    assert_int_equal(scratch_count(), RANKS);
    uint64_t until_us = shoali_now_us() + LIMIT_US;
    shoal_watch_rank_state slow = look(SLOW), quick = look(0);
    while (!(slow.caused_ms > 5 && slow.slow_s > 0 && quick.compute_ms < slow.compute_ms) &&
           shoali_now_us() < until_us) {
        slow = look(SLOW);
        quick = look(0);
    }
    assert_string_equal(slow.cause, "compute");
    assert_true(slow.compute_ms > 15 && slow.caused_ms > 5 && slow.last_share >= 0.5);
    assert_true(slow.slow_s > 0 && slow.ended > 1);
    assert_string_equal(quick.cause, "");
    assert_true(quick.compute_ms < slow.compute_ms);
    assert_non_null(strstr(look(0).operation, "all-reduce"));
    atomic_store(&r.board->go, 1);
    ranks_finish(&r, RANKS_MAX, LIMIT_US);
    assert_int_equal(scratch_count(), 0);
}

static void a_stopped_rank_is_unresponsive_and_then_dead(void **state)
{
    (void)state;
    ranks r;
    ranks_start(&r, RANKS, "file", NULL, working, NULL);
    ranks_wait_ready(&r, RANKS, LIMIT_US);
    ranks_kill(&r, 2, SIGSTOP);
    (void)look(
        2); /* long before the time is over, though one of the three that are asked is stopped */
    expect_state(2, "unresponsive");
    expect_state(2, "dead");
    assert_string_equal(look(0).state, "running");
    atomic_store(&r.board->go, 1);
    ranks_kill(&r, 2, SIGKILL);
    ranks_finish(&r, 2, LIMIT_US);
    shoal_watch *watch;
    assert_int_equal(shoal_watch_ask("status_test", SECOND, &watch), SHOAL_EINVAL);
    assert_int_equal(scratch_count(), 0); /* what the killed rank left has been taken away */
}

/* One of the sockets, always the same one. */
static struct sockaddr_un find_socket(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (e->d_type == DT_SOCK)
            snprintf(at.sun_path, sizeof at.sun_path, "%s/%.60s", folder, e->d_name);
    closedir(dir);
    return at;
}

static int call_socket(void)
{
    const struct sockaddr_un at = find_socket();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval limit = {.tv_sec = 10};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Silence, nonsense and half a question end in a closed connection, and hold up nobody. */
static void nonsense_is_hung_up_on(void **state)
{
    (void)state;
    ranks r;
    char byte;
    ranks_start(&r, RANKS, "file", NULL, working, NULL);
    ranks_wait_ready(&r, RANKS, LIMIT_US);
    int silent = call_socket(), wrong = call_socket(), half = call_socket();
    assert_int_equal(send(wrong, "SHSTnone", 8, MSG_NOSIGNAL), 8);
    assert_int_equal(send(half, "SHST", 4, MSG_NOSIGNAL), 4);
    assert_string_equal(look(0).state, "running");
    assert_int_equal(recv(wrong, &byte, 1, 0), 0);
    assert_int_equal(recv(half, &byte, 1, 0), 0);
    assert_int_equal(recv(silent, &byte, 1, 0), 0);
    close(silent);
    close(wrong);
    close(half);
    atomic_store(&r.board->go, 1);
    ranks_finish(&r, RANKS_MAX, LIMIT_US);
}

/* More who say nothing than there are places. */
static void whoever_asks_is_answered(void **state)
{
    (void)state;
    enum { SILENT = 40 };
    ranks r;
    int silent[SILENT];
    ranks_start(&r, RANKS, "file", NULL, working, NULL);
    ranks_wait_ready(&r, RANKS, LIMIT_US);
    for (int i = 0; i < SILENT; i++)
        silent[i] = call_socket();
    const struct sockaddr_un at = find_socket();
    shoal_watch *watch;
    assert_ok(shoal_watch_ask(at.sun_path, SECOND / 2, &watch));
    shoal_watch_close(watch);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    atomic_store(&r.board->go, 1);
    ranks_finish(&r, RANKS_MAX, LIMIT_US);
}

static void nobody_there_is_an_error(void **state)
{
    (void)state;
    shoal_watch *watch;
    assert_int_equal(shoal_watch_ask(NULL, SECOND, &watch), SHOAL_EINVAL);
    assert_int_equal(shoal_watch_ask("/nowhere/at/all", SECOND, &watch), SHOAL_EINVAL);
    assert_int_equal(shoal_watch_ask("x", 0, &watch), SHOAL_EINVAL);
    shoal_watch_close(NULL);
}

int main(void)
{
    folder = scratch_dir_make();
    setenv("SHOAL_STATUS_DIR", folder, 1);
    setenv("SHOAL_JOB", "status_test", 1);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_slow_rank_is_named_while_it_runs),
        CHECK_TEST(a_stopped_rank_is_unresponsive_and_then_dead),
        CHECK_TEST(nonsense_is_hung_up_on),
        CHECK_TEST(whoever_asks_is_answered),
        CHECK_TEST(nobody_there_is_an_error),
    };
    int failed = CHECK_RUN(tests);
    scratch_dir_remove();
    return failed;
}
