/* SPDX-License-Identifier: Apache-2.0 */
/* Forks while loops run: in the child each is marked and its descriptors are closed, in the parent
 * all go on, and what was held is let go of. */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/loop.h"
#include "support/check.h"
#include "support/looped.h"

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int status_of_child(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void count_up(void *arg)
{
    ((looped *)arg)->count++;
}

static void a_child_closes_what_it_has_copies_of(void **state)
{
    (void)state;
    looped one, other;
    looped_init(&one);
    looped_init(&other);
    assert_ok(shoali_loop_start(&one.loop)); /* the other one runs on nobody's thread */
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        if (child == 0)
            _exit(one.loop.forked && other.loop.forked && one.forked == 1 && other.forked == 1 &&
                          !is_open(one.loop.epoll_fd) && !is_open(other.loop.event_fd)
                      ? 0
                      : 1);
        assert_true(child > 0);
        assert_int_equal(status_of_child(child), 0);
        shoali_loop_call(&one.loop, count_up, &one); /* it goes on */
        assert_int_equal(one.count, i + 1);
        assert_int_equal(one.held, 0);
        assert_int_equal(other.held, 0);
        assert_false(one.loop.forked);
        assert_true(is_open(one.loop.epoll_fd));
    }
    looped_free(&one);
    looped_free(&other);
}

static void one_that_is_gone_is_not_asked(void **state)
{
    (void)state;
    looped one, other;
    looped_init(&one);
    looped_init(&other);
    looped_free(&one);
    const pid_t child = fork();
    if (child == 0)
        _exit(one.forked == 0 && other.forked == 1 ? 0 : 1);
    assert_true(child > 0);
    assert_int_equal(status_of_child(child), 0);
    looped_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(a_child_closes_what_it_has_copies_of),
                                       CHECK_TEST(one_that_is_gone_is_not_asked)};
    return CHECK_RUN(tests);
}
