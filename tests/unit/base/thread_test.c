/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

#include "support/check.h"

static void *look_at_mask(void *arg)
{
    sigset_t *mask = arg;
    return pthread_sigmask(SIG_SETMASK, NULL, mask) == 0 ? arg : NULL;
}

static void it_takes_no_signals_and_its_maker_still_does(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM};
    sigset_t before, of_thread, after;
    pthread_t thread;
    void *looked = NULL;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    assert_ok(shoali_thread_start(&thread, look_at_mask, &of_thread));
    assert_int_equal(pthread_join(thread, &looked), 0);
    assert_ptr_equal(looked, &of_thread);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    assert_int_equal(sigismember(&after, SIGUSR2), 1);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_int_equal(sigismember(&of_thread, signals[i]), 1);
        assert_int_equal(sigismember(&after, signals[i]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(it_takes_no_signals_and_its_maker_still_does)};
    return CHECK_RUN(tests);
}
